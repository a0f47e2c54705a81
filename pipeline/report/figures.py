"""Figures of matplotlib as files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

__all__ = ["save_figure"]


def save_figure(figure: Figure, path: Path) -> Iterator[Path]:
    """Save as .png and .svg, without a date, so that equal figures give equal files."""
    with matplotlib.rc_context({"svg.hashsalt": "pairloom"}):
        for suffix, metadata in ((".png", {"Software": None}), (".svg", {"Date": None})):
            file = path.with_suffix(suffix)
            figure.savefig(file, dpi=130, metadata=metadata)
            yield file
