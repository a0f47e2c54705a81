"""The report of a run: a page with its results, and the same results as CSV and JSON files.

It reads the results that the stages stored and changes none of them.
"""
