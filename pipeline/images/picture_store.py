"""The store of features: a zarr group that `[data] features` takes, filled block by block.

It is filled in ``NAME-unfinished`` and renamed when it is whole, so a store called ``NAME`` is always complete. A block
is done when its entry in ``extraction/ledger`` has been written, with the checksums of its chunks, so a process that is
killed loses only the block it was working on. ``extraction/settings.json`` has all settings of the store; a store with
other settings is not touched.

    X_train, y_train      features and labels; X_test, y_test, or X, y for one pool
    files_train           the picture of every row, relative to the folder of all pictures
    copies_train          0 for the picture itself, k for its k-th augmented copy
    probabilities_train   the network's own probabilities, if it has any
    classes               names, in the order of the labels
    outputs, output_of_class   names of the network's outputs, and the output of each class, if known
"""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zarr
from numpy.typing import NDArray

from pairloom.graphs.text import listed
from pairloom.pipeline.images.image_folder import POOL, TEST, TRAIN, ClassFolder, Picture, StoreRefused
from pairloom.pipeline.images.picture import CheckedPicture
from pairloom.pipeline.storage.atomic_file import PARTIAL_SUFFIX, create_exclusively, write_atomically
from pairloom.pipeline.storage.digests import DamagedSeal, digest_of, file_digest, sealed, unsealed
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.zarr_layout import ChunkedArray, Coordinate, chunk_path, group_files, stamp
from pairloom.pipeline.threads import pieces

__all__ = [
    "BLOCK",
    "PictureRows",
    "PictureStore",
    "StoreContent",
    "checked_before",
    "name_in_store",
    "rows_of_parts",
    "settings_of",
    "split_pool",
    "untested_classes",
]


#: Rows per file and per entry of the ledger: a killed process loses no more.
BLOCK = 256

# Files that are not arrays, in a folder of their own.
_SETTINGS, _CHECKED, _LEDGER = (f"extraction/{name}" for name in ("settings.json", "pictures.json", "ledger"))


class StoreContent(NamedTuple):
    """The content of a store, known before the network has seen a picture.

    Parameters
    ----------
    rows : mapping of str to PictureRows
        By part.
    classes : sequence of str
    n_features : int
    n_outputs : int
        0 if the network's probabilities are not stored.
    outputs : sequence of str, optional
    output_of_class : sequence of int, optional
    """

    rows: Mapping[str, PictureRows]
    classes: Sequence[str]
    n_features: int
    n_outputs: int
    outputs: Sequence[str] | None = None
    output_of_class: Sequence[int] | None = None


def name_in_store(array: str, part: str) -> str:
    """The name of an array of a part: ``X_train``, but ``X`` of a pool.

    Examples
    --------
    >>> name_in_store("files", "train"), name_in_store("X", "pool")
    ('files_train', 'X')
    """
    return array if part == POOL else f"{array}_{part}"


class PictureStore:
    """A store that is being filled. Hold it with `held`."""

    def __init__(self, out: Path) -> None:
        self.out, self.folder = out, out.parent / f"{out.name}-unfinished"

    @property
    def is_finished(self) -> bool:
        """Whether the store is complete, under its own name."""
        return (self.out / _SETTINGS).is_file()

    def check(self) -> None:
        """Raise `StoreRefused` unless the store may be written here: both folders must be new or a store."""
        # Nothing can be renamed to ".", "/" or "..".
        if self.out.name in ("", ".."):
            raise StoreRefused(
                f"--out must end with the name of the store, got {str(self.out)!r}. Add a name, such as features.zarr."
            )
        if not self.out.parent.is_dir():
            raise StoreRefused(f"--out must lie in a folder that exists, got {self.out}.")
        for place in (self.out, self.folder):
            if place.is_symlink() or (place.exists() and not _is_ours(place)):
                raise StoreRefused(
                    f"--out must be new or a store of `pairloom features`, got {place}, which is something else. "
                    "Nothing was changed. Choose another --out."
                )

    @contextlib.contextmanager
    def held(self, settings: Mapping[str, Any]) -> Iterator[None]:
        """Lock the store. Raise `StoreRefused` if it has other settings, or another process is filling it."""
        if self.is_finished:
            self._check_settings(self.out, settings)
            yield
            return
        create_exclusively(self.folder / _SETTINGS, sealed(dict(settings), indent=1))
        self._check_settings(self.folder, settings)
        with (self.folder / _SETTINGS).open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise StoreRefused(f"Another process is filling {self.out}.") from error
            # The previous holder of the lock may have renamed the folder after we opened the file.
            if not (self.folder / _SETTINGS).exists():
                raise StoreRefused(f"Another process has just finished {self.out}.")
            yield

    def _check_settings(self, folder: Path, settings: Mapping[str, Any]) -> None:
        differences = _differences(settings_of(folder) or {}, settings)
        if differences:
            raise StoreRefused(
                f"{folder} was made with other settings:\n  "
                + "\n  ".join(differences)
                + "\nNothing was changed. Choose another --out, or remove that folder."
            )

    def prepare(self, content: StoreContent, attributes: Mapping[str, Any]) -> None:
        """Write everything that is known before the first block: metadata, labels, names."""
        stamp(Folder(self.folder), group_files(_arrays(content), _coordinates(content), attributes))
        self._content, self._key = content, digest_of(settings_of(self.folder))
        self._group = zarr.open_group(self.folder, mode="r+")

    def missing(self, part: str) -> list[slice]:
        """Blocks of a part that are not done, or whose files are damaged."""
        return [
            block for block in pieces(len(self._content.rows[part]), BLOCK) if not self._is_done(part, block)
        ]

    def write(
        self, part: str, block: slice, X: NDArray[np.float32], probabilities: NDArray[np.float32] | None
    ) -> None:
        """Write a block and its entry in the ledger."""
        files = {}
        for name, values in (("X", X), ("probabilities", probabilities)):
            if values is not None and name_in_store(name, part) in self._group:
                array = self._group[name_in_store(name, part)]
                assert isinstance(array, zarr.Array)
                array[block] = values
                path = chunk_path(array, (block.start // BLOCK, 0))
                files[path] = file_digest(self.folder / path)
        write_atomically(self._entry(part, block), sealed({"key": self._key, "files": files}))

    def finish(self) -> None:
        """Rename the complete store to its own name."""
        for path in self.folder.rglob(f".*{PARTIAL_SUFFIX}"):  # left by killed processes
            path.unlink()
        self.folder.rename(self.out)

    def _is_done(self, part: str, block: slice) -> bool:
        try:
            entry = unsealed(self._entry(part, block).read_bytes())
            return entry["key"] == self._key and all(
                file_digest(self.folder / path) == digest for path, digest in entry["files"].items()
            )
        except (OSError, DamagedSeal, KeyError):
            return False

    def _entry(self, part: str, block: slice) -> Path:
        return self.folder / _LEDGER / part / f"{block.start // BLOCK:06d}.json"

    def remember(self, stamps: Mapping[str, list[int]], checked: Mapping[str, CheckedPicture]) -> None:
        """Store the results of checking the pictures, so that a resumed process need not read them all again."""
        content = {file: [stamps[file], *checked[file]] for file in checked}
        write_atomically(self.folder / _CHECKED, sealed({"pictures": content}))


def _is_ours(folder: Path) -> bool:
    """Whether a folder is a store, finished or not: it has our settings, or no file at all."""
    if not folder.is_dir():
        return False
    files = (
        path for path in folder.rglob("*") if not path.is_dir() and not path.name.endswith(PARTIAL_SUFFIX)
    )
    return settings_of(folder) is not None or next(files, None) is None


def settings_of(folder: Path) -> dict[str, Any] | None:
    """The settings of a store; None if there is no store."""
    try:
        settings = unsealed((folder / _SETTINGS).read_bytes())
    except (OSError, DamagedSeal):
        return None
    return settings if "preprocessing" in settings else None


def checked_before(store: PictureStore) -> tuple[dict[str, list[int]], dict[str, CheckedPicture]]:
    """The stamps of the pictures that an earlier process checked, and the results."""
    for folder in (store.out, store.folder):
        with contextlib.suppress(OSError, DamagedSeal):
            pictures = unsealed((folder / _CHECKED).read_bytes())["pictures"]
            return (
                {file: stamp for file, (stamp, _, _) in pictures.items()},
                {file: CheckedPicture(digest, problem) for file, (_, digest, problem) in pictures.items()},
            )
    return {}, {}


def _differences(was: Mapping[str, Any], now: Mapping[str, Any], above: str = "") -> list[str]:
    """One line for every setting that differs."""
    lines = []
    for key in dict.fromkeys([*was, *now]):
        old, new = was.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            lines += _differences(old, new, f"{above}{key}.")
        elif old != json.loads(json.dumps(new)):
            lines.append(f"{above}{key}: was {_shown(old)}, is {_shown(new)}")
    return lines


def _shown(value: Any) -> str:
    return listed(value) if isinstance(value, list) else repr(value)


def _arrays(content: StoreContent) -> list[ChunkedArray]:
    arrays = []
    for part, rows in content.rows.items():
        for name, along, width in (
            ("X", "feature", content.n_features),
            ("probabilities", "output", content.n_outputs),
        ):
            if width:
                shape, chunks = (len(rows), width), (BLOCK, width)
                arrays.append(ChunkedArray(name_in_store(name, part), (part, along), shape, chunks))
    return arrays


def _coordinates(content: StoreContent) -> list[Coordinate]:
    coordinates = [Coordinate("classes", ("class",), np.array(content.classes))]
    if content.outputs is not None:
        coordinates.append(Coordinate("outputs", ("output",), np.array(content.outputs)))
    if content.output_of_class is not None:
        coordinates.append(
            Coordinate("output_of_class", ("class",), np.array(content.output_of_class, np.int32))
        )
    for part, rows in content.rows.items():
        coordinates += [
            Coordinate(name_in_store("y", part), (part,), rows.labels),
            Coordinate(name_in_store("files", part), (part,), np.array(rows.files, np.dtypes.StringDType())),
            Coordinate(name_in_store("copies", part), (part,), rows.copies),
        ]
    return coordinates


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
    for label, of_class in sorted(by_class.items()):
        n = max(len(of_class), rows_per_class or 0)
        files += [of_class[row % len(of_class)] for row in range(n)]
        copies += [row // len(of_class) for row in range(n)]
        labels += [label] * n
    return PictureRows(tuple(files), np.array(labels, np.int64), np.array(copies, np.int32))
