"""Growing a fitted PairwiseSVC: wave after wave of new pairs, the machines that are there stay as they are."""

import time
from typing import get_args

import numpy as np

from pairloom import graphs
from pairloom.graphs.labels import listed
from pairloom.pipeline.calibration.coupled import choose_scale
from pairloom.pipeline.calibration.drawn_samples import draw_samples
from pairloom.pipeline.estimator.class_changes import (
    check_linear,
    classes_of,
    put_machines,
    rows_by_class,
    train_as_fitted,
    with_machines,
)
from pairloom.pipeline.estimator.training_set import CALIBRATION_SAMPLES
from pairloom.pipeline.growth.budget import GrowthBudget
from pairloom.pipeline.growth.wave import GrowthCost, judge_wave, usual_wave
from pairloom.pipeline.machines.linear_model import LinearModel, whitened_rows
from pairloom.pipeline.machines.logits import out_of_fold_edge_logits


def grow_classifier(model, X, y, cost, wave, budget: GrowthBudget):
    """Grow a fitted PairwiseSVC and yield the judgement of each of its sizes, the present one first.

    Parameters
    ----------
    model : fitted PairwiseSVC with linear machines, changed in place
    X, y : the samples the model was fitted on, in the same order
    cost : {"confusion", "dprime", "uniform"} or function of two class labels
    wave : int, optional
        Pairs added at a time.
    budget : GrowthBudget

    Yields
    ------
    Wave
        Pairs by the indices of their classes. Between two of them the model can be used, and saved.
    """
    _check(model, cost, wave)
    rows = rows_by_class(model, X, y, "grow")
    labels = model.classes_.tolist()
    by_index = (lambda i, j: cost(labels[i], labels[j])) if callable(cost) else cost
    return _waves(model, rows, by_index, wave, budget)


def _check(model, cost, wave):
    """Raise unless the model can grow so."""
    check_linear(model, "grow")
    if wave is not None and not (isinstance(wave, (int, np.integer)) and wave >= 1):
        raise ValueError(f"grow: wave must be a positive integer, or None, got {wave!r}.")
    if not (callable(cost) or cost in get_args(GrowthCost)):
        known = listed(get_args(GrowthCost))
        raise ValueError(f"grow: cost must be one of {known}, or a function of two labels, got {cost!r}.")
    if model.calibrate == "platt":
        raise ValueError(
            "grow: calibrate must be 'scale' or None, got 'platt': edges have slopes of their own."
        )
    if model._settings(model.C_).scheme.n_machines != model.machines_.intercept.shape[1]:
        raise ValueError(
            "grow: folds and calibration must be those of the fit, got others that were set since."
        )
    if (far := graphs.coverage(model.graph_).by_potentials).size:
        i, j = (model.classes_.tolist()[c] for c in far[0])
        raise ValueError(
            f"grow: the graph must have diameter at most 2 (a star, hubs), got one where {i!r} and {j!r} are further"
            " apart."
        )


def _waves(model, rows, cost, wave, budget):
    """The waves of `grow_classifier`, whose arguments are right."""
    seconds, began = 0.0, time.monotonic()
    growing = _GrowingClassifier(model, rows)
    n, near, losses = len(model.classes_), None, []
    while True:
        pairs = len(model.edges_)
        most = min(wave or usual_wave(pairs, n), max(0, budget.most_pairs(n) - pairs))
        found = growing.judged(cost, most, near)
        near = found.scale
        losses.append(found.log_loss)
        seconds += time.monotonic() - began
        spent = budget.spent(n, pairs, seconds, losses)
        if spent is not None:
            growing.calibrate()
        yield found
        if spent is not None:
            return
        # Not what the caller does with the model in between.
        began = time.monotonic()
        growing.check_unchanged()
        growing.add(np.array(found.proposed))


class _GrowingClassifier:
    """A classifier with what its growth needs again and again.

    That is the rows of the classes as machines are given them, and what the machines of the edges say of training
    samples, drawn alike in every class, that they have not seen.
    """

    def __init__(self, model, rows):
        self.model, self._settings = model, model._settings(model.C_)
        self._rows = whitened_rows(rows, model._model.whitening)
        X, y = np.concatenate(list(rows.values())), np.repeat(list(rows), [len(r) for r in rows.values()])
        folds, seed, whitened = self._settings.folds, self._settings.seed, model.whiten_ is not None
        drawn = draw_samples(y, CALIBRATION_SAMPLES, folds, seed, whitened, model._class_keys)
        self._X, self._drawn = X[drawn.rows], drawn
        self._logits, self._edges = self._unseen_logits(model._model, model.edges_), model.edges_

    def judged(self, cost, most, near):
        """Judge the model, give it the scale that was found, and propose pairs."""
        model = self.model
        wave = judge_wave(
            self._logits,
            self._drawn.classes,
            model.graph_,
            model.coupling,
            cost,
            most,
            seed=model._seed(),
            near=near,
            n_jobs=model.n_jobs,
        )
        _rescale(model, wave.scale)
        return wave

    def check_unchanged(self):
        """Raise if the model was changed between two waves."""
        if self.model.edges_ is not self._edges:
            raise RuntimeError(
                "grow: the model must stay as it is between two waves, got one that was fitted, grown or changed since:"
                " call grow again."
            )

    def calibrate(self):
        """Choose the scale as a fit does: by all drawn samples, those that were asked among them."""
        model = self.model
        choice = choose_scale(
            self._logits,
            self._drawn.classes,
            model._completion,
            model.coupling,
            n_jobs=model.n_jobs,
            memory_limit=model.memory_limit,
        )
        _rescale(model, choice.scale)

    def add(self, edges):
        """Train some edges and put them among the others."""
        model = self.model
        added = train_as_fitted(model, self._rows, edges, self._settings, model._class_keys)
        said = self._unseen_logits(LinearModel(added, model._model.whitening), edges)
        together, *parts = with_machines(model, model.edges_, edges, added)
        put_machines(model, together, *parts, classes_of(model))
        self._logits = np.concatenate([self._logits, said])[np.lexsort((together[:, 1], together[:, 0]))]
        self._edges = model.edges_

    def _unseen_logits(self, linear, edges):
        """(E, R) logits of the drawn samples by some edges."""
        drawn, scheme = self._drawn, self._settings.scheme
        return out_of_fold_edge_logits(linear.logits, edges, scheme, self._X, drawn.classes, drawn.folds)


def _rescale(model, scale):
    """Give the coupled model another scale, unless it was to have none."""
    if model.calibrate is not None:
        model.scale_, model._slope = scale, np.full(len(model.edges_), scale)
        model._collapse()
