"""The code of machines on sets of classes: a row per class, a column per machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.report.class_order import ClassOrder
from pairloom.pipeline.report.heat_map import tinted_picture
from pairloom.pipeline.report.markup import element, escaped
from pairloom.pipeline.report.section import Section

__all__ = ["code_section"]

#: Rows and columns of the picture.
_MOST = 1000


def code_section(
    code: NDArray[np.int8], dprime: NDArray[np.float64], order: ClassOrder, family: str
) -> Section:
    """The two sides of every machine, in two colours; blank where a class is on neither."""
    shown = code[order.classes][:_MOST, :_MOST]
    rows, columns = shown.shape
    sides = [(shown == side).astype(np.uint8) * 200 for side in (1, -1)]
    low, middle, high = np.quantile(dprime, [0, 0.5, 1])
    facts = (
        f"{code.shape[1]:,} machines on sets of the {len(code):,} classes, by the family {family}; d' between the two"
        f" sides from {low:.2f} to {high:.2f}, median {middle:.2f}."
    )
    few = (
        "" if shown.size == code.size else f" The first {rows:,} classes and {columns:,} machines are drawn."
    )
    figure = element(
        "svg",
        tinted_picture("separation", sides[0], columns, rows)
        + tinted_picture("errors", sides[1], columns, rows),
        viewBox=f"0 0 {columns} {rows}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"Code matrix: {facts}",
        class_="map code",
    )
    keys = '<span class="key separation">side +1</span><span class="key errors">side -1</span>'
    caption = f'<figcaption class="legend">classes down, machines across {keys}</figcaption>'
    return Section("code", "Code", f"<p>{escaped(facts)}{few}</p>" + element("figure", figure + caption))
