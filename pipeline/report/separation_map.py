"""The map of d': how far apart the two classes of every trained pair are."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.report.class_order import ClassOrder
from pairloom.pipeline.report.heat_map import LEVELS, heat_map, pooled
from pairloom.pipeline.report.markup import element
from pairloom.pipeline.report.trained_pairs import TrainedPairs

__all__ = ["separation_map", "separation_values"]

#: Pixels of the picture: a screen shows no more of them.
_PIXELS = 400
#: Classes up to which the page has the d' of every pair; of more, they would be most of the page.
_MOST_CLASSES = 1500
#: Stands for the d' of a pair that is not trained.
_UNTRAINED = -(2**31)
#: The largest d' whose hundredths are packed.
_PACKED = 1e7
#: Beyond this share of the pairs the colour is the faintest: few pairs would take most of the scale.
_REST = 0.95


def separation_map(pairs: TrainedPairs, order: ClassOrder) -> str:
    """The figure of d': strong where classes are near, blank where no machine is."""
    picture = heat_map("separation", pooled(_levels(pairs, order), _PIXELS), order, _in_words(pairs))
    caption = element("figcaption", "d' of the trained pairs: the stronger, the nearer")
    return element("figure", caption + picture + '<div class="zoom" data-zoom="separation"></div>')


def separation_values(pairs: TrainedPairs) -> dict[str, Any]:
    """The range of the colours, and the d' of all pairs as they are, unless there are too many."""
    least, most = _range(pairs)
    values: dict[str, Any] = {"least": least, "most": most, "untrained": _UNTRAINED}
    if pairs.n_classes > _MOST_CLASSES:
        return values
    return values | {"packed": _packed(pairs), "beyond": _beyond(pairs)}


def _packed(pairs: TrainedPairs) -> str:
    """Hundredths of d', row by row of the upper triangle, as deflated integers of four bytes in base64."""
    hundredths = np.full((pairs.n_classes,) * 2, _UNTRAINED, "<i4")
    i, j = np.sort(pairs.edges, axis=1).T
    hundredths[i, j] = np.round(100 * np.clip(pairs.dprime, -_PACKED, _PACKED))
    triangle = hundredths[np.triu_indices(pairs.n_classes, 1)]
    return base64.b64encode(zlib.compress(triangle.tobytes(), 9)).decode()


def _beyond(pairs: TrainedPairs) -> list[tuple[int, int, float]]:
    """The pairs whose d' is too large to be packed: the held-out logits of a class are all the same."""
    large = np.flatnonzero(np.abs(pairs.dprime) > _PACKED)
    edges = np.sort(pairs.edges[large], axis=1).tolist()
    return [(i, j, d) for (i, j), d in zip(edges, pairs.dprime[large].tolist(), strict=True)]


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
