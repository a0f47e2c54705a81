"""Coupling, one file per method: from the logits of all pairs to the probabilities of the classes.

`couple` is the way in; each method's module states the problem that it solves.
"""

from pairloom.pipeline.coupling.couple import METHODS, Diagnostics, couple

__all__ = ["METHODS", "Diagnostics", "couple"]
