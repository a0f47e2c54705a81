"""Classes that come and go, and pairs that are trained again: every other machine stays as it is, to the byte.

A model by pairs is the sum of its machines, and a machine knows two classes only. So a new class costs its own edges, a
class that goes costs nothing, and a pair can be improved alone. The centring, the whitening and the scale of the
coupled model stay what they were.
"""

import zlib
from dataclasses import replace
from typing import NamedTuple

import networkx as nx
import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from pairloom import graphs
from pairloom.graphs.labels import did_you_mean, listed, quoted
from pairloom.pipeline.completion.complete import plan_completion
from pairloom.pipeline.machines.linear_machines import Machines
from pairloom.pipeline.machines.linear_model import LinearModel, train_machines, whitened_rows
from pairloom.pipeline.machines.logits import calibrated, collapse
from pairloom.pipeline.pieces import thread_count


def add_class(model, label, X_new, X, y, *, neighbours=None):
    """Add a class to a fitted PairwiseSVC: train its edges to the hubs and to its nearest classes, nothing else.

    Parameters
    ----------
    model : fitted PairwiseSVC with linear machines, changed in place
    label : the new class's label
    X_new : (n, D) samples of the new class
    X, y : the samples the model was fitted on, in the same order: the new pairs need those of the old classes they join
    neighbours : int, optional
        How many nearest classes to join; by default as many as the graph's family was given, else 10.

    Returns
    -------
    model
    """
    check_linear(model, "add_class")
    if label in model.classes_.tolist():
        raise ValueError(f"add_class: label must be new, got {quoted(label)}, which is a class already.")
    if len(X_new) < model.folds:
        raise ValueError(
            f"add_class: X_new must hold at least as many samples as there are folds ({model.folds}), got {len(X_new)}."
        )
    rows, sum_new = rows_by_class(model, X, y, "add_class"), checksum(X_new)
    X_new = model._centred(X_new)
    joined = _classes_to_join(model, rows, X_new, neighbours)
    place = int(np.searchsorted(model.classes_, label))
    old = np.arange(len(model.classes_)) + (np.arange(len(model.classes_)) >= place)
    edges = np.sort([(place, int(old[c])) for c in joined], axis=1)
    all_rows = {int(old[c]): X_c for c, X_c in rows.items() if c in joined} | {place: X_new}
    keys = np.insert(model._class_keys, place, model._class_keys.max() + 1)
    added = _train(model, all_rows, edges, keys)
    classes = _Classes(
        # Labels of strings may be longer than those before: concatenation widens the dtype, insertion would cut them.
        labels=np.concatenate([model.classes_[:place], np.array([label]), model.classes_[place:]]),
        shares=np.insert(model.class_shares_ * len(y), place, len(X_new)) / (len(y) + len(X_new)),
        keys=keys,
        sums=np.insert(model._class_sums, place, sum_new),
    )
    put_machines(model, *with_machines(model, old[model.edges_], edges, added), classes)
    return model


def remove_class(model, label):
    """Take a class out of a fitted PairwiseSVC. Nothing is trained.

    The graph must stay connected: the only hub of a star cannot go.
    """
    check_linear(model, "remove_class")
    c = _index_of(model, label, "remove_class")
    if len(model.classes_) == 2:
        raise ValueError(f"remove_class: at least 2 classes must remain, got {quoted(label)} of 2.")
    remaining = nx.relabel_nodes(
        model.graph_.subgraph(set(model.graph_) - {c}), lambda i: i - (i > c), copy=True
    )
    labels = np.delete(model.classes_, c)
    graphs.check_model_graph(remaining, len(labels), labels.tolist())
    stays = (model.edges_ != c).all(axis=1)
    edges = model.edges_[stays] - (model.edges_[stays] > c)
    machines = Machines(*(values[stays] for values in model._model.machines))
    shares = np.delete(model.class_shares_, c)
    classes = _Classes(
        labels, shares / shares.sum(), np.delete(model._class_keys, c), np.delete(model._class_sums, c)
    )
    put_machines(model, edges, machines, model._slope[stays], model._shift[stays], classes)
    return model


def retrain_pairs(model, pairs, X, y, *, C=None, tol=None):
    """Train chosen pairs of a fitted PairwiseSVC again with other parameters, and leave the others alone.

    Parameters
    ----------
    model : fitted PairwiseSVC with linear machines, changed in place
    pairs : sequence of pairs of class labels, each an edge of the graph
    X, y : the samples the model was fitted on, in the same order
    C, tol : what to change
    """
    check_linear(model, "retrain_pairs")
    rows = rows_by_class(model, X, y, "retrain_pairs")
    place = {edge: e for e, edge in enumerate(map(tuple, model.edges_.tolist()))}
    chosen = []
    for a, b in pairs:
        edge = tuple(sorted((_index_of(model, a, "retrain_pairs"), _index_of(model, b, "retrain_pairs"))))
        if edge not in place:
            raise ValueError(
                f"retrain_pairs: pairs must be edges of the graph, got ({quoted(a)}, {quoted(b)})."
            )
        chosen.append(place[edge])
    changes = {name: value for name, value in (("C", C), ("tol", tol)) if value is not None}
    fresh = _train(model, rows, model.edges_[chosen], model._class_keys, **changes)
    for values, new in zip(model._model.machines, fresh, strict=True):
        values[chosen] = new
    model._collapse()
    return model


def check_linear(model, owner):
    """Raise unless the machines of a model can be trained one by one."""
    if model.class_weight is not None:
        raise ValueError(
            f"{owner}: class_weight must be None, got {model.class_weight!r}: it depends on all classes."
        )
    if not model._linear:
        raise ValueError(
            f"{owner}: linear machines are needed, got kernel={model.kernel!r}, estimator={model.estimator!r}."
        )


def _index_of(model, label, owner):
    labels = model.classes_.tolist()
    if label not in labels:
        raise ValueError(
            f"{owner}: label must be one of {listed(labels)}, got {quoted(label)}.{did_you_mean(label, labels)}"
        )
    return labels.index(label)


def checksum(X):
    """Of the rows of a class, in their order, as the machines see them."""
    X = X.toarray() if sparse.issparse(X) else X
    return zlib.crc32(np.ascontiguousarray(X, np.float32).tobytes())


def rows_by_class(model, X, y, owner):
    """Mapping of class -> its centred rows of the samples that a model was fitted on."""
    if model._weighted:
        raise ValueError(
            f"{owner}: the model must have been fitted without sample_weight, got one whose weights are not kept."
        )
    X, y = X.toarray() if sparse.issparse(X) else np.asarray(X), np.asarray(y)
    if X.ndim != 2 or X.shape[1] != model.n_features_in_ or y.shape != X.shape[:1]:
        raise ValueError(
            f"{owner}: X must be (n, {model.n_features_in_}) and y (n,), the samples of the fit,"
            f" got {X.shape} and {y.shape}."
        )
    rows = {c: X[y == label] for c, label in enumerate(model.classes_)}
    # Folds are dealt to the rows in their order: of others, a machine may have seen what it is to be judged by.
    if other := [model.classes_[c] for c in rows if checksum(rows[c]) != model._class_sums[c]]:
        raise ValueError(
            f"{owner}: X must hold the samples that every class of the model was fitted on, in the same order,"
            f" got others of {listed(other)}."
        )
    return {c: model._centred(of_class) for c, of_class in rows.items()}


def _classes_to_join(model, rows, X_new, neighbours):
    """The hubs of the graph and the nearest classes, as indices."""
    family = model.graph_.graph
    hubs = family.get("hubs")
    degrees = np.bincount(model.edges_.ravel(), minlength=len(model.classes_))
    # A graph without named hubs has those classes for hubs that are joined to all others.
    hubs = np.flatnonzero(degrees == len(degrees) - 1) if hubs is None else hubs
    k = neighbours if neighbours is not None else family.get("neighbours") or 10
    means = np.array([rows[c].mean(axis=0) for c in range(len(rows))])
    nearest = np.argsort(np.linalg.norm(means - X_new.mean(axis=0), axis=1), kind="stable")[:k]
    return sorted({int(c) for c in [*hubs, *nearest]})


def _train(model, rows, edges, keys, **changes):
    """The machines of some edges, trained as those of the model were but for the changes."""
    settings = replace(model._settings(model.C_), **changes)
    touched = {c: rows[c] for c in np.unique(edges).tolist()}
    return train_as_fitted(model, whitened_rows(touched, model._model.whitening), edges, settings, keys)


def train_as_fitted(model, whitened, edges, settings, keys):
    """The machines of some edges on whitened rows, in as many threads as a fit of the model uses."""
    with threadpool_limits(1):
        return train_machines(whitened, edges, settings, thread_count(model.n_jobs, "PairwiseSVC"), keys=keys)


class _Classes(NamedTuple):
    """The classes of a model: labels, shares in training, the numbers their folds are drawn by, sums of their rows."""

    labels: np.ndarray
    shares: np.ndarray
    keys: np.ndarray
    sums: np.ndarray


def classes_of(model):
    """The classes of a model as they are."""
    return _Classes(model.classes_, model.class_shares_, model._class_keys, model._class_sums)


def with_machines(model, kept_edges, edges, added):
    """Edges, machines, slopes and shifts of a model and of machines that are added to it."""
    machines = zip(model._model.machines, added, strict=True)
    return (
        np.concatenate([kept_edges, edges]),
        Machines(*(np.concatenate(values) for values in machines)),
        np.concatenate([model._slope, np.full(len(edges), model.scale_)]),
        np.concatenate([model._shift, np.zeros(len(edges))]),
    )


def put_machines(model, edges, machines, slope, shift, classes):
    """Give a model these machines, in the order of their edges, and what is derived from them.

    All of it is made before the first of it is given to the model: an error, or Ctrl-C, leaves the model as it was.
    """
    order = np.lexsort((edges[:, 1], edges[:, 0]))
    edges, slope, shift = edges[order], slope[order], shift[order]
    linear = LinearModel(Machines(*(values[order] for values in machines)), model._model.whitening)
    graph = _graph(len(classes.labels), edges, model.graph_.graph.get("neighbours"))
    derived = {
        "classes_": classes.labels,
        "class_shares_": classes.shares,
        "_class_keys": classes.keys,
        "_class_sums": classes.sums,
        "edges_": edges,
        "graph_": graph,
        "_model": linear,
        "_slope": slope,
        "_shift": shift,
        "_completion": plan_completion(graph),
        "_affine": calibrated(collapse(linear.machines, model._shares, linear.whitening), slope, shift),
    }
    vars(model).update(derived)


def _graph(n, edges, neighbours):
    """A graph that no family builds any more; it remembers how many neighbours a new class is to have."""
    graph = nx.empty_graph(n)
    graph.add_edges_from(edges.tolist())
    graph.graph.update({"family": "changed"} | ({} if neighbours is None else {"neighbours": neighbours}))
    return graph
