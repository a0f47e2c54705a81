"""Coupling, one file per method: from the logits of pairs to probabilities of classes."""

from pairloom.pipeline.coupling.couple import METHODS, Diagnostics, couple

__all__ = ["METHODS", "Diagnostics", "couple"]
