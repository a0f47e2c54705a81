"""Watching runs: their status, their progress while they work, and their results as text."""
