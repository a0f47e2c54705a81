"""Linear machines: for every pair of classes or of sets of classes, the SVMs of its folds and their calibration.

`train_tile` is the unit of work. `LinearModel` has the machines of a whole model, trained tile
by tile in threads; `collapse` turns them into one affine map, `AffineLogits`, applied as one matrix product. For sparse
features, weights are kept only on the columns that an edge touches (`sparse_machines`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pairloom.graphs import Decomposition
from pairloom.pipeline.features.sparse_features import canonical_csr
from pairloom.pipeline.machines.contributions import LinearEvidence, feature_names
from pairloom.pipeline.machines.fold_alone import FoldSamples, fit_alone
from pairloom.pipeline.machines.folds import NEVER_HELD_OUT, PARTS, FoldScheme
from pairloom.pipeline.machines.normalisation import Normalisation, Whitening, dense
from pairloom.pipeline.machines.pair_calibration import calibrate_machines, separation
from pairloom.pipeline.machines.pair_kernels import decision_values
from pairloom.pipeline.machines.settings import (
    ClassRows,
    MachineSettings,
    split_class,
    stacked,
    warn_early_stops,
)
from pairloom.pipeline.machines.sparse_machines import (
    Solved,
    SparseLogits,
    SparseRows,
    SparseWeights,
    SupportWeights,
    WeightColumns,
    solve_support,
)
from pairloom.pipeline.machines.svm import rounded_weights, solve_rows
from pairloom.pipeline.threads import in_threads, pieces

__all__ = [
    "Advance",
    "AffineLogits",
    "ClassFeatures",
    "LinearModel",
    "Machines",
    "collapse",
    "no_profiles",
    "train_in_threads",
    "train_linear_model",
    "train_machines",
    "train_tile",
    "whitened_rows",
]


#: The normalised and whitened rows of a class: (n_c, D) float32, or sparse.
ClassFeatures = NDArray[np.float32] | SparseRows


class Machines(NamedTuple):
    """The M machines of each of E edges, as plain arrays. Class i of edge (i, j), i < j, is the positive one.

    For machines on sets of classes, an edge is a column of the code, and its side +1 is the positive one.

    Attributes
    ----------
    coef : (E, M, D) float32, or SparseWeights
        `SparseWeights` for sparse features.
    intercept : (E, M) float64
    platt : (E, M, 2) float64
        Machine m's logit is -(A f + B) for its decision value f. Distances have A = -1 / |w| and B = 0.
    crossfit : (E, M, PARTS, 2) float64
        The same for training samples of each part: parameters fitted without that part. They include thresholds.
    threshold : (E,) float64
        Subtracted from the pair's logit.
    dprime : (E,) float64
        The distance of the two classes on the pair's own held-out logits.
    gap : (E, M) float64
        Relative duality gap at which each machine stopped.
    iterations : (E, M) int64
    profile : (E, PARTS, PROFILE_SIZE) float32
        The log loss of the pair as a function of its slope, kept from training until slopes are fitted: see
        `pair_calibration`. Otherwise (E, PARTS, 0).
    """

    coef: NDArray[np.float32] | SparseWeights
    intercept: NDArray[np.float64]
    platt: NDArray[np.float64]
    crossfit: NDArray[np.float64]
    threshold: NDArray[np.float64]
    dprime: NDArray[np.float64]
    gap: NDArray[np.float64]
    iterations: NDArray[np.int64]
    profile: NDArray[np.float32]

    def unprofiled(self) -> Machines:
        """The same machines without their profiles, which only calibration needs."""
        return self._replace(profile=self.profile[:, :, :0])

    def by_distance(self, scheme: FoldScheme) -> Machines:
        """The same machines with distances as logits. Thresholds and d' remain those of the training."""
        A, coef = np.zeros(self.intercept.shape), self.coef
        norms = coef.norms() if isinstance(coef, SparseWeights) else _norms(coef)
        units = scheme.distance_units(norms)
        np.divide(-1.0, units, out=A, where=units > 0)
        return self._with_slopes(A)

    def by_decision_value(self) -> Machines:
        """The same machines with decision values as logits, without thresholds: LIBSVM's votes."""
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
        """The machines of these edges, then of the added ones."""
        return Machines.concatenated([self, added])

    @classmethod
    def concatenated(cls, several: Sequence[Machines]) -> Machines:
        """The concatenated machines of several sets of edges."""
        return cls(*(_concatenated(values) for values in zip(*several, strict=True)))

    def replaced(self, edges: NDArray[np.integer], fresh: Machines) -> Machines:
        """A copy with fresh machines for some edges."""
        return Machines(*(_replaced(values, edges, new) for values, new in zip(self, fresh, strict=True)))


def _concatenated(several: Sequence[Any]) -> Any:
    """The concatenated values of several sets of edges."""
    return (SparseWeights.concatenated if isinstance(several[0], SparseWeights) else np.concatenate)(several)


def _replaced(values: Any, edges: NDArray[np.integer], fresh: Any) -> Any:
    """A copy with fresh values for some edges."""
    if isinstance(values, SparseWeights):
        return values.replaced(edges, fresh)
    changed = values.copy()
    changed[edges] = fresh
    return changed


#: The arrays of machines that are saved.
SAVED = tuple(name for name in Machines._fields if name != "profile")


def _norms(coef: NDArray[np.float32]) -> NDArray[np.float32]:
    """(E, M) |w| of every machine, a few edges at a time: the squares of all would not fit into the cache."""
    norms = np.empty(coef.shape[:2], coef.dtype)
    for some in pieces(len(coef), TILE):
        norms[some] = np.linalg.norm(coef[some], axis=2)
    return norms


def no_profiles(of_edges: NDArray[Any]) -> NDArray[np.float32]:
    """(E, PARTS, 0) empty profiles."""
    return np.empty((len(of_edges), PARTS, 0), np.float32)


def train_tile(
    class_rows: Mapping[int, ClassFeatures],
    tile: Decomposition,
    settings: MachineSettings,
    *,
    sample_weight: Mapping[int, NDArray[np.float64]] | None = None,
    keys: Sequence[int] | NDArray[np.integer] | None = None,
) -> Machines:
    """Train some pairs, or some columns of a code: the unit of work of threads and of the cluster alike.

    The rows of the classes of a side are stacked in the order of the classes. Folds and parts are drawn per class, so a
    sample is in the same fold for every machine, and is held out from one machine of each pair or column.

    Parameters
    ----------
    class_rows : mapping of class index -> (n_c, D) float32 array, or SparseRows
        At least the classes of the tile.
    tile : Decomposition
        Pairs, or columns of a code.
    settings : MachineSettings
    sample_weight : mapping of class index -> (n_c,) array, optional
        Per-sample multiplier of C, also used in calibration.
    keys : sequence of int, optional
        The number that seeds the folds of each class, by default its index. A class keeps its key when other classes
        are added or removed.

    Returns
    -------
    Machines
        Each depends, to the bit, only on its own classes and the settings. A column with one class on either side, the
        lower one at +1, has the machines of the pair.
    """
    parts = {c: _class_part(class_rows, c, settings, sample_weight, keys) for c in tile.classes.tolist()}
    features = next(iter(class_rows.values()))
    shape = tile.n_machines, settings.scheme.n_machines, features.shape[1]
    coef = SupportWeights(*shape) if isinstance(features, SparseRows) else np.empty(shape, np.float32)
    machines = _empty_machines(tile.n_machines, settings)
    train = _train_alone if settings.alone else _train
    for e, sides in enumerate(tile.sides()):
        first, second = (stacked([parts[c] for c in side.tolist()]) for side in sides)
        train(machines, coef, e, first, second, settings)
    warn_early_stops(machines.gap, settings.tol, "set a lower C, or a larger tol")
    return machines._replace(coef=coef.finished() if isinstance(coef, SupportWeights) else coef)


def _class_part(
    class_rows: Mapping[int, ClassFeatures],
    c: int,
    settings: MachineSettings,
    sample_weight: Mapping[int, NDArray[np.float64]] | None,
    keys: Sequence[int] | NDArray[np.integer] | None,
) -> ClassRows:
    rows = class_rows[c]
    if not isinstance(rows, SparseRows):
        rows = np.ascontiguousarray(rows, np.float32)
    key = c if keys is None else int(keys[c])
    return split_class(rows, key, settings, None if sample_weight is None else sample_weight[c])


def _train(
    machines: Machines,
    coef: NDArray[np.float32] | SupportWeights,
    e: int,
    first: ClassRows,
    second: ClassRows,
    settings: MachineSettings,
) -> None:
    """Fit and calibrate the machines of one pair of sides, and write them at index e."""
    scheme = settings.scheme
    rows, C, weight, folds, parts = stacked([first, second])
    y = np.where(np.arange(len(rows)) < len(first.rows), 1.0, -1.0)
    solution, weights, f, norms = _solved(rows, y, scheme.costs(folds, C), settings)
    if isinstance(coef, SupportWeights):
        coef.put(e, rows.support, weights)
    else:
        coef[e] = weights
    machines.intercept[e] = solution.intercept
    machines.gap[e], machines.iterations[e] = solution.gap, solution.iterations
    profile = np.empty((PARTS, settings.profile_size))
    machines.dprime[e], machines.threshold[e] = calibrate_machines(
        f,
        y,
        weight,
        folds,
        parts,
        scheme,
        norms,
        settings.by_distance,
        settings.thresholds,
        machines.platt[e],
        machines.crossfit[e],
        profile,
    )
    machines.profile[e] = profile


def _train_alone(
    machines: Machines,
    coef: Any,
    e: int,
    first: ClassRows,
    second: ClassRows,
    settings: MachineSettings,
) -> None:
    """The same for machines that are also standardised and calibrated on the fold that they are fitted on."""
    rows, C, weight, folds, inner = stacked([first, second])
    y = np.where(np.arange(len(rows)) < len(first.rows), 1.0, -1.0)
    for k in range(settings.folds):
        seen = (folds == k) | (folds == NEVER_HELD_OUT)
        samples = FoldSamples(rows[seen], y[seen], C[seen], weight[seen], inner[seen])
        machine = fit_alone(samples, settings.tol, settings.max_iterations)
        coef[e, k], machines.intercept[e, k], machines.platt[e, k] = machine[:3]
        machines.gap[e, k], machines.iterations[e, k] = machine[3:]
    machines.crossfit[e], machines.threshold[e] = machines.platt[e][:, None], 0.0
    f, _ = decision_values(rows, coef[e], machines.intercept[e])
    machines.dprime[e] = separation(f, y, folds, inner, settings.scheme, machines.platt[e])


def _solved(
    rows: ClassFeatures, y: NDArray[np.float64], upper: NDArray[np.float64], settings: MachineSettings
) -> Solved:
    """The machines of one problem, on dense rows or on sparse ones."""
    limits = settings.tol, settings.max_iterations
    if isinstance(rows, SparseRows):
        return solve_support(rows, y, upper, *limits)
    solution, coef = solve_rows(rows, y, upper, *limits)
    coef = rounded_weights(coef, settings.tol)
    return Solved(solution, coef, *decision_values(rows, coef, solution.intercept))


def _empty_machines(n_edges: int, settings: MachineSettings) -> Machines:
    """Uninitialised machines, without weights."""
    n_machines = settings.scheme.n_machines
    return Machines(
        coef=np.empty((n_edges, n_machines, 0), np.float32),
        intercept=np.empty((n_edges, n_machines)),
        platt=np.empty((n_edges, n_machines, 2)),
        crossfit=np.empty((n_edges, n_machines, PARTS, 2)),
        threshold=np.empty(n_edges),
        dprime=np.empty(n_edges),
        gap=np.empty((n_edges, n_machines)),
        iterations=np.empty((n_edges, n_machines), np.int64),
        profile=np.empty((n_edges, PARTS, settings.profile_size), np.float32),
    )


#: Edges whose weights are multiplied by slopes at once.
_EDGES_AT_ONCE = 1024
#: Edges per tile: a tenth of a second of work, so that a progress bar moves and threads finish together.
TILE = 64

#: Called with the number of edges that were just trained.
Advance = Callable[[int], object]
Trained = TypeVar("Trained")


class LinearModel(NamedTuple):
    """Machines, and the whitening of the rows they were trained on."""

    machines: Machines
    whitening: Whitening

    @property
    def n_edges(self) -> int:
        """E, the number of trained pairs, or pairs of sets."""
        return len(self.machines.coef)

    def by_distance(self, scheme: FoldScheme) -> LinearModel:
        """The same machines with distances as logits."""
        return self._replace(machines=self.machines.by_distance(scheme))

    @property
    def profile(self) -> NDArray[np.float32]:
        """(E, PARTS, PROFILE_SIZE) the profiles of the pairs, kept from training until slopes are fitted."""
        return self.machines.profile

    def unprofiled(self) -> LinearModel:
        """The same machines without their profiles."""
        return self._replace(machines=self.machines.unprofiled())

    def by_decision_value(self) -> LinearModel:
        """The same machines with decision values as logits."""
        return self._replace(machines=self.machines.by_decision_value())

    @property
    def is_sparse(self) -> bool:
        """Whether the machines were trained on sparse features."""
        return isinstance(self.machines.coef, SparseWeights)

    def collapsed(self, shares: NDArray[np.float64]) -> AffineLogits | SparseLogits:
        """The mean of each edge's machines, weighted by `shares` (M,), as one map of normalised samples."""
        return collapse(self.machines, shares, self.whitening)

    def prepared(self, X: Any, normalisation: Normalisation) -> Any:
        """Samples in the form that the machines take: normalised, and dense or sparse as in the fit."""
        return normalisation(canonical_csr(X) if self.is_sparse else dense(X))

    def held_out_logits(
        self, shares: NDArray[np.float64], X: Any, parts: NDArray[np.integer]
    ) -> NDArray[np.float32]:
        """(E, R) logits of normalised training samples with these shares, each with the parameters of its part.

        The logits of a sample are contiguous in memory: callers read sample by sample.
        """
        machines, rows = self.machines, self.whitening(X)
        logits = np.zeros((rows.shape[0], self.n_edges), np.float32)
        for m in np.flatnonzero(shares):
            f = _products(rows, machines.coef, int(m))
            for part in np.unique(parts):
                A, B = shares[m] * machines.crossfit[:, m, part].T
                slope, shift = A.astype(np.float32), (A * machines.intercept[:, m] + B).astype(np.float32)
                for r in np.flatnonzero(parts == part):
                    logits[r] -= slope * f[r] + shift
        return logits.T

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of a saved model, by name."""
        machines = {name: getattr(self.machines, name) for name in SAVED}
        if isinstance(coef := machines["coef"], SparseWeights):
            machines = {**coef.arrays(), **{name: machines[name] for name in SAVED if name != "coef"}}
        return {
            **{f"machines/{name}": values for name, values in machines.items()},
            **{f"whitening/{name}": values for name, values in self.whitening._asdict().items()},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> LinearModel:
        """The machines from their saved `arrays`."""
        machines: dict[str, Any] = {
            name.removeprefix("machines/"): values
            for name, values in arrays.items()
            if name.startswith("machines/")
        }
        if "coef" not in machines:
            machines["coef"] = SparseWeights.from_arrays(machines, len(arrays["centre"]))
        return cls(
            Machines(**{name: machines[name] for name in SAVED}, profile=no_profiles(machines["dprime"])),
            Whitening(*(arrays[f"whitening/{name}"] for name in Whitening._fields)),
        )

    @property
    def kernel(self) -> None:
        """None: linear machines have no kernel."""

    def described(self, C: float) -> tuple[str, str]:
        """The kernel and C, for a summary."""
        return "linear", f"{C:.4g}"

    def names_of_inputs(
        self, names: Any, edges: object, labels: object, ids: object = ()
    ) -> NDArray[np.object_]:
        """(D,) the names of the terms of the logits: the features."""
        return feature_names(names, self.machines.coef.shape[2])


def _products(rows: Any, coef: NDArray[np.float32] | SparseWeights, m: int) -> NDArray[np.float32]:
    """(R, E) the products of rows (R, D) with the weights of machine m of every edge."""
    if not isinstance(coef, SparseWeights):
        return np.asarray(np.ascontiguousarray(rows, np.float32) @ coef[:, m].T)
    f = np.zeros((rows.shape[0], len(coef)), np.float32)
    WeightColumns.of(coef.of_machine(m)).add_products(rows, f)
    return f


def train_in_threads(
    decomposition: Decomposition,
    train: Callable[[Decomposition], Trained],
    n_threads: int,
    advance: Advance | None = None,
) -> list[Trained]:
    """Train all machines in threads, a tile at a time. Returns the results in the order of the tiles.

    Parameters
    ----------
    decomposition : Decomposition
    train : callable
        Train the machines of a tile: some of the pairs, or some columns of the code.
    n_threads : int
    advance : callable, optional
        Called with the number of machines after every tile.
    """

    def work(tile: slice) -> Trained:
        trained = train(decomposition.part(tile))
        if advance is not None:
            advance(tile.stop - tile.start)
        return trained

    # Tiles of pairs and of columns have about the same number of classes in all, hence of rows.
    size = max(1, int(2 * TILE / decomposition.classes_per_machine))
    return in_threads(work, pieces(decomposition.n_machines, size), n_threads)


def whitened_rows(rows: Mapping[int, Any], whitening: Whitening) -> dict[int, ClassFeatures]:
    """Mapping of class -> whitened rows, from normalised rows (n_c, D). CSR rows are not whitened."""
    return {
        c: SparseRows.of(X) if sparse.issparse(X) else np.ascontiguousarray(whitening(X), np.float32)
        for c, X in rows.items()
    }


def train_machines(
    whitened: Mapping[int, ClassFeatures],
    decomposition: Decomposition,
    settings: MachineSettings,
    n_threads: int = 1,
    advance: Advance | None = None,
    **of_classes: Any,
) -> Machines:
    """Train all pairs, or the columns of a code, on whitened rows; keyword arguments go to `train_tile`."""
    parts = train_in_threads(
        decomposition, lambda tile: train_tile(whitened, tile, settings, **of_classes), n_threads, advance
    )
    return Machines.concatenated(parts)


def train_linear_model(
    rows: Mapping[int, Any],
    decomposition: Decomposition,
    settings: MachineSettings,
    whitening: Whitening,
    n_threads: int = 1,
    advance: Advance | None = None,
    **of_classes: Any,
) -> LinearModel:
    """Train all pairs, or the columns of a code.

    ``rows`` is a mapping of class -> (n_c, D) normalised rows, dense or CSR.
    """
    whitened = whitened_rows(rows, whitening)
    return LinearModel(
        train_machines(whitened, decomposition, settings, n_threads, advance, **of_classes), whitening
    )


class AffineLogits(NamedTuple):
    """The logit of edge e for a sample x is ``weights[e] @ x + bias[e]``: (E, D) and (E,) float32."""

    weights: NDArray[np.float32]
    bias: NDArray[np.float32]

    def __call__(self, X: NDArray[np.floating]) -> NDArray[np.float32]:
        """(E, R) float32 logits of samples X (R, D)."""
        logits: NDArray[np.float32] = self.weights @ np.ascontiguousarray(X, np.float32).T
        logits += self.bias[:, None]
        return logits

    def by_sample(self, X: NDArray[np.floating]) -> NDArray[np.float32]:
        """(R, E) float32 logits of samples X (R, D), contiguous per sample."""
        logits: NDArray[np.float32] = np.ascontiguousarray(X, np.float32) @ self.weights.T
        logits += self.bias
        return logits

    def calibrated(self, slope: NDArray[np.float64], shift: NDArray[np.float64]) -> AffineLogits:
        """The map with logits ``slope[e] * l + shift[e]``, where l are the logits of this one."""
        weights = np.empty_like(self.weights)
        # Some edges at a time: a copy of all weights in double precision would be twice as large as the map.
        for some in pieces(len(weights), _EDGES_AT_ONCE):
            np.multiply(self.weights[some], slope[some, None], out=weights[some], casting="same_kind")
        return AffineLogits(weights, (self.bias * slope + shift).astype(np.float32))

    def ranking(self, potentials: Callable[[NDArray[np.float32]], NDArray[np.float32]]) -> AffineLogits:
        """The ranking of the classes as an affine map of samples: ``potentials`` is linear in the logits (E, R)."""
        return AffineLogits(
            np.ascontiguousarray(potentials(self.weights)), potentials(self.bias[:, None])[:, 0]
        )

    def evidence(self, X: Any, normalisation: Normalisation, names: NDArray[np.object_]) -> LinearEvidence:
        """The contributions to the logits of one raw sample X (1, D); ``names`` are the names of the features."""
        return LinearEvidence(self, dense(X)[0], normalisation, names)


def collapse(
    machines: Machines, shares: NDArray[np.float64], whitening: Whitening | None = None
) -> AffineLogits | SparseLogits:
    """The mean of an edge's linear machines, weighted by `shares` (M,), as one affine map.

    l_m(x) = -(A_m f_m(x) + B_m) and f_m is affine, so averaging costs nothing at prediction [S 2.3]. The whitening, if
    given, is folded into the map, which then takes features that are not whitened.
    """
    A, B = machines.platt[..., 0] * shares, machines.platt[..., 1] * shares
    bias = -(A * machines.intercept + B).sum(axis=1) - machines.threshold
    if isinstance(machines.coef, SparseWeights):
        return SparseLogits(machines.coef.combined(-A), bias.astype(np.float32))
    weights = -np.einsum("em,emd->ed", A.astype(np.float32), machines.coef, optimize=True)
    if whitening is not None:
        weights, bias = whitening.fold_back(weights, bias)
    return AffineLogits(np.ascontiguousarray(weights, np.float32), bias.astype(np.float32))
