"""The confusion map: errors by true and predicted class, near classes side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.report.class_order import ClassOrder
from pairloom.pipeline.report.confused_pairs import ConfusedPair
from pairloom.pipeline.report.heat_map import LEVELS, heat_map, pooled
from pairloom.pipeline.report.markup import element
from pairloom.pipeline.storage.names import plain_line

__all__ = ["confusion_cells", "confusion_map"]

#: Pixels of the picture: a screen shows no more of them, and a single error must not vanish between two.
_PIXELS = 400
#: Cells that the page can name and count.
MOST_CELLS = 60_000


def confusion_map(
    confusion: NDArray[np.int64], order: ClassOrder, worst: Sequence[ConfusedPair], names: Sequence[str]
) -> str:
    """The figure of the errors; right predictions are left blank."""
    alternative = _in_words(confusion, worst, names)
    picture = heat_map("errors", pooled(_levels(confusion, order), _PIXELS), order, alternative)
    caption = element("figcaption", "Errors: true class down, predicted class across")
    return element("figure", caption + picture + '<div class="zoom" data-zoom="errors"></div>')


def _levels(confusion: NDArray[np.int64], order: ClassOrder) -> NDArray[np.uint8]:
    errors = confusion[np.ix_(order.classes, order.classes)]
    np.fill_diagonal(errors, 0)
    low, high = LEVELS
    # A root, since one class that is confused a hundred times should not hide all that are confused once.
    shade = np.sqrt(errors / max(int(errors.max()), 1))
    return np.where(errors > 0, np.round(low + (high - low) * shade), 0).astype(np.uint8)


def confusion_cells(confusion: NDArray[np.int64]) -> dict[str, Any]:
    """Counts for the script: (true class, predicted class, samples), flat, the largest if there are too many."""
    i, j = np.nonzero(confusion)
    counts = confusion[i, j]
    kept = np.sort(np.argsort(-counts, kind="stable")[:MOST_CELLS])
    return {
        "cells": np.column_stack([i, j, counts])[kept].ravel().tolist(),
        "totals": confusion.sum(axis=1).tolist(),
        "cut": len(kept) < len(counts),
    }


def _in_words(confusion: NDArray[np.int64], worst: Sequence[ConfusedPair], names: Sequence[str]) -> str:
    errors = int(confusion.sum() - confusion.trace())
    listed = "; ".join(
        f"{plain_line(names[pair.i], 40)} and {plain_line(names[pair.j], 40)}, {pair.i_as_j + pair.j_as_i}"
        for pair in worst[:3]
    )
    told = f" Confused most often: {listed}." if listed else ""
    return (
        f"Map of the errors of {len(confusion)} classes: {errors} of {int(confusion.sum())} samples are predicted"
        f" wrong.{told} The table of confused pairs has all of them."
    )
