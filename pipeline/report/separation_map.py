"""The map of d': how far apart the two classes of every trained pair are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.report.class_order import ClassOrder
from pairloom.pipeline.report.heat_map import LEVELS, heat_map, pooled
from pairloom.pipeline.report.markup import element
from pairloom.pipeline.report.trained_pairs import TrainedPairs

__all__ = ["separation_map", "separation_scale"]

#: The script reads d' back from the picture if it has a pixel per class; a larger one would cost more than it tells.
_PIXELS = 1500
#: Beyond this share of the pairs d' is "so large or larger": few pairs would take most of the scale.
_REST = 0.95


def separation_map(pairs: TrainedPairs, order: ClassOrder) -> str:
    """The figure of d': strong where classes are near, blank where no machine is."""
    picture = heat_map("separation", pooled(_levels(pairs, order), _PIXELS), order, _in_words(pairs))
    caption = element("figcaption", "d' of the trained pairs: the stronger, the nearer")
    return element("figure", caption + picture + '<div class="zoom" data-zoom="separation"></div>')


def separation_scale(pairs: TrainedPairs) -> dict[str, Any]:
    """How the script reads d' from a level; ``exact`` says whether the picture has a pixel per class."""
    least, most = _range(pairs)
    return {"least": least, "most": most, "levels": LEVELS, "exact": pairs.n_classes <= _PIXELS}


def _levels(pairs: TrainedPairs, order: ClassOrder) -> NDArray[np.uint8]:
    (low, high), (least, most) = LEVELS, _range(pairs)
    shade = 1 - (np.clip(pairs.dprime, least, most) - least) / (most - least)
    levels = np.zeros((pairs.n_classes, pairs.n_classes), np.uint8)
    i, j = order.places[pairs.edges].T
    levels[i, j] = levels[j, i] = np.round(low + (high - low) * shade)
    return levels


def _range(pairs: TrainedPairs) -> tuple[float, float]:
    """The d' of the strongest and of the faintest level."""
    least, most = float(pairs.dprime.min()), float(np.quantile(pairs.dprime, _REST))
    return least, most if most > least else least + 1.0


def _in_words(pairs: TrainedPairs) -> str:
    low, middle, high = np.quantile(pairs.dprime, [0.0, 0.5, 1.0])
    return (
        f"Map of d' over {pairs.n_classes} classes: {len(pairs.edges)} of {pairs.number_of_all} pairs are trained,"
        f" d' from {low:.2f} to {high:.2f}, median {middle:.2f}."
    )
