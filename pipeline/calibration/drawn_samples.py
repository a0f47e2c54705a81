"""Training samples that calibrate the coupled model: drawn alike in every class, with the fold each is in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.machines.folds import class_folds, class_parts

__all__ = [
    "CALIBRATION_SAMPLES",
    "DrawnSamples",
    "draw_by_class",
    "draw_evenly",
    "draw_evenly_by_class",
    "draw_samples",
    "draws_by_class",
    "every_sample",
    "first_of_each_class",
    "members_of",
]

#: Training samples whose out-of-fold logits calibrate the coupled model, unless a user says otherwise.
CALIBRATION_SAMPLES = 2000


class DrawnSamples(NamedTuple):
    """Rows of the training set, their classes, and their folds and parts within the class."""

    rows: NDArray[np.int64]
    classes: NDArray[np.int64]
    folds: NDArray[np.int64]
    parts: NDArray[np.int64]


def draws_by_class(sizes: NDArray[np.int64], most: int, folds: int, whitened: bool) -> NDArray[np.int64]:
    """How many samples each class gives when ``most`` are wanted in total.

    The same number of each class, but two where that would be fewer, as far as ``most`` allows: of many classes some
    give two and the others one, or some give one and the others none, spread evenly. A class with fewer samples than
    folds gives none, as none of them is held out.

    Where features are whitened at most half of a class is drawn, and the covariance is found from the others: a sample
    that had a part in it lies nearer to its class than a new one will, and calibrating on it would make the model
    overconfident (4000 rows of 1280 features, a shrinkage of 0.5: a scale of 2.9 where 2.5 is best on new samples).
    """
    quota, able = np.zeros(len(sizes), np.int64), np.flatnonzero(sizes >= folds)
    quota[able] = max(2, most // len(sizes))
    if quota.sum() > most:
        quota[able], over = divmod(most, len(able))
        quota[able[np.arange(over) * len(able) // max(1, over)]] += 1
    return np.asarray(np.minimum(quota, sizes // 2 if whitened else sizes))


def draw_samples(
    y: NDArray[np.int64],
    most: int,
    folds: int,
    seed: int,
    whitened: bool,
    keys: NDArray[np.int64] | None = None,
) -> DrawnSamples:
    """Draw samples of every class of y; see `draw_by_class`."""
    drawn = draw_by_class(np.bincount(y), most, folds, seed, whitened, keys)
    return drawn._replace(rows=_rows_of(y, drawn))


def draw_by_class(
    sizes: NDArray[np.int64],
    most: int,
    folds: int,
    seed: int,
    whitened: bool,
    keys: NDArray[np.int64] | None = None,
) -> DrawnSamples:
    """Draw samples of every class, from (seed, class) and nothing else. Fewer are a part of more.

    Only the sizes of the classes need be known: ``rows`` of the result are counted within each class. Where classes
    have come and gone, ``keys`` are the numbers they were given when they came.
    """
    keys = np.arange(len(sizes)) if keys is None else keys
    return _drawn(sizes, draws_by_class(sizes, most, folds, whitened), folds, seed, keys)


def draw_evenly(y: NDArray[np.int64], most: int, folds: int, seed: int) -> DrawnSamples:
    """Draw at most so many samples of y in total, the same share of every class and at least one.

    Classes with fewer samples than folds are drawn from too, in the fold `NEVER_HELD_OUT`.
    """
    drawn = draw_evenly_by_class(np.bincount(y), most, folds, seed)
    return drawn._replace(rows=_rows_of(y, drawn))


def draw_evenly_by_class(sizes: NDArray[np.int64], most: int, folds: int, seed: int) -> DrawnSamples:
    """As `draw_evenly`, where only the sizes of the classes are known: rows are counted within each class."""
    quotas = np.maximum(1, (sizes * min(1.0, most / sizes.sum())).astype(np.int64))
    return _drawn(sizes, quotas, folds, seed, np.arange(len(sizes)))


def every_sample(
    y: NDArray[np.int64], folds: int, seed: int, keys: NDArray[np.int64] | None = None
) -> DrawnSamples:
    """All samples of y in their order, with the fold and the part that each has in its class."""
    sizes = np.bincount(y)
    drawn = _drawn(sizes, sizes, folds, seed, np.arange(len(sizes)) if keys is None else keys)
    order = np.argsort(_rows_of(y, drawn))
    return DrawnSamples(np.arange(len(y)), y, drawn.folds[order], drawn.parts[order])


def _drawn(
    sizes: NDArray[np.int64],
    quotas: NDArray[np.int64],
    folds: int,
    seed: int,
    keys: NDArray[np.int64],
) -> DrawnSamples:
    """So many samples of every class, from (seed, class) and nothing else, with rows counted within each class."""
    rows_of, folds_of, parts_of = [], [], []
    for size, quota, key in zip(sizes.tolist(), quotas.tolist(), keys.tolist(), strict=True):
        chosen = np.random.default_rng([seed, key, 1]).permutation(size)[:quota]
        rows_of.append(chosen)
        folds_of.append(class_folds(size, folds, seed, key)[chosen])
        parts_of.append(class_parts(size, folds, seed, key)[chosen])
    return DrawnSamples(
        np.concatenate(rows_of),
        np.repeat(np.arange(len(sizes)), quotas),
        np.concatenate(folds_of),
        np.concatenate(parts_of),
    )


def _rows_of(y: NDArray[np.int64], drawn: DrawnSamples) -> NDArray[np.int64]:
    """The rows of drawn samples in y, where they were counted within each class."""
    sizes = np.bincount(y)
    starts = np.cumsum(sizes) - sizes
    return np.asarray(np.argsort(y, kind="stable")[starts[drawn.classes] + drawn.rows])


def members_of(y: NDArray[np.integer], n_classes: int) -> list[NDArray[np.int64]]:
    """The rows of each class, in ascending order.

    Examples
    --------
    >>> [rows.tolist() for rows in members_of(np.array([1, 0, 1]), 3)]
    [[1], [0, 2], []]
    """
    order = np.argsort(y, kind="stable")
    return np.split(order, np.cumsum(np.bincount(y, minlength=n_classes))[:-1])


def first_of_each_class(classes: NDArray[np.integer], quotas: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which drawn samples a smaller draw would have drawn too: the first ``quotas[c]`` of class c.

    Examples
    --------
    >>> first_of_each_class(np.array([0, 0, 0, 1, 1]), np.array([2, 1])).tolist()
    [True, True, False, True, False]
    """
    starts = np.searchsorted(classes, np.arange(len(quotas)))
    return np.asarray(np.arange(len(classes)) - starts[classes] < quotas[classes])
