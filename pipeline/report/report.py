"""The report of a run: a table, figures, and a page with both."""

from __future__ import annotations

import csv
import html
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.growth.wave import Wave
from pairloom.pipeline.report import figures
from pairloom.pipeline.report.evaluation import confusion_counts, reliability, scores, worst_pairs
from pairloom.pipeline.run.run_directory import RunShape, open_group
from pairloom.pipeline.storage.atomic_file import write_atomically
from pairloom.pipeline.storage.zarr_layout import read_whole

__all__ = ["RunTimes", "judgement", "table_rows", "write_report"]

_WORST_PAIRS = 20


class RunTimes(NamedTuple):
    """Seconds by stage: of work, summed over workers; that passed; and the least and most that were planned.

    What passed is empty for a run of several drivers, what was planned is None for a run without a forecast.
    """

    work: Mapping[str, float]
    elapsed: Mapping[str, float]
    planned: Mapping[str, tuple[float, float]] | None = None


def write_report(directory: Path, shape: RunShape, times: RunTimes, waves: Sequence[Wave] = ()) -> list[Path]:
    """Write ``report/`` from the stored probabilities and return its files.

    Parameters
    ----------
    times
        Times of the stages.
    waves
        The scored waves of a growing run.
    """
    probabilities = _probabilities(directory, shape)
    labels = (
        read_whole(open_group(directory, "features.zarr")["label"])
        if shape.labelled and shape.samples
        else None
    )
    metrics = _metrics(shape, probabilities, labels, times)
    if waves:
        metrics["growth"] = [judgement(wave) for wave in waves]
    folder = directory / "report"
    folder.mkdir(exist_ok=True)
    drawn = _figures(shape, probabilities, labels, waves)
    pictures = [file for name, figure in drawn for file in figures.save_figure(figure, folder / name)]
    texts = {
        "metrics.json": json.dumps(metrics, indent=1) + "\n",
        "methods.csv": _csv(metrics),
        "index.html": _page(metrics, [file.name for file in pictures if file.suffix == ".svg"]),
    }
    for name, text in texts.items():
        write_atomically(folder / name, text.encode())
    return [*pictures, *(folder / name for name in texts)]


def _probabilities(directory: Path, shape: RunShape) -> dict[str, NDArray[np.float32]]:
    group = open_group(directory, "probabilities.zarr")
    return {method: read_whole(group[method]) for method in shape.couplings}


def _metrics(
    shape: RunShape,
    probabilities: Mapping[str, NDArray[np.float32]],
    labels: NDArray[np.int32] | None,
    times: RunTimes,
) -> dict[str, Any]:
    N, E = len(shape.classes), shape.n_edges
    metrics: dict[str, Any] = {
        "synthetic": shape.synthetic,
        "classes": N,
        **({"pairs": E, "share_of_pairs": E / (N * (N - 1) / 2)} if shape.code is None else {"columns": E}),
        "samples": shape.samples,
        "seconds_of_work": {stage: round(spent, 3) for stage, spent in times.work.items()},
        "elapsed_seconds": {stage: round(spent, 3) for stage, spent in times.elapsed.items()},
    }
    if times.planned is not None:
        metrics["planned_seconds"] = times.planned
    if labels is None:
        return metrics
    first = probabilities[shape.couplings[0]]
    worst = worst_pairs(confusion_counts(first, labels), _WORST_PAIRS)
    return metrics | {
        "methods": {method: scores(p, labels)._asdict() for method, p in probabilities.items()},
        "worst_pairs": [[shape.classes[i], shape.classes[j], count] for i, j, count in worst],
    }


def judgement(wave: Wave) -> dict[str, float]:
    """The score of a growing model after a wave, for reports and status."""
    return {"pairs": wave.pairs, "log_loss": wave.log_loss, "accuracy": wave.accuracy}


def _figures(
    shape: RunShape,
    probabilities: Mapping[str, NDArray[np.float32]],
    labels: NDArray[np.int32] | None,
    waves: Sequence[Wave],
) -> Iterator[tuple[str, Figure]]:
    note = " (synthetic features)" if shape.synthetic else ""
    N, E = len(shape.classes), shape.n_edges
    if shape.code is None:
        graph = graphs.model_graph(N, shape.edges.tolist(), "run")
        title = f"{N} classes, {E} trained pairs{note}"
        yield "graph", figures.graph_figure(graph, shape.classes, title)
    else:
        title = f"{N} classes, {E} machines on sets of them{note}"
        yield "code", figures.code_figure(shape.code, shape.classes, title)
    if waves:
        yield "growth", figures.growth_figure(waves, f"Growth in {len(waves) - 1} waves{note}")
    if labels is None:
        return
    scored = {method: scores(p, labels) for method, p in probabilities.items()}
    yield "accuracy", figures.accuracy_figure(scored, f"Coupling methods{note}")
    curves = {method: reliability(p, labels) for method, p in probabilities.items()}
    yield "reliability", figures.reliability_figure(curves, f"Reliability{note}")
    confusion = confusion_counts(probabilities[shape.couplings[0]], labels)
    pairs = worst_pairs(confusion, _WORST_PAIRS)
    title = f"Errors of {shape.couplings[0]}{note}"
    yield "confusion", figures.confusion_figure(confusion, shape.classes, pairs, title)


def table_rows(metrics: Mapping[str, Any]) -> list[list[str]]:
    """The table of a report: a heading, then one row per coupling method."""
    unit = "columns" if "columns" in metrics else "pairs"
    heading = ["method", "accuracy", "log loss", "calibration error", unit]
    return [
        heading,
        *(
            [
                method,
                f"{row['accuracy']:.4f}",
                f"{row['log_loss']:.4f}",
                f"{row['expected_calibration_error']:.4f}",
                str(metrics[unit]),
            ]
            for method, row in metrics.get("methods", {}).items()
        ),
    ]


def _csv(metrics: Mapping[str, Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(table_rows(metrics))
    return text.getvalue()


def _page(metrics: Mapping[str, Any], pictures: list[str]) -> str:
    rows = "\n".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in table_rows(metrics)
    )
    images = "\n".join(f'<p><img src="{name}" alt="{Path(name).stem}"></p>' for name in pictures)
    warning = "<p><strong>The features are synthetic.</strong></p>" if metrics["synthetic"] else ""
    machines = f"{metrics['columns']} columns" if "columns" in metrics else f"{metrics['pairs']} pairs"
    facts = f"{metrics['classes']} classes, {machines}, {metrics['samples']} samples"
    return (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>pairloom report</title>\n'
        "<style>body{font:15px sans-serif;margin:2em}td{padding:0 1em 0 0}img{max-width:100%}</style>\n"
        f"<h1>{facts}</h1>\n{warning}\n<table>\n{rows}\n</table>\n{images}\n{_times_table(metrics)}</html>\n"
    )


def _times_table(metrics: Mapping[str, Any]) -> str:
    """The times of the stages, planned beside actual where there was a forecast."""
    planned, elapsed = metrics.get("planned_seconds", {}), metrics["elapsed_seconds"]
    rows = [["stage", "planned", "took", "work of all workers"]]
    for stage, work in metrics["seconds_of_work"].items():
        if work:
            low, high = planned.get(stage, (None, None))
            expected = "" if low is None else f"{low:.1f} to {high:.1f} s"
            took = f"{elapsed[stage]:.1f} s" if stage in elapsed else ""
            rows.append([stage, expected, took, f"{work:.1f} s"])
    cells = "\n".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<h2>Time</h2>\n<table>\n{cells}\n</table>\n"
