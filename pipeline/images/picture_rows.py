"""Which rows the store gets: every sound picture, and augmented copies that fill up the training classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.graphs.labels import listed
from pairloom.pipeline.images.image_folder import POOL, TEST, TRAIN, ClassFolder, Picture

__all__ = ["PictureRows", "rows_of_parts", "split_pool", "untested_classes"]


class PictureRows(NamedTuple):
    """The rows of one part, by class: pictures first, then their copies.

    Parameters
    ----------
    files : tuple of str
        The picture of every row, relative to the folder of all pictures.
    labels : (n,) int64 array
    copies : (n,) int32 array
        0 for the picture itself, k for its k-th augmented copy.
    """

    files: tuple[str, ...]
    labels: NDArray[np.int64]
    copies: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.files)


def split_pool(
    parts: Mapping[str, Sequence[Picture]], share: float | None, seed: int
) -> dict[str, tuple[Picture, ...]]:
    """Draw a share of every class of a pool of pictures as test pictures.

    Pictures are split before they are augmented: copies of one picture in both parts would make the test too easy.
    """
    if share is None:
        return {part: tuple(pictures) for part, pictures in parts.items()}
    if POOL not in parts:
        raise ValueError("--test-share must not be given: the folder has test pictures of its own.")
    pool = parts[POOL]
    testing: set[str] = set()
    for label in sorted({picture.label for picture in pool}):
        files = [picture.file for picture in pool if picture.label == label]
        drawn = np.random.default_rng((seed, label)).permutation(len(files))[: round(share * len(files))]
        testing.update(files[place] for place in drawn)
    return {
        TRAIN: tuple(picture for picture in pool if picture.file not in testing),
        TEST: tuple(picture for picture in pool if picture.file in testing),
    }


def rows_of_parts(
    parts: Mapping[str, Sequence[Picture]], classes: Sequence[ClassFolder], rows_per_class: int | None
) -> dict[str, PictureRows]:
    """The rows of every part; training classes are filled up with copies to a number of rows, if one is given."""
    if rows_per_class is not None and TRAIN not in parts:
        raise ValueError(
            "--augment needs test pictures that are set apart before the others are copied. "
            "Pass --test-share 0.25, or give a folder with train/ and val/."
        )
    rows = {
        part: _rows(pictures, rows_per_class if part == TRAIN else None) for part, pictures in parts.items()
    }
    first = rows.get(TRAIN, rows.get(POOL))
    assert first is not None
    if empty := _classes_without_rows(first, classes):
        raise ValueError(
            f"Every class must have training pictures that can be read, {listed(empty)} have none."
        )
    if TEST in rows and not len(rows[TEST]):
        raise ValueError(
            "There must be test pictures that can be read, got none. Choose a larger --test-share."
        )
    return rows


def untested_classes(rows: Mapping[str, PictureRows], classes: Sequence[ClassFolder]) -> list[str]:
    """The names of the classes without test rows, if test rows are set apart."""
    return _classes_without_rows(rows[TEST], classes) if TEST in rows else []


def _classes_without_rows(rows: PictureRows, classes: Sequence[ClassFolder]) -> list[str]:
    counts = np.bincount(rows.labels, minlength=len(classes))
    return [classes[c].name for c in np.flatnonzero(counts == 0).tolist()]


def _rows(pictures: Sequence[Picture], rows_per_class: int | None) -> PictureRows:
    files: list[str] = []
    labels: list[int] = []
    copies: list[int] = []
    by_class: dict[int, list[str]] = {}
    for file, label in pictures:
        by_class.setdefault(label, []).append(file)
    for label, own in sorted(by_class.items()):
        n = max(len(own), rows_per_class or 0)
        files += [own[row % len(own)] for row in range(n)]
        copies += [row // len(own) for row in range(n)]
        labels += [label] * n
    return PictureRows(tuple(files), np.array(labels, np.int64), np.array(copies, np.int32))
