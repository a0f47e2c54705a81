"""The features of a run, read back from its store.

Workers read a class, or samples, when a tile needs them and keep them while there is room: tiles are ordered so that
neighbours share classes, and every tile is applied to the same samples. Rows are stored as they came and centred as
they are read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import zict
from numpy.typing import NDArray

from pairloom.pipeline.calibration.drawn_samples import draws_by_class, first_of_each_class
from pairloom.pipeline.machines.linear_model import whitened_rows
from pairloom.pipeline.machines.whitening import Shrinkage, Whitening, centred, is_whitened
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import open_group
from pairloom.pipeline.storage.zarr_layout import read_whole

__all__ = ["Draws", "read_centre", "read_classes", "read_draws", "read_samples", "read_whitening"]

_CACHE_BYTES = 256 * 2**20

# One per process. An entry is found by the key of its content, so new data never meet old rows.
_kept: Any = zict.LRU(_CACHE_BYTES, {}, weight=lambda key, arrays: sum(array.nbytes for array in arrays))


class Draws(NamedTuple):
    """Training samples that calibrate the coupled model: centred rows, their classes and their folds."""

    X: NDArray[np.floating]
    classes: NDArray[np.int32]
    folds: NDArray[np.int32]
    chosen: NDArray[np.bool_]  # which of all that are stored these are


def read_classes(run: Run, classes: Iterable[int], whiten: Shrinkage) -> dict[int, NDArray[np.float32]]:
    """Whitened training rows of some classes."""

    def read(c: int) -> tuple[NDArray[np.float32]]:
        stored = open_group(run.directory, "features.zarr")["train"]
        rows = read_whole(stored, (c, slice(0, run.shape.rows[c])))
        of_class = {c: centred(rows, read_centre(run))}
        return (whitened_rows(of_class, read_whitening(run, whiten))[c],)

    return {
        c: _remembered(("class", run.keys.whitening, whiten, c), functools.partial(read, c))[0]
        for c in map(int, classes)
    }


def read_centre(run: Run) -> NDArray[np.float64]:
    """The mean of the training rows."""

    def read() -> tuple[NDArray[np.float64]]:
        return (read_whole(open_group(run.directory, "features.zarr")["centre"]),)

    centre: NDArray[np.float64] = _remembered(("centre", run.keys.whitening), read)[0]
    return centre


def read_whitening(run: Run, whiten: Shrinkage) -> Whitening:
    """One of the whitenings under which machines may be trained."""

    def read() -> tuple[NDArray[np.float32], ...]:
        group, shape = open_group(run.directory, "features.zarr"), run.shape
        mean = read_whole(group["mean"], shape.shrinkages.index(whiten))
        if not is_whitened(whiten):
            return mean, np.empty((0, 0), np.float32)
        return mean, read_whole(group["factor"], shape.whitenings.index(whiten))

    return Whitening(*_remembered(("whitening", run.keys.whitening, whiten), read))


def read_draws(run: Run, most: int, whitened: bool) -> Draws:
    """The samples that a draw of ``most`` gives: of those that are stored, the first of every class."""

    def read() -> tuple[NDArray[Any], ...]:
        group = open_group(run.directory, "features.zarr")
        X, classes, folds = (read_whole(group[name]) for name in ("drawn", "drawn_class", "drawn_fold"))
        return centred(X, read_centre(run)), classes, folds

    X, classes, folds = _remembered(("draws", run.keys.draws, run.keys.whitening), read)
    chosen = first_of_each_class(classes, draws_by_class(run.rows, most, whitened))
    return Draws(X[chosen], classes[chosen], folds[chosen], chosen)


def read_samples(run: Run, slab: slice) -> NDArray[np.floating]:
    """Some test samples, centred."""

    def read() -> tuple[NDArray[np.floating]]:
        X = read_whole(open_group(run.directory, "features.zarr")["test"], slab)
        return (centred(X, read_centre(run)),)

    key = ("samples", run.keys.samples, run.keys.whitening, slab.start, slab.stop)
    found: NDArray[np.floating] = _remembered(key, read)[0]
    return found


def _remembered(key: tuple[Any, ...], read: Callable[[], tuple[NDArray[Any], ...]]) -> Any:
    found = _kept.get(key)
    if found is None:
        found = _kept[key] = read()
    return found
