"""PairwiseSVC among scikit-learn's linear classifiers: one table per data set with quality, time and memory.

    python -m pairloom.benchmarks.peers [--sets clinc150 digits ...] [--peers NAME ...] [--threads 1 2]
                                        [--limit SECONDS] [--plot FILE.png] [--json FILE]
    python -m pairloom.benchmarks.peers --grow [--classes 100 200 500] [--limit SECONDS] [--plot FILE.png] [--json FILE]

Every peer runs in a process of its own, one after the other, which is stopped at the limit. The clocks are inside that
process and start after its warm-up, a fit and a prediction of a few rows of the same data: neither start-up, nor
imports, nor compilation count, and the limit is on what follows.

At most two threads: n_jobs=2 for ours. A peer runs once with one thread of BLAS and OpenMP and once with two, and its
faster run counts, with the number in the column "threads": two threads of BLAS make a LogisticRegression of few rows
many times slower, which must not pass for a merit of ours. `--threads 2` leaves the choice out. What scikit-learn does
not spread over threads (LIBSVM, LIBLINEAR, the folds of a calibration) has one in any case.

- "log loss" has probabilities below 1e-7 count as 1e-7. "against ours" is its difference to PairwiseSVC with defaults,
  positive where ours is better, with the standard error of the paired difference.
- "Brier" is the squared error summed over classes, "calibration" the expected calibration error of the top probability
  in 15 bins of as many samples each.
- "fit s" and "predict s" are of all training and all test rows, "row ms" is the median of 50 predictions of one row.
- "model MB" is what the arrays of the fitted estimator hold, "peak MB" the peak of the process. The latter includes
  the interpreter, the imports and the data, which are the same for all.
- The total variance of the features is the unit of C: C=10 below means 10 / variance, as PairwiseSVC's "scale" does.
- Features are given to all as they are. Tables are scaled to [-1, 1] column by column on their training part.

`--grow` is the time of PairwiseSVC against the number of classes N, 40 training rows each and 2000 test rows. Class
means are standard normal in 64 dimensions, which an orthonormal basis lifts to 384; noise is normal in all 384. Its
standard deviation is 1.95 - 0.20 log10(N), with which the nearest mean of 40 rows is right for 0.91 to 0.93 of the test
rows, whatever N from 100 to 5000, and PairwiseSVC for about 0.9: the sizes differ in N alone.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.neighbors import NearestCentroid
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

from pairloom import PairwiseSVC
from pairloom.benchmarks.coupling import peak_bytes
from pairloom.benchmarks.datasets import DataNotFound, Split, path_of, split_of
from pairloom.pipeline.calibration.log_loss import log_losses
from pairloom.pipeline.experiments.perform import computer

THREADS, FOLDS, BINS, SINGLE_ROWS = 2, 4, 15, 50
#: Above this many classes all pairs are too many: 300 classes have 44,850.
MOST_COMPLETE = 300
#: The warm-up has at most so many classes and rows of each: more classes than a shortlist needs to be used.
WARM_CLASSES, WARM_ROWS = 60, 8
#: Sets that are features with a split of their own, by their short names.
FEATURES = {
    "clinc150": "clinc150-minilm",
    "icd10cm": "icd10cm-minilm",
    "tinyimagenet50": "tinyimagenet50-efficientnet",
    "imagenette": "imagenette-efficientnet",
}
#: Sets that are one pool of rows. Half of them, at most MOST_TRAINING, are drawn for training.
TABLES = ("usps", "letter", "satimage", "segment", "mnist", "dna", "waveform")
MOST_TRAINING = 5000
SETS = (*FEATURES, *TABLES, "digits")
#: The synthetic classes of `--grow`.
GROWING, GROWING_ROWS, GROWING_TESTS, DIMENSIONS, SUBSPACE = (
    (100, 200, 500, 1000, 2000, 5000),
    40,
    2000,
    384,
    64,
)


@dataclass(frozen=True)
class Row:
    """One classifier on one set. What was not measured is NaN, and `note` says why. Seconds, milliseconds, bytes."""

    data: str
    classes: int
    peer: str
    note: str = ""
    threads: int = 0
    accuracy: float = math.nan
    log_loss: float = math.nan
    against_ours: float = math.nan
    standard_error: float = math.nan
    brier: float = math.nan
    calibration: float = math.nan
    fit_s: float = math.nan
    predict_s: float = math.nan
    row_ms: float = math.nan
    model_bytes: float = math.nan
    peak_bytes: float = math.nan

    @property
    def ended(self) -> bool:
        """Whether the classifier was measured."""
        return not math.isnan(self.fit_s)

    @property
    def seconds(self) -> float:
        """Time to fit and to predict."""
        return self.fit_s + self.predict_s

    @property
    def all_seconds(self) -> float:
        """Time of everything that was measured, single rows included."""
        return self.seconds + SINGLE_ROWS * self.row_ms / 1000


# The data.


def load(name: str) -> Split:
    """A set by its short name, with its classes numbered from 0."""
    table = name in TABLES
    split = load_table(name) if table else split_of(FEATURES.get(name, name))
    classes, y = np.unique(split.y, return_inverse=True)
    return split._replace(y=y, y_new=np.searchsorted(classes, split.y_new))


def load_table(name: str) -> Split:
    """Draw the training part of a table, and scale all columns to [-1, 1] by it."""
    with np.load(path_of(f"{name}.npz")) as data:
        X, y = data["X"].astype(np.float32), data["y"]
    n = min(len(y) // 2, MOST_TRAINING)
    X, X_new, y, y_new = train_test_split(X, y, train_size=n, random_state=0, stratify=y)
    low, high = X.min(axis=0), X.max(axis=0)
    span = np.where(high > low, high - low, 1)
    return Split(2 * (X - low) / span - 1, 2 * (X_new - low) / span - 1, y, y_new)


def growing_classes(n_classes: int) -> Split:
    """Synthetic classes that are as hard to tell apart for every number of them; the module says how."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((DIMENSIONS, SUBSPACE)))[0].T.astype(np.float32)
    means = rng.standard_normal((n_classes, SUBSPACE), np.float32) @ basis
    noise = np.float32(1.95 - 0.20 * math.log10(n_classes))

    def rows(y: NDArray[np.int64]) -> NDArray[np.float32]:
        return means[y] + noise * rng.standard_normal((len(y), DIMENSIONS), np.float32)

    y = np.repeat(np.arange(n_classes), GROWING_ROWS)
    y_new = np.arange(GROWING_TESTS) % n_classes
    return Split(rows(y), rows(y_new), y, y_new)


def few_rows(split: Split) -> Split:
    """Some rows of the largest classes, to warm up with: the same features and the same type, hardly any work."""
    largest = np.argsort(-np.bincount(split.y), kind="stable")[:WARM_CLASSES]
    rows = np.concatenate([np.flatnonzero(split.y == c)[:WARM_ROWS] for c in largest])
    y = np.unique(split.y[rows], return_inverse=True)[1]
    return Split(split.X[rows], split.X[rows], y, y)


# The peers: each makes a classifier, given the total variance of the training features.


class Tempered:
    """The best of some classifiers, with its decision values divided by one temperature.

    Both are chosen by the log loss of held-out rows, as those of a fair user would be. Rows of classes with fewer rows
    than folds are always trained on and never held out, so that no class is missing from a fold's training part.
    """

    def __init__(self, *candidates: Any) -> None:
        self.candidates = candidates

    def fit(self, X: NDArray[np.floating], y: NDArray[np.integer]) -> Self:
        """Choose by cross-validation, then fit the choice on all rows."""
        folds = list(held_out(y))
        y_held = np.concatenate([y[rows] for rows in folds])
        tempered = [temperature(held_out_values(model, X, y, folds), y_held) for model in self.candidates]
        best = min(range(len(tempered)), key=lambda k: tempered[k][1])
        self.temperature_ = tempered[best][0]
        self.model_ = clone(self.candidates[best]).fit(X, y)
        return self

    def predict_proba(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """Softmax of the tempered decision values."""
        return np.asarray(softmax(self.model_.decision_function(X) / self.temperature_, axis=1))


def held_out(y: NDArray[np.integer]) -> Iterator[NDArray[np.intp]]:
    """The rows of each fold."""
    rows = np.flatnonzero(np.bincount(y)[y] >= FOLDS)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    return (rows[held] for _, held in folds.split(rows, y[rows]))


def held_out_values(
    model: Any, X: NDArray[np.floating], y: NDArray[np.integer], folds: Iterable[NDArray[np.intp]]
) -> NDArray[np.floating]:
    """Decision values of the rows of every fold, by a model that was fitted on all others."""
    values = []
    for rows in folds:
        rest = np.delete(np.arange(len(y)), rows)
        values.append(clone(model).fit(X[rest], y[rest]).decision_function(X[rows]))
    return np.concatenate(values)


def temperature(values: NDArray[np.floating], y: NDArray[np.integer]) -> tuple[float, float]:
    """The divisor of decision values with the least log loss, and that loss."""

    def loss(log_temperature: float) -> float:
        log_p = log_softmax(values / values.dtype.type(math.exp(log_temperature)), axis=1)
        return -float(log_p[np.arange(len(y)), y].mean())

    found = minimize_scalar(loss, bounds=(-5, 5), method="bounded")
    return math.exp(found.x), float(found.fun)


def pairwise_default(variance: float) -> PairwiseSVC:
    return PairwiseSVC(random_state=0, n_jobs=THREADS)


def pairwise_complete(variance: float) -> PairwiseSVC:
    return PairwiseSVC("complete", random_state=0, n_jobs=THREADS)


def logistic(variance: float, C: float = 10) -> LogisticRegression:
    return LogisticRegression(C=C / variance, max_iter=1000)


def logistic_tuned(variance: float) -> Tempered:
    return Tempered(*(logistic(variance, C) for C in (1, 10, 100)))


def linear_svc_temperature(variance: float) -> CalibratedClassifierCV:
    return CalibratedClassifierCV(LinearSVC(C=10 / variance, random_state=0), method="temperature", cv=FOLDS)


def linear_svc_sigmoid(variance: float) -> CalibratedClassifierCV:
    return CalibratedClassifierCV(LinearSVC(C=10 / variance, random_state=0), method="sigmoid", cv=FOLDS)


def discriminant_temperature(variance: float) -> Tempered:
    """Its decision values are its log-probabilities up to a constant of each row, which softmax removes."""
    return Tempered(LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"))


def nearest_centroid(variance: float) -> NearestCentroid:
    return NearestCentroid()


def svc_probability(variance: float) -> SVC:
    return SVC(kernel="linear", C=10 / variance, probability=True, random_state=0)


def svc_calibrated(variance: float) -> CalibratedClassifierCV:
    return CalibratedClassifierCV(SVC(kernel="linear", C=10 / variance), ensemble=False, cv=FOLDS)


class Peer(NamedTuple):
    """How to make a classifier, which data it can be given, and whether it has threads of its own, not of BLAS."""

    make: Callable[[float], Any]
    fewest_rows: int = 1
    most_classes: float = math.inf
    own_threads: bool = False

    def refusal(self, y: NDArray[np.integer]) -> str:
        """Why the classifier cannot be given these training rows; empty if it can."""
        counts = np.bincount(y)
        if len(counts) > self.most_classes:
            return f"skipped above {self.most_classes:g} classes"
        if counts.min() < self.fewest_rows:
            return f"needs {self.fewest_rows} rows a class"
        return ""


OURS, LOGISTIC = "PairwiseSVC", "LogisticRegression"
PEERS = {
    OURS: Peer(pairwise_default, own_threads=True),
    "PairwiseSVC(complete)": Peer(pairwise_complete, most_classes=MOST_COMPLETE, own_threads=True),
    LOGISTIC: Peer(logistic),
    "LogisticRegression(tuned)": Peer(logistic_tuned),
    "LinearSVC(temperature)": Peer(linear_svc_temperature, fewest_rows=FOLDS),
    "LinearSVC(sigmoid)": Peer(linear_svc_sigmoid, fewest_rows=FOLDS),
    "LDA(temperature)": Peer(discriminant_temperature),
    "NearestCentroid": Peer(nearest_centroid),
    "SVC(probability)": Peer(svc_probability),
    "SVC(calibrated)": Peer(svc_calibrated, fewest_rows=FOLDS),
}


# In the process of one peer.


def measure(name: str, threads: int, folder: Path) -> None:
    """Fit and predict what `folder` holds, and write probabilities, times and sizes there.

    A line is printed when the clock starts.
    """
    with np.load(folder / "split.npz") as data:
        split = Split(**data)
    variance = float(split.X.var(axis=0, dtype=np.float64).sum())
    with threadpool_limits(threads), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit_and_predict(PEERS[name].make(variance), few_rows(split))
        caught.clear()
        print("warm", flush=True)
        model = PEERS[name].make(variance)
        found = fit_and_predict(model, split)
    converged = not any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    np.savez(
        folder / "found.npz",
        note="" if converged else "not converged",
        model_bytes=array_bytes(model),
        **found,
    )


def fit_and_predict(model: Any, split: Split) -> dict[str, Any]:
    """Probabilities of the test rows, the times that they took, and the peak of memory until then."""
    start = time.perf_counter()
    model.fit(split.X, split.y)
    middle = time.perf_counter()
    p = model.predict_proba(split.X_new)
    end = time.perf_counter()
    row_ms = 1000 * np.median([single_row(model, split.X_new, k) for k in range(SINGLE_ROWS)])
    times = {"fit_s": middle - start, "predict_s": end - middle, "row_ms": row_ms}
    return {"p": p, "peak_bytes": peak_bytes(), **times}


def single_row(model: Any, X: NDArray[np.floating], k: int) -> float:
    """Seconds to predict one row."""
    row = X[[k % len(X)]]
    start = time.perf_counter()
    model.predict_proba(row)
    return time.perf_counter() - start


def array_bytes(root: object) -> int:
    """Bytes of all arrays that can be reached from an object. A view counts as the array that it keeps alive, once."""
    total, waiting = 0, [root]
    seen: dict[int, object] = {}  # by id, and held, so that no id is given to another object
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen[id(thing)] = thing
        if not isinstance(thing, np.ndarray):
            waiting.extend(parts(thing))
        elif isinstance(thing.base, np.ndarray):
            waiting.append(thing.base)
        else:
            total += thing.nbytes
    return total


def parts(thing: object) -> Iterator[object]:
    """The objects that one is made of: elements, values, attributes."""
    if isinstance(thing, type | types.ModuleType | types.FunctionType):
        return
    if isinstance(thing, dict):
        yield from thing.values()
    elif isinstance(thing, list | tuple | set | frozenset):
        yield from thing
    elif is_dataclass(thing):
        yield from (getattr(thing, field.name) for field in fields(thing))
    yield from getattr(thing, "__dict__", {}).values()


# In the process that compares them.


class Attempt(NamedTuple):
    """What came of one process: a row, and the log loss of each sample if there are probabilities."""

    row: Row
    losses: NDArray[np.float64]


def compare(
    data: str, split: Split, peers: Iterable[str], threads: Sequence[int], limit: float
) -> Iterator[Row]:
    """The rows of one set, each as soon as it is known. Ours has to come first to be compared with."""
    ours: NDArray[np.float64] = np.array([])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savez(folder / "split.npz", **split._asdict())
        for peer in peers:
            row = Row(data, int(split.y.max()) + 1, peer, PEERS[peer].refusal(split.y))
            if row.note:
                yield row
                continue
            tried = (THREADS,) if PEERS[peer].own_threads else threads
            best = fastest(row, tried, folder, split.y_new, limit)
            ours = best.losses if peer == OURS else ours
            yield against(best, ours)


def fastest(row: Row, threads: Iterable[int], folder: Path, y: NDArray[np.integer], limit: float) -> Attempt:
    """The attempt with the least time to fit and to predict; the first if none has ended.

    One that takes far longer than another did is stopped, since it cannot count any more.
    """
    attempts = []
    for n in threads:
        attempts.append(attempt(replace(row, threads=n), folder, y, limit))
        if attempts[-1].row.ended:
            limit = min(limit, 5 + 2 * attempts[-1].row.all_seconds)
    return min(attempts, key=lambda attempt: attempt.row.seconds if attempt.row.ended else math.inf)


def against(attempt: Attempt, ours: NDArray[np.float64]) -> Row:
    """The row with its difference to ours, where both have been measured."""
    row, losses = attempt
    if not len(losses) or not len(ours):
        return row
    difference = losses - ours
    error = float(difference.std(ddof=1)) / math.sqrt(len(difference))
    return replace(row, against_ours=float(difference.mean()), standard_error=error)


def attempt(row: Row, folder: Path, y: NDArray[np.integer], limit: float) -> Attempt:
    """Measure a row's peer in a process of its own, and score the probabilities that it has written."""
    note = run(row.peer, row.threads, folder, limit)
    if note:
        return Attempt(replace(row, note=note), np.array([]))
    with np.load(folder / "found.npz") as found:
        written = dict(found)
    p, note = written.pop("p"), str(written.pop("note"))
    losses = log_losses(p, y)
    measured: dict[str, Any] = {
        "accuracy": float((p.argmax(axis=1) == y).mean()),
        "log_loss": float(losses.mean()),
        "brier": brier_score(p, y),
        "calibration": calibration_error(p, y),
    }
    measured |= {name: float(value) for name, value in written.items()}
    return Attempt(replace(row, note=note, **measured), losses)


def run(peer: str, threads: int, folder: Path, limit: float) -> str:
    """Run `measure` in a process of its own. Returns why there is no result; empty if there is one."""
    command = [
        sys.executable,
        "-m",
        "pairloom.benchmarks.peers",
        "--measure",
        peer,
        str(threads),
        str(folder),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()  # the warm-up has ended
            errors = child.communicate(timeout=limit)[1]
        except subprocess.TimeoutExpired:
            return f"not ended in {limit:g} s"
        finally:
            child.kill()
    if child.returncode == 0:
        return ""
    return "failed: " + (errors.strip() or f"exit {child.returncode}").splitlines()[-1]


def brier_score(p: NDArray[np.floating], y: NDArray[np.integer]) -> float:
    """Squared error of the probabilities, summed over classes: |p|² - 2 p_y + 1, the mean of samples."""
    squares = np.einsum("rc,rc->r", p, p, dtype=np.float64)
    return float((squares - 2 * p[np.arange(len(y)), y] + 1).mean())


def calibration_error(p: NDArray[np.floating], y: NDArray[np.integer]) -> float:
    """Mean gap between confidence and accuracy in bins of as many samples each.

    Most samples of a good model are in the last bin of equal width; bins of equal mass tell them apart.
    """
    confidence = p.max(axis=1).astype(np.float64)
    gap = confidence - (p.argmax(axis=1) == y)
    bins = np.array_split(gap[np.argsort(confidence, kind="stable")], BINS)
    return sum(abs(float(part.sum())) for part in bins) / len(y)


# What is printed, drawn and written.


class Column(NamedTuple):
    """A column of the table: its title, its width, and the text of its cells."""

    title: str
    width: int
    cell: Callable[[Row], str]


def difference_cell(row: Row) -> str:
    """The difference to ours with its standard error; empty for ours, and where ours was not measured."""
    if row.peer == OURS or math.isnan(row.against_ours):
        return ""
    return f"{row.against_ours:+.4f} ± {row.standard_error:.4f}"


COLUMNS = (
    Column("accuracy", 8, lambda row: f"{row.accuracy:.4f}"),
    Column("log loss", 9, lambda row: f"{row.log_loss:.4f}"),
    Column("against ours", 17, difference_cell),
    Column("Brier", 8, lambda row: f"{row.brier:.4f}"),
    Column("calibration", 12, lambda row: f"{row.calibration:.4f}"),
    Column("fit s", 9, lambda row: f"{row.fit_s:.3f}"),
    Column("predict s", 10, lambda row: f"{row.predict_s:.3f}"),
    Column("row ms", 8, lambda row: f"{row.row_ms:.2f}"),
    Column("model MB", 9, lambda row: f"{row.model_bytes / 1e6:.2f}"),
    Column("peak MB", 8, lambda row: f"{row.peak_bytes / 1e6:.0f}"),
    Column("threads", 8, lambda row: f"{row.threads}"),
)
GROWTH_COLUMNS = tuple(
    column for column in COLUMNS if column.title not in ("against ours", "Brier", "threads")
)


def print_head(columns: Iterable[Column], width: int) -> None:
    print(" " * width + "".join(f"{column.title:>{column.width}s}" for column in columns))


def print_row(title: str, row: Row, columns: Iterable[Column], width: int) -> None:
    """One line of a table, with the note in place of the figures where there are none."""
    cells = "".join(f"{column.cell(row):>{column.width}s}" for column in columns) if row.ended else ""
    print(f"{title:{width}s}{cells}  {row.note}".rstrip(), flush=True)


def compare_set(name: str, peers: Sequence[str], threads: Sequence[int], limit: float) -> list[Row]:
    """Print the table of one set and the ratios under it."""
    try:
        split = load(name)
    except DataNotFound as reason:
        print(f"\n{name}: {reason}")
        return []
    (n, n_features), n_new, n_classes = split.X.shape, len(split.y_new), split.y.max() + 1
    print(f"\n{name}: {n_classes} classes, {n} and {n_new} rows, {n_features} features")
    print_head(COLUMNS, 26)
    rows = []
    for row in compare(name, split, peers, threads, limit):
        print_row(row.peer, row, COLUMNS, 26)
        rows.append(row)
    print_ratios(rows)
    return rows


def print_ratios(rows: Iterable[Row]) -> None:
    """Fit and predict of ours over that of every peer: one LogisticRegression first, as it is what a user has."""
    by_name = {row.peer: row for row in rows if row.ended}
    ours = by_name.pop(OURS, None)
    if ours is None:
        return
    print(f"fit + predict, {OURS} over:")
    for row in sorted(by_name.values(), key=lambda row: row.peer != LOGISTIC):
        ratio = ours.seconds / row.seconds
        print(f"  {row.peer:26s}{ours.seconds:9.3f} s / {row.seconds:9.3f} s = {ratio:8.2f}")


def grow(sizes: Iterable[int], limit: float) -> list[Row]:
    """Print time and memory of ours for numbers of classes, and how fast they grow."""
    print(f"\n{GROWING_ROWS} training rows a class, {GROWING_TESTS} test rows, {DIMENSIONS} features")
    print_head(GROWTH_COLUMNS, 8)
    rows = []
    for n_classes in sizes:
        for row in compare("synthetic", growing_classes(n_classes), [OURS], [THREADS], limit):
            print_row(f"{n_classes:7d}", row, GROWTH_COLUMNS, 8)
            rows.append(row)
    if len([row for row in rows if row.ended]) > 1:
        for what, (power, _) in growth(rows).items():
            print(f"{what} grows as N^{power:.2f}")
    return rows


def growth(rows: Iterable[Row]) -> dict[str, tuple[float, float]]:
    """Least squares in the logarithms: by figure, the power of the number of classes and the log of its factor."""
    ended = [row for row in rows if row.ended]
    log_n = np.log([row.classes for row in ended])
    figures = {
        "fit": [row.fit_s for row in ended],
        "predict": [row.predict_s for row in ended],
        "fit + predict": [row.seconds for row in ended],
        "peak memory": [row.peak_bytes for row in ended],
    }
    powers = {}
    for what, values in figures.items():
        power, log_factor = np.polyfit(log_n, np.log(values), 1)
        powers[what] = (float(power), float(log_factor))
    return powers


def comparison_figure(rows: Sequence[Row]) -> Figure:
    """Log loss against the time to fit, one panel per set: to the left and down is better."""
    names = list(dict.fromkeys(row.data for row in rows))
    figure = Figure(figsize=(6.5 * len(names), 5), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        ended = [row for row in rows if row.data == name and row.ended]
        for k, row in enumerate(sorted(ended, key=lambda row: (row.log_loss, row.fit_s))):
            colour, place = "#3465a4" if row.peer.startswith(OURS) else "#222222", (row.fit_s, row.log_loss)
            axes.plot(*place, "o", color=colour)
            # The names stand beside the panel in the order of their log loss, where they cannot overlap.
            axes.annotate(
                row.peer,
                place,
                (1.03, (k + 0.5) / len(ended)),
                textcoords="axes fraction",
                va="center",
                fontsize=8,
                color=colour,
                arrowprops={"arrowstyle": "-", "color": colour, "alpha": 0.3},
            )
        axes.set(xscale="log", yscale="log", xlabel="fit, seconds", ylabel="log loss", title=name)
        axes.grid(alpha=0.3)
    return figure


def growth_figure(rows: Sequence[Row]) -> Figure:
    """Seconds and peak memory against the number of classes, both axes logarithmic."""
    ended = [row for row in rows if row.ended]
    classes = [row.classes for row in ended]
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    seconds, memory = figure.subplots(1, 2)
    seconds.plot(classes, [row.fit_s for row in ended], "o-", label=f"fit, {GROWING_ROWS} rows a class")
    seconds.plot(classes, [row.predict_s for row in ended], "o-", label=f"predict, {GROWING_TESTS} rows")
    memory.plot(classes, [row.peak_bytes / 1e9 for row in ended], "o-", color="#222222")
    seconds.legend(frameon=False)
    for axes, what in ((seconds, "seconds"), (memory, "peak memory, GB")):
        axes.set(xscale="log", yscale="log", xlabel="classes", ylabel=what)
        axes.grid(alpha=0.3, which="both")
    return figure


def write_json(rows: Iterable[Row], path: Path) -> None:
    """All rows with all digits. JSON has no NaN: what was not measured is null."""
    table = [
        {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in row.items()}
        for row in map(asdict, rows)
    ]
    path.write_text(json.dumps(table, indent=2) + "\n")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m pairloom.benchmarks.peers", description=(__doc__ or "").partition("\n")[0]
    )
    usual = ["clinc150", "icd10cm", "tinyimagenet50", "digits"]
    parser.add_argument("--sets", nargs="+", choices=SETS, default=usual, help="data sets")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS), help="some peers only")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, THREADS], help="to try for each peer")
    parser.add_argument("--limit", type=float, default=600, help="seconds that a peer may take")
    parser.add_argument("--grow", action="store_true", help="time of ours against the number of classes")
    parser.add_argument(
        "--classes", nargs="+", type=int, default=GROWING, help="numbers of classes of --grow"
    )
    parser.add_argument("--plot", type=Path, help="draw to this .png file")
    parser.add_argument("--json", type=Path, help="write all rows to this file")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.measure:
        name, threads, folder = chosen.measure
        measure(name, int(threads), Path(folder))
        return
    print(f"{computer()}, at most {THREADS} threads")
    if chosen.grow:
        rows = grow(chosen.classes, chosen.limit)
    else:
        peers = sorted(chosen.peers, key=list(PEERS).index)  # ours comes first
        rows = [row for name in chosen.sets for row in compare_set(name, peers, chosen.threads, chosen.limit)]
    if chosen.json:
        write_json(rows, chosen.json)
    if chosen.plot and rows:
        figure = growth_figure(rows) if chosen.grow else comparison_figure(rows)
        figure.savefig(chosen.plot, dpi=130)


if __name__ == "__main__":
    main()
