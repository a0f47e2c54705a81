"""Ratios against peers, each printed with both times."""
