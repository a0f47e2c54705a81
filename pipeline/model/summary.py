"""A fitted model in a few lines: classes, pairs, graph, kernel, calibration and scale."""

from __future__ import annotations

import html

import numpy as np

from pairloom.graphs.text import plain_line
from pairloom.pipeline.calibration.held_out import SMALLEST
from pairloom.pipeline.calibration.held_out_scores import HeldOutScores
from pairloom.pipeline.display.printed_tables import Table, html_of
from pairloom.pipeline.model.fitted_model import FittedModel

__all__ = ["summary_html", "summary_rows"]

_SHOWN_LABELS = 5


def summary_rows(model: FittedModel) -> list[tuple[str, str]]:
    """Names and values of the main facts about a model."""
    kernel, C = model.trained.described(model.C)
    return [
        ("classes", _classes(model)),
        ("features", str(model.n_features)),
        (model.decomposition.unit, _machines(model)),
        ("graph" if model.code is None else "code", _graph(model)),
        ("kernel", kernel if model.learned is None else f"{kernel}, learned through the coupling"),
        ("C", C),
        ("whitening", str(model.whiten)),
        ("calibration", f"{model.settings.calibration}, coupled: {model.coupled.level}"),
        ("scale", f"{model.coupled.scale:.4g}, chosen for {model.coupling} coupling"),
        *([("held out", _held_out(model.held_out))] if model.held_out is not None else []),
    ]


def summary_html(rows: list[tuple[str, str]], title: str, link: str = "") -> str:
    """The rows as a table, and a link to the documentation if there is one."""
    table = html_of(title, [], [Table("", ["", ""], rows)]) if rows else html_of(title, [], [])
    anchor = '<a href="{}" rel="noreferrer" target="_blank">Documentation of PairwiseSVC</a>'
    return table + (f"<p>{anchor.format(html.escape(link))}</p>" if link else "")


def _held_out(scores: HeldOutScores) -> str:
    """Log loss and accuracy of the training samples that were held out to calibrate the model."""
    loss = np.average(-np.log(np.maximum(scores.p, SMALLEST)), weights=scores.weight)
    accuracy = np.average(scores.rank == 1, weights=scores.weight)
    return f"log loss {loss:.4g}, accuracy {accuracy:.4g}, of {len(scores.p):,} training samples"


def _classes(model: FittedModel) -> str:
    labels = model.classes.labels.tolist()
    shown = ", ".join(plain_line(label, 20) for label in labels[:_SHOWN_LABELS])
    return f"{len(labels)}: {shown}" + (", …" if len(labels) > _SHOWN_LABELS else "")


def _machines(model: FittedModel) -> str:
    if model.code is not None:
        return f"{model.code.n_machines} on sets of classes"
    n, pairs = len(model.classes.labels), len(model.edges)
    everything = n * (n - 1) // 2
    return f"{pairs:,} of {everything:,} ({pairs / everything:.0%})"


def _graph(model: FittedModel) -> str:
    """The family, and its parameters that are plain numbers and words."""
    label = model.decomposition.label
    family = str(label.get("family", "a graph of one's own"))
    others = ((name, value) for name, value in label.items() if name not in ("family", "n"))
    parameters = [f"{name}={value}" for name, value in others if isinstance(value, int | float | str)]
    return plain_line(f"{family}({', '.join(parameters)})" if parameters else family)
