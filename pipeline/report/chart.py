"""A chart of two axes in SVG: ticks at round numbers, grid lines, labels. What is drawn on it is up to the figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairloom.pipeline.report.markup import element, escaped, number

__all__ = ["Chart", "round_ticks"]


class Chart(NamedTuple):
    """Where the plane of a chart lies in its figure, and the values at its edges.

    Attributes
    ----------
    left, top, width, height : float
        The plane, in the units of the figure.
    x_range, y_range : tuple of float
        Values at its left and right, and at its bottom and top.
    """

    left: float
    top: float
    width: float
    height: float
    x_range: tuple[float, float]
    y_range: tuple[float, float]

    def x(self, values: ArrayLike) -> NDArray[np.float64]:
        """Horizontal places of values."""
        low, high = self.x_range
        return self.left + (np.asarray(values, np.float64) - low) / (high - low) * self.width

    def y(self, values: ArrayLike) -> NDArray[np.float64]:
        """Vertical places of values."""
        low, high = self.y_range
        return self.top + (high - np.asarray(values, np.float64)) / (high - low) * self.height

    @property
    def bottom(self) -> float:
        """The lower edge of the plane."""
        return self.top + self.height

    def x_axis(self, ticks: Sequence[float], label: str, form: str = "g") -> str:
        """Ticks with their values below the plane, and what they are."""
        marks = [
            element(
                "text", _tick(value, form), x=number(at), y=number(self.bottom + 14), class_="tick middle"
            )
            for value, at in zip(ticks, self.x(ticks).tolist(), strict=True)
        ]
        middle = number(self.left + self.width / 2)
        name = element("text", escaped(label), x=middle, y=number(self.bottom + 31), class_="label middle")
        return "".join([*marks, name])

    def y_axis(self, ticks: Sequence[float], form: str = "g") -> str:
        """Grid lines with their values left of the plane."""
        lines = [
            f'<path class="grid" d="M{number(self.left)} {number(at)}h{number(self.width)}"/>'
            + element(
                "text", _tick(value, form), x=number(self.left - 6), y=number(at + 3.5), class_="tick end"
            )
            for value, at in zip(ticks, self.y(ticks).tolist(), strict=True)
        ]
        return "".join(lines)


def round_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers from ``low`` to ``high``, about so many.

    Examples
    --------
    >>> round_ticks(0, 1), round_ticks(61, 612, 4)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [200.0, 400.0, 600.0])
    """
    if not high > low:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((power * nice for nice in (1, 2, 2.5, 5) if power * nice >= rough * 0.999), power * 10)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(place * step, 12) for place in range(first, last + 1)]


def _tick(value: float, form: str) -> str:
    return escaped(format(value, form))
