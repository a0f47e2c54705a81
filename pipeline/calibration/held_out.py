"""Held-out samples: training samples scored by machines and parameters that they had no part in, ready for coupling."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.completion.slab import DEFAULT_MEMORY
from pairloom.pipeline.completion.uncoupled import Uncoupled, Wiring, uncoupled
from pairloom.pipeline.machines.settings import Calibration

__all__ = ["HeldOut", "typical_sizes", "unit_of"]

#: Edges that are enough for the median size of a sample's logits.
_ENOUGH = 512


class HeldOut(NamedTuple):
    """Training samples that judge the coupled model.

    Attributes
    ----------
    samples : Uncoupled
        Their out-of-fold logits, completed as the model completes them.
    classes : (R,) int array
    weight : (R,) float array, optional
    unit : float
        The size of logits that the prior of the scale expects.
    edge_logits : (E, R) float32 array, optional
        The logits of the edges, where something is learned from these too.
    """

    samples: Uncoupled
    classes: NDArray[np.integer]
    weight: NDArray[np.float64] | None = None
    unit: float = 1.0
    edge_logits: NDArray[np.float32] | None = None

    @classmethod
    def of_edges(
        cls,
        edge_logits: NDArray[np.float32],
        classes: NDArray[np.integer],
        wiring: Wiring,
        *,
        calibration: Calibration = "platt",
        weight: NDArray[np.float64] | None = None,
        shortlist: int | None = None,
        memory_limit: int = DEFAULT_MEMORY,
    ) -> HeldOut:
        """The samples whose machines have these out-of-fold logits (E, R); of pairs, all or a shortlist completed."""
        return cls(
            uncoupled(edge_logits, wiring, shortlist, memory_limit, calibration),
            classes,
            weight,
            unit_of(typical_sizes(edge_logits), calibration),
            edge_logits,
        )


def typical_sizes(edge_logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """(R,) the median size of the logits of each sample, from those of all edges (E, R), or of enough of them."""
    if not edge_logits.size:
        return np.zeros(edge_logits.shape[1], np.float32)
    some = edge_logits[:: max(1, len(edge_logits) // _ENOUGH)]
    return np.asarray(np.median(np.abs(some), axis=0), np.float32)


def unit_of(sizes: NDArray[np.floating], calibration: Calibration) -> float:
    """The unit of the logits of samples, from their typical sizes: one where they are log odds already."""
    if calibration != "distance" or not sizes.size:
        return 1.0
    typical = float(np.median(sizes))
    return typical if typical > 0 else 1.0
