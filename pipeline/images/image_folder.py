"""A folder of pictures: one folder per class, or ``train`` and ``val`` with one folder per class in each.

Files are listed by name, so that the order of the rows does not depend on the file system. Pictures in folders below a
class's folder belong to the class, as in Tiny-ImageNet. A class's folder, and a picture, may be a symbolic link to
anywhere, since subsets of ImageNet are often made of links; linked folders within a class could be circular and are not
followed. Hidden files are ignored; other files without an ending of pictures are ignored and reported.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pairloom.graphs.text import did_you_mean, listed
from pairloom.pipeline.features.embedded_sets import CLASSES

__all__ = [
    "POOL",
    "SUFFIXES",
    "TEST",
    "TRAIN",
    "ClassFolder",
    "ImageFolder",
    "Picture",
    "StoreRefused",
    "WrongNames",
    "lines_of",
    "list_images",
    "wanted_classes",
]

#: Files with these endings, in upper or lower case, are pictures; one that cannot be read is broken.
SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")

#: Parts of a set. A folder without train/ and val/ is one pool.
TRAIN, TEST, POOL = "train", "test", "pool"

# The first of these that exists holds the test pictures. ImageNet's test/ comes last: its pictures have no labels.
_TEST_FOLDERS = ("val", "validation", "test")


# Both errors are defined here because every command maps them to an exit code, and this file does not import Pillow.
class WrongNames(ValueError):
    """An option does not name classes, or outputs, that can be used."""


class StoreRefused(ValueError):
    """A store cannot be written here, or it was made from other data or settings."""


class ClassFolder(NamedTuple):
    """A class: the name of its folder, and its name in the store."""

    folder: str
    name: str


class Picture(NamedTuple):
    """A picture: its path relative to the folder of all pictures, with slashes, and the index of its class."""

    file: str
    label: int


class ImageFolder(NamedTuple):
    """The pictures below a folder.

    Parameters
    ----------
    root : Path
    classes : tuple of ClassFolder
        With the folders of the training pictures; the folders of the test pictures may have other names.
    parts : mapping of str to tuple of Picture
        The pictures of `TRAIN` and `TEST`, or of `POOL`; by class, then by path.
    ignored : tuple of str
        Files without an ending of pictures, and linked folders within classes.
    """

    root: Path
    classes: tuple[ClassFolder, ...]
    parts: Mapping[str, tuple[Picture, ...]]
    ignored: tuple[str, ...]


def wanted_classes(classes: str) -> list[tuple[str, ...]]:
    """The classes that ``--classes`` asks for. Each is the names that its folder may have; the class's name is last.

    Parameters
    ----------
    classes : str
        "imagenet50", or the path of a text file with one class per line: the name of its folder and, optionally, after
        a space, the name of the class (such as ImageNet's ``LOC_synset_mapping.txt``).

    Raises
    ------
    WrongNames
        If there is no such file, it is not UTF-8, or two classes have the same name.
    """
    if classes == "imagenet50":
        return [(row.wordnet_id, row.name) for row in CLASSES]
    if not Path(classes).is_file():
        raise WrongNames(
            f'--classes must be "imagenet50" or a text file with one class per line, got {classes!r}.'
            f"{did_you_mean(classes, ['imagenet50'])}"
        )
    wanted = [tuple(line.split(maxsplit=1)) for line in lines_of(classes, "--classes")]
    if repeated := _repeated([names[-1] for names in wanted]):
        raise WrongNames(
            f"--classes must give every class a name of its own, got {listed(repeated)} more than once in {classes}."
        )
    return wanted


def list_images(root: Path, wanted: Sequence[tuple[str, ...]] | None = None) -> ImageFolder:
    """List the pictures below a folder, of all classes or of the wanted ones in their order.

    Raises
    ------
    WrongNames
        If fewer than two classes are wanted, two of them have the same folder, or one of them has two.
    ValueError
        If wanted classes have no folder, a class has no pictures, or there are fewer than two classes.
    """
    if not root.is_dir():
        raise ValueError(f"IMAGES must be a folder with one folder per class, got {root}.")
    places = _places_of_parts(root)
    first, *others = places
    classes = _classes_in(root / places[first], wanted)
    class_folders = {first: classes} | {
        part: _same_classes_in(root / places[part], classes, wanted) for part in others
    }
    ignored: list[str] = []
    parts = {
        part: tuple(_pictures(root, place, class_folders[part], ignored)) for part, place in places.items()
    }
    _check_every_class_has_pictures(root, classes, parts[first])
    return ImageFolder(root, classes, parts, tuple(ignored))


def _places_of_parts(root: Path) -> dict[str, str]:
    """The folder of every part, relative to the root."""
    folders = set(_folders_in(root))
    test_folders = [name for name in _TEST_FOLDERS if name in folders]
    if TRAIN in folders and test_folders and _folders_in(root / TRAIN):
        return {TRAIN: TRAIN, TEST: test_folders[0]}
    return {POOL: ""}


def _folders_in(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))


def _classes_in(folder: Path, wanted: Sequence[tuple[str, ...]] | None) -> tuple[ClassFolder, ...]:
    there = _folders_in(folder)
    if wanted is not None:
        _check_number_of(wanted)
        return _folders_of(wanted, there, folder)
    if len(there) < 2:
        raise ValueError(
            f"IMAGES must hold one folder per class, of two classes or more, got {folder}, "
            f"which holds {listed(there) or 'none'}."
        )
    return tuple(ClassFolder(name, name) for name in there)


def _check_number_of(wanted: Sequence[tuple[str, ...]]) -> None:
    if len(wanted) < 2:
        names = listed(names[-1] for names in wanted) or "none"
        raise WrongNames(f"--classes must name two classes or more, got {names}.")


def _folders_of(
    wanted: Sequence[tuple[str, ...]], there: Sequence[str], folder: Path
) -> tuple[ClassFolder, ...]:
    known = set(there)
    folders = [next((name for name in names if name in known), None) for names in wanted]
    missing = [" ".join(names) for names, name in zip(wanted, folders, strict=True) if name is None]
    if missing:
        raise ValueError(
            f"{folder} must have a folder for each of the {len(wanted)} classes that --classes asks for, "
            f"{len(missing)} are missing: {', '.join(missing)}."
        )
    # The folder of one class may be the name of another, so look for duplicates among the folders that exist.
    if shared := _repeated([str(name) for name in folders]):
        raise WrongNames(
            f"--classes must give every class a folder of its own, got {listed(shared)} of {folder} "
            "for more than one class."
        )
    if twice := [
        list(names) for names in wanted if known >= set(names) and len(set(names) - set(folders)) > 0
    ]:
        raise WrongNames(
            f"{folder} must have one folder for each class that --classes asks for, got two of one class: "
            f"{listed(' and '.join(names) for names in twice)}. Put their pictures into one."
        )
    return tuple(ClassFolder(str(name), names[-1]) for names, name in zip(wanted, folders, strict=True))


def _same_classes_in(
    folder: Path, classes: tuple[ClassFolder, ...], wanted: Sequence[tuple[str, ...]] | None
) -> tuple[ClassFolder, ...]:
    """The classes of the training pictures, with their folders among the test pictures.

    A wanted class may have its id as the name of its folder in one part, and its name in the other.
    """
    there = _folders_in(folder)
    if not there:
        raise ValueError(f"{folder} must hold one folder per class, as the training pictures do, got none.")
    if wanted is not None:
        return _folders_of(wanted, there, folder)
    if strange := sorted(set(there) - {row.folder for row in classes}):
        raise ValueError(
            f"{folder} must have the classes of the training pictures, got also {listed(strange)}."
        )
    return classes


def _pictures(
    root: Path, place: str, classes: Sequence[ClassFolder], ignored: list[str]
) -> Iterator[Picture]:
    for label, row in enumerate(classes):
        for file in sorted(_files_below(root / place / row.folder, root, ignored)):
            if file.lower().endswith(SUFFIXES):
                yield Picture(_storable(file), label)
            else:
                ignored.append(file)


def _files_below(folder: Path, root: Path, ignored: list[str]) -> Iterator[str]:
    """Paths relative to the root, as text: the order of `Path` objects depends on the version of Python."""
    for where, folders, files in os.walk(folder):
        place = Path(where).relative_to(root)
        linked = [name for name in folders if (Path(where) / name).is_symlink()]
        ignored.extend((place / name).as_posix() for name in sorted(linked))
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from ((place / name).as_posix() for name in files if not name.startswith("."))


def _storable(file: str) -> str:
    try:
        file.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"The names of pictures must be UTF-8, got {file!r}. Rename it.") from error
    return file


def _check_every_class_has_pictures(
    root: Path, classes: Sequence[ClassFolder], pictures: Sequence[Picture]
) -> None:
    seen = {picture.label for picture in pictures}
    if empty := [row.folder for label, row in enumerate(classes) if label not in seen]:
        raise ValueError(
            f"IMAGES: every class must have a picture ({', '.join(SUFFIXES)}), "
            f"those of {root} in {listed(empty)} have none."
        )


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)


def lines_of(file: str, option: str) -> list[str]:
    """The lines of a file that are not empty, stripped. A byte order mark is skipped."""
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise WrongNames(
            f"{option} must be a text file in UTF-8, got {file}, whose byte {error.start} is not. Save it as UTF-8."
        ) from error
    return [line.strip() for line in text.splitlines() if line.strip()]
