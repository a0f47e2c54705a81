"""The linear machines: for every pair of classes or of sets of classes, the SVMs of its folds and their calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.machines.dealt_class import DealtClass, dealt_class, together
from pairloom.pipeline.machines.early_stops import warn_early_stops
from pairloom.pipeline.machines.folds import PARTS, FoldScheme
from pairloom.pipeline.machines.pair_kernels import train_linear_pair
from pairloom.pipeline.machines.settings import MachineSettings
from pairloom.pipeline.machines.svm import WORKING_SET

__all__ = ["Machines", "train_columns", "train_edges"]


class Machines(NamedTuple):
    """The M machines of each of E edges, as plain arrays. Class i of edge (i, j), i < j, is the positive one.

    Of machines on sets of classes, an edge is a column of the code, and its side +1 is the positive one.

    Attributes
    ----------
    coef : (E, M, D) float32
    intercept : (E, M) float64
    platt : (E, M, 2) float64
        Machine m's logit is -(A f + B) for its decision value f. Distances have A = -1 / |w| and B = 0.
    crossfit : (E, M, PARTS, 2) float64
        The same for a training sample of each part: parameters found without that part. Thresholds are in them.
    threshold : (E,) float64
        Taken off the pair's logit.
    dprime : (E,) float64
        The distance of the two classes on the pair's own held-out logits.
    gap : (E, M) float64
        Relative duality gap at which each machine stopped.
    iterations : (E, M) int64
    """

    coef: NDArray[np.float32]
    intercept: NDArray[np.float64]
    platt: NDArray[np.float64]
    crossfit: NDArray[np.float64]
    threshold: NDArray[np.float64]
    dprime: NDArray[np.float64]
    gap: NDArray[np.float64]
    iterations: NDArray[np.int64]

    def by_distance(self) -> Machines:
        """The same machines with their distances for logits. Thresholds and d' stay those of the training."""
        A = np.zeros(self.intercept.shape)
        np.divide(-1.0, np.linalg.norm(self.coef, axis=2), out=A, where=self.coef.any(axis=2))
        return self._with_slopes(A)

    def by_decision_value(self) -> Machines:
        """The same machines with their decision values for logits, and without thresholds: LIBSVM's votes."""
        return self._with_slopes(np.full(self.intercept.shape, -1.0))._replace(
            threshold=np.zeros_like(self.threshold)
        )

    def _with_slopes(self, A: NDArray[np.float64]) -> Machines:
        """The same machines with the logits -A f."""
        platt = np.stack([A, np.zeros_like(A)], axis=2)
        return self._replace(platt=platt, crossfit=np.repeat(platt[:, :, None], PARTS, axis=2))

    def of_edges(self, edges: NDArray[np.integer] | NDArray[np.bool_] | slice) -> Machines:
        """The machines of some edges."""
        return Machines(**{name: values[edges] for name, values in self._asdict().items()})

    def followed_by(self, added: Machines) -> Machines:
        """The machines of these edges and of more edges after them."""
        more = added._asdict()
        return Machines(
            **{name: np.concatenate([values, more[name]]) for name, values in self._asdict().items()}
        )

    def replaced(self, edges: NDArray[np.integer], fresh: Machines) -> Machines:
        """A copy in which the machines of some edges are others."""
        copy = Machines(**{name: values.copy() for name, values in self._asdict().items()})
        new = fresh._asdict()
        for name, values in copy._asdict().items():
            values[edges] = new[name]
        return copy


def train_edges(
    class_rows: Mapping[int, NDArray[np.float32]],
    edges: NDArray[np.integer],
    settings: MachineSettings,
    *,
    sample_weight: Mapping[int, NDArray[np.float64]] | None = None,
    keys: Sequence[int] | NDArray[np.integer] | None = None,
) -> Machines:
    """Train the machines of some edges: the unit of work of threads and of the cluster alike.

    Parameters
    ----------
    class_rows : mapping of class index -> (n_c, D) float32 array
        At least the classes that the edges name.
    edges : (E, 2) int array, i < j
    settings : MachineSettings
    sample_weight : mapping of class index -> (n_c,) array, optional
        Per-sample multiplier of C, also used in calibration.
    keys : sequence of int, optional
        The number that seeds the folds of each class, by default its index. A class keeps its key when others come and
        go.

    Returns
    -------
    Machines
        An edge's machines depend on its two classes and the settings alone, to the bit: not on the other edges.
    """
    scheme, edges = settings.scheme, np.asarray(edges)
    machines = _empty_machines(len(edges), scheme.n_machines, _n_features(class_rows))
    parts = {c: _class_part(class_rows, c, settings, sample_weight, keys) for c in np.unique(edges).tolist()}
    for e, (i, j) in enumerate(edges.tolist()):
        _train(machines, e, parts[i], parts[j], settings, scheme)
    warn_early_stops(machines.gap, settings.tol, "train_edges", "raise max_iterations or lower C")
    return machines


def train_columns(
    class_rows: Mapping[int, NDArray[np.float32]],
    code: NDArray[np.int8],
    settings: MachineSettings,
    *,
    sample_weight: Mapping[int, NDArray[np.float64]] | None = None,
    keys: Sequence[int] | NDArray[np.integer] | None = None,
) -> Machines:
    """Train the machines of some columns of a code: `train_edges` for sets of classes.

    The rows of the classes of a side are stacked in the order of the classes. Folds and parts are dealt class by class,
    as they are for pairs: a sample is in the same fold of every machine, so it is held out from one machine of each.

    Parameters
    ----------
    class_rows : mapping of class index -> (n_c, D) float32 array
        At least the classes that the columns use.
    code : (N, m) int8 array
        Columns of a code: see `pairloom.graphs.check_code`.
    settings, sample_weight, keys
        As of `train_edges`.

    Returns
    -------
    Machines
        The machines of a column depend on its classes and the settings alone. Those of a column with one class on
        either side, the lower one at +1, are those of the edge, to the bit.
    """
    scheme = settings.scheme
    machines = _empty_machines(code.shape[1], scheme.n_machines, _n_features(class_rows))
    used = np.flatnonzero((code != 0).any(axis=1)).tolist()
    parts = {c: _class_part(class_rows, c, settings, sample_weight, keys) for c in used}
    for q, column in enumerate(code.T):
        positive, negative = (
            together([parts[c] for c in np.flatnonzero(column == side).tolist()]) for side in (1, -1)
        )
        _train(machines, q, positive, negative, settings, scheme)
    warn_early_stops(machines.gap, settings.tol, "train_columns", "raise max_iterations or lower C")
    return machines


def _class_part(
    class_rows: Mapping[int, NDArray[np.float32]],
    c: int,
    settings: MachineSettings,
    sample_weight: Mapping[int, NDArray[np.float64]] | None,
    keys: Sequence[int] | NDArray[np.integer] | None,
) -> DealtClass:
    rows = np.ascontiguousarray(class_rows[c], np.float32)
    key = c if keys is None else int(keys[c])
    return dealt_class(rows, key, settings, None if sample_weight is None else sample_weight[c])


def _train(
    machines: Machines,
    e: int,
    first: DealtClass,
    second: DealtClass,
    settings: MachineSettings,
    scheme: FoldScheme,
) -> None:
    """Fit and calibrate the machines of one pair of sides, and write them in place e."""
    machines.dprime[e], machines.threshold[e] = train_linear_pair(
        first.rows,
        second.rows,
        first.C,
        second.C,
        np.concatenate([first.weight, second.weight]),
        np.concatenate([first.folds, second.folds]),
        np.concatenate([first.parts, second.parts]),
        scheme.fitted_on,
        scheme.calibrated_on,
        scheme.pooled,
        scheme.out_of_fold,
        settings.calibration == "distance",
        settings.thresholds,
        settings.tol,
        settings.max_iterations,
        WORKING_SET,
        machines.coef[e],
        machines.intercept[e],
        machines.platt[e],
        machines.crossfit[e],
        machines.gap[e],
        machines.iterations[e],
    )


def _n_features(class_rows: Mapping[int, NDArray[np.float32]]) -> int:
    return int(next(iter(class_rows.values())).shape[1])


def _empty_machines(n_edges: int, n_machines: int, n_features: int) -> Machines:
    return Machines(
        coef=np.empty((n_edges, n_machines, n_features), np.float32),
        intercept=np.empty((n_edges, n_machines)),
        platt=np.empty((n_edges, n_machines, 2)),
        crossfit=np.empty((n_edges, n_machines, PARTS, 2)),
        threshold=np.empty(n_edges),
        dprime=np.empty(n_edges),
        gap=np.empty((n_edges, n_machines)),
        iterations=np.empty((n_edges, n_machines), np.int64),
    )
