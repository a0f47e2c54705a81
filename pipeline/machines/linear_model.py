"""The linear machines of a whole model: trained by tiles in threads, applied as one matrix product."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from pairloom.graphs import ModelCode, Sides
from pairloom.pipeline.machines.linear_machines import Machines, train_columns, train_edges
from pairloom.pipeline.machines.logits import collapse
from pairloom.pipeline.machines.settings import MachineSettings
from pairloom.pipeline.machines.whitening import Whitening
from pairloom.pipeline.pieces import in_threads, pieces

__all__ = [
    "Advance",
    "LinearModel",
    "train_columns_in_threads",
    "train_in_threads",
    "train_linear_model",
    "train_machines",
    "whitened_rows",
]

#: Edges per tile: a tenth of a second of work, so that a progress bar moves and threads end together.
TILE = 64

#: Called with the number of edges that were just trained.
Advance = Callable[[int], object]
Trained = TypeVar("Trained")


class LinearModel(NamedTuple):
    """Machines, and the whitening they were trained under."""

    machines: Machines
    whitening: Whitening

    @property
    def n_edges(self) -> int:
        """E, how many pairs, or pairs of sets, are trained."""
        return len(self.machines.coef)

    def by_distance(self) -> LinearModel:
        """The same machines with their distances for logits."""
        return self._replace(machines=self.machines.by_distance())

    def by_decision_value(self) -> LinearModel:
        """The same machines with their decision values for logits."""
        return self._replace(machines=self.machines.by_decision_value())

    def logits(self, shares: NDArray[np.float64], X: NDArray[np.floating]) -> NDArray[np.float32]:
        """(E, R) logits of normalised samples with these shares of each edge's machines."""
        return collapse(self.machines, shares, self.whitening)(X)

    def held_out_logits(
        self, shares: NDArray[np.float64], X: NDArray[np.floating], parts: NDArray[np.integer]
    ) -> NDArray[np.float32]:
        """(E, R) logits of normalised training samples with these shares, each with the parameters of its part.

        In memory the logits of a sample lie side by side: all that read them go from sample to sample.
        """
        machines, rows = self.machines, np.ascontiguousarray(self.whitening(X), np.float32)
        logits = np.zeros((len(rows), self.n_edges), np.float32)
        for m in np.flatnonzero(shares):
            f = rows @ machines.coef[:, m].T
            for part in np.unique(parts):
                A, B = shares[m] * machines.crossfit[:, m, part].T
                slope, shift = A.astype(np.float32), (A * machines.intercept[:, m] + B).astype(np.float32)
                for r in np.flatnonzero(parts == part):
                    logits[r] -= slope * f[r] + shift
        return logits.T


def train_in_threads(
    train: Callable[[NDArray[np.integer]], Trained],
    edges: NDArray[np.integer],
    n_threads: int,
    advance: Advance | None = None,
    tile_size: int = TILE,
) -> list[Trained]:
    """Apply `train(edges of a tile)` to all tiles in threads. Returns the results in the order of the tiles.

    ``edges`` has one row per pair, or per machine on sets of classes.
    """

    def work(tile: slice) -> Trained:
        trained = train(edges[tile])
        if advance is not None:
            advance(tile.stop - tile.start)
        return trained

    return in_threads(work, pieces(len(edges), tile_size), n_threads)


def train_columns_in_threads(
    train: Callable[[NDArray[np.int8]], Trained],
    code: ModelCode,
    n_threads: int,
    advance: Advance | None = None,
) -> list[Trained]:
    """As `train_in_threads`, with ``train(some columns of the code)``."""
    classes_per_machine = np.count_nonzero(code.matrix) / code.n_machines
    tile = max(1, int(2 * TILE / classes_per_machine))  # as many classes as in a tile of pairs
    return train_in_threads(
        lambda columns: train(columns.T.astype(np.int8)), code.matrix.T, n_threads, advance, tile
    )


def whitened_rows(
    rows: Mapping[int, NDArray[np.floating]], whitening: Whitening
) -> dict[int, NDArray[np.float32]]:
    """Mapping of class -> its rows as machines are given them, from normalised rows (n_c, D)."""
    return {c: np.ascontiguousarray(whitening(X), np.float32) for c, X in rows.items()}


def train_machines(
    whitened: Mapping[int, NDArray[np.float32]],
    sides: Sides,
    settings: MachineSettings,
    n_threads: int = 1,
    advance: Advance | None = None,
    **of_classes: Any,
) -> Machines:
    """The machines of all pairs, or of a code, trained on whitened rows; keywords are those of `train_edges`."""
    if isinstance(sides, ModelCode):
        parts = train_columns_in_threads(
            lambda columns: train_columns(whitened, columns, settings, **of_classes),
            sides,
            n_threads,
            advance,
        )
    else:
        parts = train_in_threads(
            lambda tile: train_edges(whitened, tile, settings, **of_classes), sides, n_threads, advance
        )
    return Machines(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def train_linear_model(
    rows: Mapping[int, NDArray[np.floating]],
    sides: Sides,
    settings: MachineSettings,
    whitening: Whitening,
    n_threads: int = 1,
    advance: Advance | None = None,
    **of_classes: Any,
) -> LinearModel:
    """Train all pairs, or the columns of a code, on rows of classes, a mapping of class -> (n_c, D) normalised rows."""
    whitened = whitened_rows(rows, whitening)
    return LinearModel(train_machines(whitened, sides, settings, n_threads, advance, **of_classes), whitening)
