"""The most confident errors, one by one: what the model took a sample for, and the machine that decided it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.report.critical_machine import CriticalMachine, critical_machines
from pairloom.pipeline.report.csv_file import csv_text
from pairloom.pipeline.report.explained_errors import ExplainedError, explained_errors
from pairloom.pipeline.report.judged_samples import JudgedSamples
from pairloom.pipeline.report.section import Section
from pairloom.pipeline.report.table import Cell, Column, Markup, Name, table
from pairloom.pipeline.report.trained_pairs import TrainedPairs
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.storage.names import csv_cell, plain_line

__all__ = ["ConfidentError", "confident_errors", "errors_csv", "errors_section"]

#: Classes of a sample whose probabilities are shown.
_CLASSES = 5


class ConfidentError(NamedTuple):
    """A sample that is predicted wrong.

    Attributes
    ----------
    sample, label, predicted : int
    confidence, likelihood : float
        Probability of the predicted class, and of the true one.
    likeliest : list of (class, probability)
    critical : CriticalMachine or None
    explained : ExplainedError or None
    """

    sample: int
    label: int
    predicted: int
    confidence: float
    likelihood: float
    likeliest: list[tuple[int, float]]
    critical: CriticalMachine | None
    explained: ExplainedError | None


def confident_errors(run: Run, judged: JudgedSamples, pairs: TrainedPairs | None) -> list[ConfidentError]:
    """The most confident errors by the coupling of the model, most confident first."""
    samples, p = judged.errors
    label, predicted = judged.model.label[samples], judged.model.predicted[samples]
    critical = critical_machines(run, pairs, samples, predicted, label)
    explained = explained_errors(run, samples, predicted, label)
    return [
        ConfidentError(
            sample=int(sample),
            label=int(label[place]),
            predicted=int(predicted[place]),
            confidence=float(p[place, predicted[place]]),
            likelihood=float(p[place, label[place]]),
            likeliest=_likeliest(p[place]),
            critical=critical[place],
            explained=explained[place],
        )
        for place, sample in enumerate(samples)
    ]


def _likeliest(p: NDArray[np.float32]) -> list[tuple[int, float]]:
    order = np.argsort(-p, kind="stable")[:_CLASSES]
    return [(int(c), float(p[c])) for c in order]


def errors_section(
    errors: Sequence[ConfidentError], run: Run, pairs: TrainedPairs | None, n_errors: int
) -> Section:
    """The table of errors, the panel of the chosen one, and the reasons for the script."""
    if not errors:
        return Section("errors", "Errors", "<p>No test sample is predicted wrong.</p>")
    shown = "all of them" if len(errors) == n_errors else f"the {len(errors)} most confident ones"
    body = (
        f"<p>{n_errors:,} test samples are predicted wrong; here are {shown}. Choose a sample to see its critical"
        " machine: the one that compares the predicted class with the true one, and what speaks for each.</p>"
        '<div class="beside"><div>'
        + _errors_table(errors, run.shape.classes)
        + '</div><div id="sample" class="panel" aria-live="polite"></div></div>'
    )
    data = {"errors": [_values(error, run, pairs) for error in errors]}
    return Section("errors", "Most confident errors", body, data)


def _errors_table(errors: Sequence[ConfidentError], names: Sequence[str]) -> str:
    columns = [
        Column("sample", True, "number of the test sample, from 0"),
        Column("true class"),
        Column("predicted"),
        Column("p", True, "probability of the predicted class"),
        Column("p of true", True, "probability of the true class"),
    ]
    rows: list[list[Cell]] = [
        [
            Markup(f'<button type="button" class="choose-sample">{error.sample}</button>'),
            Name(names[error.label]),
            Name(names[error.predicted]),
            f"{error.confidence:.4f}",
            _small(error.likelihood),
        ]
        for error in errors
    ]
    return table(
        "errors",
        columns,
        rows,
        "Most confident errors",
        search="a sample or class",
        sortable=True,
        row_keys=range(len(errors)),
    )


def _values(error: ConfidentError, run: Run, pairs: TrainedPairs | None) -> dict[str, Any]:
    """An error as the script reads it."""
    values: dict[str, Any] = {
        "sample": error.sample,
        "label": error.label,
        "predicted": error.predicted,
        "likelihood": _digits(error.likelihood),
        "likeliest": [[c, _digits(p)] for c, p in error.likeliest],
    }
    if error.critical is not None:
        values["critical"] = _critical_values(error.critical, run, pairs)
    if error.explained is not None:
        values["moved"] = _moved_values(error.explained)
        values["own"] = _own_values(error, error.explained, pairs)
    return values


def _moved_values(found: ExplainedError) -> dict[str, Any]:
    """The machines that moved the odds."""
    return {
        "machines": [[one.sides, _digits(one.logit), _digits(one.effect)] for one in found.moved],
        "rest": _digits(found.moved_rest),
        "others": found.moved_others,
        "prior": _digits(found.prior),
        "odds": _digits(found.odds),
    }


def _own_values(error: ConfidentError, found: ExplainedError, pairs: TrainedPairs | None) -> dict[str, Any]:
    """The pair's own logit, and the support vectors that it is made of."""
    values: dict[str, Any] = {
        "route": found.route,
        "logit": None if found.route == "none" else _digits(found.logit),
        "through": found.through,
        "vectors": [[plain_line(one.name), _digits(one.kernel), _digits(one.logit)] for one in found.vectors],
        "rest": _digits(found.vectors_rest),
        "others": found.vectors_others,
    }
    if pairs is not None and found.route == "trained":
        (edge,) = pairs.places_of(np.array([error.predicted]), np.array([error.label]))
        values["dprime"] = round(float(pairs.dprime[edge]), 2)
    return values


def _critical_values(found: CriticalMachine, run: Run, pairs: TrainedPairs | None) -> dict[str, Any]:
    values: dict[str, Any] = {
        "way": found.way,
        "logit": _digits(found.logit),
        "through": found.through,
        "features": [
            [_feature_name(run, one.feature), _digits(one.value), _digits(one.logit)]
            for one in found.contributions
        ],
        "rest": _digits(found.rest),
        "others": run.shape.features - len(found.contributions),
    }
    if pairs is None:
        assert run.shape.code is not None
        column = run.shape.code[:, found.edge]
        return values | {"column": found.edge, "sizes": [int((column == side).sum()) for side in (1, -1)]}
    return values | {
        "pair": pairs.edges[found.edge].tolist(),
        "dprime": round(float(pairs.dprime[found.edge]), 2),
        "pairLogit": _digits(found.pair_logit),
    }


def _feature_name(run: Run, feature: int) -> str:
    names = run.shape.feature_names
    return plain_line(names[feature], 40) if names else f"feature {feature}"


def _digits(value: float) -> float:
    """Four significant digits: a page is no archive."""
    return float(f"{value:.4g}")


def _small(p: float) -> str:
    return f"{p:.4f}" if p >= 0.00005 or p == 0 else f"{p:.0e}"


def errors_csv(errors: Sequence[ConfidentError], names: Sequence[str]) -> str:
    """The errors as a CSV file."""
    return csv_text(
        ("sample", "label", "true_class", "predicted", "predicted_class", "confidence", "likelihood"),
        (
            [
                error.sample,
                error.label,
                csv_cell(names[error.label]),
                error.predicted,
                csv_cell(names[error.predicted]),
                f"{error.confidence:.6g}",
                f"{error.likelihood:.6g}",
            ]
            for error in errors
        ),
    )
