"""The machines of a whole model at prediction: one map from samples to logits, and the coupling of these."""

from __future__ import annotations

from collections.abc import Callable
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

_ListsOf = Callable[[NDArray[np.intp], NDArray[np.float32], int], Shortlists]

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
        potentials = ranking.by_sample(rows)
        check_finite(potentials, first)
        return self._affine_shortlists(rows, potentials, size)

    def _affine_shortlists(
        self, rows: NDArray[np.float32], potentials: NDArray[np.float32], size: int
    ) -> Shortlists:
        assert isinstance(self.logits, AffineLogits), "so are those that are ranked by an affine map"
        completion = self.coupler.completion
        if applies_listed_pairs(completion.n_classes, len(completion.edges), size) or len(rows) == 1:
            return affine_shortlists(rows, *self.logits, potentials, completion, size)
        return shortlists(self.logits.by_sample(rows), potentials, completion, size)

    def couple_among(
        self, X: Any, possible: NDArray[np.bool_], shortlist: int | None, method: str, first: int = 0
    ) -> NDArray[np.float32]:
        """(R, N) probabilities of prepared samples where only some classes (R, N) are possible, at least one of each.

        The pairs among these are coupled, all or those of a shortlist, as if there were no other classes.
        """
        potentials, lists_of = self._ranked(X, first)
        potentials = np.where(possible, potentials, np.float32(-np.inf))
        counts = possible.sum(axis=1)
        sizes = np.minimum(counts, self.coupler.n_classes if shortlist is None else shortlist)
        p = possible.astype(np.float32)  # as it stays where one class only is possible
        for size in np.unique(sizes[sizes > 1]).tolist():
            rows = np.flatnonzero(sizes == size)
            lists = with_mass(lists_of(rows, potentials[rows], size), self.mass)
            # Impossible classes have no potential, so the ranking gives them nothing.
            p[rows] = lists.couple(method)
        return p

    def _ranked(self, X: Any, first: int) -> tuple[NDArray[np.float32], _ListsOf]:
        """The ranking of all classes for samples, and a function that lists those of some samples."""
        completion = self.coupler.completion
        if self.ranking is not None:
            rows = np.ascontiguousarray(X, np.float32)
            potentials = self.ranking.by_sample(rows)
            check_finite(potentials, first)
            return potentials, lambda some, ranked, size: self._affine_shortlists(rows[some], ranked, size)
        logits = self.logits(X)
        check_finite(logits.T, first)
        by_sample = np.ascontiguousarray(logits.T)
        return completion.ranking.of_samples(by_sample), lambda some, ranked, size: shortlists(
            by_sample[some], ranked, completion, size
        )


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
