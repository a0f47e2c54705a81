"""Machines with a kernel: for every edge of the model graph, the SVMs of its folds and their calibration.

The machines of an edge are trained on one Gram matrix, that of the rows of its classes, by the SMO of `svm.solve_gram`.
A machine is stored as its dual coefficients on its support vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.machines.dealt_class import DealtClass, together
from pairloom.pipeline.machines.early_stops import warn_early_stops
from pairloom.pipeline.machines.folds import NEVER_HELD_OUT, PARTS, FoldScheme
from pairloom.pipeline.machines.gram_blocks import GramBlocks
from pairloom.pipeline.machines.pair_kernels import (
    calibrate,
    dprime,
    measure_distances,
    out_of_fold_logits,
    thresholds_of,
)
from pairloom.pipeline.machines.settings import MachineSettings
from pairloom.pipeline.machines.svm import DualSolution, solve_gram

__all__ = [
    "KernelMachines",
    "KernelProblem",
    "machines_followed_by",
    "machines_of",
    "train_kernel_columns",
    "train_kernel_edges",
    "train_kernel_problem",
]


_ADVICE = "lower C, raise tol, or choose another gamma"
#: Steps of SMO per row, at most. Machines take a few; only kernel values that are mostly rounding errors, such as those
#: of a polynomial on features far from zero, would take all of `max_iterations`, which for few rows is minutes.
_STEPS_PER_ROW = 2000
#: Steps per row after which a machine goes over to float64. Machines take 10 or 20, more with a large C; in float32 a
#: few of these then go on for minutes, since rounding errors hide the last of the duality gap.
_FLOAT32_STEPS_PER_ROW = 100


class KernelMachines(NamedTuple):
    """The M machines of each of E edges, as plain arrays. Class i of edge (i, j), i < j, is the positive one.

    Training rows are counted class by class. The decision value of machine m of edge e is the sum of
    ``beta[z, m] * k(x, row[z])`` over ``start[e] <= z < start[e + 1]``, plus its intercept.

    Attributes
    ----------
    start : (E + 1,) int64
    row : (Z,) int64
        The support vectors of each edge, ascending: all training rows on which any of its machines has a coefficient.
    beta : (Z, M) float64
        Dual coefficients, positive for rows of class i and negative for rows of class j.
    intercept : (E, M) float64
    norm : (E, M) float64
        |w| in the feature space of the kernel.
    platt, crossfit, threshold, dprime, gap, iterations
        As in `linear_machines.Machines`.
    """

    start: NDArray[np.int64]
    row: NDArray[np.int64]
    beta: NDArray[np.float64]
    intercept: NDArray[np.float64]
    norm: NDArray[np.float64]
    platt: NDArray[np.float64]
    crossfit: NDArray[np.float64]
    threshold: NDArray[np.float64]
    dprime: NDArray[np.float64]
    gap: NDArray[np.float64]
    iterations: NDArray[np.int64]

    @property
    def n_edges(self) -> int:
        """E, how many edges are trained."""
        return len(self.intercept)

    def by_distance(self) -> KernelMachines:
        """The same machines with their distances for logits. Thresholds and d' stay those of the training."""
        return self._in_units_of(self.norm)

    def by_decision_value(self) -> KernelMachines:
        """The same machines with their decision values for logits, and without thresholds: LIBSVM's votes."""
        return self._in_units_of(np.ones_like(self.norm))._replace(threshold=np.zeros_like(self.threshold))

    def _in_units_of(self, units: NDArray[np.float64]) -> KernelMachines:
        platt, crossfit = np.empty_like(self.platt), np.empty_like(self.crossfit)
        for e, norms in enumerate(units):
            measure_distances(norms, platt[e], crossfit[e])
        return self._replace(platt=platt, crossfit=crossfit)

    def of_edges(self, edges: NDArray[np.integer]) -> KernelMachines:
        """The machines of some edges."""
        counts = np.diff(self.start)[edges]
        taken = np.concatenate([np.arange(*self.start[e : e + 2]) for e in edges])
        others = {name: values[edges] for name, values in self._asdict().items() if name not in _SPARSE}
        return KernelMachines(_starts(counts), self.row[taken], self.beta[taken], **others)


_SPARSE = ("start", "row", "beta")


class KernelProblem(NamedTuple):
    """The trained machines of one problem: ``beta`` (M, n) on all of its ``row`` (n,), others as in KernelMachines."""

    row: NDArray[np.int64]
    beta: NDArray[np.float64]
    intercept: NDArray[np.float64]
    norm: NDArray[np.float64]
    platt: NDArray[np.float64]
    crossfit: NDArray[np.float64]
    threshold: float
    dprime: float
    gap: NDArray[np.float64]
    iterations: NDArray[np.int64]


def train_kernel_edges(
    grams: GramBlocks,
    edges: NDArray[np.integer],
    classes: Mapping[int, DealtClass],
    settings: MachineSettings,
) -> KernelMachines:
    """Train the machines of some edges: the unit of work of threads and of the cluster alike.

    An edge's machines depend on its two classes and the settings alone, to the bit: not on the other edges.
    """
    problems = [train_kernel_problem(grams, [i], [j], classes, settings) for i, j in edges.tolist()]
    machines = machines_of(problems)
    warn_early_stops(machines.gap, settings.tol, "train_kernel_edges", _ADVICE)
    return machines


def train_kernel_columns(
    grams: GramBlocks,
    columns: NDArray[np.int8],
    classes: Mapping[int, DealtClass],
    settings: MachineSettings,
) -> KernelMachines:
    """Train the machines of some columns (N, m) of a code: sets of classes against each other."""
    machines = machines_of(
        [
            train_kernel_problem(
                grams, np.flatnonzero(side > 0).tolist(), np.flatnonzero(side < 0).tolist(), classes, settings
            )
            for side in columns.T
        ]
    )
    warn_early_stops(machines.gap, settings.tol, "train_kernel_columns", _ADVICE)
    return machines


def train_kernel_problem(
    grams: GramBlocks,
    first: Sequence[int],
    second: Sequence[int],
    classes: Mapping[int, DealtClass],
    settings: MachineSettings,
) -> KernelProblem:
    """Fit and calibrate the machines of one problem: some classes against others.

    Parameters
    ----------
    grams : GramBlocks
    first, second : sequences of classes
        The classes on the positive side, and those on the negative one. Folds are those of each class.
    classes : mapping of class -> DealtClass
        At least those of both sides.
    settings : MachineSettings
    """
    scheme, both = settings.scheme, [*first, *second]
    row, C, weight, folds, parts = together([classes[c] for c in both])
    n_first = sum(len(classes[c].rows) for c in first)
    y = np.where(np.arange(len(row)) < n_first, 1.0, -1.0)
    gram = grams.of(both)
    upper = np.where(scheme.fitted_on[:, folds] | (folds == NEVER_HELD_OUT), C, 0.0)
    beta, intercept, gap, iterations = _solved(gram, y, upper, settings)
    products = (beta.astype(gram.dtype) @ gram).astype(np.float64)  # w.x
    norm = np.sqrt(np.maximum((beta * products).sum(axis=1), 0.0))
    f = products + intercept[:, None]
    platt, crossfit = np.empty((len(f), 2)), np.empty((len(f), PARTS, 2))
    if settings.calibration == "distance":
        measure_distances(norm, platt, crossfit)
    else:
        calibrate(f, y, weight, folds, parts, scheme.calibrated_on, scheme.pooled, platt, crossfit)
    threshold, separation = _judged(f, y, weight, folds, parts, scheme, platt, crossfit, settings.thresholds)
    return KernelProblem(row, beta, intercept, norm, platt, crossfit, threshold, separation, gap, iterations)


def _solved(
    gram: NDArray[Any], y: NDArray[np.float64], upper: NDArray[np.float64], settings: MachineSettings
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """beta (M, n), and intercept, relative gap and iterations (M,) of fits with these bounds."""
    beta, fits = np.zeros(upper.shape), []
    for m, bounds in enumerate(upper):
        chosen = np.flatnonzero(bounds)
        part = slice(None) if 2 * len(chosen) > len(y) else chosen
        # Steps of SMO pass over all rows that they are given: without most of them they are worth a copy.
        own = gram if isinstance(part, slice) else gram[np.ix_(part, part)]
        solution = _solution(own, y[part], bounds[part], settings)
        beta[m, part] = solution.alpha[0] * y[part]
        fits.append((solution.intercept[0], solution.gap[0], solution.iterations[0]))
    intercept, gap, iterations = (np.array(values) for values in zip(*fits, strict=True))
    return beta, intercept.astype(np.float64), gap.astype(np.float64), iterations.astype(np.int64)


def _solution(
    gram: NDArray[Any], y: NDArray[np.float64], bounds: NDArray[np.float64], settings: MachineSettings
) -> DualSolution:
    """One fit, in the type of the Gram matrix unless that is too coarse for it."""
    most = min(settings.max_iterations, _STEPS_PER_ROW * len(gram))
    if gram.dtype == np.float32 and most > (few := _FLOAT32_STEPS_PER_ROW * len(gram)):
        solution = solve_gram(gram, y, bounds, settings.tol, few)
        if solution.converged[0] or not _holds_distances(gram):
            return solution
    return solve_gram(gram.astype(np.float64, copy=False), y, bounds, settings.tol, most)


def _holds_distances(gram: NDArray[Any]) -> bool:
    """Whether squared distances in feature space are clearly larger than the rounding errors of the kernel values."""
    spread = np.diag(gram).mean(dtype=np.float64) - gram.mean(dtype=np.float64)
    return bool(spread > 1e3 * np.finfo(gram.dtype).eps * np.abs(gram).max())


def _judged(
    f: NDArray[np.float64],
    y: NDArray[np.float64],
    weight: NDArray[np.float64],
    folds: NDArray[np.int64],
    parts: NDArray[np.int64],
    scheme: FoldScheme,
    platt: NDArray[np.float64],
    crossfit: NDArray[np.float64],
    shift: bool,
) -> tuple[float, float]:
    """The threshold of a problem, which goes into `crossfit` too, and d' of its held-out logits."""
    logits = out_of_fold_logits(f, platt.reshape(-1, 1, 2), folds, parts, scheme.out_of_fold)
    separation = float(dprime(logits, int((y > 0).sum())))
    if not shift:
        return 0.0, separation
    return float(thresholds_of(f, y, weight, folds, parts, scheme.out_of_fold, platt, crossfit)), separation


def machines_of(problems: Sequence[KernelProblem]) -> KernelMachines:
    """The machines of problems, without coefficients that are zero for all machines of a problem."""
    used = [np.flatnonzero(problem.beta.any(axis=0)) for problem in problems]
    rows = [problem.row[kept] for problem, kept in zip(problems, used, strict=True)]
    beta = [problem.beta[:, kept].T for problem, kept in zip(problems, used, strict=True)]
    others = (np.array(values) for values in list(zip(*problems, strict=True))[2:])
    return KernelMachines(
        _starts(np.array([len(kept) for kept in used])), np.concatenate(rows), np.concatenate(beta), *others
    )


def machines_followed_by(parts: Sequence[KernelMachines]) -> KernelMachines:
    """The machines of all parts, one after the other."""
    counts = np.concatenate([np.diff(part.start) for part in parts])
    others = (np.concatenate(values) for values in list(zip(*parts, strict=True))[1:])
    return KernelMachines(_starts(counts), *others)


def _starts(counts: NDArray[np.integer]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
