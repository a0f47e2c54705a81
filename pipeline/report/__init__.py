"""The report of a run: evaluation of its probabilities, figures, and the page that shows both.

Reads what the stages stored and changes none of it.
"""

from pairloom.pipeline.report.evaluation import Scores, scores
from pairloom.pipeline.report.report import write_report

__all__ = ["Scores", "scores", "write_report"]
