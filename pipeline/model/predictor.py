"""The machines of a whole model at prediction: one map from samples to logits, and the coupling of these."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.calibration.coupled_calibration import CoupledCalibration
from pairloom.pipeline.completion.couplers import Coupler, ScoredSamples
from pairloom.pipeline.completion.shortlist import (
    ONE_SCALE,
    ListMass,
    Shortlists,
    affine_shortlists,
    shortlists,
    with_mass,
)
from pairloom.pipeline.completion.slab import DEFAULT_MEMORY
from pairloom.pipeline.machines.kinds import Logits
from pairloom.pipeline.machines.linear_machines import AffineLogits

__all__ = ["PREDICTION_BATCH", "Predictor", "applies_listed_pairs", "check_finite"]


#: Samples per batch of a prediction, whatever the number of threads: the products keep their shape, and so their bits.
PREDICTION_BATCH = 256
#: To apply an edge to a sample of its own takes so many times as long as in a product with a batch of samples.
_COST_OF_ONE = 6


@dataclass(frozen=True, eq=False)
class Predictor:
    """The logits of the machines as one map of prepared samples, and how they are joined."""

    logits: Logits
    coupler: Coupler
    mass: ListMass = ONE_SCALE

    def calibrated(self, coupled: CoupledCalibration) -> Predictor:
        """The same with logits times the slope and plus the shift of each machine, and lists with their mass."""
        return Predictor(self.logits.calibrated(coupled.slope, coupled.shift), self.coupler, coupled.mass)

    @cached_property
    def ranking(self) -> AffineLogits | None:
        """The ranking of the classes as an affine map of samples, a row of weights per class, if there is one."""
        ranking: AffineLogits | None = self.logits.ranking(self.coupler.completion.ranking.potentials)
        return ranking

    def samples(
        self, X: Any, shortlist: int | None, memory_limit: int = DEFAULT_MEMORY, first: int = 0
    ) -> ScoredSamples:
        """Prepared samples ready for coupling. ``first`` is the number of the first, for an error.

        Machines on sets of classes have no shortlists: ``shortlist`` must be None.
        """
        if shortlist is not None and self.ranking is not None:
            lists = self._shortlists(self.ranking, np.ascontiguousarray(X, np.float32), shortlist, first)
            return with_mass(lists, self.mass)
        logits = self.logits(X)
        check_finite(logits.T, first)
        return with_mass(self.coupler.scored(logits, shortlist, memory_limit), self.mass)

    def _shortlists(
        self, ranking: AffineLogits, rows: NDArray[np.float32], size: int, first: int
    ) -> Shortlists:
        """The ranking of the classes first; then the pairs of the lists only, if that is cheaper."""
        assert isinstance(self.logits, AffineLogits), "so are those that are ranked by an affine map"
        potentials = ranking.by_sample(rows)
        check_finite(potentials, first)
        completion = self.coupler.completion
        if applies_listed_pairs(completion.n_classes, len(completion.edges), size) or len(rows) == 1:
            return affine_shortlists(rows, *self.logits, potentials, completion, size)
        return shortlists(self.logits.by_sample(rows), potentials, completion, size)


def applies_listed_pairs(n_classes: int, n_edges: int, shortlist: int) -> bool:
    """Whether it is cheaper to apply only the pairs that a sample's shortlist needs than all pairs to a batch."""
    degree = 2 * n_edges / n_classes
    needed = min(shortlist * degree, shortlist * (shortlist - 1) / 2 + shortlist * degree / 2)
    return _COST_OF_ONE * needed < n_edges


def check_finite(values: NDArray[np.float32], first: int) -> None:
    """Raise unless the values (R, ...) of all samples are finite."""
    if not (finite := np.isfinite(values).all(axis=1)).all():
        row = first + int(np.argmin(finite))
        raise ValueError(
            f"PairwiseSVC: X must have features of the size of the fit's, got larger ones in row {row}."
        )
