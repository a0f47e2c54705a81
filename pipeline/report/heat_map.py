"""A heat map over the classes, near ones side by side: a gray picture inside an SVG, coloured by the page's style.

The level of a pixel is the opacity of a colour that the page chooses, so that one picture serves light and dark mode.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.report.class_order import ClassOrder
from pairloom.pipeline.report.gray_png import gray_png
from pairloom.pipeline.report.markup import element, png_url

__all__ = ["LEVELS", "heat_map", "pooled", "tinted_picture"]

#: The faintest and the strongest level of a cell that has a value; 0 is for one that has none.
LEVELS = (48, 255)

# The picture's gray becomes the opacity of the colour.
_TINT = (
    '<filter id="tint-{key}" x="0" y="0" width="1" height="1" color-interpolation-filters="sRGB">'
    '<feColorMatrix type="matrix" values="0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 0 0 0" result="opacity"/>'
    '<feFlood style="flood-color:var(--{key})"/><feComposite in2="opacity" operator="in"/></filter>'
)


def heat_map(key: str, levels: NDArray[np.uint8], order: ClassOrder, alternative: str) -> str:
    """The map of levels (place, place), with the blocks of near classes outlined.

    ``key`` names the figure, and the colour of its style. A picture of fewer pixels than classes is stretched.
    """
    N = len(order.classes)
    per_pixel = -(-N // len(levels))
    size = per_pixel * len(levels)
    picture = tinted_picture(key, levels, size, size)
    blocks = "".join(
        f'<rect class="block" x="{b.start}" y="{b.start}" width="{b.stop - b.start}" height="{b.stop - b.start}"/>'
        for b in order.blocks
    )
    window = '<rect class="window" x="0" y="0" width="0" height="0"/>'
    return element(
        "svg",
        picture + blocks + window,
        viewBox=f"0 0 {N} {N}",
        role="img",
        aria_label=alternative,
        class_="map",
        data_map=key,
    )


def tinted_picture(key: str, levels: NDArray[np.uint8], width: int, height: int) -> str:
    """Levels as a picture in the colour ``--key`` of the page's style."""
    picture = f'<image href="{png_url(gray_png(levels))}" width="{width}" height="{height}"'
    return f'{_TINT.format(key=key)}{picture} preserveAspectRatio="none" filter="url(#tint-{key})"/>'


def pooled(levels: NDArray[np.uint8], most: int) -> NDArray[np.uint8]:
    """The levels in at most ``most`` rows and columns, each the largest of a square: single cells stay visible."""
    N = len(levels)
    per_pixel = -(-N // most)
    if per_pixel == 1:
        return levels
    size = -(-N // per_pixel)
    padded = np.zeros((size * per_pixel, size * per_pixel), np.uint8)
    padded[:N, :N] = levels
    return np.asarray(padded.reshape(size, per_pixel, size, per_pixel).max(axis=(1, 3)))
