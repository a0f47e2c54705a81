"""What is in a folder, to be compared before and after."""

from __future__ import annotations

from pathlib import Path


def snapshot(folder: Path) -> dict[Path, bytes | None]:
    """The bytes of every file below a folder, and the names of the folders."""
    return {path: path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}
