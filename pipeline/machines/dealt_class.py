"""A class as machines train on it: its rows, and the C, the weight, the fold and the part of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.machines.folds import class_folds, class_parts
from pairloom.pipeline.machines.settings import MachineSettings

__all__ = ["DealtClass", "dealt_class", "together"]


class DealtClass(NamedTuple):
    """One entry per training row: the row itself or its number, its C, its weight in calibration, its fold and part."""

    rows: NDArray[Any]
    C: NDArray[np.float64]
    weight: NDArray[np.float64]
    folds: NDArray[np.int64]
    parts: NDArray[np.int64]


def dealt_class(
    rows: NDArray[Any], key: int, settings: MachineSettings, weight: NDArray[np.float64] | None
) -> DealtClass:
    """The rows of a class, dealt into folds and parts; ``key`` seeds these."""
    weight = np.ones(len(rows)) if weight is None else np.asarray(weight, np.float64)
    dealt = (len(rows), settings.folds, settings.seed, key)
    return DealtClass(rows, settings.C * weight, weight, class_folds(*dealt), class_parts(*dealt))


def together(classes: Sequence[DealtClass]) -> DealtClass:
    """Several classes, one below the other."""
    if len(classes) == 1:
        return classes[0]
    return DealtClass(*(np.concatenate(values) for values in zip(*classes, strict=True)))
