"""Growing a fitted model: waves of new pairs are added, while the present machines stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pairloom import graphs
from pairloom.graphs.growth_order import cost_of
from pairloom.graphs.text import listed
from pairloom.pipeline.calibration.coupled_calibration import PairSlopes, calibrate_coupled
from pairloom.pipeline.calibration.held_out import (
    HeldOutSamples,
    draw_samples,
    draws_by_class,
    first_of_each_class,
    out_of_fold_edge_logits,
)
from pairloom.pipeline.calibration.held_out_scores import score_held_out
from pairloom.pipeline.calibration.novelty_signals import Distances
from pairloom.pipeline.completion.shortlist import ListMass, shortlist_size
from pairloom.pipeline.growth.waves import (
    GrowthBudget,
    GrowthCost,
    PairCost,
    Wave,
    grow_in_waves,
    judge_wave,
    usual_wave,
)
from pairloom.pipeline.machines.linear_machines import LinearModel, whitened_rows
from pairloom.pipeline.machines.normalisation import is_whitened
from pairloom.pipeline.model.class_changes import (
    add_edges,
    check_pairs,
    linear_model_of,
    rows_by_class,
    train_more,
)
from pairloom.pipeline.model.fitted_model import FittedModel
from pairloom.pipeline.model.fitting import Resources
from pairloom.pipeline.model.settings import is_count

__all__ = ["grow_fitted_model"]

LabelCost = Callable[[Any, Any], float]


def grow_fitted_model(
    model: FittedModel,
    X: Any,
    y: Any,
    cost: GrowthCost | LabelCost,
    wave: int | None,
    budget: GrowthBudget,
    resources: Resources,
) -> Iterator[tuple[Wave, FittedModel]]:
    """Grow a fitted model. Yield the score of each of its sizes, the present one first, with the model.

    Parameters
    ----------
    model : FittedModel with linear machines
    X, y : the samples the model was fitted on, in the same order
    cost : {"confusion", "dprime", "uniform"} or function of two class labels
    wave : int, optional
        Pairs added at a time.
    budget : GrowthBudget
    resources : Resources
    """
    _check(model, cost, wave)
    rows = rows_by_class(model, X, y, "grow")
    growing = _GrowingModel(model, rows, _by_index(cost, model), wave, budget, resources)
    return ((growing.waves[-1], growing.model) for _ in grow_in_waves(growing, budget))


def _by_index(cost: GrowthCost | LabelCost, model: FittedModel) -> GrowthCost | PairCost:
    """The cost as a function of the indices of two classes."""
    if not callable(cost):
        return cost
    labels = model.classes.labels.tolist()
    return lambda i, j: cost_of(cost, labels[i], labels[j])


def _check(model: FittedModel, cost: object, wave: object) -> None:
    """Raise unless the model can grow with this cost and wave."""
    check_pairs(model, "grow")
    linear_model_of(model, "grow")
    if wave is not None and not is_count(wave, 1):
        raise ValueError(f"grow: wave must be a positive integer, or None, got {wave!r}.")
    if not (callable(cost) or (isinstance(cost, str) and cost in get_args(GrowthCost))):
        known = listed(get_args(GrowthCost))
        raise ValueError(f"grow: cost must be one of {known}, or a function of two labels, got {cost!r}.")
    if model.coupled.level == "edges":
        raise ValueError(
            "grow: coupled_calibration must be 'scale' or 'none', got 'edges': edges have slopes of their own."
        )
    if (far := graphs.coverage(model.pairs).by_potentials).size:
        i, j = (model.classes.labels.tolist()[c] for c in far[0])
        raise ValueError(
            f"grow: the graph must have diameter at most 2 (a star, hubs), got one where {i!r} and {j!r} are further"
            " apart."
        )


class _GrowingModel:
    """A model with the arrays that every wave of its growth needs.

    These are the whitened rows of the classes, and the out-of-fold logits of training samples, drawn evenly from all
    classes.
    """

    def __init__(
        self,
        model: FittedModel,
        rows: dict[int, Any],
        cost: GrowthCost | PairCost,
        wave: int | None,
        budget: GrowthBudget,
        resources: Resources,
    ) -> None:
        self.model, self.waves = model, list[Wave]()
        self._places = None if model.held_out is None else model.held_out.places
        self._cost, self._wave, self._budget, self._resources = cost, wave, budget, resources
        self._whitening = linear_model_of(model, "grow").whitening
        self._rows = whitened_rows(rows, self._whitening)
        below = sparse.vstack if linear_model_of(model, "grow").is_sparse else np.concatenate
        X: Any = below(list(rows.values()))
        y = np.repeat(list(rows), [r.shape[0] for r in rows.values()])
        settings, whitened = model.settings, is_whitened(model.whiten)
        self._drawn = draw_samples(
            y, model.calibration_samples, settings.folds, settings.seed, whitened, model.classes.keys
        )
        self._X = (X.tocsr() if sparse.issparse(X) else X)[self._drawn.rows]
        self._logits = self._held_out_logits(linear_model_of(model, "grow"), model.coupled.pairs)

    @property
    def n_classes(self) -> int:
        """Number of classes of the model."""
        return len(self.model.classes.labels)

    @property
    def n_pairs(self) -> int:
        """Number of pairs of the model."""
        return len(self.model.edges)

    def judge(self) -> list[Wave]:
        """Score the model, set its scale, and propose pairs."""
        room = max(0, self._budget.most_pairs(self.n_classes) - self.n_pairs)
        wave = judge_wave(
            self._held_out,
            self.model.pairs,
            self.model.coupling,
            self._cost,
            min(self._wave or usual_wave(self.n_pairs, self.n_classes), room),
            seed=self.model.settings.seed,
            near=self.waves[-1].scale if self.waves else None,
            n_jobs=self._resources["n_jobs"],
        )
        self._rescale(wave.scale, wave.mass)
        self.waves.append(wave)
        return self.waves

    def finish(self) -> None:
        """Choose the scale as a fit does, by all drawn samples and not only by those that score waves."""
        coupled = calibrate_coupled(
            self._held_out,
            self.model.coupler,
            self.model.coupling,
            "scale",
            n_jobs=self._resources["n_jobs"],
        )
        self._rescale(coupled.scale, coupled.mass)

    def add_wave(self) -> None:
        """Train the proposed edges and insert them in order."""
        edges, keys = np.array(self.waves[-1].proposed), self.model.classes.keys
        pairs = graphs.Pairs(edges, self.n_classes)
        added = train_more(self._rows, pairs, self.model.settings, keys, self._resources["n_jobs"])
        coupled = self.model.coupled.extended(added.profile)
        new = np.arange(self.n_pairs, self.n_pairs + len(edges))
        slopes = None if coupled.pairs is None else coupled.pairs.of_edges(new)
        held_out = self._held_out_logits(LinearModel(added, self._whitening), slopes)
        all_edges = np.concatenate([self.model.edges, edges])
        self.model = add_edges(self.model, edges, added)
        order = graphs.edge_order(all_edges)
        self._logits = np.concatenate([self._logits, held_out])[order]

    def _rescale(self, scale: float, mass: ListMass) -> None:
        coupled, model = self.model.coupled.rescaled(scale, mass), self.model
        scores = None
        if coupled.level != "none":
            listed, jobs = shortlist_size(model.shortlist, self.n_classes), self._resources["n_jobs"]
            scores = score_held_out(
                self._held_out,
                model.coupler,
                model.coupling,
                coupled,
                listed,
                n_jobs=jobs,
                distances=self._distances,
                places=self._places,
            )
        self.model = replace(model, coupled=coupled, held_out=scores)

    @cached_property
    def _distances(self) -> Distances | None:
        """Distances of the drawn samples from the classes, whose places growth does not change."""
        if self._places is None:
            return None
        settings, totals = self.model.settings, self.model.classes.totals.astype(np.int64)
        quotas = draws_by_class(totals, self.model.calibration_samples, settings.folds, True)
        judged = first_of_each_class(self._drawn.classes, quotas)
        return Distances.to_places(self._places, self._X, self._drawn.classes, judged)

    @property
    def _held_out(self) -> HeldOutSamples:
        """The drawn samples with their logits of all edges."""
        return HeldOutSamples.of_edges(
            self._logits,
            self._drawn.classes,
            self.model.coupler,
            calibration=self.model.settings.calibration,
            totals=self.model.classes.totals,
            shortlist=shortlist_size(self.model.shortlist, self.n_classes),
            memory_limit=self._resources["memory_limit"],
        )

    def _held_out_logits(self, linear: LinearModel, pairs: PairSlopes | None) -> NDArray[np.float32]:
        """(E, R) out-of-fold logits of the drawn samples by some edges, with the edges' slopes if they have any."""
        drawn = self._drawn
        logits = out_of_fold_edge_logits(
            linear, self.model.settings.scheme, self._X, drawn.folds, drawn.parts
        )
        return logits if pairs is None else pairs.slopes.of_parts(logits, drawn.parts)
