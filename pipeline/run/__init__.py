"""The run directory: its arrays, the work of its stages, and the model of a finished run.

One file per kind of stage: storing, choosing, training, holding out, calibrating, coupling or predicting. Each unit of
work writes whole chunks.
"""

from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import RunShape, open_group
from pairloom.pipeline.run.run_model import read_run_model

__all__ = ["Run", "RunShape", "open_group", "read_run_model"]
