"""The run directory: its arrays, the work of its stages, and the model of a finished run.

One file per kind of stage: storing, choosing, training, holding out, calibrating, coupling or predicting. Each unit of
work writes whole chunks.
"""
