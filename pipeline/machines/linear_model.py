"""The linear machines of a whole model graph: trained by tiles in threads, applied as one matrix product."""

from typing import NamedTuple

import numpy as np

from pairloom.pipeline.machines.linear_machines import Machines, train_edges
from pairloom.pipeline.machines.logits import collapse
from pairloom.pipeline.machines.whitening import Whitening
from pairloom.pipeline.pieces import in_threads

#: Edges of a tile: a tenth of a second of work, so that a progress bar moves and threads end together.
TILE = 64


class LinearModel(NamedTuple):
    """Machines, and the whitening they were trained under."""

    machines: Machines
    whitening: Whitening

    def logits(self, shares, X):
        """(E, R) logits of raw samples with these shares of each edge's machines."""
        return collapse(self.machines, shares, self.whitening)(X)


def tiles_of(n_edges, tile=TILE):
    """Cut the edges into tiles: from their number alone, so that no result depends on the number of threads."""
    return [slice(low, min(low + tile, n_edges)) for low in range(0, n_edges, tile)]


def train_in_threads(train, edges, n_threads, progress=None):
    """Apply `train(edges of a tile)` to all tiles in threads. Returns the results in the order of the tiles."""

    def work(tile):
        trained = train(edges[tile])
        if progress is not None:
            progress(tile.stop - tile.start)
        return trained

    return in_threads(work, tiles_of(len(edges)), n_threads)


def whitened_rows(rows, whitening):
    """Mapping of class -> its rows as machines are given them, from raw rows (n_c, D)."""
    return {c: np.ascontiguousarray(whitening(X), np.float32) for c, X in rows.items()}


def train_machines(
    whitened, edges, settings, n_threads=1, progress=None, costs=None, weights=None, keys=None
) -> Machines:
    """The machines of all edges, trained on whitened rows of classes."""
    parts = train_in_threads(
        lambda tile: train_edges(whitened, tile, settings, costs=costs, weights=weights, keys=keys),
        edges,
        n_threads,
        progress,
    )
    return Machines(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def train_linear_model(
    rows, edges, settings, whitening, n_threads=1, progress=None, costs=None, weights=None, keys=None
) -> LinearModel:
    """Train all edges on rows of classes, a mapping of class -> (n_c, D) raw rows."""
    whitened = whitened_rows(rows, whitening)
    return LinearModel(
        train_machines(whitened, edges, settings, n_threads, progress, costs, weights, keys), whitening
    )
