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

from pairloom.pipeline.run_directory import open_group
from pairloom.pipeline.zarr_layout import read_whole

__all__ = ["read_classes"]

_CACHE_BYTES = 256 * 2**20

# One for a process. A class is found by the key of its content, so new data never meet old rows.
_kept: Any = zict.LRU(_CACHE_BYTES, {}, weight=lambda key, rows: rows.nbytes)


def read_classes(
    directory: Path, content: str, classes: Iterable[int], rows: tuple[int, ...]
) -> dict[int, NDArray[np.float32]]:
    """Whitened training rows of some classes.

    Parameters
    ----------
    directory
        The run directory.
    content
        Key of the stored features and of their whitening.
    classes
        Which classes.
    rows
        How many rows each class of the run has.
    """
    found = {c: _kept.get((content, c)) for c in map(int, classes)}
    missing = [c for c, kept in found.items() if kept is None]
    if missing:
        group = open_group(directory, "features.zarr")
        mean, factor = read_whole(group["mean"]), read_whole(group["factor"])
        for c in missing:
            found[c] = (read_whole(group["train"], (c, slice(0, rows[c]))) - mean) @ factor
            _kept[content, c] = found[c]
    return found
