"""One picture: any file that Pillow reads becomes eight bits of red, green and blue, upright.

What is decided here, since a network would take anything: a picture is turned as its EXIF orientation says; of an
animation the first frame counts; transparent parts become white; 16-bit greys keep their eight high bits (Pillow would
clip them to white); CMYK and palettes become RGB. Floating-point pictures have no known range and count as broken.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

__all__ = ["SUFFIXES", "BrokenPicture", "decode_picture", "read_picture"]

#: Files with these endings, in upper or lower case, are pictures; one that cannot be read is broken.
SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")


class BrokenPicture(ValueError):
    """A file that is no picture, or not a whole one."""


def read_picture(path: Path, mode: str = "RGB") -> Image.Image:
    """The picture in a file, in Pillow's mode "RGB" or "L". Raise `BrokenPicture` if there is none."""
    try:
        return decode_picture(path.read_bytes(), mode)
    except OSError as error:
        raise BrokenPicture(f"it cannot be read: {error.strerror or error}") from error


def decode_picture(data: bytes, mode: str = "RGB") -> Image.Image:
    """The picture in the bytes of a file, in Pillow's mode "RGB" or "L". Raise `BrokenPicture` if there is none."""
    if not data:
        raise BrokenPicture("it is empty")
    try:
        with Image.open(io.BytesIO(data)) as image:
            image.load()
            return _eight_bits(ImageOps.exif_transpose(image)).convert(mode)
    except (BrokenPicture, MemoryError):
        raise
    except Image.UnidentifiedImageError as error:
        raise BrokenPicture("it is not a picture") from error
    except Exception as error:  # decoders raise many kinds
        raise BrokenPicture(str(error) or type(error).__name__) from error


def _eight_bits(image: Image.Image) -> Image.Image:
    """The picture without transparency, eight bits per channel."""
    if image.mode.startswith("I"):
        return _from_sixteen_bits(image)
    if image.mode == "F":
        raise BrokenPicture("its pixels are floating-point numbers, whose range is not known")
    if image.has_transparency_data:
        coloured = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", coloured.size, "white"), coloured).convert("RGB")
    return image.convert("RGB")


def _from_sixteen_bits(image: Image.Image) -> Image.Image:
    values = np.asarray(image).astype(np.int64)
    if values.min() < 0 or values.max() > 0xFFFF:
        raise BrokenPicture("its pixels are 32-bit integers, whose range is not known")
    return Image.fromarray((values >> 8).astype(np.uint8))
