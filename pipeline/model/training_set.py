"""The training samples by class, and what is found from them once."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.calibration.drawn_samples import DrawnSamples, draw_samples, members_of
from pairloom.pipeline.features.class_distances import class_means
from pairloom.pipeline.machines.normalisation import NormalisedMoments
from pairloom.pipeline.machines.whitening import (
    Shrinkage,
    Whitening,
    WithinClasses,
    centred_at,
    centring,
    within_classes_of,
)
from pairloom.pipeline.model.choice import MOST_PROBE_ROWS, part_of_class
from pairloom.pipeline.model.model_settings import ModelSettings

__all__ = ["TrainingSet"]


class TrainingSet:
    """Samples X, their classes counted from 0, the rows of each class, and weights or None.

    `precomputed` says that X is the kernel matrix of the samples. `moments` are those of X where they are
    known: a run, which never holds X, knows the same.
    """

    def __init__(
        self,
        X: Any,
        classes: NDArray[np.int64],
        n_classes: int,
        weight: NDArray[np.float64] | None,
        precomputed: bool = False,
        moments: NormalisedMoments | None = None,
    ) -> None:
        self.X, self.classes, self.weight, self.precomputed = X, classes, weight, precomputed
        self._moments = moments
        self.members = members_of(classes, n_classes)
        self._within: WithinClasses | None = None

    @cached_property
    def means(self) -> NDArray[np.float64]:
        """(N, D) means of the classes."""
        if self._moments is not None:
            return self._moments.class_means
        return class_means(self.X, self.classes, len(self.members))

    def by_class(self, values: NDArray[Any]) -> dict[int, NDArray[Any]]:
        """Mapping of class -> its rows of `values`."""
        return {c: values[rows] for c, rows in enumerate(self.members)}

    def totals(self) -> NDArray[np.float64]:
        """The samples of each class, or the sum of their weights."""
        return np.bincount(self.classes, self.weight, len(self.members)).astype(np.float64)

    def whitening(self, shrinkage: Shrinkage, settings: ModelSettings) -> Whitening:
        """The whitening at a shrinkage, without the calibration samples: see `drawn_samples.draws_by_class`."""
        if shrinkage == "none":
            return centring(self.X) if self._moments is None else centred_at(self._moments.mean)
        if self._within is None:
            calibrating = self.drawn(settings, settings.calibration_samples, whitened=True).rows
            self._within = within_classes_of(self.X, self.members, calibrating)
        return self._within.whitening(shrinkage)

    def drawn(self, settings: ModelSettings, most: int, whitened: bool) -> DrawnSamples:
        """Training samples that calibrate the coupled model, with their classes, folds and parts."""
        return draw_samples(self.classes, most, settings.folds, settings.seed, whitened)

    def part(self, classes: NDArray[np.int64], seed: int, most_rows: int = MOST_PROBE_ROWS) -> TrainingSet:
        """The training set of the probe: some classes, which are renumbered, and some samples of each."""
        members = [(c, self.members[c]) for c in classes.tolist()]
        rows_of = [of_class[part_of_class(len(of_class), c, seed, most_rows)] for c, of_class in members]
        rows = np.concatenate(rows_of)
        of_class = np.repeat(np.arange(len(classes)), [len(own) for own in rows_of])
        X = self.X[np.ix_(rows, rows)] if self.precomputed else self.X[rows]
        weight = None if self.weight is None else self.weight[rows]
        return TrainingSet(X, of_class, len(classes), weight, self.precomputed)
