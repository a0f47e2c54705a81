"""The report of a run: its scores as files, and a page that shows them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from pairloom.pipeline.growth.wave import Wave
from pairloom.pipeline.report.class_maps import maps_section
from pairloom.pipeline.report.class_order import ClassOrder, order_classes
from pairloom.pipeline.report.class_table import ClassRow, class_rows, classes_csv, classes_section
from pairloom.pipeline.report.code_figure import code_section
from pairloom.pipeline.report.confident_errors import (
    ConfidentError,
    confident_errors,
    errors_csv,
    errors_section,
)
from pairloom.pipeline.report.confused_pairs import ConfusedPair, confused_pairs, pairs_csv, pairs_section
from pairloom.pipeline.report.csv_file import csv_text
from pairloom.pipeline.report.evaluation import Scores, scores_of
from pairloom.pipeline.report.growth_chart import growth_section
from pairloom.pipeline.report.judged_samples import JudgedSamples, judge_samples
from pairloom.pipeline.report.methods_table import methods_section
from pairloom.pipeline.report.model_graph_figure import graph_section
from pairloom.pipeline.report.page import KeyFigure, page
from pairloom.pipeline.report.reliability_diagram import reliability_section
from pairloom.pipeline.report.run_facts import configuration_section, model_section, warnings_section
from pairloom.pipeline.report.run_record import RunRecord, RunTimes
from pairloom.pipeline.report.section import Section
from pairloom.pipeline.report.short_names import short_names
from pairloom.pipeline.report.stage_times import run_seconds, short_seconds, times_section
from pairloom.pipeline.report.trained_pairs import TrainedPairs, read_dprime, read_trained_pairs
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.storage.atomic_file import write_atomically
from pairloom.pipeline.storage.names import plain_line

__all__ = ["judgement", "table_rows", "write_report"]

_WORST_PAIRS = 20
#: Characters of a name beside a row of a map.
_SHORT = 15


def write_report(run: Run, record: RunRecord, times: RunTimes, waves: Sequence[Wave] = ()) -> list[Path]:
    """Write ``report/`` from the stored results and return its files.

    Parameters
    ----------
    run
        The run, all of whose other stages are finished.
    record
        Its configuration, versions and warnings.
    times
        Times of the stages.
    waves
        The scored waves of a growing run.
    """
    judged = judge_samples(run)
    pairs = read_trained_pairs(run, record.graph) if run.shape.code is None else None
    confused = [] if judged is None else confused_pairs(judged, pairs)
    errors = [] if judged is None else confident_errors(run, judged, pairs)
    metrics = _metrics(run, judged, confused, times)
    if waves:
        metrics["growth"] = [judgement(wave) for wave in waves]
    texts = {"metrics.json": json.dumps(metrics, indent=1) + "\n", "methods.csv": _methods_csv(metrics)}
    if judged is not None:
        texts["classes.csv"] = classes_csv(_class_rows(run, judged, pairs))
        texts["pairs.csv"] = pairs_csv(confused, run.shape.classes)
        texts["errors.csv"] = errors_csv(errors, run.shape.classes)
    sections = list(_sections(run, record, times, waves, judged, pairs, confused, errors))
    texts["index.html"] = page(
        record.name,
        _lines(run, record),
        _key_figures(run, metrics, times),
        _notices(run, record),
        sections,
        {
            "names": [plain_line(name) for name in run.shape.classes],
            "short": short_names(run.shape.classes, _SHORT),
        },
    )
    folder = run.directory / "report"
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        write_atomically(folder / name, text.encode())
    return [folder / name for name in texts]


def _metrics(
    run: Run, judged: JudgedSamples | None, confused: Sequence[ConfusedPair], times: RunTimes
) -> dict[str, Any]:
    shape, N, E = run.shape, len(run.shape.classes), run.shape.n_edges
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
    if judged is None:
        return metrics
    return metrics | {
        "methods": {method: scores_of(found)._asdict() for method, found in judged.by_method.items()},
        "worst_pairs": [
            [shape.classes[pair.i], shape.classes[pair.j], pair.i_as_j + pair.j_as_i]
            for pair in confused[:_WORST_PAIRS]
        ],
    }


def judgement(wave: Wave) -> dict[str, float]:
    """The score of a growing model after a wave, for reports and status."""
    return {"pairs": wave.pairs, "log_loss": wave.log_loss, "accuracy": wave.accuracy}


def _sections(
    run: Run,
    record: RunRecord,
    times: RunTimes,
    waves: Sequence[Wave],
    judged: JudgedSamples | None,
    pairs: TrainedPairs | None,
    confused: Sequence[ConfusedPair],
    errors: Sequence[ConfidentError],
) -> Iterator[Section]:
    """The content of the page: results, then errors, then the model, then how the run went."""
    names, order = run.shape.classes, _order(run, judged, pairs)
    family = str(record.graph.get("family", "unknown"))
    if judged is not None:
        yield methods_section(judged.by_method)
        yield reliability_section(judged.by_method)
    if waves:
        yield growth_section(waves, len(names), record.growth_ended)
    if judged is not None:
        yield errors_section(errors, run, pairs, int((~judged.model.right).sum()))
    if judged is not None or pairs is not None:
        yield maps_section(names, order, judged, confused, pairs)
    if judged is not None:
        yield pairs_section(confused, names, pairs is not None)
        unit = "columns" if pairs is None else "pairs"
        yield classes_section(_class_rows(run, judged, pairs), unit)
    if pairs is not None:
        yield graph_section(names, order, pairs, family)
    if run.shape.code is not None:
        yield code_section(run.shape.code, read_dprime(run), order, family)
    yield model_section(run, record)
    yield times_section(times)
    yield configuration_section(record)
    yield warnings_section(record.warnings)


def _order(run: Run, judged: JudgedSamples | None, pairs: TrainedPairs | None) -> ClassOrder:
    """Near classes side by side: by the probabilities of test samples or, without labels, by d'."""
    if judged is not None:
        return order_classes(judged.likeness)
    likeness = np.zeros((len(run.shape.classes),) * 2)
    if pairs is not None:
        likeness[pairs.edges[:, 0], pairs.edges[:, 1]] = np.exp(-pairs.dprime)
    return order_classes(likeness)


def _class_rows(run: Run, judged: JudgedSamples, pairs: TrainedPairs | None) -> list[ClassRow]:
    shape = run.shape
    if pairs is not None:
        return class_rows(shape.classes, shape.rows, judged, pairs.degrees, pairs.hubs)
    assert shape.code is not None
    return class_rows(shape.classes, shape.rows, judged, (shape.code != 0).sum(axis=1), np.empty(0, np.int64))


def _lines(run: Run, record: RunRecord) -> list[str]:
    shape = run.shape
    source = str(record.configuration["data"]["features"])
    machines = f"{shape.n_edges:,} " + ("pairs" if shape.code is None else "columns")
    begun = datetime.fromisoformat(record.begun) if record.begun else None
    date = "" if begun is None else f"{begun.day} {begun:%B %Y, %H:%M} UTC"
    told = [
        date,
        source,
        f"{len(shape.classes):,} classes",
        machines,
        f"pairloom {record.versions['pairloom']}",
    ]
    return [" · ".join(part for part in told if part)]


def _key_figures(run: Run, metrics: Mapping[str, Any], times: RunTimes) -> list[KeyFigure]:
    figures = []
    if scored := metrics.get("methods"):
        of_model = Scores(**scored[run.shape.couplings[0]])
        figures += [
            KeyFigure(f"{of_model.accuracy:.1%}", "accuracy", f"of {run.shape.samples:,} test samples"),
            KeyFigure(f"{of_model.log_loss:.3f}", "log loss", f"{run.shape.couplings[0]} coupling"),
            KeyFigure(f"{of_model.expected_calibration_error:.3f}", "calibration error", "expected, 15 bins"),
        ]
    if "pairs" in metrics:
        share = f"{metrics['share_of_pairs']:.0%} of all"
        figures.append(KeyFigure(f"{metrics['pairs']:,}", "pairs trained", share))
    else:
        figures.append(KeyFigure(f"{metrics['columns']:,}", "columns trained", "sets of classes"))
    work = short_seconds(sum(times.work.values()))
    if times.spans:
        figures.append(KeyFigure(short_seconds(run_seconds(times)), "time", f"{work} of work"))
    return figures


def _notices(run: Run, record: RunRecord) -> list[str]:
    notices = ["The features are synthetic."] if run.shape.synthetic else []
    if run.shape.samples and not run.shape.labelled:
        notices.append("The test samples have no labels, so there are no scores.")
    if not run.shape.samples:
        notices.append("There are no test samples.")
    if record.warnings:
        count = len(record.warnings)
        notices.append(f"{count} warning{'s' if count > 1 else ''}: see the end of the page.")
    return notices


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


def _methods_csv(metrics: Mapping[str, Any]) -> str:
    heading, *rows = table_rows(metrics)
    return csv_text(heading, rows)
