"""Pictures: decoding to eight bits of red, green and blue, upright; and checking all of them before any is used.

The conversions: a picture is turned by its EXIF orientation; an animation is its first frame; transparent parts become
white; 16-bit greys keep their eight high bits (Pillow would clip them to white); CMYK and palettes become RGB.
Floating-point pictures have no known range and count as broken.

All pictures are read once before the network sees the first. So broken pictures are reported at the start and not after
hours, the number of rows is known, and the settings of a store can include a digest of its pictures. Decoding takes a
small part of the network's time.
"""

from __future__ import annotations

import hashlib
import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageOps

__all__ = [
    "BrokenPicture",
    "CheckedPicture",
    "check_pictures",
    "decode_picture",
    "read_picture",
    "stamp_of",
    "stamps_of",
    "twins",
]


#: The formats that are read, by Pillow's names; `image_folder.SUFFIXES` has their endings. Pillow knows more formats,
#: but hands some of them to other programs, PostScript to Ghostscript, whatever the name of the file.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
#: Larger pictures take more than a quarter of a gigabyte of memory, and a file of a few bytes can be one.
MOST_PIXELS = 2**30 // 4 // 3
# Futures that wait at once, per thread: each holds a path, not a picture.
_AHEAD = 16


class BrokenPicture(ValueError):
    """A file is not a picture, or is truncated."""


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
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            if image.width * image.height > MOST_PIXELS:
                raise BrokenPicture(
                    f"it has {image.width} x {image.height} pixels, more than {MOST_PIXELS}; make it smaller"
                )
            image.load()
            return _eight_bits(ImageOps.exif_transpose(image)).convert(mode)
    except (BrokenPicture, MemoryError):
        raise
    except Image.UnidentifiedImageError as error:
        raise BrokenPicture(
            "it is not a picture of a known kind (BMP, GIF, JPEG, PNG, PPM, TIFF, WebP)"
        ) from error
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


class CheckedPicture(NamedTuple):
    """The result of checking a picture: the SHA-256 of its file, and why it is broken, if it is."""

    digest: str
    problem: str | None


def check_pictures(
    root: Path, files: Sequence[str], threads: int, advance: Callable[[int], None]
) -> dict[str, CheckedPicture]:
    """Read and decode pictures, by their paths relative to a folder. Call ``advance(1)`` after each."""
    by_file = {}
    with ThreadPoolExecutor(threads) as pool:
        for start in range(0, len(files), _AHEAD * threads):
            some = files[start : start + _AHEAD * threads]
            for file, checked in zip(some, pool.map(lambda name: _checked(root / name), some), strict=True):
                by_file[file] = checked
                advance(1)
    return by_file


def _checked(path: Path) -> CheckedPicture:
    try:
        data = path.read_bytes()
    except OSError as error:
        return CheckedPicture("", f"it cannot be read: {error.strerror or error}")
    try:
        decode_picture(data)
    except BrokenPicture as error:
        return CheckedPicture(hashlib.sha256(data).hexdigest(), str(error))
    return CheckedPicture(hashlib.sha256(data).hexdigest(), None)


def stamps_of(root: Path, files: Iterable[str]) -> dict[str, list[int]]:
    """Size and modification time of every file, by which a later process notices replaced files."""
    return {file: stamp_of(root / file) for file in files}


def stamp_of(path: Path) -> list[int]:
    """Size and modification time of a file; empty if they cannot be read."""
    try:
        status = path.stat()
    except OSError:
        return []
    return [status.st_size, status.st_mtime_ns]


def twins(
    parts: Mapping[str, Iterable[tuple[str, int]]], checked: Mapping[str, CheckedPicture]
) -> Iterator[str]:
    """Warnings about equal pictures in two classes, or in training and test; ``parts`` have files and their labels."""
    places: dict[str, dict[str, tuple[str, int]]] = defaultdict(dict)
    for part, pictures in parts.items():
        for file, label in pictures:
            if checked[file].problem is None:
                places[checked[file].digest][file] = (part, label)
    for files in places.values():
        labels, in_parts = {label for _, label in files.values()}, {part for part, _ in files.values()}
        if len(labels) > 1:
            yield f"The same picture is in {len(labels)} classes: {', '.join(files)}."
        elif len(in_parts) > 1:
            yield f"The same picture is among the training and the test pictures: {', '.join(files)}."
