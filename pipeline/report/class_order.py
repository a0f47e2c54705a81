"""The order of the classes in maps and graphs: classes that the model takes for each other stand side by side."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import ClusterNode, linkage, optimal_leaf_ordering, to_tree
from scipy.spatial.distance import squareform

__all__ = ["ClassOrder", "order_classes"]

#: Classes of a block that a map shows at once.
BLOCK = 24
#: The best order of the leaves takes time that grows with the square of the classes, or faster.
_MOST_ORDERED = 200
#: A probability that counts as none.
_SMALLEST = 1e-6


class ClassOrder(NamedTuple):
    """Classes in the order of a map, and its blocks of near classes.

    Attributes
    ----------
    classes : (N,) int64 array
        ``classes[place]`` is the class at a place of the map.
    starts : (B + 1,) int64 array
        Block b is ``classes[starts[b]:starts[b + 1]]``.
    """

    classes: NDArray[np.int64]
    starts: NDArray[np.int64]

    @property
    def places(self) -> NDArray[np.int64]:
        """``places[c]`` is the place of class c."""
        return np.argsort(self.classes)

    @property
    def blocks(self) -> list[slice]:
        """Slices of the places."""
        return [slice(int(start), int(stop)) for start, stop in pairwise(self.starts)]


def order_classes(likeness: NDArray[np.floating]) -> ClassOrder:
    """Order classes by average linkage, and cut the tree into blocks.

    Parameters
    ----------
    likeness : (N, N) array
        How alike two classes are, in any unit: mean probabilities of one on samples of the other.
    """
    N = len(likeness)
    if N < 3:
        return ClassOrder(np.arange(N), np.array([0, N]))
    distances = squareform(_distances(likeness), checks=False)
    merges = linkage(distances, "average")
    if N <= _MOST_ORDERED:
        merges = optimal_leaf_ordering(merges, distances)
    root = to_tree(merges)
    return ClassOrder(np.array(root.pre_order()), _block_starts(root))


def _distances(likeness: NDArray[np.floating]) -> NDArray[np.float64]:
    """Minus the logarithm of the likeness in both directions, from 0."""
    both = np.maximum(likeness + likeness.T, _SMALLEST).astype(np.float64)
    distances = -np.log(both / both.max())
    np.fill_diagonal(distances, 0)
    return np.asarray(distances)


def _block_starts(root: ClusterNode) -> NDArray[np.int64]:
    """Where blocks start: subtrees of at most `BLOCK` classes, small neighbours joined."""
    starts, size = [0], 0
    for part in _subtrees(root):
        if size + part > BLOCK:
            starts.append(starts[-1] + size)
            size = 0
        size += part
    return np.array([*starts, starts[-1] + size])


def _subtrees(root: ClusterNode) -> list[int]:
    """The sizes of the largest subtrees with at most `BLOCK` leaves, from left to right."""
    sizes, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        if node.get_count() <= BLOCK:
            sizes.append(node.get_count())
        else:
            waiting += [node.get_right(), node.get_left()]
    return sizes
