"""Tiles of edges and slabs of samples: how the work of a run is cut.

A tile is a task's worth of edges and one row of chunks in every array with an edge axis; a slab is a task's
worth of samples, one chunk along the sample axis. Both follow from the data and the configuration alone,
never from the number of workers or from a clock, so that two runs of one configuration are cut alike and hold
the same bytes.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["default_edges_per_tile", "default_samples_per_slab", "order_by_blocks"]

# A pair of 400 rows and 512 features in 4 folds took 6 ms on one core. A tile aims at half a second by this
# measure; what pairs are seen to cost decides how many tiles make a task (see schedule.py).
_SECONDS_PER_FLOAT = 6e-3 / (400 * 512 * 4)
_TILE_SECONDS = 0.5
_LARGEST_TILE = 256
_SLAB_BYTES = 16 * 2**20
_SMALLEST_SLAB, _LARGEST_SLAB = 16, 512


def order_by_blocks(edges: NDArray[np.int64], edges_per_tile: int) -> NDArray[np.int64]:
    """Sort edges by pairs of class blocks, so that the edges of a tile share few classes.

    With blocks of b classes, b x b edges touch 2 b classes: a tile loads 2 / b class matrices an edge, where
    edges in lexicographic order load one each.

    Examples
    --------
    >>> order_by_blocks(np.array([[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]), 4).tolist()
    [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    """
    b = math.isqrt(max(edges_per_tile - 1, 0)) + 1
    i, j = edges[:, 0], edges[:, 1]
    return edges[np.lexsort((j, i, j // b, i // b))]


def default_edges_per_tile(rows_per_pair: float, features: int, folds: int, growing: bool = False) -> int:
    """How many edges take about half a second: a power of two, at most 256.

    Half of that where a run grows: a wave has few edges, and workers share it by the tile. (Less than half costs
    more than it gains: fifty classes on two workers took 7.6 s by tiles of 64, 8.0 s by 32 and 12.0 s by 12.)
    """
    seconds = _SECONDS_PER_FLOAT * rows_per_pair * features * folds
    tile = min(_LARGEST_TILE, _power_of_two(_TILE_SECONDS / seconds))
    return max(1, tile // 2) if growing else tile


def default_samples_per_slab(classes: int) -> int:
    """How many samples fill about 16 MiB of the (class, class, sample) tensor: a power of two from 16 to 512.

    Below 16 samples the kernels' vector lanes would be empty, so a thousand classes take 64 MB.
    """
    samples = _power_of_two(_SLAB_BYTES / (4 * classes**2))
    return min(_LARGEST_SLAB, max(_SMALLEST_SLAB, samples))


def _power_of_two(number: float) -> int:
    return int(2 ** max(0, math.floor(math.log2(max(number, 1)))))
