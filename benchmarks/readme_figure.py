"""The figure of README.md, drawn from records of the peers benchmark.

    pairloom bench peers --sets clinc150 --peers ... --threads 1 --json clinc150.json
    python -m pairloom.benchmarks.readme_figure clinc150.json icd10cm.json ... docs/figures/peers.svg

Each set has a panel, with a bar per classifier for its log loss on the test samples, and beside it the CPU time of the
fit and the accuracy. A JSON file with the rows is written beside the figure.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pairloom.benchmarks.classifiers import OURS

TITLES = {
    "clinc150": "150 intents (CLINC150), 384 features",
    "icd10cm": "1654 diagnoses (ICD-10-CM), 384 features",
    "letter": "26 letters (letter), 16 columns",
    "satimage": "6 kinds of land (satimage), 36 columns",
}
NAMES = {
    OURS: "PairwiseSVC()",
    "LogisticRegression": "LogisticRegression, C = 10",
    "LogisticRegression(tuned)": "LogisticRegression, C by CV\nand a temperature",
    "LogisticRegression(C=300)": "LogisticRegression,\nbest C on the test set",
    "LinearSVC(temperature)": "CalibratedClassifierCV(\nLinearSVC), temperature",
    "LDA(temperature)": "LDA, shrinkage and\na temperature",
    "SVC(rbf tuned)": "SVC(probability=True),\ngamma and C by CV",
    "RandomForest": "RandomForest, 300 trees",
    "ExtraTrees": "ExtraTrees, 300 trees",
    "HistGradientBoosting(tuned)": "HistGradientBoosting,\nrate and leaves tuned",
}
KEPT = ("data", "classes", "peer", "accuracy", "log_loss", "fit_s", "fit_cpu_s")
OUR_COLOUR, THEIR_COLOUR = "#3465a4", "#b8bcc2"


def rows_of(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """The rows of all records that the figure shows."""
    rows = [row for path in paths for row in json.loads(path.read_text())["rows"]]
    shown = [row for row in rows if row["table"] == "peers" and row["peer"] in NAMES and row["log_loss"]]
    return [{key: row[key] for key in KEPT} for row in shown]


def peers_figure(rows: Sequence[dict[str, Any]]) -> Figure:
    """One panel per set, two in a row, with the best log loss on top."""
    sets = list(dict.fromkeys(row["data"] for row in rows))
    n_lines = -(-len(sets) // 2)
    figure = Figure(figsize=(11, 2.5 * n_lines), layout="constrained")
    panels = figure.subplots(n_lines, 2, squeeze=False).ravel()
    for axes, data in zip(panels, sets, strict=False):
        _draw(axes, sorted((row for row in rows if row["data"] == data), key=lambda row: -row["log_loss"]))
        axes.set_title(TITLES[data], fontsize=10, fontweight="bold", loc="left")
    for axes in panels[-2:]:
        axes.set_xlabel("log loss of test samples: less is better", fontsize=9)
    return figure


def _draw(axes: Axes, rows: Sequence[dict[str, Any]]) -> None:
    losses = [row["log_loss"] for row in rows]
    colours = [OUR_COLOUR if row["peer"] == OURS else THEIR_COLOUR for row in rows]
    bars = axes.barh([NAMES[row["peer"]] for row in rows], losses, color=colours, height=0.62)
    axes.bar_label(bars, [_label(row) for row in rows], padding=4, fontsize=8)
    for text, row in zip(axes.get_yticklabels(), rows, strict=True):
        text.set_fontweight("bold" if row["peer"] == OURS else "normal")
    axes.tick_params(labelsize=8)
    axes.set_xlim(0, 2.1 * max(losses))
    axes.spines[["top", "right"]].set_visible(False)


def _label(row: dict[str, Any]) -> str:
    seconds = row["fit_cpu_s"]
    shown = f"{seconds:.0f}" if seconds >= 10 else f"{seconds:.1f}"
    return f"{row['log_loss']:.3f}; accuracy {row['accuracy']:.3f}, fit {shown} s"


def main(arguments: Sequence[str]) -> None:
    """Draw the figure named last from the records named before it."""
    if len(arguments) < 2:
        raise SystemExit(__doc__)
    target, rows = Path(arguments[-1]), rows_of(map(Path, arguments[:-1]))
    with mpl.rc_context({"svg.hashsalt": "pairloom"}):
        peers_figure(rows).savefig(target, metadata={"Date": None})
    target.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
