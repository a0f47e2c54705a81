"""The trained tensor: the logits of all pairs on the test samples, trained once and stored beside the results.

The experiments compare models over graphs. An edge's machines do not depend on the other edges, so the logits of a
smaller graph are rows of those of the complete graph, and experiments need not train anything.

The radial machines of [S] are trained here as well: `e1071::svm(x, y, kernel = "radial", probability = TRUE)` on one
fold, gamma = 1 / D. Like those of `machines.fold_alone` they standardise their columns by their own fold, so no two of
them share a kernel matrix. That makes them slow to apply, so `PairwiseSVC` does not offer them. Here every machine is
applied to the test samples after its training, and then dropped.
"""

import io
import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.calibration.coupled_calibration import calibrate_scale
from pairloom.pipeline.calibration.held_out import (
    CALIBRATION_SAMPLES,
    HeldOutSamples,
    draw_samples,
    out_of_fold_edge_logits,
)
from pairloom.pipeline.completion.complete import plan_completion
from pairloom.pipeline.completion.completion_kernels import scatter
from pairloom.pipeline.completion.couplers import coupler_of
from pairloom.pipeline.completion.shortlist import shortlist_size
from pairloom.pipeline.completion.slab import couple_slab
from pairloom.pipeline.experiments.code_digest import code_digest
from pairloom.pipeline.experiments.network_answers import (
    NetworkAnswers,
    picture_files,
    pictures_digest,
    softmax_answers,
    stored_answers,
)
from pairloom.pipeline.features.embedded_sets import EMBEDDED
from pairloom.pipeline.features.feature_set import FeatureSet, load_features
from pairloom.pipeline.features.moments import mean_distances
from pairloom.pipeline.features.source_files import DATA_FOLDER
from pairloom.pipeline.machines.fold_alone import standardisation
from pairloom.pipeline.machines.folds import INNER_FOLDS, NEVER_HELD_OUT
from pairloom.pipeline.machines.linear_machines import Advance, LinearModel, train_linear_model
from pairloom.pipeline.machines.normalisation import centring
from pairloom.pipeline.machines.pair_calibration import fit_platt, separation
from pairloom.pipeline.machines.settings import MachineSettings, scaled_C, split_class, stacked
from pairloom.pipeline.machines.svm import solve_gram
from pairloom.pipeline.storage.atomic_file import write_atomically
from pairloom.pipeline.threads import one_blas_thread

Floats = NDArray[np.float32]


def radial_logits(
    class_rows: Mapping[int, Floats],
    edges: NDArray[np.integer],
    settings: MachineSettings,
    X_test: Floats,
    progress: Advance | None = None,
) -> tuple[Floats, NDArray[np.float64]]:
    """(E, R) logits of test samples, and (E,) d', of radial machines on one fold each; `progress(1)` per pair."""
    logits, dprime = np.zeros((len(edges), len(X_test)), np.float32), np.empty(len(edges))
    for e, pair in enumerate(edges.tolist()):
        classes = [split_class(class_rows[c], c, settings) for c in pair]
        rows, C, weight, folds, inner = stacked(classes)
        y = np.where(np.arange(len(rows)) < len(classes[0].rows), 1.0, -1.0)
        platt, f = np.empty((settings.folds, 2)), np.empty((settings.folds, len(rows)))
        for k in range(settings.folds):
            own = (folds == k) | (folds == NEVER_HELD_OUT)
            scored = np.concatenate([rows, X_test])
            values, platt[k] = _decided(rows[own], y[own], C[own], weight[own], inner[own], scored, settings)
            f[k] = values[: len(rows)]
            logits[e] -= (platt[k, 0] * values[len(rows) :] + platt[k, 1]) / settings.folds
        dprime[e] = separation(f, y, folds, inner, settings.scheme, platt)
        if progress is not None:
            progress(1)
    return logits, dprime


def _decided(
    rows: Floats,
    y: NDArray[np.float64],
    C: NDArray[np.float64],
    weight: NDArray[np.float64],
    inner: NDArray[np.int64],
    scored: Floats,
    settings: MachineSettings,
) -> tuple[NDArray[np.float64], tuple[float, float]]:
    """Decision values of some samples by the machine of one fold, and its sigmoid; see `fold_alone.fit_alone`."""
    mean, deviation = standardisation(rows)
    own, others = (((some - mean) / deviation).astype(np.float32) for some in (rows, scored))
    gram = radial_kernel(own, own)
    upper = np.where(np.vstack([inner == np.arange(INNER_FOLDS)[:, None], np.zeros(len(y), bool)]), 0.0, C)
    solution = solve_gram(gram, y, upper, settings.tol, settings.max_iterations)
    beta = solution.alpha * y
    f = beta @ gram + solution.intercept[:, None]
    by = np.where(inner == NEVER_HELD_OUT, INNER_FOLDS, inner)
    sigmoid = fit_platt(f[by, np.arange(len(y))], y, weight)
    return radial_kernel(others, own) @ beta[-1] + solution.intercept[-1], (sigmoid.A, sigmoid.B)


def radial_kernel(a: Floats, b: Floats) -> Floats:
    """(m, n) exp(-|a - b|^2 / D)."""
    squares = (a * a).sum(axis=1)[:, None] - 2 * (a @ b.T) + (b * b).sum(axis=1)
    return np.asarray(np.exp(np.maximum(squares, 0) * np.float32(-1 / a.shape[1])))


#: The couplings that the paper compares.
COUPLINGS = ("wlw2", "stratified", "normal")

#: The machines of the experiments: ours, with features in common units and calibration on samples of other folds; and
#: the authors', with either kernel, each of which uses one fold alone [S 2.3].
MACHINES = ("ours", "paper", "paper-radial")
#: The paper's calibration of the machines, and those to compare with it: "Platt's method may not be optimal" [S]. The
#: authors' machines have only the first.
CALIBRATIONS = ("platt", "distance", "gaussian")
#: The scale of the distances is chosen for this coupling.
SCALED_FOR = "stratified"


class TrainedTensor(NamedTuple):
    """Test samples scored by the machines of all pairs, and facts about the pairs from the training samples.

    Attributes
    ----------
    logits : (N, N, R) float32 array, antisymmetric
        Logits by Platt's sigmoids.
    recalibrated : (2, E, R) or (0, E, R) float32 array
        Logits of the same machines by the other `CALIBRATIONS`, in the order of the complete graph's edges: see
        `calibrated`. The authors' machines have none.
    labels : (R,) int array
    classes : tuple of N names
    dprime : (N, N) array
        The distance d' of two classes on the held-out logits (Platt's) of their pair.
    distances : (N, N) array
        Distances between the means of the classes, which are known before training.
    confusion : (N, N) int array
        Confusion of the network on training samples: the "other model" of the cost `confusion` [S 4.3].
    network : (R, N) float32 array
        The network's probabilities of the test samples.
    stand_in : bool
        Whether a softmax layer on the features stands in for the network: see `network_answers`.
    files : tuple of R str
        The picture of every sample, relative to the folder of all pictures; empty if there are no pictures.
    synthetic : bool
        Whether the features were drawn rather than measured.
    n_jobs : int
        Threads of its couplings. No result depends on them.
    pictures : Path, optional
        The folder of all pictures, if available.
    """

    logits: np.ndarray
    recalibrated: np.ndarray
    labels: np.ndarray
    classes: tuple[str, ...]
    dprime: np.ndarray
    distances: np.ndarray
    confusion: np.ndarray
    network: np.ndarray
    stand_in: bool = True
    files: tuple[str, ...] = ()
    synthetic: bool = False
    n_jobs: int = -1
    pictures: Path | None = None

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    @property
    def calibrations(self) -> tuple[str, ...]:
        """The calibrations that its machines have."""
        return CALIBRATIONS[: 1 + len(self.recalibrated)]

    def of_classes(self, chosen: Sequence[int]) -> "TrainedTensor":
        """The problem of some classes only: their samples and the pairs among them, renumbered in this order."""
        kept = np.asarray(chosen)
        among = np.ix_(kept, kept)
        place = np.full(self.n_classes, -1)
        place[kept] = np.arange(len(kept))
        samples = self.samples_of(chosen)
        return self._replace(
            logits=self.logits[np.ix_(kept, kept, samples)],
            recalibrated=_among(self.recalibrated, kept, samples, self.n_classes),
            labels=place[self.labels[samples]],
            classes=tuple(self.classes[c] for c in kept),
            dprime=self.dprime[among],
            distances=self.distances[among],
            confusion=self.confusion[among],
            network=self.network[np.ix_(samples, kept)],
            files=tuple(self.files[r] for r in samples) if self.files else (),
        )

    def samples_of(self, chosen: Sequence[int]) -> NDArray[np.int64]:
        """The samples of some classes, ascending."""
        return np.flatnonzero(np.isin(self.labels, chosen))

    def calibrated(self, calibration: str) -> "TrainedTensor":
        """The tensor with the logits of one of the `CALIBRATIONS`; the machines and everything else are the same.

        Logits from distances have one factor for all pairs, which maximises the likelihood of the complete model of all
        classes on held-out training samples. Parts with fewer classes keep this factor. Logits by Gaussians: see
        `gaussian_log_odds`.
        """
        if calibration not in CALIBRATIONS:
            raise ValueError(
                f"calibrated: calibration must be one of {', '.join(CALIBRATIONS)}, got {calibration!r}."
            )
        if calibration == "platt":
            return self
        return self._replace(
            logits=_as_tensor(self.recalibrated[CALIBRATIONS.index(calibration) - 1], self.n_classes)
        )

    def of_edges(self, graph: nx.Graph) -> np.ndarray:
        """(E, R) logits of a graph's edges: the mask."""
        i, j = graphs.edge_array(graph).T
        return np.asarray(self.logits[i, j])

    def probabilities(self, graph: nx.Graph, methods: Sequence[str] = COUPLINGS) -> dict[str, np.ndarray]:
        """(R, N) probabilities of the model over a graph, for each of some couplings."""
        return couple_slab(self.of_edges(graph), plan_completion(graph), list(methods), n_jobs=self.n_jobs)


def machine_settings(X: NDArray[np.floating], machines: str = "ours", seed: int = 0) -> MachineSettings:
    """The settings of some `MACHINES`, all of which are trained on one fold of four.

    The authors' machines [S 2.3] are standardised and calibrated by that fold, with C = 1. Ours have C = "scale", and
    are calibrated on the other folds.
    """
    if machines not in MACHINES:
        raise ValueError(
            f"machine_settings: machines must be one of {', '.join(MACHINES)}, got {machines!r}."
        )
    common: dict[str, Any] = {"folds": 4, "calibration": "platt", "seed": seed}
    if machines != "ours":
        return MachineSettings(C=1.0, fit_on="fold_alone", **common)
    spread = X.var(axis=0, dtype=np.float64).sum()
    return MachineSettings(C=scaled_C(float(spread)), fit_on="fold", **common)


def train_tensor(
    data: FeatureSet,
    settings: MachineSettings,
    progress: Advance | None = None,
    source: str = "",
    *,
    radial: bool = False,
    answers: NetworkAnswers | None = None,
) -> TrainedTensor:
    """Train all pairs of a set and apply them to its test samples. `progress(edges)` is called as tiles end.

    Parameters
    ----------
    data : FeatureSet
    settings : MachineSettings
    progress : callable, optional
    source : str
        The source of the features: a store of pictures has their files and the network's answers.
    radial : bool
        Whether machines, of one fold alone, have a radial kernel.
    answers : NetworkAnswers, optional
        Answers of a network that are neither stored at the source nor come from a softmax layer on the features.
    """
    if data.y_test is None:
        raise ValueError("train_tensor: the test samples must have labels, got none.")
    n = len(data.classes)
    edges = graphs.edge_array(graphs.complete(n))
    logits, recalibrated, separations = (_radial if radial else _linear)(data, edges, settings, progress)
    answers = answers or stored_answers(source) or softmax_answers(data, settings.seed)
    dprime = np.zeros((n, n))
    dprime[edges[:, 0], edges[:, 1]] = dprime[edges[:, 1], edges[:, 0]] = separations
    return TrainedTensor(
        logits=_as_tensor(logits, n),
        recalibrated=recalibrated,
        labels=data.y_test,
        classes=data.classes,
        dprime=dprime,
        distances=np.asarray(mean_distances(data.X_train, data.y_train, n)),
        confusion=answers.confusion,
        network=answers.probabilities,
        stand_in=answers.stand_in,
        files=picture_files(source),
        synthetic=data.synthetic,
    )


class PairScores(NamedTuple):
    """(E, R) logits of test samples, (2 or 0, E, R) by the other calibrations, and (E,) d' of the pairs."""

    logits: NDArray[np.float32]
    recalibrated: NDArray[np.float32]
    dprime: NDArray[np.float64]


def _linear(
    data: FeatureSet, edges: NDArray[np.int64], settings: MachineSettings, progress: Advance | None
) -> PairScores:
    rows = {c: data.X_train[data.y_train == c] for c in range(len(data.classes))}
    with one_blas_thread():
        model = train_linear_model(
            rows,
            graphs.Pairs(edges, len(rows)),
            settings,
            centring(data.X_train),
            os.cpu_count() or 1,
            progress,
        )
        logits = model.collapsed(settings.scheme.shares)(data.X_test)
        others = [] if settings.alone else [_distance_logits, gaussian_logits]
        recalibrated = [function(model, data, settings) for function in others]
    shape = (len(others), *logits.shape)
    return PairScores(logits, np.array(recalibrated, np.float32).reshape(shape), model.machines.dprime)


def _radial(
    data: FeatureSet, edges: NDArray[np.int64], settings: MachineSettings, progress: Advance | None
) -> PairScores:
    X_train, X_test = (np.asarray(X, np.float32) for X in (data.X_train, data.X_test))
    rows = {c: X_train[data.y_train == c] for c in range(len(data.classes))}
    with one_blas_thread():
        logits, dprime = radial_logits(rows, edges, settings, X_test, progress)
    return PairScores(logits, logits[None][:0], dprime)


def _distance_logits(model: LinearModel, data: FeatureSet, settings: MachineSettings) -> NDArray[np.float32]:
    """(E, R) logits of the same machines calibrated by distance, with the scale that `PairwiseSVC` would choose."""
    by_distance, coupler = model.by_distance(settings.scheme), coupler_of(graphs.complete(len(data.classes)))
    rows, classes, folds, parts = draw_samples(
        data.y_train, CALIBRATION_SAMPLES, settings.folds, settings.seed, whitened=False
    )
    held_out = HeldOutSamples.of_edges(
        out_of_fold_edge_logits(by_distance, settings.scheme, data.X_train[rows], folds, parts),
        classes,
        coupler,
        calibration="distance",
        shortlist=shortlist_size("auto", len(data.classes)),
    )
    scale = np.float32(calibrate_scale(held_out, SCALED_FOR, n_jobs=-1).scale)
    return np.asarray(scale * by_distance.collapsed(settings.scheme.shares)(data.X_test))


def gaussian_logits(model: LinearModel, data: FeatureSet, settings: MachineSettings) -> NDArray[np.float32]:
    """(E, R) logits of the same machines, whose decision values of either class have a normal distribution.

    The means and deviations of a machine are those of the samples that Platt's sigmoid would be fitted to. The logits
    of a pair's machines are averaged as always.
    """
    machines, scheme = model.machines, settings.scheme
    X_test = model.whitening(data.X_test)
    classes = [
        split_class(model.whitening(data.X_train[data.y_train == c]), c, settings)
        for c in range(len(data.classes))
    ]
    logits = np.zeros((model.n_edges, len(X_test)), np.float32)
    weights = np.asarray(machines.coef)  # of dense features
    for e, pair in enumerate(graphs.edge_array(graphs.complete(len(classes))).tolist()):
        f_test = X_test @ weights[e].T + machines.intercept[e]
        f = [classes[c].rows @ weights[e].T + machines.intercept[e] for c in pair]
        for m, share in enumerate(scheme.shares):
            first, second = (
                values[scheme.calibrated_on[m, classes[c].folds], m]
                for c, values in zip(pair, f, strict=True)
            )
            logits[e] += share * gaussian_log_odds(f_test[:, m], first, second)
    return logits


def gaussian_log_odds(f: Floats, first: Floats, second: Floats) -> Floats:
    """The log odds of the first class at decision values `f`, given decision values of both classes.

    Each class has a normal density with its own mean and variance, so the log odds are quadratic in f.
    """
    densities = []
    for own in (first, second):
        deviation = max(float(own.std(dtype=np.float64)), float(np.finfo(np.float32).tiny))
        densities.append(np.log(len(own) / deviation) - ((f - own.mean()) / deviation) ** 2 / 2)
    return np.asarray(densities[0] - densities[1])


def _as_tensor(edge_logits: NDArray[np.float32], n: int) -> NDArray[np.float32]:
    """(N, N, R) from the logits of all pairs (E, R)."""
    tensor = np.zeros((n, n, edge_logits.shape[1]), np.float32)
    scatter(edge_logits, graphs.edge_array(graphs.complete(n)), tensor)
    return tensor


def _among(
    edge_logits: NDArray[np.float32], kept: NDArray[np.int64], samples: NDArray[np.int64], n: int
) -> NDArray[np.float32]:
    """The logits of the pairs among some classes, in this order, from those of all pairs (calibrations, E, R)."""
    row = np.zeros((n, n), np.int64)
    row[np.triu_indices(n, 1)] = np.arange(edge_logits.shape[1])
    first, second = np.triu_indices(len(kept), 1)
    i, j = kept[first], kept[second]
    sign = np.where(i < j, 1, -1).astype(np.float32)
    pairs = (row + row.T)[i, j]
    logits: NDArray[np.float32] = sign[:, None] * edge_logits[:, pairs[:, None], samples]
    return logits


def cached_tensor(
    data: FeatureSet,
    settings: MachineSettings,
    path: Path,
    progress: Advance | None = None,
    source: str = "",
    *,
    radial: bool = False,
    answers: NetworkAnswers | None = None,
) -> TrainedTensor:
    """The trained tensor in the file `path`; trained and written there unless the file has these data and settings."""
    file = tensor_file(path, data, settings, source, radial=radial)
    try:
        return file.read()
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):
        trained = train_tensor(data, settings, progress, source, radial=radial, answers=answers)
        file.write(trained)
        return trained


class TensorFile(NamedTuple):
    """The file of a trained tensor, and the code, data and settings that it must be of."""

    path: Path
    recipe: str

    def write(self, trained: TrainedTensor) -> None:
        """Write the tensor. It is antisymmetric, so half of it is enough."""
        halved = trained._replace(logits=trained.of_edges(graphs.complete(trained.n_classes)))
        archive = io.BytesIO()
        np.savez(archive, recipe=self.recipe, **{name: getattr(halved, name) for name in _STORED})
        write_atomically(self.path, archive.getvalue())

    def read(self) -> TrainedTensor:
        """Read the tensor; raise ValueError if it has other data or settings."""
        with np.load(self.path, allow_pickle=False) as archive:
            if str(archive["recipe"]) != self.recipe:
                raise ValueError(f"{self.path} is of other data or settings.")
            stored: dict[str, Any] = {name: archive[name] for name in _STORED}
        stored |= {name: tuple(stored[name].tolist()) for name in ("classes", "files")}
        stored["logits"] = _as_tensor(stored["logits"], len(stored["classes"]))
        stored |= {name: bool(stored[name]) for name in ("synthetic", "stand_in")}
        return TrainedTensor(**stored)


_STORED = [name for name in TrainedTensor._fields if name not in ("n_jobs", "pictures")]


def tensor_file(
    path: Path, data: FeatureSet, settings: MachineSettings, source: str = "", *, radial: bool = False
) -> TensorFile:
    """The file of the tensor of these data and settings."""
    recipe = [code_digest(__name__), data.fingerprints, settings.__dict__, pictures_digest(source), radial]
    return TensorFile(path, json.dumps(recipe, sort_keys=True))


def source_named(name: str) -> str:
    """The argument of `load_features` for a name: an embedded set, a path, or a set in the folder of PAIRLOOM_DATA.

    There `tinyimagenet50` finds ``tinyimagenet50-efficientnet.npz`` or ``.zarr``: the name of the set, then that of its
    features.
    """
    if name in EMBEDDED or Path(name).exists():
        return name
    folder = os.environ.get(DATA_FOLDER)
    kinds = ("npz", "zarr")
    files = (
        [file for kind in kinds for file in sorted(Path(folder).glob(f"{name}[-.]*{kind}"))] if folder else []
    )
    if not files:
        where = f"in {DATA_FOLDER}" if folder else f"({DATA_FOLDER} is not set)"
        raise FileNotFoundError(
            f"--data must be {', '.join(EMBEDDED)}, a file, or a set {where}, got {name!r}."
        )
    return str(files[0])


def is_present(name: str) -> bool:
    """Whether a set can be loaded here."""
    try:
        source_named(name)
    except FileNotFoundError:
        return False
    return True


def load_set(name: str) -> FeatureSet:
    """The features of a set, given its name or path."""
    return load_features(source_named(name))
