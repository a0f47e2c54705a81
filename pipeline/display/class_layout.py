"""The layout of classes in figures: in an order that puts confused classes side by side, and on a circle."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import ClusterNode, linkage, optimal_leaf_ordering, to_tree
from scipy.sparse import csr_array
from scipy.spatial.distance import squareform

__all__ = ["BLOCK", "FEW_CLASSES", "ClassOrder", "circle_layout", "order_classes"]

#: Most classes in a block, the part of a map that is shown at once.
BLOCK = 24
#: Most classes for optimal leaf ordering, whose time grows at least with the square of their number.
_MOST_ORDERED = 200
#: Most classes for average linkage, which needs their pairwise distances: 16 MiB.
FEW_CLASSES = 2048
#: Lower bound of likeness.
_SMALLEST = 1e-6


class ClassOrder(NamedTuple):
    """Classes in the order of a map, and its blocks of similar classes.

    Attributes
    ----------
    classes : (N,) int64 array
        ``classes[p]`` is the class at position p of the map.
    starts : (B + 1,) int64 array
        Block b is ``classes[starts[b]:starts[b + 1]]``.
    """

    classes: NDArray[np.int64]
    starts: NDArray[np.int64]

    @property
    def places(self) -> NDArray[np.int64]:
        """``places[c]`` is the position of class c."""
        return np.argsort(self.classes)

    @property
    def blocks(self) -> list[slice]:
        """The positions of each block."""
        return [slice(int(start), int(stop)) for start, stop in pairwise(self.starts)]


def order_classes(likeness: NDArray[np.floating] | csr_array) -> ClassOrder:
    """Order classes by average linkage, and cut the tree into blocks. Many classes are joined greedily instead.

    Parameters
    ----------
    likeness : (N, N) array, dense or CSR
        Similarity of two classes on any scale, such as the mean probability of one on samples of the other.
    """
    N = likeness.shape[0]
    if N < 3:
        return ClassOrder(np.arange(N), np.array([0, N]))
    if N > FEW_CLASSES:
        return _joined_blocks(csr_array(likeness))
    if not isinstance(likeness, np.ndarray):
        likeness = likeness.toarray()
    distances = squareform(_distances(likeness), checks=False)
    merges = linkage(distances, "average")
    if N <= _MOST_ORDERED:
        merges = optimal_leaf_ordering(merges, distances)
    root = to_tree(merges)
    return ClassOrder(np.array(root.pre_order()), _block_starts(root))


def _joined_blocks(likeness: csr_array) -> ClassOrder:
    """Join the most similar classes into blocks of at most `BLOCK`; then join blocks in the same way to order them."""
    both = (likeness + likeness.T).tocoo()
    upper = np.flatnonzero(both.row < both.col)
    upper = upper[np.argsort(-both.data[upper], kind="stable")]
    pairs = list(zip(both.row[upper].tolist(), both.col[upper].tolist(), strict=True))
    blocks = _joined([[c] for c in range(likeness.shape[0])], pairs, BLOCK)
    number = {c: at for at, block in enumerate(blocks) for c in block}
    ordered = _joined([[at] for at in range(len(blocks))], [(number[i], number[j]) for i, j in pairs])
    sizes = [len(blocks[at]) for group in ordered for at in group]
    classes = [c for group in ordered for at in group for c in blocks[at]]
    return ClassOrder(np.array(classes), _starts_of(sizes))


def _joined(
    groups: list[list[int]], pairs: list[tuple[int, int]], most: int | None = None
) -> list[list[int]]:
    """Join the groups of each pair in turn, unless the result would have more than ``most`` members."""
    group_of = {member: group for group in groups for member in group}
    for i, j in pairs:
        one, other = group_of[i], group_of[j]
        if one is other or (most is not None and len(one) + len(other) > most):
            continue
        one, other = (one, other) if len(one) >= len(other) else (other, one)
        one += other
        group_of.update(dict.fromkeys(other, one))
    distinct = {id(group): group for group in group_of.values()}
    return sorted(distinct.values(), key=min)


def _distances(likeness: NDArray[np.floating]) -> NDArray[np.float64]:
    """Minus the logarithm of the likeness in both directions, 0 for the most similar classes."""
    both = np.maximum(likeness + likeness.T, _SMALLEST).astype(np.float64)
    distances = -np.log(both / both.max())
    np.fill_diagonal(distances, 0)
    return np.asarray(distances)


def _block_starts(root: ClusterNode) -> NDArray[np.int64]:
    """The first position of each block: a subtree of at most `BLOCK` classes, or several small adjacent ones."""
    return _starts_of(_subtrees(root))


def _starts_of(sizes: list[int]) -> NDArray[np.int64]:
    """The first position of each block, after merging small adjacent ones."""
    starts, size = [0], 0
    for part in sizes:
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


def circle_layout(order: NDArray[np.integer], hubs: NDArray[np.integer]) -> NDArray[np.float64]:
    """(N, 2) positions of the classes on a circle of radius 1, from the top and clockwise, with hubs inside it.

    The second coordinate points down. A single hub is at the centre.

    Examples
    --------
    >>> circle_layout(np.array([2, 0, 1]), np.array([1])).round(1) + 0.0
    array([[ 0.,  1.],
           [ 0.,  0.],
           [ 0., -1.]])
    """
    places = np.empty((len(order), 2))
    is_hub = np.isin(order, hubs)
    inner = 0.0 if is_hub.sum() == 1 else 0.38
    for classes, radius in ((order[~is_hub], 1.0), (order[is_hub], inner)):
        angle = 2 * np.pi * np.arange(len(classes)) / max(len(classes), 1) - np.pi / 2
        places[classes] = radius * np.column_stack([np.cos(angle), np.sin(angle)])
    return places
