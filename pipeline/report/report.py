"""Write the report of a run: its scores as files, and the page."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from pairloom.graphs.text import csv_cell, duration, plain_line, short_names
from pairloom.pipeline.display.class_layout import ClassOrder, order_classes
from pairloom.pipeline.display.evaluation import Outcomes, Scores, scores_of
from pairloom.pipeline.growth.waves import Wave
from pairloom.pipeline.report.class_maps import code_section, graph_section, maps_section
from pairloom.pipeline.report.errors import ConfidentError, confident_errors, errors_section
from pairloom.pipeline.report.label_doubts import doubts_section, held_out_doubts
from pairloom.pipeline.report.novel_samples import novel_samples, novelty_section
from pairloom.pipeline.report.page import KeyFigure, Section, growth_section, page, reliability_section
from pairloom.pipeline.report.run_facts import (
    RunTimes,
    configuration_section,
    model_section,
    run_seconds,
    run_warnings,
    times_section,
    warnings_section,
)
from pairloom.pipeline.report.run_results import (
    JudgedSamples,
    TrainedPairs,
    judge_samples,
    read_trained_pairs,
)
from pairloom.pipeline.report.score_tables import (
    ClassScores,
    ConfusedPair,
    baseline_outcomes,
    class_scores,
    classes_section,
    confused_pairs,
    coverage_section,
    methods_section,
    pairs_section,
)
from pairloom.pipeline.report.set_tables import sets_section
from pairloom.pipeline.run.growing_run import end_of_growth
from pairloom.pipeline.run.machine_store import read_dprime
from pairloom.pipeline.run.results import chosen_coupling
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import coordinate_labels
from pairloom.pipeline.run.run_log import first_time
from pairloom.pipeline.storage.folder import Folder

__all__ = ["csv_text", "judgement", "table_rows", "write_report"]

_WORST_PAIRS = 20
#: Maximum length of a name beside a row of a map.
_SHORT = 15
_PAIRS_HEADING = ("i", "class_i", "j", "class_j", "i_as_j", "j_as_i", "dprime")
_ERRORS_HEADING = (
    "id",
    "sample",
    "label",
    "true_class",
    "predicted",
    "predicted_class",
    "confidence",
    "likelihood",
)


#: The columns of the table of a report.
_TABLE_SCORES = {
    "accuracy": "accuracy",
    "log_loss": "log loss",
    "expected_calibration_error": "calibration error",
    "top_5_accuracy": "top 5",
    "macro_f1": "macro F1",
}


def write_report(run: Run, times: RunTimes, waves: Sequence[Wave] = ()) -> list[str]:
    """Write ``report/`` from the stored results and return its files.

    Parameters
    ----------
    run
        The run, all of whose other stages are finished.
    times
        Times of the stages.
    waves
        The scored waves of a growing run.
    """
    names = run.shape.classes
    judged = judge_samples(run)
    pairs = read_trained_pairs(run) if run.shape.code is None else None
    confused = [] if judged is None else confused_pairs(judged, pairs)
    errors = [] if judged is None else confident_errors(run, judged, pairs)
    classes = [] if judged is None else _class_scores(run, judged, pairs)
    warnings = run_warnings(run)
    baselines = {} if judged is None else baseline_outcomes(run, judged.model.label)
    metrics = _metrics(run, judged, baselines, confused, times)
    if waves:
        metrics["growth"] = [judgement(wave) for wave in waves]
    texts = {
        "metrics.json": json.dumps(metrics, indent=1) + "\n",
        "methods.csv": csv_text(table_rows(metrics)),
    }
    if judged is not None:
        texts["classes.csv"] = csv_text([ClassScores._fields, *(row.csv_row() for row in classes)])
        texts["pairs.csv"] = csv_text([_PAIRS_HEADING, *(pair.csv_row(names) for pair in confused)])
        texts["errors.csv"] = csv_text([_ERRORS_HEADING, *(error.csv_row(names) for error in errors)])
    texts["index.html"] = page(
        run.directory.resolve().name,
        _line(run),
        _key_figures(run, metrics, times),
        _notices(run, len(warnings)),
        list(_sections(run, warnings, times, waves, judged, baselines, pairs, confused, errors, classes)),
        {"names": [plain_line(name) for name in names], "short": short_names(names, _SHORT)},
    )
    folder = Folder(run.directory)
    for name, text in texts.items():
        folder.write(f"report/{name}", text.encode())
    return [f"report/{name}" for name in texts]


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV (RFC 4180, but lines end in LF). Text is escaped so that no spreadsheet takes it for a formula."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([csv_cell(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return text.getvalue()


def _metrics(
    run: Run,
    judged: JudgedSamples | None,
    baselines: Mapping[str, Outcomes],
    confused: Sequence[ConfusedPair],
    times: RunTimes,
) -> dict[str, Any]:
    shape, N, decomposition = run.shape, len(run.shape.classes), run.shape.decomposition
    metrics: dict[str, Any] = {
        "synthetic": shape.synthetic,
        "classes": N,
        f"{decomposition.noun}s": decomposition.n_machines,
        **({} if decomposition.share_of_pairs is None else {"share_of_pairs": decomposition.share_of_pairs}),
        "samples": shape.samples,
        "seconds_of_work": {stage: round(spent, 3) for stage, spent in times.work.items()},
        "elapsed_seconds": {stage: round(spent, 3) for stage, spent in times.elapsed.items()},
    }
    if times.planned is not None:
        metrics["planned_seconds"] = times.planned
    if judged is None:
        return metrics
    labels = coordinate_labels(shape.labels).tolist()
    return metrics | {
        "methods": {method: scores_of(outcomes)._asdict() for method, outcomes in judged.by_method.items()},
        "baselines": {name: _known(scores_of(outcomes)) for name, outcomes in baselines.items()},
        "worst_pairs": [[labels[pair.i], labels[pair.j], pair.errors] for pair in confused[:_WORST_PAIRS]],
    }


def _known(scores: Scores) -> dict[str, float]:
    """The scores that are not NaN: a baseline without probabilities has no log loss."""
    return {name: value for name, value in scores._asdict().items() if not np.isnan(value)}


def judgement(wave: Wave) -> dict[str, float]:
    """The score of a growing model after a wave, for reports and status."""
    return {"pairs": wave.pairs, "log_loss": wave.log_loss, "accuracy": wave.accuracy}


def _sections(
    run: Run,
    warnings: Sequence[tuple[str, int]],
    times: RunTimes,
    waves: Sequence[Wave],
    judged: JudgedSamples | None,
    baselines: Mapping[str, Outcomes],
    pairs: TrainedPairs | None,
    confused: Sequence[ConfusedPair],
    errors: Sequence[ConfidentError],
    classes: Sequence[ClassScores],
) -> Iterator[Section]:
    """The content of the page: results, then errors, then the model, then the course of the run."""
    names, order = run.shape.classes, _order(run, judged, pairs)
    family = str(run.graph.get("family", "unknown"))
    if judged is not None:
        yield methods_section(judged.by_method, baselines)
        yield reliability_section(judged.by_method)
        yield coverage_section(judged.model)
    if judged is not None and judged.sets is not None:
        yield sets_section(judged.sets)
    novel = novel_samples(run)
    if novel is not None:
        yield novelty_section(run, novel, None if judged is None else judged.model.predicted)
    if waves:
        yield growth_section(waves, len(names), end_of_growth(run))
    if judged is not None:
        yield errors_section(errors, names, int((~judged.model.right).sum()))
    doubts = held_out_doubts(run)
    if doubts is not None and doubts.doubted.any():
        yield doubts_section(run, doubts)
    if judged is not None or pairs is not None:
        yield maps_section(names, order, judged, confused, pairs)
    if judged is not None:
        yield pairs_section(confused, names, pairs is not None)
        yield classes_section(classes, "columns" if pairs is None else "pairs")
    if pairs is not None:
        yield graph_section(names, order, pairs, family)
    if run.shape.code is not None:
        yield code_section(run.shape.code, read_dprime(run.directory), order, family)
    yield model_section(run)
    yield times_section(times)
    yield configuration_section(run)
    yield warnings_section(warnings)


def _order(run: Run, judged: JudgedSamples | None, pairs: TrainedPairs | None) -> ClassOrder:
    """An order with similar classes side by side, by the probabilities of test samples or, without labels, by d'."""
    if judged is not None:
        return order_classes(judged.likeness)
    N = len(run.shape.classes)
    if pairs is None:
        return order_classes(np.zeros((N, N)))
    return order_classes(csr_array((np.exp(-pairs.dprime), tuple(pairs.edges.T)), shape=(N, N)))


def _class_scores(run: Run, judged: JudgedSamples, pairs: TrainedPairs | None) -> list[ClassScores]:
    shape = run.shape
    if pairs is not None:
        return class_scores(shape.classes, shape.rows, judged, pairs.degrees, pairs.hubs)
    assert shape.code is not None
    columns = (shape.code != 0).sum(axis=1)
    return class_scores(shape.classes, shape.rows, judged, columns, np.empty(0, np.int64))


def _line(run: Run) -> str:
    """The line below the title: date, data, numbers of classes and machines, version."""
    shape, first = run.shape, first_time(run.directory)
    begun = datetime.fromisoformat(first) if first else None
    parts = [
        "" if begun is None else f"{begun.day} {begun:%B %Y, %H:%M} UTC",
        str(run.config.data.features),
        f"{len(shape.classes):,} classes",
        f"{shape.n_edges:,} {shape.decomposition.noun}s",
        f"pairloom {run.versions['pairloom']}",
    ]
    return " · ".join(filter(None, parts))


def _key_figures(run: Run, metrics: Mapping[str, Any], times: RunTimes) -> list[KeyFigure]:
    figures = []
    if by_method := metrics.get("methods"):
        of_model = Scores(**by_method[run.shape.couplings[0]])
        figures += [
            KeyFigure(f"{of_model.accuracy:.1%}", "accuracy", f"of {run.shape.samples:,} test samples"),
            KeyFigure(f"{of_model.log_loss:.3f}", "log loss", f"{chosen_coupling(run)} coupling"),
            KeyFigure(f"{of_model.expected_calibration_error:.3f}", "calibration error", "expected, 15 bins"),
        ]
    if "pairs" in metrics:
        share = f"{metrics['share_of_pairs']:.0%} of all"
        figures.append(KeyFigure(f"{metrics['pairs']:,}", "pairs trained", share))
    else:
        figures.append(KeyFigure(f"{metrics['columns']:,}", "columns trained", "sets of classes"))
    work = duration(sum(times.work.values()))
    if times.spans:
        figures.append(KeyFigure(duration(run_seconds(times)), "time", f"{work} of work"))
    return figures


def _notices(run: Run, n_warnings: int) -> list[str]:
    notices = ["The features are synthetic."] if run.shape.synthetic else []
    if run.shape.samples and not run.shape.labelled:
        notices.append("The test samples have no labels, so there are no scores.")
    if not run.shape.samples:
        notices.append("There are no test samples.")
    if n_warnings:
        notices.append(f"{n_warnings} warning{'s' if n_warnings > 1 else ''}: see the end of the page.")
    return notices


def table_rows(metrics: Mapping[str, Any]) -> list[list[str]]:
    """The table of a report: a heading, then one row per coupling method, then one per baseline."""
    unit = "columns" if "columns" in metrics else "pairs"
    rows = [[*_scored(method, row), str(metrics[unit])] for method, row in metrics.get("methods", {}).items()]
    rows += [[*_scored(name, row), ""] for name, row in metrics.get("baselines", {}).items()]
    return [["method", *_TABLE_SCORES.values(), unit], *rows]


def _scored(name: str, row: Mapping[str, float]) -> list[str]:
    return [name, *(f"{row[score]:.4f}" if score in row else "" for score in _TABLE_SCORES)]
