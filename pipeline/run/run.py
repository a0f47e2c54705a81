"""A run as its stages see it: where it is, how it is laid out, and the settings of its model."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.machines.whitening import is_whitened
from pairloom.pipeline.model.model_settings import ModelSettings
from pairloom.pipeline.run.run_directory import RunShape

__all__ = ["Run", "StoreKeys"]


class StoreKeys(NamedTuple):
    """Digests of the content of the feature store: whitening, drawn samples, test samples. They name cached arrays."""

    whitening: str
    draws: str
    samples: str


class Run(NamedTuple):
    """Everything that a stage needs to know of a run.

    Attributes
    ----------
    directory : Path
    shape : RunShape
    settings : ModelSettings
    keys : StoreKeys
    probe : (P, 2) int array
        The pairs on which candidates are compared, sorted.
    probe_is_own : bool
        Whether those are the pairs of the model.
    class_weights : tuple of float, optional
        The weight of the samples of each class.
    priors : tuple of float, optional
        The share of each class where predictions are made.
    memory_limit : int
        Bytes that one task may use for the tensor.
    """

    directory: Path
    shape: RunShape
    settings: ModelSettings
    keys: StoreKeys
    probe: NDArray[np.int64]
    probe_is_own: bool
    class_weights: tuple[float, ...] | None
    priors: tuple[float, ...] | None
    memory_limit: int

    @property
    def rows(self) -> NDArray[np.int64]:
        """Training rows of each class."""
        return np.array(self.shape.rows, dtype=np.int64)

    @property
    def draws_whitened(self) -> bool:
        """Whether the stored draw is the smaller one that whitening asks for: every candidate whitens."""
        return all(map(is_whitened, self.shape.shrinkages))

    @property
    def totals(self) -> NDArray[np.float64]:
        """Training rows of each class, times the weight of the class."""
        weights = np.ones(len(self.rows)) if self.class_weights is None else np.array(self.class_weights)
        return np.asarray(self.rows * weights)
