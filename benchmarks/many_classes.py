"""Sets of a thousand classes and more: PairwiseSVC compared with other methods that give probabilities at that size.

Each peer has one thread, and chooses its parameters by held-out rows of the training set:

- nearest centroid: the softmax of squared distances to the class means, divided by a temperature;
- discriminant: means and one covariance for all classes, with Ledoit-Wolf shrinkage, and a temperature;
- nearest neighbours: the 20 nearest training rows by faiss, weighted by their distance, with a share for all classes;
- HSM: napkinXC's hierarchical softmax on a tree of the classes, with its defaults;
- logistic regression, up to the number of classes of --most-logistic: above it, one fit takes more than ten minutes.

Peers whose package is not installed are left out with a note: `pip install "pairloom[benchmarks]"`. PECOS is not
included, because libpecos 1.2.8 needs NumPy 1 and SciPy before 1.14, which conflict with our dependencies. "fit s" is
CPU time; "row ms" is the mean CPU time of one row over fifty; "size" is the size of the fitted model: its arrays, or
the files that it writes.
"""

import importlib.util
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from sklearn.covariance import ledoit_wolf
from sklearn.linear_model import LogisticRegression

from pairloom import PairwiseSVC
from pairloom.benchmarks.classifiers import Tempered, held_out
from pairloom.benchmarks.datasets import DataNotFound, Split, load, synthetic_classes
from pairloom.benchmarks.peers import calibration_error
from pairloom.benchmarks.record import Column, Record
from pairloom.pipeline.calibration.held_out import log_losses, mean_log_loss
from pairloom.pipeline.threads import one_blas_thread

Floats = NDArray[np.floating]
OURS, LOGISTIC = "PairwiseSVC", "logistic regression"
#: The sets, and the number of classes of the synthetic one.
SETS, SYNTHETIC = ("onet-svd256", "icd10cm", "kanji", "synthetic"), 20_992
#: Rows that are predicted one by one, and test rows whose probabilities of all classes are in memory at once.
SINGLE, AT_ONCE = 50, 500


class Centroids:
    """The negative squared distances to the class means."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """No parameters, so that scikit-learn can clone it."""
        return {}

    def fit(self, X: Floats, y: NDArray[np.integer]) -> Self:
        """Find the means."""
        self.coef_ = np.stack([X[y == c].mean(axis=0) for c in range(int(y.max()) + 1)])
        self.intercept_ = -(self.coef_**2).sum(axis=1) / 2
        return self

    def decision_function(self, X: Floats) -> Floats:
        """(R, N) decision values, up to a constant that all classes share."""
        return np.asarray(X @ self.coef_.T + self.intercept_)


class Discriminant(Centroids):
    """Linear discriminants: distances by the shrunk covariance within classes."""

    def fit(self, X: Floats, y: NDArray[np.integer]) -> Self:
        """Find means and covariance."""
        super().fit(X, y)
        covariance, _ = ledoit_wolf(X - self.coef_[y], assume_centered=True)
        means = self.coef_
        self.coef_ = np.linalg.solve(covariance, means.T).T.astype(X.dtype)
        self.intercept_ = -np.einsum("nd,nd->n", means, self.coef_) / 2
        return self


class Neighbours:
    """Votes of the nearest rows, with weights that decrease with their distance, and an equal share for all classes."""

    def fit(self, X: Floats, y: NDArray[np.integer]) -> Self:
        """Keep all rows; choose the width and the share by leave-one-out predictions of some rows."""
        import faiss

        self.n_classes_, self.y_ = int(y.max()) + 1, y
        self.index_ = faiss.IndexFlatL2(X.shape[1])
        self.index_.add(np.ascontiguousarray(X, np.float32))
        some = next(held_out(y))[:2000]
        distances, places = self.index_.search(np.ascontiguousarray(X[some], np.float32), 21)
        own = places == some[:, None]
        own[~own.any(axis=1), -1] = True  # duplicates have taken the place of the row itself
        distances, places = (values[~own].reshape(len(some), 20) for values in (distances, places))
        self.unit_, best = float(np.median(distances[:, 0])) or 1.0, math.inf
        for share in (0.003, 0.01, 0.03, 0.1):
            found = minimize_scalar(
                lambda width, s=share: float(
                    log_losses(self._votes(distances, places, math.exp(width), s), y[some]).mean()
                ),
                bounds=(-4, 3),
                method="bounded",
            )
            if found.fun < best:
                best, self.width_, self.share_ = found.fun, math.exp(found.x), share
        return self

    def _votes(self, distances: Floats, places: NDArray[np.integer], width: float, share: float) -> Floats:
        weights = (1 - share) * softmax(-distances / (self.unit_ * width), axis=1)
        p = np.full((len(weights), self.n_classes_), share / self.n_classes_, np.float32)
        np.add.at(p, (np.arange(len(p))[:, None], self.y_[places]), weights.astype(np.float32))
        return p

    def predict_proba(self, X: Floats) -> Floats:
        """(R, N) probabilities."""
        distances, places = self.index_.search(np.ascontiguousarray(X, np.float32), 20)
        return self._votes(distances, places, self.width_, self.share_)


class HierarchicalSoftmax:
    """napkinXC's HSM, whose model is a folder."""

    def fit(self, X: Floats, y: NDArray[np.integer]) -> Self:
        """Fit it."""
        from napkinxc.models import HSM

        self.folder_ = tempfile.TemporaryDirectory()
        self.n_classes_ = int(y.max()) + 1
        self.model_ = HSM(self.folder_.name, threads=1, verbose=0)
        self.model_.fit(X, y)
        return self

    def predict_proba(self, X: Floats) -> Floats:
        """(R, N) probabilities, normalised, since napkinXC's sum to 1 only within 1e-4."""
        p = np.zeros((len(X), self.n_classes_), np.float32)
        for row, listed in enumerate(self.model_.predict_proba(X, top_k=self.n_classes_)):
            p[row, [c for c, _ in listed]] = [value for _, value in listed]
        return p / p.sum(axis=1, keepdims=True)


PEERS: dict[str, tuple[Callable[[], Any], str]] = {
    OURS: (lambda: PairwiseSVC(random_state=0, n_jobs=1), ""),
    "nearest centroid": (lambda: Tempered(Centroids()), ""),
    "discriminant": (lambda: Tempered(Discriminant()), ""),
    "nearest neighbours": (Neighbours, "faiss"),
    "HSM": (HierarchicalSoftmax, "napkinxc"),
    LOGISTIC: (lambda: LogisticRegression(C=10, max_iter=300), ""),
}


@dataclass(frozen=True)
class Row:
    """A classifier on a set."""

    set: str
    classes: int
    rows: int
    classifier: str
    accuracy: float
    log_loss: float
    calibration_error: float
    fit_s: float
    row_ms: float
    size_mb: float


COLUMNS = (
    Column("set", lambda row: row.set, 12, left=True),
    Column("classes", lambda row: str(row.classes)),
    Column("rows", lambda row: str(row.rows), 8),
    Column("classifier", lambda row: row.classifier, 20, left=True),
    Column("accuracy", lambda row: f"{row.accuracy:.4f}"),
    Column("log loss", lambda row: f"{row.log_loss:.4f}"),
    Column("calibration error", lambda row: f"{row.calibration_error:.4f}"),
    Column("fit s", lambda row: f"{row.fit_s:.1f}", 8),
    Column("row ms", lambda row: f"{row.row_ms:.2f}", 7),
    Column("size MB", lambda row: f"{row.size_mb:.1f}", 8),
)


def compare_sets(
    record: Record, sets: Sequence[str], names: Sequence[str], most_logistic: int, *, small: bool = False
) -> list[Row]:
    """The table."""
    record.begin("classifiers", COLUMNS)
    rows: list[Row] = []
    for name in sets:
        try:
            split = _split(name, small=small)
        except DataNotFound as error:
            record.note(str(error))
            continue
        for row in _rows(record, name, split, names, most_logistic):
            rows.append(row)
            record.add(row)
    return rows


def _split(name: str, *, small: bool) -> Split:
    if name == "synthetic":
        return synthetic_classes(60 if small else SYNTHETIC, rows=12, features=128)
    return load(name)


def _rows(record: Record, name: str, split: Split, names: Sequence[str], most_logistic: int) -> Iterator[Row]:
    classes = int(split.y.max()) + 1
    for peer in names:
        make, package = PEERS[peer]
        if package and importlib.util.find_spec(package) is None:
            record.note(f"{peer}: the package {package} is not installed.")
        elif peer != LOGISTIC or classes <= most_logistic:
            with one_blas_thread():
                yield _measured(name, split, peer, make())


def _measured(name: str, split: Split, peer: str, model: Any) -> Row:
    X, y = split.X, split.y
    began = time.process_time()
    model.fit(X, y)
    fitted = time.process_time()
    model.predict_proba(split.X_new[:1])
    first = time.process_time()
    for row in range(SINGLE):
        model.predict_proba(split.X_new[row % len(split.X_new)][None])
    single = (time.process_time() - first) / SINGLE
    p = np.concatenate(
        [
            np.asarray(model.predict_proba(split.X_new[at : at + AT_ONCE]), np.float32)
            for at in range(0, len(split.X_new), AT_ONCE)
        ]
    )
    correct = p.argmax(axis=1) == split.y_new
    return Row(
        name,
        int(y.max()) + 1,
        len(y),
        peer,
        float(correct.mean()),
        mean_log_loss(p, split.y_new),
        calibration_error(p, split.y_new),
        fitted - began,
        1000 * single,
        _size(model) / 1e6,
    )


def _size(model: Any) -> int:
    """Bytes of the files of a model, or of its arrays."""
    if isinstance(model, PairwiseSVC):
        with tempfile.TemporaryDirectory() as folder:
            model.save(Path(folder) / "model", compact=True)
            return _bytes_in(Path(folder))
    if isinstance(model, HierarchicalSoftmax):
        return _bytes_in(Path(model.folder_.name))
    if isinstance(model, Neighbours):
        return int(model.index_.ntotal * model.index_.d * 4 + model.y_.nbytes)
    own = getattr(model, "model_", model)
    return int(own.coef_.nbytes + own.intercept_.nbytes)


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
