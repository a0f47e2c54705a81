"""The report of a run: evaluation of its probabilities, and the page that shows it, a file for each thing shown.

Reads what the stages stored and changes none of it.
"""

from pairloom.pipeline.report.evaluation import Scores, scores
from pairloom.pipeline.report.report import write_report

__all__ = ["Scores", "scores", "write_report"]
