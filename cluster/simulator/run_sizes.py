"""The sizes of a run, which decide how much work its stages are: those of a plan, or imagined ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pairloom.cluster.needs import probe_pairs
from pairloom.cluster.tiles import (
    default_draws_per_slab,
    default_edges_per_tile,
    default_samples_per_prediction,
)
from pairloom.pipeline.calibration.drawn_samples import draws_by_class
from pairloom.pipeline.completion.shortlist import shortlist_size
from pairloom.pipeline.model.choice import n_trials
from pairloom.pipeline.report.explained_errors import affordable_explanations, most_explained
from pairloom.pipeline.report.judged_samples import MOST_ERRORS

if TYPE_CHECKING:
    from pairloom.cluster.plan import Plan

__all__ = ["FAMILIES", "RunSizes", "imagined_sizes", "planned_sizes"]

#: Families whose number of pairs is known without data. Of a class's 20 nearest, many choose it too: for Gaussian
#: classes, 3 hubs and 20 neighbours gave 16.5 pairs per class of 200 classes, 18.2 of 1000, and 19.0 of 4000.
FAMILIES = ("complete", "hub_neighbours", "star")
_HUB_NEIGHBOUR_PAIRS = 19


class RunSizes(NamedTuple):
    """Sizes of a run, with the names of `RunShape` where it has them.

    ``rows`` are those of an average class; ``folds`` the folds per machine; ``listed`` the classes of a sample that are
    coupled; ``couplings``, ``trials`` and ``whitenings`` are numbers; ``classes_per_edge`` is 2 for pairs, and more for
    machines on sets of classes; ``explained`` are the errors that the report explains, at most; ``learned`` says
    whether weights are learned through the coupling.
    """

    classes: int
    rows: float
    features: int
    itemsize: int
    samples: int
    draws: int
    edges: int
    edges_per_tile: int
    samples_per_slab: int
    draws_per_slab: int
    machines_per_edge: int
    folds: int
    couplings: int
    listed: int
    trials: int
    probe_pairs: int
    whitenings: int
    tensor_stored: bool
    classes_per_edge: float = 2.0
    explained: int = 0
    learned: bool = False

    @property
    def tiles(self) -> int:
        """Number of tiles."""
        return -(-self.edges // self.edges_per_tile)

    @property
    def slabs(self) -> int:
        """Number of slabs of test samples."""
        return -(-self.samples // self.samples_per_slab)

    @property
    def draw_slabs(self) -> int:
        """Number of slabs of drawn samples."""
        return -(-self.draws // self.draws_per_slab)

    @property
    def class_bytes(self) -> float:
        """Bytes of the rows of a class, as workers keep them."""
        return 4 * self.rows * self.features

    @property
    def machine_bytes(self) -> float:
        """Bytes of the machines of an edge: weights, and about 200 bytes of parameters each."""
        return self.machines_per_edge * (4 * self.features + 200)


def planned_sizes(plan: Plan) -> RunSizes:
    """The sizes of a planned run."""
    shape, settings, n = plan.shape, plan.settings, len(plan.shape.classes)
    return RunSizes(
        classes=n,
        rows=float(np.mean(shape.rows)),
        features=shape.features,
        itemsize=np.dtype(shape.dtype).itemsize,
        samples=shape.samples,
        draws=shape.draws,
        edges=shape.n_edges,
        edges_per_tile=shape.edges_per_tile,
        samples_per_slab=shape.samples_per_slab,
        draws_per_slab=shape.draws_per_slab,
        machines_per_edge=shape.machines_per_edge,
        folds=settings.folds,
        couplings=len(shape.couplings),
        listed=settings.shortlist_of(n) or n,
        trials=n_trials(plan.candidates),
        probe_pairs=probe_pairs(plan),
        whitenings=len(shape.whitenings),
        tensor_stored=shape.tensor_stored,
        classes_per_edge=2.0 if shape.code is None else float(np.count_nonzero(shape.code) / shape.n_edges),
        explained=most_explained(plan.run(Path()), min(shape.samples, MOST_ERRORS)) if shape.labelled else 0,
        learned=shape.learned,
    )


def imagined_sizes(
    plan: Plan,
    *,
    classes: int | None = None,
    rows: int | None = None,
    features: int | None = None,
    samples: int | None = None,
    family: str | None = None,
    edges_per_tile: int | None = None,
    samples_per_slab: int | None = None,
) -> RunSizes:
    """The sizes that a plan would have with other data: its settings are kept, its tiles and slabs chosen anew.

    The tensor is not stored.
    """
    like, model = planned_sizes(plan), plan.config.model
    n, r, d = classes or like.classes, rows or like.rows, features or like.features
    quotas = draws_by_class(np.full(n, int(r)), model.calibration_samples, like.folds, like.whitenings > 0)
    edges = _edges(family or plan.graph["family"], n, like)
    like = like._replace(classes_per_edge=2.0)
    tile = edges_per_tile or default_edges_per_tile(
        edges, 2 * r, d, like.folds, plan.config.growth is not None
    )
    n_samples, listed = samples or like.samples, shortlist_size(model.shortlist, n) or n
    explained = min(MOST_ERRORS, n_samples, affordable_explanations(edges, d, listed))
    return like._replace(
        classes=n,
        rows=r,
        features=d,
        samples=n_samples,
        draws=int(quotas.sum()) if like.draws else 0,
        edges=edges,
        edges_per_tile=min(tile, edges),
        samples_per_slab=samples_per_slab or default_samples_per_prediction(n, d),
        draws_per_slab=default_draws_per_slab(edges),
        listed=listed,
        tensor_stored=False,
        explained=explained if like.explained else 0,
    )


def _edges(family: str, n: int, like: RunSizes) -> int:
    if family not in FAMILIES:
        raise ValueError(
            f"--family must be one of {', '.join(FAMILIES)} for an imagined run, got {family!r}."
        )
    every = n * (n - 1) // 2
    return {"complete": every, "hub_neighbours": min(every, _HUB_NEIGHBOUR_PAIRS * n), "star": n - 1}[family]
