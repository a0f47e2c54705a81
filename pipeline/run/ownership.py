"""The files that belong to a run: it touches nothing that it did not make."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from pairloom.graphs.text import listed
from pairloom.pipeline.config.config import Config, ConfigError, input_errors
from pairloom.pipeline.features.embedded_sets import EMBEDDED
from pairloom.pipeline.features.source_files import IN_MEMORY, location_of_source, shown
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import group_members
from pairloom.pipeline.storage.folder import Folder, is_litter
from pairloom.pipeline.storage.location import Location, StoreUrl
from pairloom.pipeline.storage.places import LinkInside

__all__ = ["NotARun", "check_directory", "check_links", "unfinished_files"]

# A temporary file of `storage.atomic_file`, of zarr, or of the lock.
_RECORD = re.compile(r"(drivers|ledger/[^/]+)/[0-9][^/]*\.json")
_PARTIAL = re.compile(r"\.[0-9a-f]{32}\.partial$")


class NotARun(ValueError):
    """A directory that holds files which no run made."""


def check_directory(directory: Location, config: Config) -> None:
    """Raise unless a directory may hold a run: it is absent or empty, or holds a run already.

    Raises
    ------
    NotARun
        If it holds anything else.
    ConfigError
        If the data of the configuration lie in it, where the run writes its own files.
    """
    if isinstance(directory, Path):
        _check_no_file(directory)
    elif not directory.path:
        raise NotARun(f"--directory must be a path in a bucket, got {directory}, which is a whole bucket.")
    for key, source in (("data.features", config.data.features), ("data.test", config.data.test)):
        if source is None or source in EMBEDDED or source == IN_MEMORY:
            continue
        with input_errors():
            place = location_of_source(source, key)
        if _lies_in(place, directory):
            raise ConfigError(
                f"{key} must not lie in the run directory {directory}, got {shown(source)}. Choose another --directory."
            )
    if (isinstance(directory, Path) and not directory.is_dir()) or _holds_a_run(Folder(directory)):
        return
    if others := sorted(name for name in _names_in(directory) if not _is_harmless(name)):
        raise NotARun(
            f"--directory must be new, empty or a run directory, got {directory}, which holds {listed(others)}. "
            "Nothing was changed. Choose another --directory."
        )


def _check_no_file(directory: Path) -> None:
    if directory.exists() and not directory.is_dir():
        raise NotARun(f"--directory must be a folder, got {directory}, which is a file.")
    if files := [above for above in directory.parents if above.is_file()]:
        raise NotARun(f"--directory must be a folder, got {directory}, where {files[0]} is a file.")


def _names_in(directory: Location) -> set[str]:
    if isinstance(directory, Path):
        return {path.name for path in directory.iterdir()}
    folder = Folder(directory)
    return {*folder.folders(), *folder.names("", "")}


def _is_harmless(name: str) -> bool:
    """Whether a file is litter, or a temporary file of a run that was killed before it had a plan."""
    return is_litter(name) or bool(_PARTIAL.search(name))


# Files of a run that lie in no folder of a stage.
_FILES = ("run.json", "model.json", "log.txt", "forecast.json")


def check_links(run: Run) -> None:
    """Raise `LinkInside` if a file or folder of the run is a symbolic link. This is called before anything is written.

    Links elsewhere in the directory do not belong to the run, which never touches them. An object store has no links.
    """
    for path in _own_paths(run, run.directory) if isinstance(run.directory, Path) else ():
        if path.is_symlink():
            raise LinkInside.at(path)


def _own_paths(run: Run, directory: Path) -> Iterator[Path]:
    """Every path of a run: its files, its folders with their content, and the members of zarr groups with theirs."""
    groups = group_members(run.shape)
    yield from (directory / name for name in _FILES)
    for folder in sorted(_folders(run)):
        yield directory / folder
        members = [f"{folder}/{name}" for name in sorted(groups[folder])] if folder in groups else [folder]
        for member in members:
            yield directory / member
            for place, folders, files in os.walk(directory / member):
                yield from (Path(place, name) for name in (*folders, *files))


def _folders(run: Run) -> set[str]:
    return {"ledger", "drivers", *(folder for stage in run.stages for folder in stage.folders)}


def unfinished_files(run: Run) -> Iterator[str]:
    """Temporary files that killed processes of the run left behind, by their paths inside its directory.

    Only the folders of its stages, its ledger and its drivers are searched. A store writes whole objects, so only its
    probes and tokens are temporary.
    """
    directory = run.directory
    if not isinstance(directory, Path):
        folder = Folder(directory)
        paths = [*folder.names("", ""), *(f"drivers/{name}" for name in folder.names("drivers", ""))]
        yield from filter(_PARTIAL.search, paths)
        return
    folders = (directory / folder for folder in _folders(run))
    inside = (path for folder in folders if not folder.is_symlink() for path in folder.rglob("*.partial"))
    for path in [*directory.glob("*.partial"), *inside]:
        if _PARTIAL.search(path.name) and path.is_file() and not path.is_symlink():
            yield path.relative_to(directory).as_posix()


def _lies_in(place: Location, directory: Location) -> bool:
    if isinstance(place, StoreUrl) and isinstance(directory, StoreUrl):
        return place.lies_in(directory)
    if isinstance(place, Path) and isinstance(directory, Path):
        return place.resolve().is_relative_to(directory.resolve())
    return False


def _holds_a_run(folder: Folder) -> bool:
    """Whether the folder has a plan, even a damaged one, or the record of a driver or of finished work."""
    with contextlib.suppress(FileNotFoundError, IsADirectoryError):
        if b'"config_hash"' in folder.read("run.json"):
            return True
    return any(_is_record(folder, path) for path in (*folder.below("drivers"), *folder.below("ledger")))


def _is_record(folder: Folder, path: str) -> bool:
    """Whether a file is the record of a driver, or an entry of a ledger."""
    if not _RECORD.fullmatch(path):
        return False
    try:
        keys = set(json.loads(folder.read(path)))
    except (OSError, ValueError, TypeError, RecursionError):
        return False
    return {"host", "pid", "since"} <= keys or {"stage", "unit", "seal"} <= keys
