"""The report of a run: evaluation, figures and the page."""
