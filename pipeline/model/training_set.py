"""The training samples by class, and what is found from them once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.calibration.drawn_samples import DrawnSamples, draw_samples, draws_by_class
from pairloom.pipeline.machines.whitening import (
    Shrinkage,
    Whitening,
    WithinClasses,
    centring,
    within_classes,
)
from pairloom.pipeline.model.model_settings import ModelSettings

__all__ = ["TrainingSet"]


class TrainingSet:
    """Samples X, their classes counted from 0, the rows of each class, and weights or None."""

    def __init__(
        self, X: Any, classes: NDArray[np.int64], n_classes: int, weight: NDArray[np.float64] | None
    ) -> None:
        self.X, self.classes, self.weight = X, classes, weight
        self.members = [np.flatnonzero(classes == c) for c in range(n_classes)]
        self._within: WithinClasses | None = None

    def by_class(self, values: NDArray[Any]) -> dict[int, NDArray[Any]]:
        """Mapping of class -> its rows of `values`."""
        return {c: values[rows] for c, rows in enumerate(self.members)}

    def totals(self) -> NDArray[np.float64]:
        """The samples of each class, or the sum of their weights."""
        return np.bincount(self.classes, self.weight, len(self.members)).astype(np.float64)

    def whitening(self, shrinkage: Shrinkage, settings: ModelSettings) -> Whitening:
        """The whitening at a shrinkage, without the calibration samples: see `drawn_samples.draws_by_class`."""
        if shrinkage == "none":
            return centring(self.X)
        if self._within is None:
            calibrating = self.drawn(settings, settings.calibration_samples, whitened=True).rows
            others = np.delete(np.arange(len(self.classes)), calibrating)
            self._within = within_classes(self.X[others], self.classes[others])
        return self._within.whitening(shrinkage)

    def drawn(self, settings: ModelSettings, most: int, whitened: bool) -> DrawnSamples:
        """Training samples that calibrate the coupled model, with their classes and folds."""
        return draw_samples(self.classes, most, settings.folds, settings.seed, whitened)

    def draws_are_the_same(self, most: int) -> bool:
        """Whether every class is large enough to give as many samples with whitening as without."""
        sizes = np.array([len(rows) for rows in self.members])
        return np.array_equal(draws_by_class(sizes, most, False), draws_by_class(sizes, most, True))
