"""SVC(probability=True) and its replacements with the same kernel and C: the numbers and the figure of README.md.

    python -m pairloom.benchmarks.svc_probability [--set satimage] [--C 1] [--plot FILE]

scikit-learn 1.9 deprecates ``SVC(probability=True)`` and recommends ``CalibratedClassifierCV(SVC(), ensemble=False)``,
which calibrates each class against the rest. Beside both: pairs of classes with the same kernel, C and gamma, one
machine per pair fitted on all samples as in SVC.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.svm import SVC

from pairloom import PairwiseSVC
from pairloom.benchmarks.classifiers import THREADS
from pairloom.benchmarks.datasets import Split, load
from pairloom.benchmarks.peers import calibration_error
from pairloom.benchmarks.record import Column, Record
from pairloom.pipeline.calibration.held_out import mean_log_loss

#: Groups of the reliability diagram, of as many test samples each.
GROUPS = 12
OURS = 'PairwiseSVC("complete", kernel="rbf", fit_on="all")'
CLASSIFIERS: dict[str, Callable[[float], Any]] = {
    "SVC(probability=True)": lambda C: SVC(C=C, probability=True, random_state=0),
    "CalibratedClassifierCV(SVC(), ensemble=False)": lambda C: CalibratedClassifierCV(
        SVC(C=C), ensemble=False
    ),
    OURS: lambda C: PairwiseSVC("complete", kernel="rbf", C=C, fit_on="all", random_state=0, n_jobs=THREADS),
}
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
    """Fit and score each classifier; rows, and the probabilities of test samples."""
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
    parser.add_argument("--set", default="satimage")
    parser.add_argument("--C", type=float, default=1.0)
    parser.add_argument("--plot")
    asked = parser.parse_args()
    split = load(asked.set)
    command = f"python -m pairloom.benchmarks.svc_probability --set {asked.set} --C {asked.C:g}"
    predictions = compare(Record("svc_probability", command, {"C": asked.C}), split, asked.C)
    if asked.plot:
        title = f"{asked.set}, RBF kernel, C = {asked.C:g}"
        reliability_figure(predictions, split.y_new, title).savefig(asked.plot, metadata={"Date": None})


if __name__ == "__main__":
    main()
