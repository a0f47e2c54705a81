"""The training features of a run, read back from its store.

Workers read a class when a tile needs it and keep it while there is room: tiles are ordered so that
neighbours share classes.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import zict
from numpy.typing import NDArray

from pairloom.pipeline.run_directory import RunShape, open_group
from pairloom.pipeline.whitening import Whitening
from pairloom.pipeline.zarr_layout import read_whole

__all__ = ["read_classes", "read_whitening"]

_CACHE_BYTES = 256 * 2**20

# One for a process. A class is found by the key of its content, so new data never meet old rows.
_kept: Any = zict.LRU(_CACHE_BYTES, {}, weight=lambda key, rows: rows.nbytes)


def read_classes(
    directory: Path, shape: RunShape, content: str, classes: Iterable[int]
) -> dict[int, NDArray[np.float32]]:
    """Whitened training rows of some classes.

    Parameters
    ----------
    directory, shape
        The run.
    content
        Key of the stored features and of their whitening.
    classes
        Which classes.
    """
    found = {c: _kept.get((content, c)) for c in map(int, classes)}
    missing = [c for c, kept in found.items() if kept is None]
    if missing:
        train = open_group(directory, "features.zarr")["train"]
        whitening = read_whitening(directory, shape)
        for c in missing:
            found[c] = whitening(read_whole(train, (c, slice(0, shape.rows[c]))))
            _kept[content, c] = found[c]
    return found


def read_whitening(directory: Path, shape: RunShape) -> Whitening:
    """The whitening under which the machines of the run are trained."""
    group = open_group(directory, "features.zarr")
    factor = read_whole(group["factor"]) if shape.whitened else np.empty((0, 0), np.float32)
    return Whitening(read_whole(group["mean"]), factor)
