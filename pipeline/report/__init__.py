"""The report of a run: the page that shows its results, and the same as CSV and JSON files.

Reads what the stages stored and changes none of it.
"""
