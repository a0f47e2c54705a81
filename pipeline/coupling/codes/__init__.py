"""Coupling of machines on sets of classes: `couple_code`, and one solver per method."""
