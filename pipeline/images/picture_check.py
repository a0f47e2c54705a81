"""Read every picture once before the network sees the first: which are broken, which are the same.

So a broken picture is named at the start and not after hours, the number of rows is known, and the store can say of
which pictures, by their content, it was made. Decoding takes a small part of the time that a network takes.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from pairloom.pipeline.images.image_folder import ImageFolder
from pairloom.pipeline.images.picture import BrokenPicture, decode_picture

__all__ = ["CheckedPicture", "check_pictures", "stamp_of", "stamps_of", "twins"]

# Futures that wait at once, per thread: each holds a path, not a picture.
_AHEAD = 16


class CheckedPicture(NamedTuple):
    """What reading a picture found: the SHA-256 of its file, and why it is broken, if it is."""

    digest: str
    problem: str | None


def check_pictures(
    root: Path, files: Sequence[str], threads: int, advance: Callable[[int], None]
) -> dict[str, CheckedPicture]:
    """Read and decode pictures, by their paths relative to a folder. Call ``advance(1)`` after each."""
    found = {}
    with ThreadPoolExecutor(threads) as pool:
        for start in range(0, len(files), _AHEAD * threads):
            some = files[start : start + _AHEAD * threads]
            for file, checked in zip(some, pool.map(lambda name: _checked(root / name), some), strict=True):
                found[file] = checked
                advance(1)
    return found


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
    """Size and time of change of every file, by which a later process sees that none was replaced."""
    return {file: stamp_of(root / file) for file in files}


def stamp_of(path: Path) -> list[int]:
    """Size and time of change of a file; nothing if it cannot be looked at."""
    try:
        status = path.stat()
    except OSError:
        return []
    return [status.st_size, status.st_mtime_ns]


def twins(images: ImageFolder, checked: Mapping[str, CheckedPicture]) -> Iterator[str]:
    """Sentences about equal pictures that should not be: in two classes, or in training and test."""
    places: dict[str, dict[str, tuple[Any, ...]]] = defaultdict(dict)
    for part, pictures in images.parts.items():
        for file, label in pictures:
            if checked[file].problem is None:
                places[checked[file].digest][file] = (part, label)
    for files in places.values():
        labels, parts = {label for _, label in files.values()}, {part for part, _ in files.values()}
        if len(labels) > 1:
            yield f"The same picture is in {len(labels)} classes: {', '.join(files)}."
        elif len(parts) > 1:
            yield f"The same picture is among the training and the test pictures: {', '.join(files)}."
