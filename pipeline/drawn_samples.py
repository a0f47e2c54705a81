"""Training samples that calibrate the coupled model: drawn alike in every class, with the fold each is in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.folds import class_folds

__all__ = ["DrawnSamples", "draw_samples", "draws_per_class"]


class DrawnSamples(NamedTuple):
    """Rows of the training set, their classes, and their folds within the class."""

    rows: NDArray[np.int64]
    classes: NDArray[np.int64]
    folds: NDArray[np.int64]


def draws_per_class(most: int, classes: int) -> int:
    """How many samples a class gives where ``most`` are wanted of all classes together: two at least."""
    return max(2, most // classes)


def draw_samples(y: NDArray[np.int64], classes: int, most: int, folds: int, seed: int) -> DrawnSamples:
    """Draw samples of every class, from (seed, class) and nothing else; small classes give all they have."""
    quota = draws_per_class(most, classes)
    rows_of, folds_of = [], []
    for c in range(classes):
        members = np.flatnonzero(y == c)
        chosen = np.random.default_rng([seed, c, 1]).permutation(len(members))[:quota]
        rows_of.append(members[chosen])
        folds_of.append(class_folds(len(members), folds, seed, c)[chosen])
    rows = np.concatenate(rows_of)
    return DrawnSamples(rows, y[rows], np.concatenate(folds_of))
