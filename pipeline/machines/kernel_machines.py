"""Machines with a kernel: for every edge of the model graph, the SVMs of its folds and their calibration.

The machines of an edge are trained on the Gram matrix of the rows of its two classes, by the SMO of `svm.solve_gram`. A
machine is stored as its dual coefficients on its support vectors. `KernelModel` has the machines of a whole model, and
`KernelLogits` applies them to blocks of kernel values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pairloom.graphs import Decomposition
from pairloom.pipeline.machines.contributions import KernelEvidence
from pairloom.pipeline.machines.folds import PARTS, FoldScheme
from pairloom.pipeline.machines.kernel_function import GramBlocks, KernelFunction
from pairloom.pipeline.machines.linear_machines import Advance, no_profiles, train_in_threads
from pairloom.pipeline.machines.normalisation import Normalisation, dense
from pairloom.pipeline.machines.pair_calibration import calibrate_machines
from pairloom.pipeline.machines.pair_kernels import measure_distances
from pairloom.pipeline.machines.settings import (
    ClassRows,
    MachineSettings,
    split_class,
    stacked,
    warn_early_stops,
)
from pairloom.pipeline.machines.svm import DualSolution, solve_gram
from pairloom.pipeline.threads import pieces

__all__ = [
    "VECTORS_AT_ONCE",
    "KernelLogits",
    "KernelMachines",
    "KernelModel",
    "KernelProblem",
    "machines_followed_by",
    "machines_of",
    "names_of_vectors",
    "train_kernel_model",
    "train_kernel_problem",
    "train_kernel_tile",
]


_ADVICE = "set a lower C, a larger tol, or another gamma"
#: Most steps of SMO per row. Machines take 10 or 20, more with a large C. If kernel values are mostly rounding errors,
#: such as those of a polynomial on features far from zero, a fit would take all of `max_iterations`: minutes.
_STEPS_PER_ROW = 2000
#: Steps per row after which a machine is solved in float64 instead. In float32 a few machines with a large C would go
#: on for minutes, since rounding errors hide the last part of the duality gap.
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
    platt, crossfit, threshold, dprime, gap, iterations, profile
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
    profile: NDArray[np.float32]

    @property
    def n_edges(self) -> int:
        """E, the number of trained edges."""
        return len(self.intercept)

    def unprofiled(self) -> KernelMachines:
        """The same machines without their profiles, which only calibration needs."""
        return self._replace(profile=self.profile[:, :, :0])

    def by_distance(self, scheme: FoldScheme) -> KernelMachines:
        """The same machines with distances as logits. Thresholds and d' remain those of the training."""
        return self._in_units_of(scheme.distance_units(self.norm))

    def by_decision_value(self) -> KernelMachines:
        """The same machines with decision values as logits, without thresholds: LIBSVM's votes."""
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
_SAVED = tuple(name for name in KernelMachines._fields if name != "profile")


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
    profile: NDArray[np.float32]


def train_kernel_tile(
    grams: GramBlocks, tile: Decomposition, classes: Mapping[int, ClassRows], settings: MachineSettings
) -> KernelMachines:
    """Train some pairs, or some columns of a code: the unit of work of threads and of the cluster alike.

    A machine depends, to the bit, only on its own classes and the settings.
    """
    problems = [
        train_kernel_problem(grams, first.tolist(), second.tolist(), classes, settings)
        for first, second in tile.sides()
    ]
    machines = machines_of(problems)
    warn_early_stops(machines.gap, settings.tol, _ADVICE)
    return machines


def train_kernel_problem(
    grams: GramBlocks,
    first: Sequence[int],
    second: Sequence[int],
    classes: Mapping[int, ClassRows],
    settings: MachineSettings,
) -> KernelProblem:
    """Fit and calibrate the machines of one problem: some classes against others.

    Parameters
    ----------
    grams : GramBlocks
    first, second : sequences of classes
        The classes on the positive and on the negative side. Folds are drawn per class.
    classes : mapping of class -> ClassRows
        At least those of both sides.
    settings : MachineSettings
    """
    scheme, both = settings.scheme, [*first, *second]
    row, C, weight, folds, parts = stacked([classes[c] for c in both])
    n_first = sum(len(classes[c].rows) for c in first)
    y = np.where(np.arange(len(row)) < n_first, 1.0, -1.0)
    gram = grams.of(both)
    beta, intercept, gap, iterations = _solved(gram, y, scheme.costs(folds, C), settings)
    products = (beta.astype(gram.dtype) @ gram).astype(np.float64)  # w.x
    norm = np.sqrt(np.maximum((beta * products).sum(axis=1), 0.0))
    f = products + intercept[:, None]
    platt, crossfit = np.empty((len(f), 2)), np.empty((len(f), PARTS, 2))
    profile = np.empty((PARTS, settings.profile_size))
    separation, threshold = calibrate_machines(
        f,
        y,
        weight,
        folds,
        parts,
        scheme,
        norm,
        settings.by_distance,
        settings.thresholds,
        platt,
        crossfit,
        profile,
    )
    calibrated = (platt, crossfit, threshold, separation)
    return KernelProblem(row, beta, intercept, norm, *calibrated, gap, iterations, profile.astype(np.float32))


def _solved(
    gram: NDArray[Any], y: NDArray[np.float64], upper: NDArray[np.float64], settings: MachineSettings
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """beta (M, n), and intercept, relative gap and iterations (M,) of fits with these bounds."""
    beta, fits = np.zeros(upper.shape), []
    for m, bounds in enumerate(upper):
        chosen = np.flatnonzero(bounds)
        part = slice(None) if 2 * len(chosen) > len(y) else chosen
        # A step of SMO passes over all rows of its matrix, so copying a small part pays off.
        of_part = gram if isinstance(part, slice) else gram[np.ix_(part, part)]
        solution = _solution(of_part, y[part], bounds[part], settings)
        beta[m, part] = solution.alpha[0] * y[part]
        fits.append((solution.intercept[0], solution.gap[0], solution.iterations[0]))
    intercept, gap, iterations = (np.array(values) for values in zip(*fits, strict=True))
    return beta, intercept.astype(np.float64), gap.astype(np.float64), iterations.astype(np.int64)


def _solution(
    gram: NDArray[Any], y: NDArray[np.float64], bounds: NDArray[np.float64], settings: MachineSettings
) -> DualSolution:
    """One fit, in the type of the Gram matrix, or in float64 if float32 is too coarse for it to converge."""
    most = min(settings.max_iterations, _STEPS_PER_ROW * len(gram))
    if gram.dtype == np.float32 and most > (few := _FLOAT32_STEPS_PER_ROW * len(gram)):
        solution = solve_gram(gram, y, bounds, settings.tol, few)
        if solution.converged[0] or not _holds_distances(gram):
            return solution
    return solve_gram(gram.astype(np.float64, copy=False), y, bounds, settings.tol, most)


def _holds_distances(gram: NDArray[Any]) -> bool:
    """Whether squared distances in feature space are well above the rounding errors of the kernel values."""
    spread = np.diag(gram).mean(dtype=np.float64) - gram.mean(dtype=np.float64)
    return bool(spread > 1e3 * np.finfo(gram.dtype).eps * np.abs(gram).max())


def machines_of(problems: Sequence[KernelProblem]) -> KernelMachines:
    """The machines of problems, without rows that have zero coefficients in all machines of a problem."""
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


#: Support vectors whose kernel values are held at once: 8 MiB for a batch of 256 samples.
VECTORS_AT_ONCE = 4096


class KernelLogits(NamedTuple):
    """The logit of edge e for a sample x is the sum over support vectors s of weights[e, s] k(x, s), plus bias[e].

    Attributes
    ----------
    kernel : KernelFunction
    vectors : (S, D) support vectors; for a precomputed kernel (S,) int64, their columns of a kernel matrix
    weights : (E, S) sparse float64
    bias : (E,) float64
    """

    kernel: KernelFunction
    vectors: NDArray[Any]
    weights: sparse.csc_array
    bias: NDArray[np.float64]

    def __call__(self, X: NDArray[np.floating]) -> NDArray[np.float32]:
        """(E, R) float32 logits of normalised samples X (R, D), or of rows of a kernel matrix."""
        logits = np.repeat(self.bias[:, None], len(X), axis=1)
        for piece in pieces(len(self.vectors), VECTORS_AT_ONCE):
            logits += self.weights[:, piece] @ self.kernel_values(self.vectors[piece], X)
        with np.errstate(over="ignore"):
            return logits.astype(np.float32)

    def kernel_values(self, vectors: NDArray[Any], X: NDArray[np.floating]) -> NDArray[np.float64]:
        """(S, R) kernel values of some support vectors and samples."""
        if self.kernel.precomputed:
            return np.ascontiguousarray(X[:, vectors].T, np.float64)
        return self.kernel(vectors, X)

    def calibrated(self, slope: NDArray[np.float64], shift: NDArray[np.float64]) -> KernelLogits:
        """The map with logits ``slope[e] * l + shift[e]``, where l are the logits of this one."""
        weights = sparse.csc_array(sparse.diags_array(slope) @ self.weights)
        return self._replace(weights=weights, bias=self.bias * slope + shift)

    def ranking(self, potentials: object) -> None:
        """None: a ranking would need all kernel values of a sample, which are most of the work."""

    def evidence(self, X: Any, normalisation: Normalisation, names: NDArray[np.object_]) -> KernelEvidence:
        """The contributions to the logits of one raw sample X (1, D); ``names`` are the names of the vectors."""
        values = self.kernel_values(self.vectors, normalisation(dense(X)))[:, 0]
        return KernelEvidence(self, values, names)


class KernelModel(NamedTuple):
    """Machines, their kernel, and their support vectors, without duplicates.

    Attributes
    ----------
    kernel : KernelFunction
    machines : KernelMachines
    vectors : (S, D) array
        The support vectors, normalised, in the order of their training rows. For a precomputed kernel, their columns
        (S,) int64 in the kernel matrix with the training samples.
    """

    kernel: KernelFunction
    machines: KernelMachines
    vectors: NDArray[Any]

    @property
    def n_edges(self) -> int:
        """E, the number of trained pairs."""
        return self.machines.n_edges

    def by_distance(self, scheme: FoldScheme) -> KernelModel:
        """The same machines with distances as logits."""
        return self._replace(machines=self.machines.by_distance(scheme))

    @property
    def profile(self) -> NDArray[np.float32]:
        """(E, PARTS, PROFILE_SIZE) the profiles of the pairs, kept from training until slopes are fitted."""
        return self.machines.profile

    def unprofiled(self) -> KernelModel:
        """The same machines without their profiles."""
        return self._replace(machines=self.machines.unprofiled())

    def by_decision_value(self) -> KernelModel:
        """The same machines with decision values as logits."""
        return self._replace(machines=self.machines.by_decision_value())

    def collapsed(self, shares: NDArray[np.float64]) -> KernelLogits:
        """The mean of each edge's machines, weighted by `shares` (M,), as one map with averaged dual coefficients."""
        machines = self.machines
        return self._weighted(machines.platt, shares, -machines.threshold)

    def prepared(self, X: Any, normalisation: Normalisation) -> NDArray[np.floating]:
        """Samples in the form that the machines take: dense and normalised."""
        return np.asarray(normalisation(dense(X)))

    def held_out_logits(
        self, shares: NDArray[np.float64], X: NDArray[np.floating], parts: NDArray[np.integer]
    ) -> NDArray[np.float32]:
        """(E, R) logits of normalised training samples with these shares, each with the parameters of its part."""
        logits = np.empty((len(X), self.n_edges), np.float32)
        for part in np.unique(parts):
            rows = np.flatnonzero(parts == part)
            crossfit = self.machines.crossfit[:, :, part]
            logits[rows] = self._weighted(crossfit, shares, np.zeros(self.n_edges))(X[rows]).T
        return logits.T

    def _weighted(
        self, platt: NDArray[np.float64], shares: NDArray[np.float64], bias: NDArray[np.float64]
    ) -> KernelLogits:
        """l(x) = -sum over m of shares_m (A_m f_m(x) + B_m), and f_m is linear in the kernel values."""
        machines = self.machines
        A, B = platt[..., 0] * shares, platt[..., 1] * shares
        edge = np.repeat(np.arange(self.n_edges), np.diff(machines.start))
        values = -(machines.beta * A[edge]).sum(axis=1)
        place = np.searchsorted(np.unique(machines.row), machines.row)
        weights = sparse.csc_array((values, (edge, place)), shape=(self.n_edges, len(self.vectors)))
        bias = bias - (A * machines.intercept + B).sum(axis=1)
        return KernelLogits(self.kernel, self.vectors, weights, bias)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of a saved model, by name."""
        machines = {f"machines/{name}": getattr(self.machines, name) for name in _SAVED}
        return {**machines, "support_vectors": self.vectors}

    @classmethod
    def from_arrays(cls, kernel: KernelFunction, arrays: Mapping[str, NDArray[Any]]) -> KernelModel:
        """The machines from their saved `arrays`."""
        saved = {name: arrays[f"machines/{name}"] for name in _SAVED}
        machines = KernelMachines(**saved, profile=no_profiles(arrays["machines/dprime"]))
        return cls(kernel, machines, arrays["support_vectors"])

    def described(self, C: float) -> tuple[str, str]:
        """The kernel and C, for a summary."""
        return self.kernel.described(), f"{C:.4g}"

    def names_of_inputs(
        self, names: object, edges: NDArray[np.int64] | None, labels: NDArray[Any], ids: Sequence[Any] = ()
    ) -> NDArray[np.object_]:
        """(S,) the names of the support vectors: their training rows.

        Rows are named by ``ids`` (S,) if given. Otherwise rows of a kernel matrix have the numbers of its columns, and
        other rows are counted class by class. If ``edges`` are given, the names include the class.
        """
        rows, place = np.unique(self.machines.row, return_inverse=True)
        numbers = self.vectors if self.kernel.precomputed else rows
        classes = None
        if edges is not None:
            edge = np.repeat(np.arange(self.n_edges), np.diff(self.machines.start))
            # The coefficients of a row have the sign of its class in all machines of a pair.
            second = (self.machines.beta.sum(axis=1) < 0).astype(np.int64)
            classes = np.zeros(len(rows), np.int64)
            classes[place] = edges[edge, second]
        return names_of_vectors(ids if len(ids) else numbers.tolist(), classes, labels)


def names_of_vectors(
    rows: Sequence[Any], classes: NDArray[np.int64] | None, labels: NDArray[Any]
) -> NDArray[np.object_]:
    """(S,) the names of support vectors: their training rows, and their classes if given."""
    named = [f"training row {row}" for row in rows]
    if classes is not None:
        named = [f"{name}, {label}" for name, label in zip(named, labels[classes], strict=True)]
    return np.array(named, dtype=object)


def train_kernel_model(
    kernel: KernelFunction,
    X: NDArray[np.floating],
    members: Sequence[NDArray[np.int64]],
    decomposition: Decomposition,
    settings: MachineSettings,
    *,
    weight: NDArray[np.float64] | None = None,
    n_threads: int = 1,
    advance: Advance | None = None,
) -> KernelModel:
    """Train all pairs, or all columns of a code.

    Parameters
    ----------
    kernel : KernelFunction
    X : (n, D) normalised training rows, or their (n, n) kernel matrix if it is precomputed
    members : list of int arrays, the rows of each class
    decomposition : the pairs, or the code
    settings : as for `linear_machines.train_tile`
    weight : (n,) array, optional
        Per-sample multiplier of C, also used in calibration.
    """
    if kernel.precomputed:
        grams = GramBlocks.of_matrix(X, members, settings.tol)
    else:
        grams = GramBlocks.of_rows(kernel, {c: X[rows] for c, rows in enumerate(members)}, settings.tol)
    starts = np.cumsum([0, *map(len, members)]).tolist()
    classes = {
        c: split_class(
            np.arange(starts[c], starts[c + 1]), c, settings, None if weight is None else weight[rows]
        )
        for c, rows in enumerate(members)
    }
    parts = train_in_threads(
        decomposition, lambda tile: train_kernel_tile(grams, tile, classes, settings), n_threads, advance
    )
    machines = machines_followed_by(parts)
    support = np.concatenate(members)[np.unique(machines.row)]
    return KernelModel(kernel, machines, support if kernel.precomputed else X[support])
