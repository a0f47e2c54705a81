"""The trained tensor: what the machines of all pairs say of the test samples, trained once, kept beside the results.

Every experiment compares models over graphs. An edge's machines do not depend on the other edges, so the logits of a
smaller graph are rows of those of the complete one, and no experiment trains anything.
"""

import io
import json
import os
import zipfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from pairloom import graphs
from pairloom.pipeline.blas import one_blas_thread
from pairloom.pipeline.completion.complete import plan_completion
from pairloom.pipeline.completion.completion_kernels import scatter
from pairloom.pipeline.completion.slab import couple_slab
from pairloom.pipeline.features.class_distances import class_means, mean_distances
from pairloom.pipeline.features.feature_set import DATA_FOLDER, EMBEDDED, FeatureSet, load_features
from pairloom.pipeline.machines.linear_model import Advance, train_linear_model
from pairloom.pipeline.machines.settings import MachineSettings, scaled_C
from pairloom.pipeline.machines.whitening import centring
from pairloom.pipeline.report.evaluation import confusion_counts
from pairloom.pipeline.storage.atomic_file import write_atomically

#: The couplings that the paper compares.
COUPLINGS = ("wlw2", "stratified", "normal")


class TrainedTensor(NamedTuple):
    """Test samples as the machines of all pairs see them, and what is known of the pairs without the test samples.

    Attributes
    ----------
    logits : (N, N, R) float32 array, antisymmetric
    labels : (R,) int array
    classes : tuple of N names
    dprime : (N, N) array
        The distance of two classes on their pair's own logits, by machines that had not seen the sample.
    distances : (N, N) array
        Between the means of the classes: known before anything is trained.
    confusion : (N, N) int array
        Of the nearest class mean on the training samples: the "other model" of the cost `confusion` [S 5].
    synthetic : bool
        Whether the features were drawn rather than measured.
    n_jobs : int
        Threads of its couplings: how fast they are, never what they give.
    """

    logits: np.ndarray
    labels: np.ndarray
    classes: tuple[str, ...]
    dprime: np.ndarray
    distances: np.ndarray
    confusion: np.ndarray
    synthetic: bool = False
    n_jobs: int = -1

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    def of_classes(self, chosen: Sequence[int]) -> "TrainedTensor":
        """The problem of some classes only: their samples and the pairs among them, renumbered in this order."""
        kept = np.asarray(chosen)
        among = np.ix_(kept, kept)
        place = np.full(self.n_classes, -1)
        place[kept] = np.arange(len(kept))
        samples = np.flatnonzero(place[self.labels] >= 0)
        return self._replace(
            logits=self.logits[np.ix_(kept, kept, samples)],
            labels=place[self.labels[samples]],
            classes=tuple(self.classes[c] for c in kept),
            dprime=self.dprime[among],
            distances=self.distances[among],
            confusion=self.confusion[among],
        )

    def of_edges(self, graph: nx.Graph) -> np.ndarray:
        """(E, R) logits of a graph's edges: the mask."""
        i, j = graphs.edge_array(graph).T
        return np.asarray(self.logits[i, j])

    def probabilities(self, graph: nx.Graph, methods: Sequence[str] = COUPLINGS) -> dict[str, np.ndarray]:
        """(R, N) probabilities of the model over a graph, for each of some couplings."""
        return couple_slab(self.of_edges(graph), plan_completion(graph), list(methods), n_jobs=self.n_jobs)

    def errors(self, graph: nx.Graph, methods: Sequence[str] = COUPLINGS) -> dict[str, float]:
        """The share of samples that the model over a graph gets wrong, for each of some couplings."""
        coupled = self.probabilities(graph, methods)
        return {method: self.error_of(p) for method, p in coupled.items()}

    def error_of(self, p: np.ndarray) -> float:
        """The share of samples whose likeliest class is not theirs."""
        return float((p.argmax(axis=1) != self.labels).mean())

    def tree_error(self, graph: nx.Graph) -> float:
        """The error of a tree. Its logits are differences of potentials, so every coupling gives the same model."""
        return self.errors(graph, ["normal"])["normal"]


def paper_settings(X: NDArray[np.floating], seed: int = 0) -> MachineSettings:
    """Machines as the paper trains them [S 2.3]: fitted on one fold of four, calibrated on the others."""
    spread = X.var(axis=0, dtype=np.float64).sum()
    return MachineSettings(C=scaled_C(float(spread)), folds=4, fit_on="fold", calibration="platt", seed=seed)


def train_tensor(
    data: FeatureSet, settings: MachineSettings, progress: Advance | None = None
) -> TrainedTensor:
    """Train all pairs of a set and apply them to its test samples. `progress(edges)` is called as tiles end."""
    if data.y_test is None:
        raise ValueError("train_tensor: the test samples must have labels, got none.")
    n = len(data.classes)
    rows = {c: data.X_train[data.y_train == c] for c in range(n)}
    edges = graphs.edge_array(graphs.complete(n))
    with one_blas_thread():
        model = train_linear_model(
            rows, edges, settings, centring(data.X_train), os.cpu_count() or 1, progress
        )
    dprime = np.zeros((n, n))
    dprime[edges[:, 0], edges[:, 1]] = dprime[edges[:, 1], edges[:, 0]] = model.machines.dprime
    return TrainedTensor(
        logits=_as_tensor(model.logits(settings.scheme.shares, data.X_test), n),
        labels=data.y_test,
        classes=data.classes,
        dprime=dprime,
        distances=mean_distances(data.X_train, data.y_train, n),
        confusion=_nearest_mean_confusion(data),
        synthetic=data.synthetic,
    )


def _as_tensor(edge_logits: NDArray[np.float32], n: int) -> NDArray[np.float32]:
    """(N, N, R) from the logits of all pairs (E, R)."""
    tensor = np.zeros((n, n, edge_logits.shape[1]), np.float32)
    scatter(edge_logits, graphs.edge_array(graphs.complete(n)), tensor)
    return tensor


def _nearest_mean_confusion(data: FeatureSet) -> NDArray[np.int64]:
    means = class_means(data.X_train, data.y_train, len(data.classes))
    return confusion_counts(-cdist(data.X_train, means), data.y_train)


def cached_tensor(
    data: FeatureSet, settings: MachineSettings, path: Path, progress: Advance | None = None
) -> TrainedTensor:
    """The trained tensor in the file `path`, trained and written there if it is not that of these data and settings."""
    file = tensor_file(path, data, settings)
    try:
        return file.read()
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):
        trained = train_tensor(data, settings, progress)
        file.write(trained)
        return trained


class TensorFile(NamedTuple):
    """Where a trained tensor is kept, and of which version, data and settings it must be."""

    path: Path
    recipe: str

    def write(self, trained: TrainedTensor) -> None:
        """Write the tensor. Half of it is enough, as it is antisymmetric."""
        halved = trained._replace(logits=trained.of_edges(graphs.complete(trained.n_classes)))
        archive = io.BytesIO()
        np.savez(archive, recipe=self.recipe, **{name: getattr(halved, name) for name in _STORED})
        write_atomically(self.path, archive.getvalue())

    def read(self) -> TrainedTensor:
        """Read the tensor; a ValueError if it is another one."""
        with np.load(self.path, allow_pickle=False) as archive:
            if str(archive["recipe"]) != self.recipe:
                raise ValueError(f"{self.path} is of other data or settings.")
            stored: dict[str, Any] = {name: archive[name] for name in _STORED}
        stored["classes"] = tuple(stored["classes"].tolist())
        stored["logits"] = _as_tensor(stored["logits"], len(stored["classes"]))
        stored["synthetic"] = bool(stored["synthetic"])
        return TrainedTensor(**stored)


_STORED = [name for name in TrainedTensor._fields if name != "n_jobs"]


def tensor_file(path: Path, data: FeatureSet, settings: MachineSettings) -> TensorFile:
    """The file of the tensor of these data and settings."""
    recipe = json.dumps([version("pairloom"), data.fingerprints, settings.__dict__], sort_keys=True)
    return TensorFile(path, recipe)


def source_named(name: str) -> str:
    """What `load_features` takes for a name: an embedded set, a path, or a set in the folder of PAIRLOOM_DATA.

    There `tinyimagenet50` finds ``tinyimagenet50-efficientnet.npz``: a set's name, then the features it is seen by.
    """
    if name in EMBEDDED or Path(name).exists():
        return name
    folder = os.environ.get(DATA_FOLDER)
    found = sorted(Path(folder).glob(f"{name}[-.]*npz")) if folder else []
    if not found:
        where = f"in {DATA_FOLDER}" if folder else f"({DATA_FOLDER} is not set)"
        raise FileNotFoundError(
            f"--data must be {', '.join(EMBEDDED)}, a file, or a set {where}, got {name!r}."
        )
    return str(found[0])


def is_present(name: str) -> bool:
    """Whether a set can be loaded here."""
    try:
        source_named(name)
    except FileNotFoundError:
        return False
    return True


def load_set(name: str) -> FeatureSet:
    """The features of a set, by name or path."""
    return load_features(source_named(name))
