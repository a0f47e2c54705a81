"""Completion: the logits of pairs that were not trained, and samples on their way to probabilities.

`couple_slab` takes the logits of the edges and gives probabilities under a memory limit, with or without the tensor.
Of many classes, `ranking` ranks all and `shortlist` completes and couples the likeliest of each sample. `uncoupled` has
both ways behind one interface, for any scale.
"""

from pairloom.pipeline.completion.complete import Completion, complete_logits, complete_slab, plan_completion
from pairloom.pipeline.completion.slab import DEFAULT_MEMORY, couple_slab, slab_width

__all__ = [
    "DEFAULT_MEMORY",
    "Completion",
    "complete_logits",
    "complete_slab",
    "couple_slab",
    "plan_completion",
    "slab_width",
]
