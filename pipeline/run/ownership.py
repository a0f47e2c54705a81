"""Whose files a directory holds: a run touches nothing that it did not make."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from pairloom.graphs.text import listed
from pairloom.pipeline.config.config import Config, ConfigError
from pairloom.pipeline.config.input_errors import input_errors
from pairloom.pipeline.features.embedded_sets import EMBEDDED
from pairloom.pipeline.features.source_files import expand_data_folder, shown
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import group_members
from pairloom.pipeline.storage.folder import is_litter
from pairloom.pipeline.storage.places import LinkInside

__all__ = ["NotARun", "check_directory", "check_links", "unfinished_files"]

# A temporary file of `storage.atomic_file`, of zarr, or of the lock.
_PARTIAL = re.compile(r"\.[0-9a-f]{32}\.partial$")


class NotARun(ValueError):
    """A directory that holds files which no run made."""


def check_directory(directory: Path, config: Config) -> None:
    """Raise unless a run may be made in a directory: it is absent, empty, or holds a run.

    Raises
    ------
    NotARun
        If it holds anything else.
    ConfigError
        If the data that the configuration reads lie in it: the run has files of its own there.
    """
    if directory.exists() and not directory.is_dir():
        raise NotARun(f"--directory must be a folder, got {directory}, which is a file.")
    if files := [above for above in directory.parents if above.is_file()]:
        raise NotARun(f"--directory must be a folder, got {directory}, where {files[0]} is a file.")
    for key, source in (("data.features", config.data.features), ("data.test", config.data.test)):
        if source is None or source in EMBEDDED:
            continue
        with input_errors():
            place = expand_data_folder(source)
        if _lies_in(place, directory):
            raise ConfigError(
                f"{key} must not lie in the run directory {directory}, got {shown(source)}. Choose another --directory."
            )
    if not directory.is_dir() or _holds_a_run(directory):
        return
    if others := sorted(path.name for path in directory.iterdir() if not _is_harmless(path.name)):
        raise NotARun(
            f"--directory must be new, empty or a run directory, got {directory}, which holds {listed(others)}. "
            "Nothing was changed. Choose another --directory."
        )


def _is_harmless(name: str) -> bool:
    """Whether a file is litter, or a temporary file of a run that was killed before it had a plan."""
    return is_litter(name) or bool(_PARTIAL.search(name))


# Files of a run that lie in no folder of a stage.
_FILES = ("run.json", "model.json", "log.txt", "forecast.json")


def check_links(run: Run) -> None:
    """Raise `LinkInside` if a link lies where the run has a file or folder of its own. Nothing is written before.

    A link anywhere else in the directory is not of the run, which never touches it.
    """
    for path in _own_paths(run):
        if path.is_symlink():
            raise LinkInside.at(path)


def _own_paths(run: Run) -> Iterator[Path]:
    """Every path of a run: its files, its folders and all in them; of a zarr group, its members and all in these."""
    groups = group_members(run.shape)
    yield from (run.directory / name for name in _FILES)
    for folder in sorted(_folders(run)):
        yield run.directory / folder
        members = [f"{folder}/{name}" for name in sorted(groups[folder])] if folder in groups else [folder]
        for member in members:
            yield run.directory / member
            for place, folders, files in os.walk(run.directory / member):
                yield from (Path(place, name) for name in (*folders, *files))


def _folders(run: Run) -> set[str]:
    return {"ledger", "drivers", *(folder for stage in run.stages for folder in stage.folders)}


def unfinished_files(run: Run) -> Iterator[str]:
    """Temporary files that killed processes of the run left behind, by their paths inside its directory.

    Nothing but the folders of its stages, its ledger and its drivers is ever looked into, let alone removed.
    """
    folders = (run.directory / folder for folder in _folders(run))
    inside = (path for folder in folders if not folder.is_symlink() for path in folder.rglob("*.partial"))
    for path in [*run.directory.glob("*.partial"), *inside]:
        if _PARTIAL.search(path.name) and path.is_file() and not path.is_symlink():
            yield path.relative_to(run.directory).as_posix()


def _lies_in(path: Path, directory: Path) -> bool:
    return path.resolve().is_relative_to(directory.resolve())


def _holds_a_run(directory: Path) -> bool:
    """Whether a plan lies here, sound or damaged, or the record of a driver or of finished work."""
    plan = directory / "run.json"
    if plan.is_file() and b'"config_hash"' in plan.read_bytes():
        return True
    made = [*directory.glob("drivers/[0-9]*.json"), *directory.glob("ledger/*/[0-9]*.json")]
    return any(_is_record(path) for path in made)


def _is_record(path: Path) -> bool:
    """Whether a file is the record of a driver, or an entry of a ledger."""
    try:
        found = set(json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        return False
    return {"host", "pid", "since"} <= found or {"stage", "unit", "seal"} <= found
