"""Growing a fitted PairwiseSVC: wave after wave of new pairs, the machines that are there stay as they are."""

import time

import numpy as np

from pairloom import graphs
from pairloom.pipeline.class_changes import check_linear, replace_machines, rows_by_class, train_pairs
from pairloom.pipeline.drawn_samples import draw_samples
from pairloom.pipeline.growth.budget import GrowthBudget
from pairloom.pipeline.growth.wave import judge_wave, usual_wave
from pairloom.pipeline.linear_model import LinearModel
from pairloom.pipeline.logits import out_of_fold_edge_logits
from pairloom.pipeline.training_set import CALIBRATION_SAMPLES


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
    check_linear(model, "grow")
    if model.calibrate == "platt":
        raise ValueError(
            "grow: calibrate must be 'scale' or None, got 'platt': edges have slopes of their own."
        )
    if (far := graphs.coverage(model.graph_).by_potentials).size:
        i, j = (model.classes_.tolist()[c] for c in far[0])
        raise ValueError(
            f"grow: the graph must have diameter at most 2 (a star, hubs), got one where {i!r} and {j!r} are further"
            " apart."
        )
    rows = rows_by_class(model, X, y, "grow")
    labels = model.classes_.tolist()
    by_index = (lambda i, j: cost(labels[i], labels[j])) if callable(cost) else cost
    return _waves(model, rows, by_index, wave, budget)


def _waves(model, rows, cost, wave, budget):
    """The waves of `grow_classifier`, whose arguments are right."""
    unseen = _UnseenSamples(model, rows)
    logits, losses, began = unseen.logits(model._model, model.edges_), [], time.monotonic()
    n = len(model.classes_)
    while True:
        pairs = len(model.edges_)
        most = min(wave or usual_wave(pairs, n), max(0, budget.most_pairs(n) - pairs))
        found = judge_wave(
            logits,
            unseen.classes,
            model.graph_,
            model.coupling,
            cost,
            most,
            seed=model._seed(),
            n_jobs=model.n_jobs,
        )
        _rescale(model, found.scale)
        losses.append(found.log_loss)
        yield found
        if budget.spent(n, pairs, time.monotonic() - began, losses) is not None:
            return
        edges = np.array(found.proposed)
        added = train_pairs(model, rows, edges, model._class_keys)
        new = unseen.logits(LinearModel(added, model._model.whitening), edges)
        together = np.concatenate([model.edges_, edges])
        logits = np.concatenate([logits, new])[np.lexsort((together[:, 1], together[:, 0]))]
        replace_machines(
            model,
            model.classes_,
            model.class_shares_,
            model._class_keys,
            together,
            (model._model.machines, added),
        )


class _UnseenSamples:
    """Training samples, drawn alike in every class, that are judged by machines which have not seen them."""

    def __init__(self, model, rows):
        X, y = np.concatenate(list(rows.values())), np.repeat(list(rows), [len(r) for r in rows.values()])
        self._settings = model._settings(model.C_)
        whitened = model.whiten_ is not None
        drawn = draw_samples(
            y, CALIBRATION_SAMPLES, self._settings.folds, self._settings.seed, whitened, model._class_keys
        )
        self._X, self.classes, self._folds = X[drawn.rows], drawn.classes, drawn.folds

    def logits(self, model, edges):
        """(E, R) logits of some edges."""
        return out_of_fold_edge_logits(
            model.logits, edges, self._settings.scheme, self._X, self.classes, self._folds
        )


def _rescale(model, scale):
    """Give the coupled model another scale, unless it was to have none."""
    if model.calibrate is not None:
        model.scale_, model._slope = scale, np.full(len(model.edges_), scale)
        model._collapse()
