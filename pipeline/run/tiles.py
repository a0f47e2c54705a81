"""Tiles of edges and slabs of samples, into which the work of a run is divided.

A tile is a set of edges, and one row of chunks in every array with an edge axis. A slab is a range of samples, one
chunk along the sample axis. Both depend only on the data and the configuration, never on the number of workers or on
timing, so two runs of one configuration have the same chunks and the same bytes.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.model.fitted_model import PREDICTION_BATCH

__all__ = [
    "crude_training_seconds",
    "default_draws_per_listed_slab",
    "default_draws_per_slab",
    "default_edges_per_tile",
    "default_samples_per_listed_slab",
    "default_samples_per_prediction",
    "default_samples_per_slab",
    "numbers_per_row",
    "order_by_blocks",
    "stores_collapsed",
]

# Training a pair with 400 rows, 384 features and 4 folds took 2.6 ms on one core. By this estimate a tile is a second
# of work: up to 4 s if there would be too many tiles, each with its own files, and down to 0.1 s if there would be too
# few for the workers to share. The number of tiles per task follows from measured times (schedule.py).
_SECONDS_PER_FLOAT = 2.6e-3 / (400 * 384 * 4)
_LEAST_TILE_SECONDS, _TILE_SECONDS, _MOST_TILE_SECONDS = 0.1, 1.0, 4.0
_FEWEST_TILES, _ENOUGH_TILES = 16, 128
_LARGEST_TILE = 1024
_SLAB_BYTES = 16 * 2**20
_SMALLEST_SLAB, _LARGEST_SLAB = 16, 512
_LARGEST_PREDICTED_SLAB = 4 * PREDICTION_BATCH
_DRAWS_BYTES = 512 * 2**20
_KEPT_BYTES, _RANKED_BYTES = 256 * 2**20, 128 * 2**20


def order_by_blocks(edges: NDArray[np.int64], edges_per_tile: int) -> NDArray[np.int64]:
    """Sort edges by pairs of class blocks, so that the edges of a tile share few classes.

    With blocks of b classes, b x b edges touch 2 b classes, so a tile loads 2 / b class matrices per edge. In
    lexicographic order it would load one per edge.

    Examples
    --------
    >>> order_by_blocks(np.array([[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]), 4).tolist()
    [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    """
    b = math.isqrt(max(edges_per_tile - 1, 0)) + 1
    i, j = edges[:, 0], edges[:, 1]
    return edges[np.lexsort((j, i, j // b, i // b))]


def default_edges_per_tile(
    edges: int, rows_per_pair: float, features: int, folds: int, growing: bool = False
) -> int:
    """The number of edges that train in up to a second, or up to four if there are many edges: a power of two.

    A growing run uses half of that, because a wave has few edges and workers share it tile by tile. Smaller tiles are
    slower: fifty classes on two workers took 7.6 s with tiles of 64 edges, 8.0 s with 32 and 12.0 s with 12.
    """
    seconds = crude_training_seconds(1, rows_per_pair, features, folds)
    limits = (_LEAST_TILE_SECONDS, _TILE_SECONDS, _MOST_TILE_SECONDS)
    least, usual, most = (_power_of_two(limit / seconds) for limit in limits)
    usual = min(256, max(least, min(usual, _power_of_two(edges / _FEWEST_TILES))))
    tile = min(_LARGEST_TILE, max(usual, min(most, _power_of_two(edges / _ENOUGH_TILES))))
    return max(1, tile // 2) if growing else tile


def crude_training_seconds(edges: int, rows_per_pair: float, features: int, folds: int) -> float:
    """The time to train ``edges`` pairs on one core, to an order of magnitude."""
    return edges * _SECONDS_PER_FLOAT * rows_per_pair * features * folds


def numbers_per_row(features: int, rows_per_pair: float, with_kernel: bool) -> int:
    """Numbers per row that training a pair processes: the features and, with a kernel, the kernel values."""
    return features + int(rows_per_pair) if with_kernel else features


def default_samples_per_slab(classes: int) -> int:
    """The number of samples in about 16 MiB of the (class, class, sample) tensor: a power of two from 16 to 512.

    Fewer than 16 samples would leave vector lanes of the kernels empty; a thousand classes therefore take 64 MB.
    """
    samples = _power_of_two(_SLAB_BYTES / (4 * classes**2))
    return min(_LARGEST_SLAB, max(_SMALLEST_SLAB, samples))


def default_samples_per_prediction(classes: int, features: int) -> int:
    """The number of samples of a slab without a tensor: about 16 MiB of features and probabilities.

    It is a whole number of prediction batches, one to four.
    """
    samples = _power_of_two(_SLAB_BYTES / (4 * (classes + features)))
    return min(_LARGEST_PREDICTED_SLAB, max(PREDICTION_BATCH, samples))


def default_draws_per_slab(edges: int) -> int:
    """The number of drawn samples whose logits of all edges take half a gigabyte with a copy: from 16 to 512."""
    return min(_LARGEST_SLAB, max(_SMALLEST_SLAB, _power_of_two(_DRAWS_BYTES / (8 * edges))))


def default_draws_per_listed_slab(draws: int, groups: int, classes: int, features: int, maps: int) -> int:
    """The number of drawn samples whose rankings take half a gigabyte: from 16 to 512.

    Drawn samples fall into ``groups`` groups by the machines that were trained without them. Each group has ``maps``
    rankings, with a row of weights per class. Every slab reads all machines twice, so there should be few slabs.
    """
    ranked = _DRAWS_BYTES / (4 * classes * (features + 1) * maps)
    # A slab that begins within a group has part of one more group.
    return min(_LARGEST_SLAB, max(_SMALLEST_SLAB, int((ranked - 1) * draws / groups)))


def stores_collapsed(edges: int, features: int) -> bool:
    """Whether the affine maps of the edges are too large for the memory of every worker."""
    return 4 * edges * features > _KEPT_BYTES


def default_samples_per_listed_slab(classes: int) -> int:
    """The number of samples whose rankings take 128 MiB: a whole number of batches, one to sixteen.

    Every slab reads the maps of all edges, so there should be few slabs.
    """
    samples = _power_of_two(_RANKED_BYTES / (4 * classes))
    return min(16 * PREDICTION_BATCH, max(PREDICTION_BATCH, samples))


def _power_of_two(number: float) -> int:
    return int(2 ** max(0, math.floor(math.log2(max(number, 1)))))
