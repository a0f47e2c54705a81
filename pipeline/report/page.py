"""The page of a report: one HTML file that contains its style, script, data and charts, and loads nothing.

It is rendered from the templates page.html and sections.html. All data are escaped, except `Markup`. The charts are the
reliability diagram and the scores of a growing model.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

import numpy as np
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup
from numpy.typing import ArrayLike, NDArray

from pairloom.graphs.text import plain_line
from pairloom.pipeline.display.evaluation import Outcomes, Reliability, reliability_of
from pairloom.pipeline.growth.waves import Wave

__all__ = [
    "Chart",
    "Column",
    "KeyFigure",
    "PageTable",
    "Section",
    "coordinate",
    "growth_section",
    "named",
    "page",
    "reliability_section",
    "round_ticks",
    "section_html",
]


class Column(NamedTuple):
    """A column of a table: its heading, the kind of its cells, and an explanation if the heading needs one.

    A cell of kind "name" is the name of a class.
    """

    heading: str
    kind: Literal["text", "number", "name"] = "text"
    meaning: str = ""


class PageTable(NamedTuple):
    """A table of the page. A long table scrolls in its own frame.

    Attributes
    ----------
    key
        Its id in the page is ``table-{key}``.
    caption
        A description for screen readers.
    columns, rows
        Headings, and the cells below them.
    search
        The object of a search, such as "a class"; if empty, the table has no search.
    sortable
        Whether headings are buttons that sort.
    keyed
        Whether the script finds a row by its number.
    """

    key: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[object]]
    search: str = ""
    sortable: bool = False
    keyed: bool = False


class Section(NamedTuple):
    """A section of the page.

    Attributes
    ----------
    key
        Its anchor in the page, and the macro of sections.html that renders it.
    title
        Its heading.
    content
        The arguments of the macro.
    data
        JSON values for the script, by name.
    """

    key: str
    title: str
    content: Mapping[str, Any]
    data: Mapping[str, Any] = {}


class KeyFigure(NamedTuple):
    """A number at the top of the page, its name, and a note below it."""

    value: str
    name: str
    note: str = ""


def page(
    title: str,
    line: str,
    figures: Sequence[KeyFigure],
    notices: Sequence[str],
    sections: Sequence[Section],
    data: Mapping[str, Any],
) -> str:
    """The whole page.

    Parameters
    ----------
    title, line
        Name of the run, and the line below it.
    figures
        The numbers at the top.
    notices
        Remarks at the top that a reader must not miss.
    sections
        The content.
    data
        JSON values for the script, besides those of the sections.
    """
    script = _resource("page.js")
    values = dict(data)
    for section in sections:
        values |= section.data
    return _environment().get_template("page.html").render(
        title=plain_line(title),
        line=line,
        figures=figures,
        notices=notices,
        sections=sections,
        data=values,
        style=Markup(_resource("page.css")),
        script=Markup(script),
        policy=_policy(script),
    )  # fmt: skip


def section_html(section: Section) -> str:
    """The content of one section, without its heading."""
    macros = _environment().get_template("sections.html").module
    return str(getattr(macros, section.key)(section.content))


def _policy(script: str) -> str:
    """A policy by which the page loads nothing and runs only its own script, even if a class name were not escaped."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_resource),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"name": named, "px": coordinate, "thousands": "{:,}".format}
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def named(name: str) -> Markup:
    """A class name as content: on one line, with its own text direction. It may break after an underscore.

    Examples
    --------
    >>> named("play_<music>")
    Markup('<bdi>play_<wbr>&lt;music&gt;</bdi>')
    """
    return Markup("<bdi>{}</bdi>").format(plain_line(name)).replace("_", Markup("_<wbr>"))


def coordinate(value: float, digits: int = 1) -> str:
    """A coordinate in as few characters as possible.

    Examples
    --------
    >>> coordinate(3.0), coordinate(0.26), coordinate(-0.01)
    ('3', '0.3', '0')
    """
    text = f"{value:.{digits}f}"
    short = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if short == "-0" else short


class Chart(NamedTuple):
    """The position of a chart's plane in its figure, and the values at its edges.

    Attributes
    ----------
    left, top, width, height : float
        The plane, in the units of the figure.
    x_range, y_range : tuple of float
        Values at its left and right, and at its bottom and top.
    """

    left: float
    top: float
    width: float
    height: float
    x_range: tuple[float, float] = (0.0, 1.0)
    y_range: tuple[float, float] = (0.0, 1.0)

    def x(self, values: ArrayLike) -> NDArray[np.float64]:
        """Horizontal positions of values."""
        low, high = self.x_range
        return self.left + (np.asarray(values, np.float64) - low) / (high - low) * self.width

    def y(self, values: ArrayLike) -> NDArray[np.float64]:
        """Vertical positions of values."""
        low, high = self.y_range
        return self.top + (high - np.asarray(values, np.float64)) / (high - low) * self.height

    def path(self, x: ArrayLike, y: ArrayLike) -> str:
        """The path of SVG through points.

        Examples
        --------
        >>> Chart(0, 0, 10, 10).path([0, 1], [1, 0.65])
        'M0 0L10 3.5'
        """
        points = zip(self.x(x), self.y(y), strict=True)
        return "M" + "L".join(f"{coordinate(a)} {coordinate(b)}" for a, b in points)

    @property
    def bottom(self) -> float:
        """The lower edge of the plane."""
        return self.top + self.height


def round_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """About ``about`` round numbers from ``low`` to ``high``.

    Examples
    --------
    >>> round_ticks(0, 1), round_ticks(61, 612, 4)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [200.0, 400.0, 600.0])
    """
    if not high > low:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((power * nice for nice in (1, 2, 2.5, 5) if power * nice >= rough * 0.999), power * 10)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(multiple * step, 12) for multiple in range(first, last + 1)]


def reliability_section(by_method: Mapping[str, Outcomes]) -> Section:
    """Accuracy against confidence, with a histogram of the samples and a table of the bins."""
    of_model, *others = (reliability_of(outcomes) for outcomes in by_method.values())
    plane, counts = Chart(44, 10, 344, 260), Chart(44, 292, 344, 64)
    seen = of_model.samples > 0
    gap = np.average((of_model.confidence - of_model.accuracy)[seen], weights=of_model.samples[seen])
    content = {
        "methods": list(by_method),
        "several": bool(others),
        "calibration_error": of_model.expected_calibration_error,
        "side": "above" if gap > 0 else "below",
        "plane": plane,
        "counts": counts,
        "ticks": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
        "diagonal": plane.path([0, 1], [0, 1]),
        "path": _curve(plane, of_model),
        "others": [_curve(plane, curve) for curve in others],
        "dots": list(_dots(plane, of_model)),
        "bars": list(_bars(counts, of_model)),
        "most": int(of_model.samples.max()),
        "bins": _bins_table(of_model),
    }
    return Section("reliability", "Reliability", content)


def _curve(plane: Chart, curve: Reliability) -> str:
    seen = curve.samples > 0
    return plane.path(curve.confidence[seen], curve.accuracy[seen])


def _dots(plane: Chart, curve: Reliability) -> Iterable[dict[str, Any]]:
    """One dot per bin, smaller for fewer samples, because their accuracy is less certain."""
    most = curve.samples.max()
    for confidence, accuracy, samples in zip(*curve, strict=True):
        if samples:
            radius = 2 + 3 * np.sqrt(samples / most)
            place = {"x": plane.x(confidence), "y": plane.y(accuracy), "radius": radius}
            yield place | {"confidence": confidence, "accuracy": accuracy, "samples": samples}


def _bars(plane: Chart, curve: Reliability) -> Iterable[dict[str, float]]:
    most, width = int(curve.samples.max()), plane.width / len(curve.samples)
    for place, samples in enumerate(curve.samples.tolist()):
        height = max(plane.height * samples / most, 1.0) if samples else 0.0
        yield {
            "x": plane.left + place * width + 0.5,
            "width": width - 1,
            "height": height,
            "samples": samples,
        }


def _bins_table(curve: Reliability) -> PageTable:
    bins = len(curve.samples)
    rows = [
        [f"{b / bins:.2f} – {(b + 1) / bins:.2f}", samples, f"{confidence:.4f}", f"{accuracy:.4f}"]
        for b, (confidence, accuracy, samples) in enumerate(zip(*curve, strict=True))
        if samples
    ]
    columns = [Column("bin"), *(Column(name, "number") for name in ("samples", "confidence", "accuracy"))]
    return PageTable("bins", "Bins of the reliability diagram", columns, rows)


def growth_section(waves: Sequence[Wave], n_classes: int, ended: str | None = None) -> Section:
    """Log loss and accuracy of a growing model against its number of pairs, and why it stopped growing."""
    rows = [[w, wave.pairs, f"{wave.log_loss:.4f}", f"{wave.accuracy:.4f}"] for w, wave in enumerate(waves)]
    columns = [Column(name, "number") for name in ("wave", "pairs", "log loss", "accuracy")]
    content = {
        "first": waves[0].pairs,
        "last": waves[-1].pairs,
        "of_all": n_classes * (n_classes - 1) // 2,
        "waves": len(waves) - 1,
        "ended": ended,
        "charts": [
            _growth_chart("log loss", waves, [wave.log_loss for wave in waves]),
            _growth_chart("accuracy", waves, [wave.accuracy for wave in waves]),
        ],
        "table": PageTable("waves", "Waves of growth", columns, rows),
    }
    return Section("growth", "Growth", content)


def _growth_chart(name: str, waves: Sequence[Wave], scores: Sequence[float]) -> dict[str, Any]:
    pairs = [wave.pairs for wave in waves]
    x_margin = 0.03 * (pairs[-1] - pairs[0]) or 1.0
    y_margin = 0.06 * (max(scores) - min(scores)) or 0.01
    x_range, y_range = (
        (pairs[0] - x_margin, pairs[-1] + x_margin),
        (min(scores) - y_margin, max(scores) + y_margin),
    )
    plane = Chart(52, 16, 334, 190, x_range, y_range)
    return {
        "name": name,
        "plane": plane,
        "x_ticks": round_ticks(*x_range, 4),
        "y_ticks": round_ticks(*y_range, 5),
        "path": plane.path(pairs, scores),
        "dots": [
            {"x": plane.x(n), "y": plane.y(score), "pairs": n, "score": score}
            for n, score in zip(pairs, scores, strict=True)
        ],
    }
