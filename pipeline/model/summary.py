"""A fitted model in a few lines: classes, pairs, graph, what was chosen, calibration and scale."""

from __future__ import annotations

import html

from pairloom.pipeline.display.tables import Table, html_of, name_of
from pairloom.pipeline.machines.estimator_model import EstimatorModel
from pairloom.pipeline.machines.kernel_model import KernelModel
from pairloom.pipeline.model.fitted_model import FittedModel

__all__ = ["summary_html", "summary_rows"]

_SHOWN_LABELS = 5


def summary_rows(model: FittedModel) -> list[tuple[str, str]]:
    """Names and values of what a reader wants to know first."""
    return [
        ("classes", _classes(model)),
        ("features", str(model.n_features)),
        ("pairs" if model.code is None else "machines", _machines(model)),
        ("graph" if model.code is None else "code", _graph(model)),
        ("kernel", _kernel(model)),
        ("C", f"{model.C:.4g}" if not isinstance(model.trained, EstimatorModel) else "the estimator's own"),
        ("whitening", str(model.whiten)),
        ("calibration", f"{model.settings.calibration}, coupled: {model.coupled.level}"),
        ("scale", f"{model.coupled.scale:.4g}, chosen for {model.coupling} coupling"),
    ]


def summary_html(rows: list[tuple[str, str]], title: str, link: str = "") -> str:
    """The rows as a table, and a link to the documentation if there is one."""
    table = html_of(title, [], [Table("", ["", ""], rows)]) if rows else html_of(title, [], [])
    anchor = '<a href="{}" rel="noreferrer" target="_blank">Documentation of PairwiseSVC</a>'
    return table + (f"<p>{anchor.format(html.escape(link))}</p>" if link else "")


def _classes(model: FittedModel) -> str:
    labels = model.classes.labels.tolist()
    shown = ", ".join(name_of(label, 20) for label in labels[:_SHOWN_LABELS])
    return f"{len(labels)}: {shown}" + (", …" if len(labels) > _SHOWN_LABELS else "")


def _machines(model: FittedModel) -> str:
    if model.code is not None:
        return f"{model.code.n_machines} on sets of classes"
    n, pairs = len(model.classes.labels), len(model.edges)
    everything = n * (n - 1) // 2
    return f"{pairs:,} of {everything:,} ({pairs / everything:.0%})"


def _graph(model: FittedModel) -> str:
    """The family, and its parameters that are plain numbers and words."""
    label = model.graph.label if model.code is not None else model.graph.graph  # type: ignore[union-attr]
    family = str(label.get("family", "a graph of one's own"))
    others = ((name, value) for name, value in label.items() if name not in ("family", "n"))
    parameters = [f"{name}={value}" for name, value in others if isinstance(value, int | float | str)]
    return name_of(f"{family}({', '.join(parameters)})" if parameters else family, 80)


def _kernel(model: FittedModel) -> str:
    if isinstance(model.trained, EstimatorModel):
        return name_of(type(model.trained.pairs[0].estimators[0]).__name__)
    if isinstance(model.trained, KernelModel):
        kernel = model.trained.kernel
        return kernel.name if kernel.precomputed else f"{kernel.name}, gamma {kernel.gamma:.4g}"
    return "linear" if model.learned is None else "linear, learned through the coupling"
