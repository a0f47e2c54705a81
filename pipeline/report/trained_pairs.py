"""The trained pairs of a run as its report shows them: their d', the degrees of the classes, the hubs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.pieces import pieces
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import open_group
from pairloom.pipeline.storage.zarr_layout import read_whole

__all__ = ["TrainedPairs", "read_dprime", "read_trained_pairs"]

#: Bytes of the parameters of machines that are read at once.
_BYTES_AT_ONCE = 2**24


@dataclass(frozen=True, eq=False)
class TrainedPairs:
    """The pairs of a model graph.

    Attributes
    ----------
    n_classes : int
    edges : (E, 2) int64 array
        In the order of the tiles.
    dprime : (E,) float64 array
        Distance between the two classes on held-out logits, in standard deviations.
    hubs : (H,) int64 array
        Classes that the graph joins to all others.
    """

    n_classes: int
    edges: NDArray[np.int64]
    dprime: NDArray[np.float64]
    hubs: NDArray[np.int64]

    @property
    def degrees(self) -> NDArray[np.int64]:
        """(N,) trained pairs of each class."""
        return np.bincount(self.edges.ravel(), minlength=self.n_classes)

    @property
    def number_of_all(self) -> int:
        """How many pairs the classes have."""
        return self.n_classes * (self.n_classes - 1) // 2

    def neighbours_of(self, c: int | np.integer) -> NDArray[np.int64]:
        """The classes that a class is trained against."""
        first, second = self.edges.T
        return np.concatenate([second[first == c], first[second == c]])

    def places_of(self, i: NDArray[np.integer], j: NDArray[np.integer]) -> NDArray[np.int64]:
        """The number of each pair (i, j) among the edges, -1 where it is not trained."""
        order, keys = self._sorted
        wanted = np.minimum(i, j) * self.n_classes + np.maximum(i, j)
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[place] == wanted, order[place], -1)

    @cached_property
    def _sorted(self) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """The permutation that sorts the edges, and a number for each of them, ascending."""
        keys = self.edges.min(axis=1) * self.n_classes + self.edges.max(axis=1)
        order = np.argsort(keys)
        return order, keys[order]


def read_trained_pairs(run: Run, label: Mapping[str, Any]) -> TrainedPairs:
    """The trained pairs of a run whose graph has this label."""
    edges, N = run.shape.edges, len(run.shape.classes)
    degrees = np.bincount(edges.ravel(), minlength=N)
    hubs = label.get("hubs")
    if not isinstance(
        hubs, list
    ):  # a graph that names none has the classes for hubs that are joined to all others
        hubs = np.flatnonzero(degrees == N - 1) if degrees.min() < N - 1 else []
    return TrainedPairs(N, edges, read_dprime(run), np.asarray(hubs, np.int64))


def read_dprime(run: Run) -> NDArray[np.float64]:
    """(E,) d' of every edge, or column of a code, in the order of the tiles."""
    stored = open_group(run.directory, "machines.zarr")["parameters"]
    tile = run.shape.edges_per_tile
    several = max(1, _BYTES_AT_ONCE // (8 * tile * int(np.prod(stored.shape[1:]))))
    column = run.shape.machine_parameters.index("dprime")
    return np.concatenate(
        [read_whole(stored, edges)[:, 0, column] for edges in pieces(run.shape.n_edges, several * tile)]
    )
