"""The reliability diagram: accuracy against confidence, and how many samples there are at each confidence."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pairloom.pipeline.report.chart import Chart
from pairloom.pipeline.report.evaluation import Outcomes, Reliability, reliability_of
from pairloom.pipeline.report.markup import drawing, element, escaped, number, polyline
from pairloom.pipeline.report.section import Section
from pairloom.pipeline.report.table import Cell, Column, table

__all__ = ["reliability_section"]

_WIDTH, _HEIGHT = 400, 400
_SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def reliability_section(by_method: Mapping[str, Outcomes]) -> Section:
    """Diagram, histogram and table of the bins."""
    curves = {method: reliability_of(found) for method, found in by_method.items()}
    method, of_model = next(iter(curves.items()))
    body = (
        f"<p>How often predictions are right, by the probability of the predicted class ({escaped(method)}"
        f"{', bold' if len(curves) > 1 else ''}). A calibrated model is on the diagonal; below it, it is overconfident."
        " Bars count the samples.</p>"
        + element(
            "div",
            element("figure", _diagram(curves) + _legend(list(curves))) + _bins_table(of_model),
            class_="pair",
        )
    )
    return Section("reliability", "Reliability", body)


def _diagram(curves: Mapping[str, Reliability]) -> str:
    plane = Chart(44, 10, _WIDTH - 56, 260, (0, 1), (0, 1))
    counts = Chart(44, 292, _WIDTH - 56, 64, (0, 1), (0, 1))
    method, of_model = next(iter(curves.items()))
    others = list(curves.items())[1:]
    content = [
        plane.y_axis(_SHARES, ".1f"),
        f'<path class="diagonal" d="{polyline(plane.x([0, 1]), plane.y([0, 1]))}"/>',
        *(
            _curve(plane, curve, f"other series-{place % 4}", name)
            for place, (name, curve) in enumerate(others)
        ),
        _curve(plane, of_model, "model", method),
        _bars(counts, of_model),
        counts.x_axis(_SHARES, "probability of the predicted class", ".1f"),
        element("text", "accuracy", x=plane.left + 6, y=plane.top + 12, class_="label"),
        element("text", "samples", x=counts.left + 6, y=counts.top + 10, class_="label"),
    ]
    seen = of_model.samples > 0
    gap = (of_model.confidence - of_model.accuracy)[seen]
    side = "above" if np.average(gap, weights=of_model.samples[seen]) > 0 else "below"
    alternative = (
        f"Reliability diagram of {', '.join(curves)}. {method}: calibration error "
        f"{of_model.expected_calibration_error:.3f}; on average the confidence is {side} the accuracy. "
        "The table that follows has the numbers of all bins."
    )
    return drawing(_WIDTH, _HEIGHT, alternative, content, class_="chart")


def _curve(plane: Chart, curve: Reliability, kind: str, method: str) -> str:
    seen = curve.samples > 0
    x, y = plane.x(curve.confidence[seen]), plane.y(curve.accuracy[seen])
    line = f'<path class="line {kind}" d="{polyline(x, y)}"/>'
    if kind != "model":
        return line
    # Few samples, small dots: their accuracy is a matter of chance.
    radii = 2 + 3 * np.sqrt(curve.samples[seen] / curve.samples.max())
    rows = zip(x, y, radii, curve.confidence[seen], curve.accuracy[seen], curve.samples[seen], strict=True)
    dots = [
        f'<circle class="dot {kind}" cx="{number(cx)}" cy="{number(cy)}" r="{number(r)}">'
        f"<title>{escaped(method)}: confidence {confidence:.3f}, accuracy {accuracy:.3f}, {samples} samples</title>"
        "</circle>"
        for cx, cy, r, confidence, accuracy, samples in rows
    ]
    return line + "".join(dots)


def _bars(plane: Chart, curve: Reliability) -> str:
    bins, most = len(curve.samples), int(curve.samples.max())
    width = plane.width / bins
    bars = []
    for place, samples in enumerate(curve.samples.tolist()):
        height = max(plane.height * samples / most, 1.0) if samples else 0.0
        bars.append(
            f'<rect class="bar" x="{number(plane.left + place * width + 0.5)}" width="{number(width - 1)}"'
            f' y="{number(plane.bottom - height)}" height="{number(height)}"><title>{samples} samples</title></rect>'
        )
    top = element("text", f"{most}", x=plane.left - 6, y=plane.top + 4, class_="tick end")
    base = f'<path class="grid" d="M{number(plane.left)} {number(plane.bottom)}h{number(plane.width)}"/>'
    return base + "".join(bars) + top


def _legend(methods: list[str]) -> str:
    if len(methods) == 1:
        return ""
    kinds = ["model", *(f"series-{place % 4}" for place in range(len(methods) - 1))]
    items = "".join(
        f'<span class="key {kind}">{escaped(name)}</span>' for kind, name in zip(kinds, methods, strict=True)
    )
    return element("figcaption", items, class_="legend")


def _bins_table(curve: Reliability) -> str:
    bins = len(curve.samples)
    rows: list[list[Cell]] = [
        [
            f"{place / bins:.2f} – {(place + 1) / bins:.2f}",
            int(samples),
            f"{confidence:.4f}",
            f"{accuracy:.4f}",
        ]
        for place, (confidence, accuracy, samples) in enumerate(zip(*curve, strict=True))
        if samples
    ]
    columns = [Column("bin"), Column("samples", True), Column("confidence", True), Column("accuracy", True)]
    return table("bins", columns, rows, "Bins of the reliability diagram")
