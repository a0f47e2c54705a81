"""The model graph: classes on a circle, near ones side by side, hubs inside it, trained pairs as lines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.report.class_order import ClassOrder
from pairloom.pipeline.report.markup import drawing, element, escaped, number
from pairloom.pipeline.report.section import Section
from pairloom.pipeline.report.short_names import short_names
from pairloom.pipeline.report.trained_pairs import TrainedPairs
from pairloom.pipeline.storage.names import plain_line

__all__ = ["graph_section"]

_SIZE, _RADIUS = 560, 262
#: Classes up to which the figure has their names, in so many characters, around a smaller circle.
_MOST_NAMES, _CHARACTERS, _NAMED_RADIUS = 24, 12, 172
#: Lines of the figure: more would be a disc of ink.
MOST_LINES = 3000
#: Paths of the lines, and how far their middles are from that of the circle, as a share of a straight line's.
_PATHS, _BEND = 24, 0.45
#: Classes that are marked one by one; of more, dots are one path.
_MOST_MARKS = 400


def graph_section(names: Sequence[str], order: ClassOrder, pairs: TrainedPairs, family: str) -> Section:
    """The figure, what it shows, and the lines for the script."""
    named = len(names) <= _MOST_NAMES
    x, y = _places(order, pairs.hubs, _NAMED_RADIUS if named else _RADIUS)
    lines, facts = _drawn(pairs), _in_words(names, pairs, family)
    few = f" The {MOST_LINES:,} pairs with the lowest d' are drawn." if len(lines) < len(pairs.edges) else ""
    figure = drawing(
        _SIZE,
        _SIZE,
        f"Graph of {pairs.n_classes} classes. {facts}",
        [
            _lines(lines, x, y),
            '<path class="near" d=""/>',
            *_marks(names, pairs, x, y),
            *(_names(names, pairs.hubs, x, y) if named else []),
        ],
        class_="graph",
        id="graph-figure",
    )
    text = element("p", f"{escaped(facts)} Point at a class to see its pairs.{few}")
    note = '<figcaption class="told" id="graph-told">&nbsp;</figcaption>'
    data = {
        "x": [round(value, 1) for value in x.tolist()],
        "y": [round(value, 1) for value in y.tolist()],
        "lines": lines.ravel().tolist(),
        "bend": _BEND,
        "degrees": pairs.degrees.tolist(),
        "hubs": pairs.hubs.tolist(),
    }
    return Section("graph", "Model graph", text + element("figure", figure + note), {"graph": data})


def _in_words(names: Sequence[str], pairs: TrainedPairs, family: str) -> str:
    """How many pairs are trained, and against which classes all others are."""
    share = len(pairs.edges) / pairs.number_of_all
    hubs = ", ".join(plain_line(names[h], 40) for h in pairs.hubs[:8].tolist())
    hubs += f" and {len(pairs.hubs) - 8} more" if len(pairs.hubs) > 8 else ""
    counts = f"{len(pairs.edges):,} of {pairs.number_of_all:,} pairs"
    trained = f"{counts} are trained ({share:.0%}), by the family {family}."
    return f"{trained} Hubs (inside the circle): {hubs}." if hubs else trained


def _places(
    order: ClassOrder, hubs: NDArray[np.int64], outer: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where each class is drawn: on a circle, and hubs inside it."""
    x, y = np.empty(len(order.classes)), np.empty(len(order.classes))
    is_hub = np.isin(order.classes, hubs)
    inner = 0.0 if is_hub.sum() == 1 else 0.38 * outer
    for classes, radius in ((order.classes[~is_hub], outer), (order.classes[is_hub], inner)):
        angle = 2 * np.pi * np.arange(len(classes)) / max(len(classes), 1) - np.pi / 2
        x[classes], y[classes] = _SIZE / 2 + radius * np.cos(angle), _SIZE / 2 + radius * np.sin(angle)
    return x, y


def _drawn(pairs: TrainedPairs) -> NDArray[np.int64]:
    """The pairs that are drawn: all, or those whose classes are nearest."""
    if len(pairs.edges) <= MOST_LINES:
        return pairs.edges
    return pairs.edges[np.sort(np.argsort(pairs.dprime, kind="stable")[:MOST_LINES])]


def _lines(lines: NDArray[np.int64], x: NDArray[np.float64], y: NDArray[np.float64]) -> str:
    """Curves that bend towards the middle: those of near classes stay near the circle.

    Where paths cross, they add up to more ink; within a path, they do not. So there are several.
    """
    middle = _SIZE / 2
    i, j = lines.T
    bent = [middle + _BEND * ((place[i] + place[j]) / 2 - middle) for place in (x, y)]
    points = np.round(np.column_stack([x[i], y[i], *bent, x[j], y[j]])).astype(int).tolist()
    curves = [f"M{a} {b}Q{c} {d} {e} {f}" for a, b, c, d, e, f in points]
    opacity = number(float(np.clip(25 / np.sqrt(len(lines) * 20 + 1), 0.08, 0.5)), 2)
    return "".join(
        f'<path class="edges" opacity="{opacity}" d="{"".join(curves[start::_PATHS])}"/>'
        for start in range(_PATHS)
    )


def _marks(
    names: Sequence[str], pairs: TrainedPairs, x: NDArray[np.float64], y: NDArray[np.float64]
) -> list[str]:
    hubs = set(pairs.hubs.tolist())
    marks = [_mark(names[h], x[h], y[h], "hub", 7.0) for h in sorted(hubs)]
    rest = [c for c in range(pairs.n_classes) if c not in hubs]
    if len(rest) <= _MOST_MARKS:
        radius = float(np.clip(500 / max(len(rest), 1), 2.5, 5))
        return [_mark(names[c], x[c], y[c], "class", radius) for c in rest] + marks
    dots = "".join(f"M{number(x[c])} {number(y[c])}h0" for c in rest)
    return [f'<path class="dots" d="{dots}"/>', *marks]


def _names(
    names: Sequence[str], hubs: NDArray[np.int64], x: NDArray[np.float64], y: NDArray[np.float64]
) -> list[str]:
    """Names outside the circle, and those of hubs below their marks."""
    short, inside, texts = short_names(names, _CHARACTERS), set(hubs.tolist()), []
    for c, name in enumerate(short):
        right, down = (x[c] - _SIZE / 2) / _NAMED_RADIUS, (y[c] - _SIZE / 2) / _NAMED_RADIUS
        side = "middle" if c in inside or abs(right) < 0.2 else "end" if right < 0 else ""
        at = (x[c], y[c] + 22) if c in inside else (x[c] + 10 * right, y[c] + 5 + 15 * down)
        values = {"x": number(at[0]), "y": number(at[1]), "class_": f"of-class {side}".strip()}
        texts.append(element("text", escaped(name), **values))
    return texts


def _mark(name: str, x: float, y: float, kind: str, radius: float) -> str:
    title = escaped(plain_line(name) + (" (hub)" if kind == "hub" else ""))
    place = f'cx="{number(x)}" cy="{number(y)}" r="{number(radius)}"'
    return f'<circle class="{kind}" {place}><title>{title}</title></circle>'
