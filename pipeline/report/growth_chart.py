"""Log loss and accuracy of a growing model against its number of pairs."""

from __future__ import annotations

from collections.abc import Sequence

from pairloom.pipeline.growth.wave import Wave
from pairloom.pipeline.report.chart import Chart, round_ticks
from pairloom.pipeline.report.markup import drawing, element, escaped, number, polyline
from pairloom.pipeline.report.section import Section
from pairloom.pipeline.report.table import Cell, Column, table

__all__ = ["growth_section"]

_WIDTH, _HEIGHT = 400, 250


def growth_section(waves: Sequence[Wave], n_classes: int, ended: str | None = None) -> Section:
    """Two charts, the numbers of all waves, and why there are no more."""
    last, of_all = waves[-1], n_classes * (n_classes - 1) // 2
    pairs = [wave.pairs for wave in waves]
    rows: list[list[Cell]] = [
        [place, w.pairs, f"{w.log_loss:.4f}", f"{w.accuracy:.4f}"] for place, w in enumerate(waves)
    ]
    columns = [
        Column("wave", True),
        Column("pairs", True),
        Column("log loss", True),
        Column("accuracy", True),
    ]
    why = f" It grows no further: {escaped(ended)}." if ended else ""
    body = (
        f"<p>The model grew from {pairs[0]:,} to {last.pairs:,} of {of_all:,} pairs in {len(waves) - 1} waves.{why}"
        " Scores are those of held-out training samples, after every wave.</p>"
        + element(
            "div",
            _chart("log loss", pairs, [w.log_loss for w in waves])
            + _chart("accuracy", pairs, [w.accuracy for w in waves]),
            class_="pair",
        )
        + element("details", "<summary>Numbers</summary>" + table("waves", columns, rows, "Waves of growth"))
    )
    return Section("growth", "Growth", body)


def _chart(name: str, pairs: Sequence[int], values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    margin = 0.06 * (high - low) or 0.01
    plane = Chart(52, 16, _WIDTH - 66, _HEIGHT - 60, _widened(pairs), (low - margin, high + margin))
    dots = [
        f'<circle class="dot model" cx="{number(x)}" cy="{number(y)}" r="3">'
        f"<title>{of_wave:,} pairs: {escaped(name)} {value:.4f}</title></circle>"
        for x, y, of_wave, value in zip(plane.x(pairs), plane.y(values), pairs, values, strict=True)
    ]
    content = [
        plane.y_axis(round_ticks(*plane.y_range, 5), ".4g"),
        plane.x_axis(round_ticks(*plane.x_range, 4), "trained pairs", ",.0f"),
        f'<path class="line model" d="{polyline(plane.x(pairs), plane.y(values))}"/>',
        *dots,
    ]
    alternative = (
        f"Held-out {name} against trained pairs: {values[0]:.4f} with {pairs[0]} pairs, "
        f"{values[-1]:.4f} with {pairs[-1]}."
    )
    chart = drawing(_WIDTH, _HEIGHT, alternative, content, class_="chart")
    return element("figure", element("figcaption", f"Held-out {name}") + chart)


def _widened(pairs: Sequence[int]) -> tuple[float, float]:
    """The range of the axis of pairs, which must not be empty."""
    margin = 0.03 * (pairs[-1] - pairs[0]) or 1.0
    return pairs[0] - margin, pairs[-1] + margin
