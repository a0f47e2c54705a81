"""SVC(probability=True) and its replacements with the same kernel and C: figures for docs/comparison.md.

    python -m pairloom.benchmarks.svc_probability [--set digits] [--C 1] [--plot FILE]
    python -m pairloom.benchmarks.svc_probability --table [--seeds 3]

The second form prints two rows per set and C, for pairs trained on all samples as in SVC, and by the default scheme:
the log loss of SVC(probability=True) and of pairs, as means over the draws of the training rows, and the mean and the
worst of their ratios.

scikit-learn 1.9 deprecates ``SVC(probability=True)`` and recommends ``CalibratedClassifierCV(SVC(), ensemble=False)``,
which calibrates each class against the rest. Both are compared with pairs of classes with the same kernel, C and gamma,
and one machine per pair trained on all samples, as in SVC.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.svm import SVC

from pairloom import PairwiseSVC
from pairloom.benchmarks.classifiers import THREADS
from pairloom.benchmarks.datasets import SETS, DataNotFound, Split, load, load_table, scaled_split
from pairloom.benchmarks.peers import calibration_error
from pairloom.benchmarks.record import Column, Record
from pairloom.pipeline.calibration.held_out import mean_log_loss

#: Number of groups in the reliability diagram, with equally many test samples.
GROUPS = 12
OURS = 'PairwiseSVC("complete", kernel="rbf", fit_on="all")'
#: One machine per pair fitted on all samples, as in SVC, and the default: the mean of those that left out one fold.
FIT_ON = ("all", "rest")
CLASSIFIERS: dict[str, Callable[[float], Any]] = {
    "SVC(probability=True)": lambda C: SVC(C=C, probability=True, random_state=0),
    "CalibratedClassifierCV(SVC(), ensemble=False)": lambda C: CalibratedClassifierCV(
        SVC(C=C), ensemble=False
    ),
    OURS: lambda C: _pairs(C, "all"),
}


def _pairs(C: float, fit_on: str) -> PairwiseSVC:
    return PairwiseSVC("complete", kernel="rbf", C=C, fit_on=fit_on, random_state=0, n_jobs=THREADS)


COLOURS = ("#999999", "#c17d11", "#3465a4")


@dataclass(frozen=True)
class Row:
    """One classifier."""

    classifier: str
    accuracy: float
    log_loss: float
    calibration_error: float
    fit_s: float


COLUMNS = (
    Column("classifier", lambda row: row.classifier, 51, left=True),
    Column("accuracy", lambda row: f"{row.accuracy:.4f}"),
    Column("log loss", lambda row: f"{row.log_loss:.4f}"),
    Column("calibration error", lambda row: f"{row.calibration_error:.4f}"),
    Column("fit s", lambda row: f"{row.fit_s:.1f}", 6),
)
Predictions = dict[str, tuple[Row, NDArray[np.floating]]]


def compare(record: Record, split: Split, C: float) -> Predictions:
    """Fit and score each classifier; return rows and the probabilities of test samples."""
    record.begin("svc_probability", COLUMNS)
    predictions: Predictions = {}
    for name, make in CLASSIFIERS.items():
        began = time.perf_counter()
        with warnings.catch_warnings(
            category=FutureWarning, action="ignore"
        ):  # the deprecation that this compares
            fitted = make(C).fit(split.X, split.y)
        seconds = time.perf_counter() - began
        p = fitted.predict_proba(split.X_new)
        right = float((p.argmax(axis=1) == split.y_new).mean())
        row = Row(
            name, right, float(mean_log_loss(p, split.y_new)), calibration_error(p, split.y_new), seconds
        )
        record.add(row)
        predictions[name] = row, p
    return predictions


#: The sets of the table. "digits10" has few rows, few columns and many classes, like tables of vowels: digits in ten
#: principal components, 500 rows for training.
TABLE_SETS = ("satimage", "segment", "letter", "digits10")
TABLE_CS = (1.0, 10.0, 100.0)
#: Maximum number of training rows, since LIBSVM is slow.
MOST_ROWS = 3000


@dataclass(frozen=True)
class Comparison:
    """One set, one C and one fold scheme: mean log losses over the draws, and ratios of ours to SVC's."""

    data: str
    C: float
    fit_on: str
    svc: float
    ours: float
    ratio: float
    worst: float


COMPARISON_COLUMNS = (
    Column("set", lambda row: row.data, 10, left=True),
    Column("C", lambda row: f"{row.C:g}", 5),
    Column("fit_on", lambda row: row.fit_on, 7),
    Column("SVC(probability=True)", lambda row: f"{row.svc:.4f}"),
    Column("pairs", lambda row: f"{row.ours:.4f}", 8),
    Column("ratio", lambda row: f"{row.ratio:.3f}", 7),
    Column("worst", lambda row: f"{row.worst:.3f}", 7),
)


def draw(name: str, seed: int) -> Split:
    """A set of the table, with training rows drawn by the seed."""
    if name == "digits10":
        X, y = load_digits(return_X_y=True)
        return scaled_split(PCA(10).fit_transform(X).astype(np.float32), y, 500, seed)
    split = load_table(name, seed)
    classes, y = np.unique(split.y, return_inverse=True)
    y_new = np.searchsorted(classes, split.y_new)
    return split._replace(X=split.X[:MOST_ROWS], y=y[:MOST_ROWS], y_new=y_new)


def compare_draws(record: Record, sets: Sequence[str], seeds: int) -> list[Comparison]:
    """The table."""
    record.begin("svc_probability_draws", COMPARISON_COLUMNS)
    rows = []
    for name in sets:
        splits = [draw(name, seed) for seed in range(seeds)]
        for C in TABLE_CS:
            losses = np.array([_log_losses(split, C) for split in splits])
            for column, fit_on in enumerate(FIT_ON, 1):
                ratios = losses[:, column] / losses[:, 0]
                svc, ours = losses[:, [0, column]].mean(axis=0).tolist()
                rows.append(Comparison(name, C, fit_on, svc, ours, float(ratios.mean()), float(ratios.max())))
                record.add(rows[-1])
    return rows


def _log_losses(split: Split, C: float) -> list[float]:
    """The log loss of SVC(probability=True), and ours by each scheme of folds."""
    made = [CLASSIFIERS["SVC(probability=True)"](C), *(_pairs(C, fit_on) for fit_on in FIT_ON)]
    with warnings.catch_warnings(category=FutureWarning, action="ignore"):
        fitted = [one.fit(split.X, split.y) for one in made]
    return [float(mean_log_loss(one.predict_proba(split.X_new), split.y_new)) for one in fitted]


def reliability_figure(predictions: Predictions, y: NDArray[np.integer], title: str) -> Figure:
    """Predicted against observed frequencies of all classes, and the log losses."""
    figure = Figure(figsize=(8.6, 3.6), layout="constrained")
    diagram, losses = figure.subplots(1, 2, width_ratios=(1, 1.35))
    for colour, (name, (_, p)) in zip(COLOURS, predictions.items(), strict=True):
        confidence, right = p.max(axis=1), p.argmax(axis=1) == y
        groups = np.array_split(np.argsort(confidence, kind="stable"), GROUPS)
        diagram.plot(
            *([part[g].mean() for g in groups] for part in (confidence, right)), "o-", color=colour, ms=4
        )
        losses.barh(name, predictions[name][0].log_loss, color=colour, height=0.55)
        losses.text(predictions[name][0].log_loss, name, f" {predictions[name][0].log_loss:.3f}", va="center")
    diagram.plot([0.3, 1], [0.3, 1], ":", color="#555555", zorder=0)
    diagram.set(
        xlabel="predicted probability", ylabel="share that is right", xlim=(0.3, 1.01), ylim=(0.3, 1.01)
    )
    losses.set(xlabel="log loss of test samples (less is better)", title=title)
    losses.set_yticks(range(len(predictions)), [_in_lines(name) for name in predictions])
    losses.spines[["top", "right"]].set_visible(False)
    losses.margins(x=0.15)
    losses.invert_yaxis()
    return figure


def _in_lines(name: str) -> str:
    name = name.replace("probability=True)", "probability=True),\ndeprecated")
    return name.replace("(SVC(), ", "(\nSVC(), ").replace('"complete", ', '"complete",\n')


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--set", default="digits", choices=SETS)
    parser.add_argument("--C", type=float, default=1.0)
    parser.add_argument("--plot")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    if asked.table:
        command = f"python -m pairloom.benchmarks.svc_probability --table --seeds {asked.seeds}"
        compare_draws(Record("svc_probability", command, {"seeds": asked.seeds}), TABLE_SETS, asked.seeds)
        return
    try:
        split = load(asked.set)
    except DataNotFound as missing:
        parser.error(str(missing))
    command = f"python -m pairloom.benchmarks.svc_probability --set {asked.set} --C {asked.C:g}"
    predictions = compare(Record("svc_probability", command, {"C": asked.C}), split, asked.C)
    if asked.plot:
        title = f"{asked.set}, RBF kernel, C = {asked.C:g}"
        reliability_figure(predictions, split.y_new, title).savefig(asked.plot, metadata={"Date": None})


if __name__ == "__main__":
    main()
