"""Linear machines of a whole model at prediction: affine maps for the machines and for the ranking of the classes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.completion.complete import Completion
from pairloom.pipeline.completion.shortlist import Shortlists, affine_shortlists, shortlists
from pairloom.pipeline.completion.slab import DEFAULT_MEMORY
from pairloom.pipeline.completion.uncoupled import Uncoupled, Wiring, uncoupled
from pairloom.pipeline.machines.logits import AffineLogits

__all__ = ["PREDICTION_BATCH", "AffineModel", "applies_listed_pairs", "check_held"]

#: Samples per batch of a prediction, whatever the number of threads: the products keep their shape, and so their bits.
PREDICTION_BATCH = 256
#: To apply an edge to a sample of its own takes so many times as long as in a product with a batch of samples.
_COST_OF_ONE = 6


@dataclass(frozen=True, eq=False)
class AffineModel:
    """The logits of the machines as an affine map of normalised samples, and how they are joined."""

    logits: AffineLogits
    wiring: Wiring

    @cached_property
    def ranking(self) -> AffineLogits:
        """The ranking of the classes as an affine map of normalised samples: a row of weights per class."""
        weights, bias = self.logits
        potentials = self._completion.ranking.potentials
        return AffineLogits(np.ascontiguousarray(potentials(weights)), potentials(bias[:, None])[:, 0])

    def samples(
        self,
        X: NDArray[np.floating],
        shortlist: int | None,
        memory_limit: int = DEFAULT_MEMORY,
        first: int = 0,
    ) -> Uncoupled:
        """Normalised samples ready for coupling. ``first`` is the number of the first, for an error.

        Machines on sets of classes have no shortlists: ``shortlist`` must be None.
        """
        if shortlist is not None:
            return self._shortlists(np.ascontiguousarray(X, np.float32), shortlist, first)
        logits = self.logits(X)
        check_held(logits.T, first)
        return uncoupled(logits, self.wiring, None, memory_limit)

    def _shortlists(self, rows: NDArray[np.float32], size: int, first: int) -> Shortlists:
        """The ranking of the classes first; then the pairs of the lists only, if that is cheaper."""
        potentials = self.ranking.by_sample(rows)
        check_held(potentials, first)
        completion = self._completion
        if applies_listed_pairs(completion.n_classes, len(completion.edges), size) or len(rows) == 1:
            return affine_shortlists(rows, *self.logits, potentials, completion, size)
        return shortlists(self.logits.by_sample(rows), potentials, completion, size)

    @property
    def _completion(self) -> Completion:
        """The wiring of machines on pairs, the only ones that are ranked and listed."""
        assert isinstance(self.wiring, Completion)
        return self.wiring


def applies_listed_pairs(n_classes: int, n_edges: int, shortlist: int) -> bool:
    """Whether it is cheaper to apply only the pairs that a sample's shortlist needs than all pairs to a batch."""
    degree = 2 * n_edges / n_classes
    needed = min(shortlist * degree, shortlist * (shortlist - 1) / 2 + shortlist * degree / 2)
    return _COST_OF_ONE * needed < n_edges


def check_held(values: NDArray[np.float32], first: int) -> None:
    """Raise unless the values (R, ...) of all samples are finite."""
    if not (held := np.isfinite(values).all(axis=1)).all():
        row = first + int(np.argmin(held))
        raise ValueError(
            f"PairwiseSVC: X must have features of the size of the fit's, got larger ones in row {row}."
        )
