"""Places of files: a name in an open folder that was reached without following links.

A run directory or a saved model may come from somebody else, and a link in it may point to any file of this computer.
Every folder on the way is opened relative to the previous one, and must not be a link, so no link can be put in place
between a check and its use. If the system cannot do that (Windows), every part of the path is checked beforehand.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

__all__ = ["LinkInside", "Place", "link_on_the_way", "place_inside", "place_of"]

_BY_DESCRIPTOR = {os.open, os.mkdir, os.unlink, os.rename, os.stat} <= os.supports_dir_fd
# Absent on Windows, where files are opened by their whole paths.
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
#: Flags for opening a file that is not a link. A pipe is opened without waiting for its other end, and then refused.
NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class LinkInside(ValueError):
    """A link in place of a file or folder of a run or a saved model."""

    @classmethod
    def at(cls, path: Path) -> LinkInside:
        """The error for a link."""
        return cls(
            f"{path} must be a file or folder, got a symbolic link. Nothing is written or removed through links: put"
            " what it names in its place, or remove it."
        )


@dataclass(frozen=True)
class Place:
    """The place of a file.

    Attributes
    ----------
    folder : descriptor of its folder; None if `name` is the whole path
    name : its name in there
    path : its path, for messages
    """

    folder: int | None
    name: str
    path: Path

    def beside(self, name: str) -> Place:
        """Another place in the same folder."""
        path = self.path.with_name(name)
        return replace(self, name=str(path) if self.folder is None else name, path=path)

    def open(self, flags: int) -> int:
        """Open the file. Raise `LinkInside` if it is a link."""
        try:
            return os.open(self.name, flags | NO_LINK, 0o666, dir_fd=self.folder)
        except OSError as error:
            self.refuse_link()
            error.filename = str(self.path)  # not just the name in its folder
            raise

    def refuse_link(self) -> None:
        """Raise `LinkInside` if there is a link."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if _is_link(os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)):
                raise LinkInside.at(self.path)

    def unlink(self) -> None:
        """Remove the file, if there is one."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.name, dir_fd=self.folder)

    def move_to(self, other: Place) -> None:
        """Rename the file within its folder, replacing a file of that name."""
        os.replace(self.name, other.name, src_dir_fd=self.folder, dst_dir_fd=other.folder)

    def link_as(self, other: Place) -> None:
        """Give the file a second name in its folder. Raise `FileExistsError` if it is taken."""
        os.link(self.name, other.name, src_dir_fd=self.folder, dst_dir_fd=other.folder)

    def rmdir(self) -> None:
        """Remove an empty folder."""
        os.rmdir(self.name, dir_fd=self.folder)

    def flush_folder(self) -> None:
        """Flush the folder: before that, a crash of the computer may lose a new name."""
        if self.folder is not None:
            os.fsync(self.folder)
            return
        descriptor = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def place_of(path: Path) -> Place:
    """The place of a path that a user gave. Links on the way to it are the user's own."""
    return Place(None, str(path), path)


@contextlib.contextmanager
def place_inside(root: Path, path: str, *, make: bool = False) -> Iterator[Place]:
    """The place of a file inside a root, by its path there with "/" between the parts.

    Raises `LinkInside` if the file, or a folder on the way to it, is a link; the root, which the user gave, may be one.
    With ``make``, missing folders are created.
    """
    *folders, name = path.split("/")
    if not _BY_DESCRIPTOR:
        yield _looked_at(root, folders, name, make)
        return
    if make:
        root.mkdir(parents=True, exist_ok=True)
    descriptor, reached = os.open(root, os.O_RDONLY | os.O_DIRECTORY), root
    try:
        for folder in folders:
            reached = reached / folder
            inner = _opened_folder(folder, descriptor, reached, make)
            os.close(descriptor)
            descriptor = inner
        place = Place(descriptor, name, reached / name)
        place.refuse_link()
        yield place
    finally:
        os.close(descriptor)


def _opened_folder(name: str, within: int, path: Path, make: bool) -> int:
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=within)
    try:
        return os.open(name, _FOLDER, dir_fd=within)
    except OSError as error:
        Place(within, name, path).refuse_link()
        error.filename = str(path)
        raise


def _looked_at(root: Path, folders: list[str], name: str, make: bool) -> Place:
    path = root.joinpath(*folders, name)
    if link := link_on_the_way(root, "/".join((*folders, name))):
        raise LinkInside.at(link)
    if make:
        path.parent.mkdir(parents=True, exist_ok=True)
    return place_of(path)


def link_on_the_way(root: Path, path: str) -> Path | None:
    """The first link on the way to a path inside a root, including the path itself; None if there is none."""
    reached = root
    for part in path.split("/"):
        reached = reached / part
        with contextlib.suppress(OSError):
            if _is_link(reached.lstat()):
                return reached
    return None


def _is_link(status: os.stat_result) -> bool:
    # A junction of Windows points to another folder too.
    mount_point = getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", None)
    junction = mount_point is not None and getattr(status, "st_reparse_tag", 0) == mount_point
    return stat.S_ISLNK(status.st_mode) or junction
