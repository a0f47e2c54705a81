"""Text as sparse features: PairwiseSVC on CSR compared with LogisticRegression on the same matrix.

Two sets:

- "words", generated: 7,500 texts of 20 topics, TF-IDF of 20,000 words. Word frequencies follow Zipf's law, each topic
  prefers other words, and lengths of texts vary.
- "titles", real: job titles from O*NET's alternate titles; the class is the occupation. Classes overlap, and have 4 to
  1,766 training rows. TF-IDF of character n-grams, within words, of 2 to 4 characters. A fifth of each class is for
  testing. The file ``onet-titles.tsv`` is read from PAIRLOOM_DATA.

Each classifier runs in a separate process, one after the other, with one thread. The clocks start after a warm-up on a
few rows. "ours" is the CPU time of our fit as a multiple of the classifier's, and "peak MB" the peak of the process,
which includes the interpreter, the imports and the data. Ours chooses C and a calibration; the others have C = 10.
"""

import csv
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from pairloom import PairwiseSVC
from pairloom.benchmarks.datasets import DataNotFound, Split, path_of
from pairloom.benchmarks.fit_process import few_rows, fit_and_predict
from pairloom.benchmarks.record import Column, Record
from pairloom.pipeline.calibration.held_out import mean_log_loss

OURS = "PairwiseSVC"
CLASSIFIERS: dict[str, Callable[[], Any]] = {
    OURS: lambda: PairwiseSVC(random_state=0),
    "LogisticRegression(lbfgs)": lambda: LogisticRegression(C=10, max_iter=1000),
    "LogisticRegression(saga)": lambda: LogisticRegression(
        C=10, solver="saga", max_iter=1000, random_state=0
    ),
}
#: Targets: multiple of LogisticRegression's fit time and peak memory on "words", accuracy and log loss on "titles".
TIMES, PEAK, ACCURACY, LOG_LOSS = 2.0, 2e9, 0.405, 2.70


def words(texts: int = 10_000, topics: int = 20, vocabulary: int = 20_000) -> Split:
    """Texts of some topics, three quarters of them for training."""
    rng = np.random.default_rng(0)
    frequency = 1 / (np.arange(vocabulary) + 2.7) ** 1.05
    below = np.cumsum(frequency * rng.lognormal(0, 0.5, (topics, vocabulary)), axis=1)
    y, lengths = np.arange(texts) % topics, rng.lognormal(4.8, 0.9, texts).astype(np.int64) + 5
    drawn = [np.searchsorted(below[c], below[c, -1] * rng.random(n)) for c, n in zip(y, lengths, strict=True)]
    places = np.repeat(np.arange(texts), lengths), np.concatenate(drawn)
    counts = sparse.csr_array((np.ones(lengths.sum()), places), (texts, vocabulary))
    X = TfidfTransformer(sublinear_tf=True).fit_transform(counts).astype(np.float32)
    train = 3 * texts // 4
    return Split(X[:train], X[train:], y[:train], y[train:])


def titles() -> Split:
    """The job titles of occupations with at least five titles."""
    with path_of("onet-titles.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    y = np.unique([code for code, _ in rows], return_inverse=True)[1]
    kept = np.bincount(y)[y] >= 5
    text, y = np.array([title for _, title in rows])[kept], np.unique(y[kept], return_inverse=True)[1]
    test = np.zeros(len(y), bool)
    for c in range(int(y.max()) + 1):
        members = np.flatnonzero(y == c)
        test[np.random.default_rng([0, c]).permutation(members)[: len(members) // 5]] = True
    how = {"analyzer": "char_wb", "ngram_range": (2, 4), "min_df": 3, "sublinear_tf": True}
    vectoriser = TfidfVectorizer(**how, dtype=np.float32)
    return Split(vectoriser.fit_transform(text[~test]), vectoriser.transform(text[test]), y[~test], y[test])


SETS: dict[str, Callable[[], Split]] = {"words": words, "titles": titles}


@dataclass(frozen=True)
class Row:
    """One classifier on one set. Seconds and bytes."""

    data: str
    classifier: str
    note: str = ""
    accuracy: float = np.nan
    log_loss: float = np.nan
    fit_s: float = np.nan
    fit_cpu_s: float = np.nan
    predict_cpu_s: float = np.nan
    peak_bytes: float = np.nan
    ours: float = np.nan


COLUMNS = (
    Column("classifier", lambda row: row.classifier, 26, left=True),
    Column("accuracy", lambda row: f"{row.accuracy:.4f}"),
    Column("log loss", lambda row: f"{row.log_loss:.4f}"),
    Column("fit s", lambda row: f"{row.fit_s:.1f}", 7),
    Column("fit CPU s", lambda row: f"{row.fit_cpu_s:.1f}"),
    Column("predict CPU s", lambda row: f"{row.predict_cpu_s:.2f}"),
    Column("peak MB", lambda row: f"{row.peak_bytes / 1e6:.0f}"),
    Column("ours", lambda row: f"{row.ours:.2f}", 6),
    Column("note", lambda row: row.note, left=True),
)


def compare_sets(record: Record, sets: list[str], classifiers: list[str], limit: float, small: bool) -> None:
    """A table for each available set, and the targets."""
    for name in sets:
        try:
            split = words(400, 4, 500) if small else SETS[name]()
        except DataNotFound as error:
            record.note(f"{name} is skipped: {error}")
            continue
        n, D = split.X.shape
        title = (
            f"{name}: {n:,} x {D:,}, {split.X.nnz / n:.0f} entries per row, {int(split.y.max()) + 1} classes"
        )
        record.begin("sparse text", COLUMNS, title)
        rows = _measured(name, split, classifiers, limit)
        ours = next((row for row in rows if row.classifier == OURS), Row(name, OURS))
        for row in rows:
            record.add(replace(row, ours=ours.fit_cpu_s / row.fit_cpu_s))
        if name == "words":
            slowest = max((row.fit_cpu_s for row in rows if row.classifier != OURS), default=np.nan)
            record.note(
                f"fit {ours.fit_cpu_s / slowest:.2f} times as long as the slower LogisticRegression (target at most"
                f" {TIMES:g}), peak {ours.peak_bytes / 1e9:.2f} GB (target below {PEAK / 1e9:g})"
            )
        else:
            record.note(
                f"accuracy {ours.accuracy:.4f} (target at least {ACCURACY}), log loss {ours.log_loss:.3f} (target at"
                f" most {LOG_LOSS:.2f})"
            )


def _measured(data: str, split: Split, classifiers: list[str], limit: float) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("X", "X_new"):
            sparse.save_npz(folder / f"{part}.npz", sparse.csr_array(getattr(split, part)))
        np.savez(folder / "y.npz", y=split.y, y_new=split.y_new)
        return [_row(Row(data, classifier), folder, split.y_new, limit) for classifier in classifiers]


def _row(row: Row, folder: Path, y: NDArray[np.integer], limit: float) -> Row:
    """Measure a classifier in a separate process, and score the probabilities that it writes."""
    command = [sys.executable, "-m", "pairloom.benchmarks.sparse_text", row.classifier, str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return replace(row, note=f"not ended in {limit:g} s")
    except subprocess.CalledProcessError as error:
        return replace(row, note=(error.stderr.strip() or f"exit {error.returncode}").splitlines()[-1])
    with np.load(folder / "found.npz") as found:
        p, note = found["p"], str(found["note"])
        figures: dict[str, Any] = {
            key: float(found[key]) for key in found.files if key in Row.__dataclass_fields__ and key != "note"
        }
    right = float((p.argmax(axis=1) == y).mean())
    return replace(row, note=note, accuracy=right, log_loss=mean_log_loss(p, y), **figures)


def measure(classifier: str, folder: Path) -> None:
    """Fit and predict the data in a folder, and write probabilities, times and the peak memory there."""
    X, X_new = (sparse.load_npz(folder / f"{part}.npz") for part in ("X", "X_new"))
    with np.load(folder / "y.npz") as labels:
        split = Split(X, X_new, labels["y"], labels["y_new"])
    make = CLASSIFIERS[classifier]
    with threadpool_limits(1), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit_and_predict(make(), few_rows(split))
        caught.clear()
        measured = fit_and_predict(make(), split)
    converged = not any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    np.savez(folder / "found.npz", note="" if converged else "not converged", **measured)


if __name__ == "__main__":
    measure(sys.argv[1], Path(sys.argv[2]))
