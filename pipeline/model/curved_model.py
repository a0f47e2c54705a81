"""Machines with a kernel of a whole graph at prediction: kernel values of samples, logits of all pairs, shortlists."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.completion.slab import DEFAULT_MEMORY
from pairloom.pipeline.completion.uncoupled import Uncoupled, Wiring, uncoupled
from pairloom.pipeline.machines.kernel_model import KernelLogits
from pairloom.pipeline.model.affine_model import check_held

__all__ = ["CurvedModel"]


@dataclass(frozen=True, eq=False)
class CurvedModel:
    """The logits of the edges, sorted, as sums of kernel values of normalised samples, and how they are joined.

    The ranking of the classes needs all kernel values of a sample, and most of the work is in these. So, unlike linear
    machines, all pairs are applied to all samples, also where shortlists are coupled.
    """

    logits: KernelLogits
    wiring: Wiring

    def samples(
        self,
        X: NDArray[np.floating],
        shortlist: int | None,
        memory_limit: int = DEFAULT_MEMORY,
        first: int = 0,
    ) -> Uncoupled:
        """Normalised samples ready for coupling. ``first`` is the number of the first, for an error."""
        logits = self.logits(X)
        check_held(logits.T, first)
        return uncoupled(logits, self.wiring, shortlist, memory_limit)
