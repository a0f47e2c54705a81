"""PairwiseSVC compared with classifiers of scikit-learn: one table per data set with quality, time and memory.

Each peer runs in a separate process, one after the other, which is stopped at the time limit (`fit_process.py`).

At most two threads: n_jobs=2 for ours. A peer runs once with one thread of BLAS and OpenMP and once with two, and its
faster run counts; the column "threads" has its number. Two threads of BLAS make a LogisticRegression of few rows many
times slower, which must not count as an advantage of ours. `--threads 2` leaves the choice out. Code that scikit-learn
does not parallelise (LIBSVM, LIBLINEAR, the folds of a calibration) has one thread in any case.

- "log loss" counts probabilities below 1e-7 as 1e-7. "against ours" is its difference from PairwiseSVC with defaults,
  positive if ours is better, with the standard error of the paired difference.
- "Brier" is the squared error summed over classes, "calibration" the expected calibration error of the top probability
  in 15 bins with equally many samples.
- "fit s" and "predict s" are the times for all training and all test rows, "row ms" is the median of 50 predictions of
  one row. The JSON also has their CPU seconds. If these are far below the wall-clock times, other processes had the
  cores.
- "model MB" is the size of the arrays of the fitted estimator, "peak MB" the peak of the process. The latter includes
  the interpreter, the imports and the data, which are the same for all.
- C is in units of the total variance of the features: C=10 below means 10 / variance, as with PairwiseSVC's "scale".
- All classifiers get the same features. Columns of tables are scaled to [-1, 1] by their training part.
"""

import math
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pairloom.benchmarks.classifiers import LOGISTIC, OURS, PEERS, THREADS
from pairloom.benchmarks.datasets import DataNotFound, Split, load
from pairloom.benchmarks.fit_process import SINGLE_ROWS, fit_elsewhere
from pairloom.benchmarks.record import Column, Record
from pairloom.pipeline.calibration.held_out import log_losses

#: The default sets.
USUAL_SETS = ("clinc150", "icd10cm", "tinyimagenet50", "digits")
#: Bins of the calibration error.
BINS = 15


@dataclass(frozen=True)
class Row:
    """One classifier on one set, in seconds, milliseconds and bytes. Missing values are NaN, and `note` says why."""

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
    fit_cpu_s: float = math.nan
    predict_cpu_s: float = math.nan
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
        """Time of all measurements, including single rows."""
        return self.seconds + SINGLE_ROWS * self.row_ms / 1000


class Attempt(NamedTuple):
    """The result of one process: a row, and the log loss of each sample if there are probabilities."""

    row: Row
    losses: NDArray[np.float64]


def compare(
    data: str, split: Split, peers: Iterable[str], threads: Sequence[int], limit: float
) -> Iterator[Row]:
    """The rows of one set, each as soon as it is known. Ours must come first, since the others are compared with it."""
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

    An attempt that takes much longer than an earlier one is stopped, since it cannot be the fastest.
    """
    attempts = []
    for n in threads:
        attempts.append(attempt(replace(row, threads=n), folder, y, limit))
        if attempts[-1].row.ended:
            limit = min(limit, 5 + 2 * attempts[-1].row.all_seconds)
    return min(attempts, key=lambda attempt: attempt.row.seconds if attempt.row.ended else math.inf)


def against(attempt: Attempt, ours: NDArray[np.float64]) -> Row:
    """The row with its difference from ours, if both were measured."""
    row, losses = attempt
    if not len(losses) or not len(ours):
        return row
    difference = losses - ours
    error = float(difference.std(ddof=1)) / math.sqrt(len(difference))
    return replace(row, against_ours=float(difference.mean()), standard_error=error)


def attempt(row: Row, folder: Path, y: NDArray[np.integer], limit: float) -> Attempt:
    """Measure a row's peer in a separate process, and score the probabilities that it writes."""
    note = fit_elsewhere(row.peer, row.threads, folder, limit)
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


def difference_cell(row: Row) -> str:
    """The difference from ours with its standard error; empty for ours, and if ours was not measured."""
    if row.peer == OURS or math.isnan(row.against_ours):
        return ""
    return f"{row.against_ours:+.4f} ± {row.standard_error:.4f}"


COLUMNS = (
    Column("", lambda row: row.peer, 25, left=True),
    Column("accuracy", lambda row: f"{row.accuracy:.4f}"),
    Column("log loss", lambda row: f"{row.log_loss:.4f}"),
    Column("against ours", difference_cell, 16),
    Column("Brier", lambda row: f"{row.brier:.4f}", 6),
    Column("calibration", lambda row: f"{row.calibration:.4f}"),
    Column("fit s", lambda row: f"{row.fit_s:.3f}", 7),
    Column("predict s", lambda row: f"{row.predict_s:.3f}"),
    Column("row ms", lambda row: f"{row.row_ms:.2f}"),
    Column("model MB", lambda row: f"{row.model_bytes / 1e6:.2f}"),
    Column("peak MB", lambda row: f"{row.peak_bytes / 1e6:.0f}"),
    Column("threads", lambda row: f"{row.threads}"),
    Column("", lambda row: row.note, left=True),
)


@dataclass(frozen=True)
class TimeRatio:
    """Seconds of fit and prediction of ours and of a peer on one set."""

    data: str
    peer: str
    ours_s: float
    peer_s: float
    ratio: float


RATIO_COLUMNS = (
    Column("", lambda row: row.peer, 25, left=True),
    Column("ours s", lambda row: f"{row.ours_s:.3f}", 9),
    Column("peer s", lambda row: f"{row.peer_s:.3f}", 9),
    Column("ratio", lambda row: f"{row.ratio:.2f}", 8),
)


@dataclass(frozen=True)
class LossRatio:
    """The log loss of ours and of the best peer on one set."""

    data: str
    peer: str
    ours: float
    best: float
    ratio: float


LOSS_COLUMNS = (
    Column("", lambda row: row.data, 15, left=True),
    Column("ours", lambda row: f"{row.ours:.4f}", 8),
    Column("best peer", lambda row: f"{row.best:.4f}", 9),
    Column("ratio", lambda row: f"{row.ratio:.3f}", 7),
    Column("", lambda row: row.peer, left=True),
)


def compare_sets(
    record: Record, sets: Iterable[str], peers: Iterable[str], threads: Sequence[int], limit: float
) -> list[Row]:
    """The tables of all sets. A missing set is skipped with a note."""
    ordered = sorted(peers, key=list(PEERS).index)  # ours comes first
    rows = []
    for name in sets:
        try:
            split = load(name)
        except DataNotFound as reason:
            record.note(f"{name}: skipped. {reason}")
            continue
        rows += compare_set(record, name, split, ordered, threads, limit)
    if ratios := list(loss_ratios(rows)):
        record.begin("best peers", LOSS_COLUMNS, f"log loss, {OURS} over the best of its peers")
        for ratio in ratios:
            record.add(ratio)
    return rows


def compare_set(
    record: Record, name: str, split: Split, peers: Iterable[str], threads: Sequence[int], limit: float
) -> list[Row]:
    """The table of one set, and the ratios of times under it."""
    (n, n_features), n_new, n_classes = split.X.shape, len(split.y_new), split.y.max() + 1
    title = f"{name}: {n_classes} classes, {n} and {n_new} rows, {n_features} features"
    record.begin("peers", COLUMNS, title)
    rows = []
    for row in compare(name, split, peers, threads, limit):
        record.add(row, None if row.ended else f"{row.peer:25s}  {row.note}")
        rows.append(row)
    if ratios := list(time_ratios(rows)):
        record.begin("fit and predict", RATIO_COLUMNS, f"fit + predict, {OURS} over each peer")
        for ratio in ratios:
            record.add(ratio)
    return rows


def time_ratios(rows: Iterable[Row]) -> Iterator[TimeRatio]:
    """Ours relative to every peer of one set, starting with LogisticRegression, the usual choice."""
    by_name = {row.peer: row for row in rows if row.ended}
    ours = by_name.pop(OURS, None)
    if ours is not None:
        for row in sorted(by_name.values(), key=lambda row: row.peer != LOGISTIC):
            yield TimeRatio(row.data, row.peer, ours.seconds, row.seconds, ours.seconds / row.seconds)


def loss_ratios(rows: Iterable[Row]) -> Iterator[LossRatio]:
    """Ours with defaults relative to the best peer of every set. Other settings of ours do not count as peers."""
    by_set: dict[str, list[Row]] = {}
    for row in rows:
        if not math.isnan(row.log_loss):
            by_set.setdefault(row.data, []).append(row)
    for data, measured in by_set.items():
        ours = [row for row in measured if row.peer == OURS]
        peers = [row for row in measured if not row.peer.startswith(OURS)]
        if ours and peers:
            best = min(peers, key=lambda row: row.log_loss)
            loss = ours[0].log_loss
            yield LossRatio(data, best.peer, loss, best.log_loss, loss / best.log_loss)


def brier_score(p: NDArray[np.floating], y: NDArray[np.integer]) -> float:
    """Squared error of the probabilities, summed over classes: the mean of |p|² - 2 p_y + 1."""
    squares = np.einsum("rc,rc->r", p, p, dtype=np.float64)
    return float((squares - 2 * p[np.arange(len(y)), y] + 1).mean())


def calibration_error(p: NDArray[np.floating], y: NDArray[np.integer]) -> float:
    """Mean gap between confidence and accuracy in bins with equally many samples.

    With bins of equal width, most samples of a good model would be in the last bin.
    """
    confidence = p.max(axis=1).astype(np.float64)
    gap = confidence - (p.argmax(axis=1) == y)
    bins = np.array_split(gap[np.argsort(confidence, kind="stable")], BINS)
    return sum(abs(float(part.sum())) for part in bins) / len(y)


def comparison_figure(rows: Sequence[Row]) -> Figure:
    """Log loss against the time to fit, one panel per set: to the left and down is better."""
    names = list(dict.fromkeys(row.data for row in rows))
    figure = Figure(figsize=(6.5 * len(names), 5), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        ended = [row for row in rows if row.data == name and row.ended]
        for k, row in enumerate(sorted(ended, key=lambda row: (row.log_loss, row.fit_s))):
            colour, place = "#3465a4" if row.peer.startswith(OURS) else "#222222", (row.fit_s, row.log_loss)
            axes.plot(*place, "o", color=colour)
            # The names are beside the panel in the order of their log loss, where they cannot overlap.
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
