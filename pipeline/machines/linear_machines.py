"""The machines: for every edge of the model graph, the linear SVMs of its folds and what calibrates them."""

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from pairloom.graphs.labels import did_you_mean
from pairloom.pipeline.machines.folds import CALIBRATIONS, FIT_ON, class_folds, fold_scheme
from pairloom.pipeline.machines.pair_kernels import train_linear_pair
from pairloom.pipeline.machines.svm import MAX_ITERATIONS, WORKING_SET


@dataclass(frozen=True)
class MachineSettings:
    """How the machines of an edge are trained: plain values, the same for every edge.

    Attributes
    ----------
    C : float
        The cost of an error, in the space the machines see.
    folds : int
    fit_on : {"rest", "fold"}
    calibration : {"average", "crossval"}
        See `folds.fold_scheme`.
    thresholds : bool
        Shift each pair's logit to where it makes fewest errors on samples its machines have not seen [HT 3].
    tol : float
        Duality gap at which a machine is done, relative to its objective.
    max_iterations : int
    seed : int
        With the class it decides the folds.
    """

    C: float = 1.0
    folds: int = 4
    fit_on: str = "rest"
    calibration: str = "average"
    thresholds: bool = False
    tol: float = 1e-3
    max_iterations: int = MAX_ITERATIONS
    seed: int = 0

    def __post_init__(self):
        for name, known in (("fit_on", FIT_ON), ("calibration", CALIBRATIONS)):
            value = getattr(self, name)
            if value not in known:
                raise ValueError(
                    f"MachineSettings: {name} must be one of {', '.join(known)}, got {value!r}."
                    f"{did_you_mean(value, known)}"
                )
        if not self.C > 0:
            raise ValueError(f"MachineSettings: C must be positive, got {self.C!r}.")
        if self.folds < 2:
            raise ValueError(f"MachineSettings: folds must be at least 2, got {self.folds!r}.")

    @property
    def scheme(self):
        return fold_scheme(self.folds, self.fit_on, self.calibration)


def scaled_C(spread: float) -> float:
    """The C that C = "scale" stands for: 10 / mean squared norm of the centred features, their total variance."""
    return 10.0 / spread if spread > 0 else 1.0


class Machines(NamedTuple):
    """The M machines of each of E edges, as plain arrays. Class i of edge (i, j), i < j, is the positive one.

    Attributes
    ----------
    coef : (E, M, D) float32
    intercept : (E, M) float64
    platt : (E, M, 2) float64
        Machine m's logit is -(A f + B) for its decision value f.
    threshold : (E,) float64
        Taken off the pair's logit.
    dprime : (E,) float64
        The distance of the two classes on the pair's own logits, by machines that had not seen the sample.
    gap : (E, M) float64
        Relative duality gap at which each machine stopped.
    iterations : (E, M) int64
    """

    coef: np.ndarray
    intercept: np.ndarray
    platt: np.ndarray
    threshold: np.ndarray
    dprime: np.ndarray
    gap: np.ndarray
    iterations: np.ndarray


def train_edges(class_rows, edges, settings, *, costs=None, weights=None, keys=None):
    """Train the machines of some edges: the unit of work of threads and of the cluster alike.

    Parameters
    ----------
    class_rows : mapping of class index -> (n_c, D) float32 array
        At least the classes that the edges name.
    edges : (E, 2) int array, i < j
    settings : MachineSettings
    costs : mapping of class index -> (n_c,) array, optional
        What C is multiplied by, sample by sample.
    weights : mapping of class index -> (n_c,) array, optional
        The weight of each sample in the calibration.
    keys : sequence of int, optional
        What seeds the folds of each class, by default its index: a class keeps its key when others come and go.

    Returns
    -------
    Machines
        An edge's machines depend on its two classes and the settings alone, to the bit: not on the other edges.
    """
    scheme, edges = settings.scheme, np.asarray(edges)
    machines = _empty_machines(len(edges), scheme.n_machines, _n_features(class_rows))
    parts = {c: _class_part(class_rows, c, settings, costs, weights, keys) for c in np.unique(edges).tolist()}
    for e, (i, j) in enumerate(edges.tolist()):
        first, second = parts[i], parts[j]
        machines.dprime[e], machines.threshold[e] = train_linear_pair(
            first.rows,
            second.rows,
            first.cost,
            second.cost,
            np.concatenate([first.weight, second.weight]),
            np.concatenate([first.folds, second.folds]),
            scheme.fitted_on,
            scheme.calibrated_on,
            scheme.pooled,
            scheme.out_of_fold,
            settings.thresholds,
            settings.tol,
            settings.max_iterations,
            WORKING_SET,
            machines.coef[e],
            machines.intercept[e],
            machines.platt[e],
            machines.gap[e],
            machines.iterations[e],
        )
    _warn_early_stops(machines.gap, settings)
    return machines


class _ClassPart(NamedTuple):
    """What an edge needs of one of its classes."""

    rows: np.ndarray
    cost: np.ndarray
    weight: np.ndarray
    folds: np.ndarray


def _class_part(class_rows, c, settings, costs, weights, keys):
    rows = np.ascontiguousarray(class_rows[c], np.float32)
    ones = np.ones(len(rows))
    return _ClassPart(
        rows=rows,
        cost=settings.C * (ones if costs is None else np.asarray(costs[c], np.float64)),
        weight=ones if weights is None else np.asarray(weights[c], np.float64),
        folds=class_folds(len(rows), settings.folds, settings.seed, c if keys is None else int(keys[c])),
    )


def _n_features(class_rows):
    return next(iter(class_rows.values())).shape[1]


def _empty_machines(n_edges, n_machines, n_features):
    return Machines(
        coef=np.empty((n_edges, n_machines, n_features), np.float32),
        intercept=np.empty((n_edges, n_machines)),
        platt=np.empty((n_edges, n_machines, 2)),
        threshold=np.empty(n_edges),
        dprime=np.empty(n_edges),
        gap=np.empty((n_edges, n_machines)),
        iterations=np.empty((n_edges, n_machines), np.int64),
    )


def _warn_early_stops(gap, settings):
    early = int((gap > settings.tol).sum())
    if early:
        warnings.warn(
            f"train_edges: {early} of {gap.size} machines stopped before the relative duality gap was"
            f" {settings.tol:g} (the largest is {gap.max():.1e}): raise max_iterations or lower C.",
            ConvergenceWarning,
            stacklevel=3,
        )
