"""Figures of what the machines are trained on: the model graph of pairs, or the code of sets of classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairloom.graphs.text import plain_line, short_names
from pairloom.pipeline.display.class_layout import ClassOrder, circle_layout
from pairloom.pipeline.report.class_maps import picture_url
from pairloom.pipeline.report.page import Section, coordinate
from pairloom.pipeline.report.run_results import TrainedPairs

__all__ = ["code_section", "graph_section"]

_SIZE, _RADIUS = 560, 262
#: Classes up to which the figure has their names, in so many characters, around a smaller circle.
_MOST_NAMES, _CHARACTERS, _NAMED_RADIUS = 24, 12, 172
#: Lines of the figure: more would be a disc of ink.
MOST_LINES = 3000
#: Paths of the lines, and the distance of their middles from the centre as a share of that of straight lines.
_PATHS, _BEND = 24, 0.45
#: Classes that are marked one by one; for more, the dots are one path.
_MOST_MARKS = 400
#: Rows and columns of the picture of a code.
_MOST_OF_CODE = 1000


def graph_section(names: Sequence[str], order: ClassOrder, pairs: TrainedPairs, family: str) -> Section:
    """Classes on a circle, similar ones side by side, hubs inside it, trained pairs as lines."""
    few = len(names) <= _MOST_NAMES
    places = _SIZE / 2 + (_NAMED_RADIUS if few else _RADIUS) * circle_layout(order.classes, pairs.hubs)
    lines = _drawn(pairs)
    marks, dots = _marks(names, pairs, places)
    content = {
        "size": _SIZE,
        "classes": pairs.n_classes,
        "facts": _in_words(names, pairs, family),
        "drawn": MOST_LINES if len(lines) < len(pairs.edges) else 0,
        "opacity": coordinate(float(np.clip(25 / np.sqrt(len(lines) * 20 + 1), 0.08, 0.5)), 2),
        "paths": _paths(lines, places),
        "marks": marks,
        "dots": dots,
        "labels": list(_labels(names, pairs.hubs, places)) if few else [],
    }
    x, y = np.round(places, 1).T.tolist()
    data = {
        "x": x,
        "y": y,
        "lines": lines.ravel().tolist(),
        "bend": _BEND,
        "degrees": pairs.degrees.tolist(),
        "hubs": pairs.hubs.tolist(),
    }
    return Section("graph", "Model graph", content, {"graph": data})


def _in_words(names: Sequence[str], pairs: TrainedPairs, family: str) -> str:
    """How many pairs are trained, and which classes are hubs."""
    share = len(pairs.edges) / pairs.number_of_all
    hubs = ", ".join(plain_line(names[h], 40) for h in pairs.hubs[:8].tolist())
    hubs += f" and {len(pairs.hubs) - 8} more" if len(pairs.hubs) > 8 else ""
    counts = f"{len(pairs.edges):,} of {pairs.number_of_all:,} pairs"
    trained = f"{counts} are trained ({share:.0%}), graph family {family}."
    return f"{trained} Hubs (inside the circle): {hubs}." if hubs else trained


def _drawn(pairs: TrainedPairs) -> NDArray[np.int64]:
    """The pairs that are drawn: all, or those with the lowest d'."""
    if len(pairs.edges) <= MOST_LINES:
        return pairs.edges
    return pairs.edges[np.sort(np.argsort(pairs.dprime, kind="stable")[:MOST_LINES])]


def _paths(lines: NDArray[np.int64], places: NDArray[np.float64]) -> list[str]:
    """Curves that bend towards the centre, so that those of near classes stay near the circle.

    Ink adds up where paths cross, but not within a path. So there are several.
    """
    centre = _SIZE / 2
    i, j = lines.T
    bent = centre + _BEND * ((places[i] + places[j]) / 2 - centre)
    points = np.round(np.column_stack([places[i], bent, places[j]])).astype(int).tolist()
    curves = [f"M{a} {b}Q{c} {d} {e} {f}" for a, b, c, d, e, f in points]
    return ["".join(curves[start::_PATHS]) for start in range(_PATHS)]


def _marks(
    names: Sequence[str], pairs: TrainedPairs, places: NDArray[np.float64]
) -> tuple[list[dict[str, Any]], str]:
    """A circle per class, hubs on top; with many classes, circles for hubs and a path of dots for the others."""
    rest = np.setdiff1d(np.arange(pairs.n_classes), pairs.hubs)
    hubs = [_mark(f"{plain_line(names[h])} (hub)", "hub", places[h], 7.0) for h in np.sort(pairs.hubs)]
    if len(rest) > _MOST_MARKS:
        return hubs, "".join(f"M{coordinate(x)} {coordinate(y)}h0" for x, y in places[rest])
    radius = float(np.clip(500 / max(len(rest), 1), 2.5, 5))
    return [*(_mark(plain_line(names[c]), "class", places[c], radius) for c in rest), *hubs], ""


def _mark(name: str, kind: str, place: NDArray[np.float64], radius: float) -> dict[str, Any]:
    return {"name": name, "kind": kind, "x": place[0], "y": place[1], "radius": radius}


def _labels(
    names: Sequence[str], hubs: NDArray[np.int64], places: NDArray[np.float64]
) -> Iterator[dict[str, Any]]:
    """Names outside the circle, and those of hubs below their marks."""
    inside = set(hubs.tolist())
    for c, name in enumerate(short_names(names, _CHARACTERS)):
        x, y = places[c]
        right, down = (places[c] - _SIZE / 2) / _NAMED_RADIUS
        side = " middle" if c in inside or abs(right) < 0.2 else " end" if right < 0 else ""
        at = (x, y + 22) if c in inside else (x + 10 * right, y + 5 + 15 * down)
        yield {"name": name, "side": side, "x": at[0], "y": at[1]}


def code_section(
    code: NDArray[np.int8], dprime: NDArray[np.float64], order: ClassOrder, family: str
) -> Section:
    """The two sides of every machine in two colours, a row per class; blank where a class is on neither side."""
    shown = code[order.classes][:_MOST_OF_CODE, :_MOST_OF_CODE]
    first, second = (picture_url((shown == side).astype(np.uint8) * 200) for side in (1, -1))
    low, middle, high = np.quantile(dprime, [0, 0.5, 1])
    facts = (
        f"{code.shape[1]:,} machines on sets of the {len(code):,} classes, code family {family}; d' between the two"
        f" sides from {low:.2f} to {high:.2f}, median {middle:.2f}."
    )
    content = {
        "facts": facts,
        "rows": shown.shape[0],
        "columns": shown.shape[1],
        "cut": shown.size < code.size,
        "first": first,
        "second": second,
    }
    return Section("code", "Code", content)
