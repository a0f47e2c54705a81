"""Whose files a directory holds: a run touches nothing that it did not make."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from pairloom.graphs.text import listed
from pairloom.pipeline.config.config import Config, ConfigError
from pairloom.pipeline.features.embedded_sets import EMBEDDED
from pairloom.pipeline.features.source_files import expand_data_folder, shown
from pairloom.pipeline.run.run import Run

__all__ = ["NotARun", "check_directory", "unfinished_files"]

# A temporary file of `storage.atomic_file`, of zarr, or of the lock.
_PARTIAL = re.compile(r"\.[0-9a-f]{32}\.partial$")
# Left behind by file managers and network file systems; they may be ignored.
_LITTER = re.compile(r"^(\.DS_Store|Thumbs\.db|desktop\.ini|\.nfs.*|\.directory)$")


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
        if source is not None and source not in EMBEDDED and _lies_in(expand_data_folder(source), directory):
            raise ConfigError(
                f"{key} must not lie in the run directory {directory}, got {shown(source)}. Choose another --directory."
            )
    if not directory.is_dir() or _holds_a_run(directory):
        return
    others = sorted(path.name for path in directory.iterdir() if not _is_harmless(path.name))
    if others:
        raise NotARun(
            f"--directory must be new, empty or a run directory, got {directory}, which holds {listed(others)}. "
            "Nothing was changed. Choose another --directory."
        )


def _is_harmless(name: str) -> bool:
    """Whether a file is litter, or a temporary file of a run that was killed before it had a plan."""
    return bool(_LITTER.match(name) or _PARTIAL.search(name))


def unfinished_files(run: Run) -> Iterator[Path]:
    """Temporary files that killed processes of the run left behind.

    Nothing but the folders of its stages, its ledger and its drivers is ever looked into, let alone removed.
    """
    for path in run.directory.glob("*.partial"):
        if _PARTIAL.search(path.name) and path.is_file():
            yield path
    for folder in {"ledger", "drivers", *(folder for stage in run.stages for folder in stage.folders)}:
        if not (run.directory / folder).is_symlink():
            partial = (run.directory / folder).rglob("*.partial")
            yield from (path for path in partial if _PARTIAL.search(path.name))


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
    except (OSError, ValueError, TypeError):
        return False
    return {"host", "pid", "since"} <= found or {"stage", "unit", "seal"} <= found
