"""Augmented copies of a picture: another crop, perhaps mirrored, other colours.

The recipe is the one that ImageNet networks are trained with: a crop of random area and shape, a flip, and random
brightness, contrast and saturation. Every copy is drawn from the seed, the name of the picture and the number of the
copy alone, so it is the same in whatever order, batch or process it is made.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
from PIL import Image, ImageEnhance

from pairloom.pipeline.images.preprocessing import INTERPOLATIONS, Preprocessing

__all__ = ["RECIPE", "augmented", "draw_of_copy"]

# Training crops down to 8% of a picture; such a crop often misses its object, and the copy would have a wrong label.
_LEAST_AREA = 0.25
_NARROWEST = 3 / 4
_COLOUR = 0.4

#: What an augmented copy depends on besides its draw; stored with the features.
RECIPE: dict[str, Any] = {
    "flip": 0.5,
    "crop_area": [_LEAST_AREA, 1.0],
    "crop_aspect": [_NARROWEST, 1 / _NARROWEST],
    "brightness": _COLOUR,
    "contrast": _COLOUR,
    "saturation": _COLOUR,
    "version": 1,
}


def draw_of_copy(seed: int, file: str, copy: int) -> np.random.Generator:
    """The random numbers of a copy of a picture."""
    name = int.from_bytes(hashlib.sha256(file.encode()).digest()[:16], "little")
    return np.random.default_rng((seed, copy, name))


def augmented(image: Image.Image, how: Preprocessing, draw: np.random.Generator) -> Image.Image:
    """A random crop of a picture, resized to the size of the network's input, flipped and coloured at random."""
    copy = image.resize(
        how.crop[::-1], INTERPOLATIONS[how.interpolation], box=_random_box(image.size, how, draw)
    )
    if draw.random() < RECIPE["flip"]:
        copy = copy.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    for enhance in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
        factor = draw.uniform(1 - _COLOUR, 1 + _COLOUR)
        copy = (
            enhance(copy).enhance(factor) if how.mode == "RGB" or enhance is not ImageEnhance.Color else copy
        )
    return copy


def _random_box(
    size: tuple[int, int], how: Preprocessing, draw: np.random.Generator
) -> tuple[float, float, float, float]:
    """A random part of a picture: its share of the largest crop, and how much wider than that it is.

    The largest crop has the shape of the network's input, so a long strip is not squeezed into a square.
    """
    across, down = size
    height, width = how.crop
    scale = min(across / width, down / height)
    area = draw.uniform(_LEAST_AREA, 1.0)
    aspect = math.exp(draw.uniform(math.log(_NARROWEST), -math.log(_NARROWEST)))
    box_width = min(across, width * scale * math.sqrt(area * aspect))
    box_height = min(down, height * scale * math.sqrt(area / aspect))
    left, top = draw.uniform(0, across - box_width), draw.uniform(0, down - box_height)
    return left, top, min(left + box_width, across), min(top + box_height, down)
