"""The table of coupling methods: accuracy, log loss and calibration error, with standard errors."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pairloom.pipeline.report.evaluation import Outcomes, Scores, scores_of
from pairloom.pipeline.report.markup import escaped
from pairloom.pipeline.report.section import Section
from pairloom.pipeline.report.table import Cell, Column, Markup, table

__all__ = ["methods_section"]


def methods_section(by_method: Mapping[str, Outcomes]) -> Section:
    """One row per coupling, the best values marked."""
    scored = {method: scores_of(found) for method, found in by_method.items()}
    columns = [
        Column("coupling"),
        Column("accuracy", True),
        Column("log loss", True, "mean of minus the logarithm of the probability of the true class"),
        Column("calibration error", True, "expected calibration error, in 15 bins"),
    ]
    rows = [
        _row(method, found, scored, place == 0) for place, (method, found) in enumerate(by_method.items())
    ]
    samples = len(next(iter(by_method.values())).label)
    note = " The coupling of the model comes first; the best of each column is bold." if len(rows) > 1 else ""
    body = f"<p>On {samples:,} test samples, ± one standard error.{note}</p>" + table(
        "methods", columns, rows, "Coupling methods", sortable=len(rows) > 1
    )
    return Section("methods", "Coupling methods", body)


def _row(method: str, found: Outcomes, scored: Mapping[str, Scores], first: bool) -> list[Cell]:
    own, root = scored[method], math.sqrt(len(found.label))
    errors = (float(found.right.std()) / root, float(found.losses.std()) / root, None)
    accuracies, losses, calibration_errors = zip(*scored.values(), strict=True)
    best = (max(accuracies), min(losses), min(calibration_errors))
    values = [
        _value(value, error, len(scored) > 1 and value == of_best)
        for value, error, of_best in zip(own, errors, best, strict=True)
    ]
    name = f"<strong>{escaped(method)}</strong>" if first and len(scored) > 1 else escaped(method)
    return [Markup(name), *values]


def _value(value: float, error: float | None, best: bool) -> Markup:
    text = f"<strong>{value:.4f}</strong>" if best else f"{value:.4f}"
    return Markup(text if error is None else f"{text} <small>±&#8239;{error:.4f}</small>")
