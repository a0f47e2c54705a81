"""The features of a run, read back from its store.

Workers read a class, or samples, when a tile needs them and keep them while there is room: tiles are ordered so that
neighbours share classes, and every tile is applied to the same samples.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zict
from numpy.typing import NDArray

from pairloom.pipeline.machines.whitening import Whitening
from pairloom.pipeline.run.run_directory import RunShape, open_group
from pairloom.pipeline.storage.zarr_layout import read_whole

__all__ = ["Draws", "FeatureKeys", "read_classes", "read_draws", "read_samples", "read_whitening"]

_CACHE_BYTES = 256 * 2**20

# One for a process. What is kept is found by the key of its content, so new data never meet old rows.
_kept: Any = zict.LRU(_CACHE_BYTES, {}, weight=lambda key, arrays: sum(array.nbytes for array in arrays))


class FeatureKeys(NamedTuple):
    """Digests of what the store holds: the whitening with the features it is of, the drawn and the test samples."""

    whitening: str
    draws: str
    samples: str


class Draws(NamedTuple):
    """The training samples that calibrate the coupled model."""

    X: NDArray[np.float32]
    classes: NDArray[np.int32]
    folds: NDArray[np.int32]


def read_classes(
    directory: Path, shape: RunShape, keys: FeatureKeys, classes: Iterable[int]
) -> dict[int, NDArray[np.float32]]:
    """Whitened training rows of some classes."""

    def read(c: int) -> tuple[NDArray[np.float32]]:
        train = open_group(directory, "features.zarr")["train"]
        return (read_whitening(directory, shape, keys)(read_whole(train, (c, slice(0, shape.rows[c])))),)

    return {
        c: _remembered(("class", keys.whitening, c), functools.partial(read, c))[0] for c in map(int, classes)
    }


def read_whitening(directory: Path, shape: RunShape, keys: FeatureKeys) -> Whitening:
    """The whitening under which the machines of the run are trained."""

    def read() -> tuple[NDArray[np.float32], ...]:
        group = open_group(directory, "features.zarr")
        factor = read_whole(group["factor"]) if shape.whitened else np.empty((0, 0), np.float32)
        return read_whole(group["mean"]), factor

    return Whitening(*_remembered(("whitening", keys.whitening), read))


def read_draws(directory: Path, keys: FeatureKeys) -> Draws:
    """The drawn samples, their classes and folds."""

    def read() -> tuple[NDArray[Any], ...]:
        group = open_group(directory, "features.zarr")
        return tuple(read_whole(group[name]) for name in ("drawn", "drawn_class", "drawn_fold"))

    return Draws(*_remembered(("draws", keys.draws), read))


def read_samples(directory: Path, keys: FeatureKeys, slab: slice) -> NDArray[np.float32]:
    """Some test samples."""

    def read() -> tuple[NDArray[np.float32]]:
        return (read_whole(open_group(directory, "features.zarr")["test"], slab),)

    found: NDArray[np.float32] = _remembered(("samples", keys.samples, slab.start, slab.stop), read)[0]
    return found


def _remembered(key: tuple[Any, ...], read: Callable[[], tuple[NDArray[Any], ...]]) -> Any:
    found = _kept.get(key)
    if found is None:
        found = _kept[key] = read()
    return found
