"""The maps of the classes: errors and d' beside each other, with one choice of the block to look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.report.class_order import ClassOrder
from pairloom.pipeline.report.confused_pairs import ConfusedPair
from pairloom.pipeline.report.confusion_map import MOST_CELLS, confusion_cells, confusion_map
from pairloom.pipeline.report.judged_samples import JudgedSamples
from pairloom.pipeline.report.markup import element, escaped
from pairloom.pipeline.report.section import Section
from pairloom.pipeline.report.separation_map import separation_map, separation_values
from pairloom.pipeline.report.short_names import short_names
from pairloom.pipeline.report.trained_pairs import TrainedPairs

__all__ = ["maps_section"]


def maps_section(
    names: Sequence[str],
    order: ClassOrder,
    judged: JudgedSamples | None,
    worst: Sequence[ConfusedPair],
    pairs: TrainedPairs | None,
) -> Section:
    """The maps that the run has: errors if samples are labelled, d' if machines are on pairs."""
    figures: list[str] = []
    data: dict[str, Any] = {"order": order.classes.tolist(), "starts": order.starts.tolist()}
    if judged is not None:
        figures.append(confusion_map(judged.confusion, order, worst, names))
        data["confusion"] = confusion_cells(judged.confusion)
        data["opened"] = _opened(judged.confusion, order)
    if pairs is not None:
        figures.append(separation_map(pairs, order))
        data["separation"] = separation_values(pairs)
    blocks = len(order.blocks)
    text = "Classes that the model takes for each other stand side by side"
    if blocks > 1:
        text += (
            f", in {blocks} blocks. Point at a cell to read its classes; choose a block or click into a map"
        )
        text += " to enlarge it"
    if judged is not None and data["confusion"]["cut"]:
        text += f". Counts are known for the {MOST_CELLS:,} largest cells"
    chooser = _chooser(names, order) if blocks > 1 else ""
    shown = "maps single" if blocks == 1 else "maps"
    title = " and ".join(["Confusion"] * (judged is not None) + ["separation"] * (pairs is not None))
    body = f"<p>{text}.</p>" + chooser + element("div", "".join(figures), class_=f"pair {shown}")
    return Section("maps", title[0].upper() + title[1:], body, {"maps": data})


def _opened(confusion: NDArray[np.int64], order: ClassOrder) -> dict[str, Any]:
    """What the maps first show: the block with the most errors, and the places of the most frequent error in it.

    If no error is inside a block, it is the most frequent of all.
    """
    errors = confusion[np.ix_(order.classes, order.classes)]
    np.fill_diagonal(errors, 0)
    inside = [int(errors[block, block].sum()) for block in order.blocks]
    best = int(np.argmax(inside))
    searched = order.blocks[best] if inside[best] else slice(0, len(errors))
    cells = errors[searched, searched]
    row, column = np.unravel_index(int(cells.argmax()), cells.shape)
    cell = [searched.start + int(row), searched.start + int(column)]
    return {"block": best if inside[best] or not errors.any() else None, "cell": cell}


def _chooser(names: Sequence[str], order: ClassOrder) -> str:
    short = short_names(names, 28)
    options = "".join(
        f'<option value="{place}">{escaped(_block_name(short, order, block))}</option>'
        for place, block in enumerate(order.blocks)
    )
    return f'<p class="choose"><label>Block <select id="block">{options}</select></label></p>'


def _block_name(names: Sequence[str], order: ClassOrder, block: slice) -> str:
    """The first class of a block and the last, which tell more than its number."""
    classes = order.classes[block].tolist()
    first, last = names[classes[0]], names[classes[-1]]
    return first if len(classes) == 1 else f"{first} … {last} ({len(classes)})"
