"""Maps of errors and d' over pairs of classes, and the model graph or code.

Classes are ordered so that those which the model confuses are next to each other. A map is a gray picture inside an
SVG. The level of a pixel is the opacity of a colour that the page's style chooses, so one picture serves light and dark
mode.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.graphs.text import plain_line, short_names
from pairloom.pipeline.display.class_layout import ClassOrder, circle_layout
from pairloom.pipeline.display.evaluation import Confusions
from pairloom.pipeline.report.page import Section, coordinate
from pairloom.pipeline.report.run_results import JudgedSamples, TrainedPairs
from pairloom.pipeline.report.score_tables import ConfusedPair

__all__ = [
    "code_section",
    "graph_section",
    "gray_png",
    "maps_section",
    "picture_url",
    "pooled",
]


#: Maximum width and height of a picture in pixels; a screen shows no more.
_PIXELS = 400
#: The faintest and the strongest level of a cell with a value; cells without one have level 0.
_FAINTEST, _STRONGEST = 48, 255
#: Maximum number of cells of the confusion matrix whose counts are in the page.
_MOST_CELLS = 60_000
#: Maximum number of classes for which the page has the d' of every pair; with more, these would be most of the page.
_MOST_CLASSES = 1500
#: Placeholder for the d' of a pair that is not trained.
_UNTRAINED = -(2**31)
#: The largest d' whose hundredths are packed.
_PACKED = 1e7
#: The quantile of d' beyond which the colour is the faintest, so that a few pairs do not take most of the scale.
_REST = 0.95


def maps_section(
    names: Sequence[str],
    order: ClassOrder,
    judged: JudgedSamples | None,
    worst: Sequence[ConfusedPair],
    pairs: TrainedPairs | None,
) -> Section:
    """The maps of a run: errors if samples are labelled, d' if machines are trained on pairs."""
    figures: list[dict[str, Any]] = []
    data: dict[str, Any] = {"order": order.classes.tolist(), "starts": order.starts.tolist()}
    if judged is not None:
        figures.append(_confusion_map(judged.confusion, order, worst, names))
        data["confusion"] = _confusion_cells(judged.confusion)
        data["opened"] = _opened(judged.confusion, order)
    if pairs is not None:
        figures.append(_separation_map(pairs, order))
        data["separation"] = _separation_values(pairs)
    content = {
        "size": len(names),
        "blocks": order.blocks,
        "several": len(order.blocks) > 1,
        "names": _block_names(names, order),
        "counted": _MOST_CELLS if judged is not None and data["confusion"]["cut"] else 0,
        "figures": figures,
    }
    title = " and ".join(["confusion"] * (judged is not None) + ["separation"] * (pairs is not None))
    return Section("maps", title.capitalize(), content, {"maps": data})


class _Cells(NamedTuple):
    """Cells of a map that have a value, by the positions of their rows and columns."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[np.int64]


def _errors(confusion: Confusions, order: ClassOrder) -> _Cells:
    """The errors in the order of the map, row by row."""
    errors, places = confusion.errors, order.places
    cells = _Cells(places[errors.true], places[errors.predicted], errors.samples)
    by_row = np.lexsort([cells.columns, cells.rows])
    return _Cells(*(values[by_row] for values in cells))


def _opened(confusion: Confusions, order: ClassOrder) -> dict[str, Any]:
    """The initial view of the maps: the block with the most errors, and the position of its most frequent error.

    If no error is inside a block, the position is that of the most frequent error of all.
    """
    errors = _errors(confusion, order)
    block_of = np.searchsorted(order.starts, np.arange(confusion.n_classes), side="right") - 1
    inside = block_of[errors.rows] == block_of[errors.columns]
    by_block = np.bincount(block_of[errors.rows[inside]], errors.values[inside], len(order.blocks))
    best = int(np.argmax(by_block))
    if not len(errors.rows):
        return {"block": best, "cell": [0, 0]}
    searched = inside & (block_of[errors.rows] == best) if by_block[best] else np.full(len(inside), True)
    cell = int(np.argmax(np.where(searched, errors.values, 0)))
    position = [int(errors.rows[cell]), int(errors.columns[cell])]
    return {"block": best if by_block[best] else None, "cell": position}


def _block_names(names: Sequence[str], order: ClassOrder) -> list[str]:
    """The first class of each block, the last, and their number."""
    short, texts = short_names(names, 28), []
    for block in order.blocks:
        first, *rest = (short[c] for c in order.classes[block])
        texts.append(f"{first} … {rest[-1]} ({len(rest) + 1})" if rest else first)
    return texts


def _map(key: str, caption: str, alternative: str, n: int, cells: _Cells) -> dict[str, Any]:
    """A map of n x n positions with the levels of some cells; ``key`` names the figure and its colour in the style.

    If a pixel covers several classes, the side is the number of classes that all pixels cover.
    """
    small = pooled(cells.rows, cells.columns, cells.values, n, _PIXELS)
    side = -(-n // len(small)) * len(small)
    picture = picture_url(small)
    return {"key": key, "caption": caption, "alternative": alternative, "picture": picture, "side": side}


def pooled(
    rows: NDArray[np.integer],
    columns: NDArray[np.integer],
    levels: NDArray[np.integer],
    n: int,
    most: int,
) -> NDArray[np.uint8]:
    """Levels of some cells of an n x n map in at most ``most`` rows and columns.

    A pixel has the largest level of a square of cells, so that single cells stay visible.
    """
    per_pixel = -(-n // most)
    picture = np.zeros((-(-n // per_pixel),) * 2, np.uint8)
    np.maximum.at(picture, (rows // per_pixel, columns // per_pixel), levels.astype(np.uint8))
    return picture


def picture_url(levels: NDArray[np.uint8]) -> str:
    """Levels as a picture inside the page: a data URL."""
    return f"data:image/png;base64,{base64.b64encode(gray_png(levels)).decode()}"


def gray_png(levels: NDArray[np.uint8]) -> bytes:
    """Levels (row, column), 0 to 255, as a PNG file of eight bits per pixel, without a colour profile or a date."""
    height, width = levels.shape
    rows = np.zeros((height, width + 1), np.uint8)  # every row begins with its filter, 0 for none
    rows[:, 1:] = levels
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _confusion_map(
    confusion: Confusions, order: ClassOrder, worst: Sequence[ConfusedPair], names: Sequence[str]
) -> dict[str, Any]:
    """Errors by true and predicted class; correct predictions are left blank."""
    errors = _errors(confusion, order)
    # On a square root scale, so that a pair confused a hundred times does not hide pairs confused once.
    shade = np.sqrt(errors.values / errors.values.max(initial=1))
    levels = errors._replace(values=_levels(shade).astype(np.int64))
    listed = "; ".join(
        f"{plain_line(names[pair.i], 40)} and {plain_line(names[pair.j], 40)}, {pair.errors}"
        for pair in worst[:3]
    )
    alternative = (
        f"Map of the errors of {confusion.n_classes} classes: {int(errors.values.sum())} of"
        f" {int(confusion.samples.sum())} samples are"
        f" predicted wrong.{f' Confused most often: {listed}.' if listed else ''} The table of confused pairs has all"
        " of them."
    )
    caption = "Errors: true class down, predicted class across"
    return _map("errors", caption, alternative, confusion.n_classes, levels)


def _levels(shade: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.round(_FAINTEST + (_STRONGEST - _FAINTEST) * shade))


def _confusion_cells(confusion: Confusions) -> dict[str, Any]:
    """Counts for the script: (true class, predicted class, samples), flat; the largest if there are too many."""
    _, i, j, counts = confusion
    kept = np.sort(np.argsort(-counts, kind="stable")[:_MOST_CELLS])
    return {
        "cells": np.column_stack([i, j, counts])[kept].ravel().tolist(),
        "totals": confusion.by_true.tolist(),
        "cut": len(kept) < len(counts),
    }


def _separation_map(pairs: TrainedPairs, order: ClassOrder) -> dict[str, Any]:
    """d' of every trained pair: strong where classes are close, blank where there is no machine."""
    least, most = _dprime_range(pairs)
    shade = 1 - (np.clip(pairs.dprime, least, most) - least) / (most - least)
    i, j = order.places[pairs.edges].T
    both = np.concatenate([i, j]), np.concatenate([j, i])
    levels = _Cells(*both, np.tile(_levels(shade).astype(np.int64), 2))
    low, middle, high = np.quantile(pairs.dprime, [0.0, 0.5, 1.0])
    alternative = (
        f"Map of d' over {pairs.n_classes} classes: {len(pairs.edges)} of {pairs.number_of_all} pairs are trained,"
        f" d' from {low:.2f} to {high:.2f}, median {middle:.2f}."
    )
    return _map(
        "separation",
        "d' of the trained pairs: the stronger the colour, the closer the classes",
        alternative,
        pairs.n_classes,
        levels,
    )


def _dprime_range(pairs: TrainedPairs) -> tuple[float, float]:
    """The d' of the strongest and of the faintest level."""
    least, most = float(pairs.dprime.min()), float(np.quantile(pairs.dprime, _REST))
    return least, most if most > least else least + 1.0


def _separation_values(pairs: TrainedPairs) -> dict[str, Any]:
    """The range of the colours and, unless there are too many pairs, the d' of all of them."""
    least, most = _dprime_range(pairs)
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
    """The pairs whose d' is too large to be packed, because all held-out logits of a class are equal."""
    large = np.flatnonzero(np.abs(pairs.dprime) > _PACKED)
    edges = np.sort(pairs.edges[large], axis=1).tolist()
    return [(i, j, d) for (i, j), d in zip(edges, pairs.dprime[large].tolist(), strict=True)]


_SIZE, _RADIUS = 560, 262
#: Up to this many classes are named in the figure, in at most this many characters, around a circle of this radius.
_MOST_NAMES, _CHARACTERS, _NAMED_RADIUS = 24, 12, 172
#: Maximum number of lines in the figure: more would fill the circle.
MOST_LINES = 3000
#: Number of paths of the lines, and how far their middles are from the centre, relative to straight lines.
_PATHS, _BEND = 24, 0.45
#: Maximum number of classes with a mark each; with more, one path draws all dots.
_MOST_MARKS = 400
#: Maximum number of rows and columns of the picture of a code.
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
    """The number of trained pairs, and the hubs, as text."""
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

    They are divided into several paths because opacity adds up where paths cross, but not within a path.
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
    """The two sides of every machine in two colours, one row per class; blank where a class is on neither side."""
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
