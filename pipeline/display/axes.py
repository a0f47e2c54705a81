"""Axes of a figure: a new one where none is given, and names that fit beside the rows of a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["INK", "PALE", "STRONG", "axes_for", "fitted_ticks"]

INK, STRONG, PALE = "#222222", "#3465a4", "#b8c7dd"
#: Names are never smaller than this, in points; where rows are lower, some of them have no name.
SMALLEST, LARGEST = 4.0, 9.0


def axes_for(ax: Any, size: tuple[float, float]) -> Any:
    """The axes that were given, or those of a new figure of this size in inches."""
    if ax is not None:
        return ax
    # Here, because pyplot takes as long to import as all the rest, and few processes draw.
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=size, layout="constrained")[1]


def fitted_ticks(ax: Any, names: Sequence[str], *, both: bool) -> None:
    """Name the rows, and with ``both`` the columns, of a matrix: each of them, or as many as are legible."""
    height = ax.get_window_extent().height * 72 / ax.figure.dpi / max(len(names), 1)
    size = float(np.clip(0.75 * height, SMALLEST, LARGEST))
    step = int(np.ceil(1.2 * SMALLEST / height)) if height < 1.2 * SMALLEST else 1
    places = range(0, len(names), step)
    shown = [names[at] for at in places]
    ax.set_yticks(places, shown, fontsize=size)
    if both:
        ax.set_xticks(places, shown, fontsize=size, rotation=90)
    ax.tick_params(length=1.5, pad=1.5)
