"""HTML and SVG as text. Whatever comes from data is escaped here, and nowhere else."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterable, Mapping
from typing import Any

from pairloom.pipeline.storage.names import plain_line

__all__ = [
    "attributes",
    "drawing",
    "element",
    "escaped",
    "json_script",
    "named",
    "number",
    "png_url",
    "polyline",
]


def escaped(text: object) -> str:
    """Text as content of an element or of an attribute in double quotes.

    Examples
    --------
    >>> escaped('<b title="x">')
    '&lt;b title=&quot;x&quot;&gt;'
    """
    return html.escape(str(text), quote=True)


def named(name: str) -> str:
    """A class name as content: one line, escaped, and kept apart from the direction of the text around it.

    Where there is no room for a line, it breaks after an underscore.

    Examples
    --------
    >>> named("play_music")
    '<bdi>play_<wbr>music</bdi>'
    """
    return f"<bdi>{escaped(plain_line(name)).replace('_', '_<wbr>')}</bdi>"


def attributes(values: Mapping[str, object]) -> str:
    """Attributes of an element. A trailing underscore is dropped from a name, other underscores are hyphens.

    Examples
    --------
    >>> attributes({"class_": "axis", "stroke_width": 2})
    ' class="axis" stroke-width="2"'
    """
    return "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escaped(value)}"' for name, value in values.items()
    )


def element(tag: str, content: str = "", **values: object) -> str:
    """An element with content that is markup already."""
    return f"<{tag}{attributes(values)}>{content}</{tag}>"


def drawing(width: float, height: float, alternative: str, content: Iterable[str], **values: object) -> str:
    """An SVG figure. The alternative says in words what it shows, to those who do not see it."""
    box = f"0 0 {number(width)} {number(height)}"
    return element("svg", "".join(content), viewBox=box, role="img", aria_label=alternative, **values)


def number(value: float, digits: int = 1) -> str:
    """A coordinate, as short as it can be.

    Examples
    --------
    >>> number(3.0), number(0.26), number(-0.01)
    ('3', '0.3', '0')
    """
    text = f"{value:.{digits}f}"
    short = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if short == "-0" else short


def polyline(x: Iterable[float], y: Iterable[float]) -> str:
    """The path through points.

    Examples
    --------
    >>> polyline([0, 1], [2, 3.5])
    'M0 2L1 3.5'
    """
    return "M" + "L".join(f"{number(a)} {number(b)}" for a, b in zip(x, y, strict=True))


def png_url(png: bytes) -> str:
    """A picture as part of the page."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def json_script(key: str, values: Mapping[str, Any]) -> str:
    """Values for the page's script. No text in them can end the element, or begin another."""
    text = json.dumps(values, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" id="{key}">{text}</script>'
