"""Coupling: from the logits of machines to the probabilities of the classes.

`pairs` couples the logits of all pairs of classes, and `codes` the logits of machines on sets of classes; each method's
solver states the problem that it solves. `model_coupling` has the parameter `coupling` of a model, and new priors.
"""

from pairloom.pipeline.coupling.codes.standard_errors import standard_errors

__all__ = ["standard_errors"]
