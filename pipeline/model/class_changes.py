"""Changes of a fitted model: add or remove a class, train pairs again. All other machines stay the same, to the byte.

Each machine of a model of pairs depends on two classes only. So a new class needs machines for its own edges, removing
a class needs no training, and a single pair can be improved. (With machines on sets of classes, a class can only be
removed.) The centring, the whitening and the scale of the coupled model stay the same. The scores of its held-out
samples no longer hold and are dropped. Every function here takes a fitted model and returns another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_array

from pairloom import graphs
from pairloom.graphs.checks import check_count
from pairloom.graphs.decomposition import Pairs
from pairloom.graphs.hubs import USUAL_NEIGHBOURS, hubs_of
from pairloom.graphs.text import listed, quoted
from pairloom.pipeline.calibration.coupled_calibration import CoupledCalibration
from pairloom.pipeline.features.sparse_features import canonical_csr
from pairloom.pipeline.machines.linear_machines import (
    ClassFeatures,
    LinearModel,
    Machines,
    train_machines,
    whitened_rows,
)
from pairloom.pipeline.machines.settings import MachineSettings
from pairloom.pipeline.model.fitted_model import ClassTable, FittedModel, checksum
from pairloom.pipeline.model.settings import error_prefix, is_positive
from pairloom.pipeline.threads import one_blas_thread, thread_count

__all__ = [
    "add_class",
    "add_edges",
    "check_pairs",
    "linear_model_of",
    "remove_class",
    "retrain_pairs",
    "rows_by_class",
    "train_more",
]


def add_class(
    model: FittedModel,
    label: Any,
    X_new: Any,
    X: Any,
    y: Any,
    *,
    neighbours: int | None = None,
    n_jobs: int | None = None,
) -> FittedModel:
    """A model with one more class. Only its edges to the hubs and to its nearest classes are trained.

    Parameters
    ----------
    model : FittedModel with linear machines
    label : object
        The new class's label, of the type of the others.
    X_new : (n, D) array-like
        Samples of the new class.
    X, y : the samples the model was fitted on, in the same order
        The new pairs are trained on those of the old classes.
    neighbours : int, optional
        Number of nearest classes to join; by default the number given to the graph's family, else 20.
    n_jobs : int, optional
        Threads.
    """
    owner = "add_class"
    linear = _linear_pairs_of(model, owner)
    model.classes.check_new_label(label, owner)
    new_rows, rows = samples_of(model, X_new, owner, "X_new"), rows_by_class(model, X, y, owner)
    X_new = _normalised(model, new_rows, owner)
    joined = _classes_to_join(model, rows, X_new, neighbours)
    table, place = model.classes.with_class(label, new_rows.shape[0], checksum(new_rows))
    moved = np.arange(len(rows)) + (np.arange(len(rows)) >= place)
    edges = np.sort([(place, int(moved[c])) for c in joined], axis=1)
    touched = {int(moved[c]): rows[c] for c in joined} | {place: X_new}
    added = _train(model, touched, edges, table, n_jobs)
    return _with_machines(
        model,
        table,
        np.concatenate([moved[model.edges], edges]),
        linear.machines.followed_by(added.unprofiled()),
        model.coupled.extended(added.profile),
    )


def remove_class(model: FittedModel, label: Any) -> FittedModel:
    """A model without one of its classes. Nothing is trained.

    The graph must stay connected: the only hub of a star cannot be removed. Machines on sets of classes are removed if
    they have no class left on one side, or have become equal to an earlier machine.
    """
    linear = linear_model_of(model, "remove_class")
    c = model.classes.index_of(label, "remove_class")
    if len(model.classes.labels) == 2:
        raise ValueError(f"remove_class: at least 2 classes must remain, got {quoted(label)} of 2.")
    table = model.classes.without(c)
    if model.code is not None:
        return _without_row(model, linear, model.code, c, table)
    remaining = nx.relabel_nodes(
        model.pairs.subgraph(set(model.pairs) - {c}), lambda i: i - (i > c), copy=True
    )
    with error_prefix(f"remove_class: label must leave the graph connected, got {quoted(label)}"):
        graphs.check_model_graph(remaining, len(table.labels), table.labels.tolist())
    stays = (model.edges != c).all(axis=1)
    edges = model.edges[stays] - (model.edges[stays] > c)
    return _with_machines(model, table, edges, linear.machines.of_edges(stays), model.coupled.of_edges(stays))


def _without_row(
    model: FittedModel, linear: LinearModel, code: graphs.ModelCode, c: int, table: ClassTable
) -> FittedModel:
    """A model on sets of classes without one of its classes."""
    names = model.classes.labels.tolist()
    with error_prefix(f"remove_class: label must leave a usable code, got {quoted(names[c])}"):
        remaining, kept = code.without(c, names)
    trained = LinearModel(linear.machines.of_edges(kept), linear.whitening)
    return replace(
        model,
        classes=table,
        graph=remaining,
        trained=trained,
        coupled=model.coupled.of_edges(kept),
        held_out=None,
    )


def retrain_pairs(
    model: FittedModel,
    pairs: Iterable[tuple[Any, Any]],
    X: Any,
    y: Any,
    *,
    C: float | None = None,
    tol: float | None = None,
    n_jobs: int | None = None,
) -> FittedModel:
    """A model in which chosen pairs were trained again with other parameters.

    Parameters
    ----------
    model : FittedModel with linear machines
    pairs : iterable of pairs of class labels, each an edge of the graph
    X, y : the samples the model was fitted on, in the same order
    C, tol : float, optional
        The new values; by default those of the fit.
    n_jobs : int, optional
        Threads.
    """
    owner = "retrain_pairs"
    linear = _linear_pairs_of(model, owner)
    rows = rows_by_class(model, X, y, owner)
    chosen = np.array([_edge_of(model, a, b, owner) for a, b in _pairs_of(pairs, owner)], dtype=np.int64)
    if not len(chosen):
        raise ValueError(f"{owner}: pairs must hold at least one pair of labels, got none.")
    changes = {name: value for name, value in (("C", C), ("tol", tol)) if value is not None}
    for name, value in changes.items():
        if not is_positive(value):
            raise ValueError(f"{owner}: {name} must be a positive number, got {value!r}.")
    if tol is not None and tol >= 1:
        raise ValueError(f"{owner}: tol must be below 1, got {tol!r}.")
    if C is not None:
        changes["C"] = model.normalisation.inner_C(C, f"{owner}: C")
    fresh = _train(model, rows, model.edges[chosen], model.classes, n_jobs, **changes)
    return replace(
        model,
        trained=LinearModel(linear.machines.replaced(chosen, fresh.unprofiled()), linear.whitening),
        coupled=model.coupled.retrained(chosen, fresh.profile),
        held_out=None,
    )


def add_edges(model: FittedModel, edges: NDArray[np.int64], added: Machines) -> FittedModel:
    """A model with more edges, given their trained machines."""
    machines = linear_model_of(model, "grow").machines.followed_by(added.unprofiled())
    together = np.concatenate([model.edges, edges])
    return _with_machines(model, model.classes, together, machines, model.coupled.extended(added.profile))


def linear_model_of(model: FittedModel, owner: str) -> LinearModel:
    """The linear machines of a model whose machines can be trained one by one. Raise for other models."""
    if model.is_compact:
        raise ValueError(
            f"{owner}: the model is compact: only what prediction needs of its machines is left, so no pair or class"
            " can be added, trained again or removed. Fit it again, or load a model that was saved, or read it from a"
            " run, with compact=False."
        )
    if not isinstance(model.trained, LinearModel):
        raise ValueError(
            f"{owner}: linear machines are needed, got a model with another kernel or estimator: fit it with"
            " kernel='linear'."
        )
    if model.learned is not None and model.learned.logits is not None:
        raise ValueError(
            f"{owner}: the weights of all pairs were learned together (learn='coupled'), so no pair can be changed"
            " alone: fit with learn='machines'."
        )
    return model.trained


def _linear_pairs_of(model: FittedModel, owner: str) -> LinearModel:
    """The linear machines of a model of pairs whose machines can be trained one by one. Raise for other models."""
    check_pairs(model, owner)
    return linear_model_of(model, owner)


def check_pairs(model: FittedModel, owner: str) -> None:
    """Raise if the machines are on sets of classes: then every one of them would have to be trained again."""
    if model.code is not None:
        n, m = model.code.matrix.shape
        raise ValueError(
            f"{owner}: machines on pairs of classes are needed, got a model of {m} machines on sets of {n} classes"
            f" (graph {quoted(model.code.label['family'])}): fit a new model instead."
        )


def samples_of(model: FittedModel, X: Any, owner: str, name: str) -> Any:
    """Samples as a checked matrix of finite numbers with the features of the model.

    It is dense, or canonical CSR if the machines are on sparse features.
    """
    with error_prefix(f"{owner}: {name} must be a matrix of finite numbers"):
        checked = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], input_name=name)
    if checked.shape[1] != model.n_features:
        raise ValueError(
            f"{owner}: {name} must be (n, {model.n_features}), the features of the fit, got {checked.shape}."
        )
    if linear_model_of(model, owner).is_sparse:
        return canonical_csr(checked)
    return np.asarray(checked.toarray() if sparse.issparse(checked) else checked)


def rows_by_class(model: FittedModel, X: Any, y: Any, owner: str) -> dict[int, Any]:
    """Mapping of class -> its normalised rows of the samples that a model was fitted on."""
    if model.weighted:
        raise ValueError(f"{owner}: {model.weighted} is not stored with the model; refit without it.")
    X, y = samples_of(model, X, owner, "X"), np.asarray(y)
    if y.shape != X.shape[:1]:
        raise ValueError(f"{owner}: y must be ({X.shape[0]},), one label per sample, got {y.shape}.")
    labels = model.classes.labels
    rows = {c: X[np.flatnonzero(y == label)] for c, label in enumerate(labels)}
    # Folds are assigned to rows in their order: with reordered rows, held-out samples could be training samples.
    if other := [labels[c] for c in rows if checksum(rows[c]) != model.classes.checksums[c]]:
        raise ValueError(
            f"{owner}: X must hold the samples that every class of the model was fitted on, in the same order,"
            f" got others of {listed(other)}."
        )
    return {c: model.normalisation(of_class) for c, of_class in rows.items()}


def _pairs_of(pairs: Iterable[Any], owner: str) -> list[tuple[Any, Any]]:
    """Checked pairs of labels. Raise an error that names the first element that is not one."""
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise TypeError(f"{owner}: pairs must be a list of pairs of labels, got {pairs!r}.")
    checked = []
    for pair in pairs:
        if isinstance(pair, str) or not isinstance(pair, Iterable) or len(both := tuple(pair)) != 2:
            raise ValueError(f"{owner}: pairs must be pairs of two labels, got {pair!r} among them.")
        checked.append(both)
    return checked


def _normalised(model: FittedModel, rows: Any, owner: str) -> Any:
    """The rows of a new class as input of the machines. Raise if float32 cannot hold them."""
    with np.errstate(over="ignore", invalid="ignore"):
        normalised = model.normalisation(rows)
        values, scaled = (some.data if sparse.issparse(some) else some for some in (rows, normalised))
        largest = float(np.abs(values).max(initial=0.0))
        held = np.isfinite(np.square(scaled, dtype=np.float32)).all()
    if not held:
        raise ValueError(
            f"{owner}: X_new must have features of the size of the fit's, got values up to {largest:g}."
        )
    return normalised


def _edge_of(model: FittedModel, a: Any, b: Any, owner: str) -> int:
    """The row of a pair of labels among the edges."""
    i, j = sorted((model.classes.index_of(a, owner), model.classes.index_of(b, owner)))
    places = np.flatnonzero((model.edges == (i, j)).all(axis=1))
    if not len(places):
        raise ValueError(f"{owner}: pairs must be edges of the graph, got ({quoted(a)}, {quoted(b)}).")
    return int(places[0])


def _classes_to_join(
    model: FittedModel,
    rows: Mapping[int, Any],
    X_new: Any,
    neighbours: int | None,
) -> list[int]:
    """The hubs of the graph and the nearest classes, as indices."""
    family = model.pairs.graph
    hubs = hubs_of(Pairs(model.edges, len(rows), family))
    k = family.get("neighbours") or USUAL_NEIGHBOURS
    if neighbours is not None:
        k = check_count("add_class", "neighbours", neighbours, 0 if len(hubs) else 1)
    distances = [_distance(rows[c].mean(axis=0), X_new.mean(axis=0)) for c in range(len(rows))]
    nearest = np.argsort(distances, kind="stable")[:k]
    return sorted({int(c) for c in [*hubs, *nearest]})


def _distance(first: Any, second: Any) -> float:
    return float(np.linalg.norm(np.asarray(first) - np.asarray(second)))


def _train(
    model: FittedModel,
    rows: Mapping[int, Any],
    edges: NDArray[np.int64],
    table: ClassTable,
    n_jobs: int | None,
    **changes: float,
) -> Machines:
    """The machines of some edges, trained like those of the model except for the changes."""
    settings = replace(model.settings, **changes)  # type: ignore[arg-type]  # C and tol are floats
    pairs = graphs.Pairs(edges, len(table.labels))
    touched = {c: rows[c] for c in pairs.classes.tolist()}
    whitened = whitened_rows(touched, linear_model_of(model, "train").whitening)
    return train_more(whitened, pairs, settings, table.keys, n_jobs)


def train_more(
    whitened: Mapping[int, ClassFeatures],
    pairs: graphs.Pairs,
    settings: MachineSettings,
    keys: NDArray[np.int64],
    n_jobs: int | None,
) -> Machines:
    """The machines of further pairs, trained like the existing ones of a model with these settings."""
    trained_as = replace(settings, calibration="platt") if settings.turned else settings
    with one_blas_thread():
        machines = train_machines(whitened, pairs, trained_as, thread_count(n_jobs, "PairwiseSVC"), keys=keys)
    return machines.by_distance(settings.scheme) if settings.turned else machines


def _with_machines(
    model: FittedModel,
    table: ClassTable,
    edges: NDArray[np.int64],
    machines: Machines,
    coupled: CoupledCalibration,
) -> FittedModel:
    """A model with these classes and machines, put in the order of the sorted edges."""
    order = graphs.edge_order(edges)
    whitening = linear_model_of(model, "change").whitening
    return replace(
        model,
        classes=table,
        graph=_changed_graph(len(table.labels), edges, model.pairs.graph.get("neighbours")),
        trained=LinearModel(machines.of_edges(order), whitening),
        coupled=coupled.of_edges(order),
        held_out=None,
    )


def _changed_graph(n: int, edges: NDArray[np.int64], neighbours: int | None) -> nx.Graph:
    """A graph that no longer belongs to a family; it keeps the number of neighbours that a new class gets."""
    about = {} if neighbours is None else {"neighbours": neighbours}
    return graphs.model_graph(n, edges.tolist(), "changed", **about)
