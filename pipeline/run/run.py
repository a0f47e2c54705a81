"""A run, as its stages see it: its directory, its layout, and the settings of its model."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.machines.whitening import is_whitened
from pairloom.pipeline.model.choice import Probe
from pairloom.pipeline.model.model_settings import ModelSettings
from pairloom.pipeline.pieces import pieces
from pairloom.pipeline.run.run_directory import RunShape

__all__ = ["Run", "StoreKeys"]


class StoreKeys(NamedTuple):
    """Digests of what workers keep in memory, by the stage that wrote it."""

    whitening: str
    draws: str
    samples: str
    machines: str
    calibration: str
    learning: str


class Run(NamedTuple):
    """Everything that a stage needs to know about a run.

    Attributes
    ----------
    directory : Path
    shape : RunShape
    settings : ModelSettings
    keys : StoreKeys
    probe : Probe, optional
        The part of the training set on which candidates are compared, if there is a choice.
    exponent : int
        Of the power of two that features are divided by.
    class_weights : tuple of float, optional
        Weight of the samples of each class.
    priors : tuple of float, optional
        Class priors at prediction.
    memory_limit : int
        Maximum memory for the tensor, in bytes per task.
    """

    directory: Path
    shape: RunShape
    settings: ModelSettings
    keys: StoreKeys
    probe: Probe | None
    exponent: int
    class_weights: tuple[float, ...] | None
    priors: tuple[float, ...] | None
    memory_limit: int

    @property
    def rows(self) -> NDArray[np.int64]:
        """Number of training rows per class."""
        return np.array(self.shape.rows, dtype=np.int64)

    @property
    def starts(self) -> NDArray[np.int64]:
        """The first row of each class in the feature store, whose training rows are sorted by class."""
        return np.asarray(np.cumsum(self.rows) - self.rows)

    @property
    def shortlist(self) -> int | None:
        """How many classes of a sample are coupled; None means all."""
        return self.settings.shortlist_of(len(self.shape.classes))

    @property
    def draws_whitened(self) -> bool:
        """Whether the stored draw is the smaller one for whitened features, because every candidate whitens."""
        return all(map(is_whitened, self.shape.shrinkages))

    @property
    def draw_slabs(self) -> list[slice]:
        """Slices of the drawn samples."""
        return pieces(self.shape.draws, self.shape.draws_per_slab)

    @property
    def totals(self) -> NDArray[np.float64]:
        """Number of training rows per class, times the weight of the class."""
        weights = np.ones(len(self.rows)) if self.class_weights is None else np.array(self.class_weights)
        return np.asarray(self.rows * weights)
