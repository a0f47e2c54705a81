"""Memory that this process may use: that of the computer, less where a container, a pod or a batch job limits it.

Linux ends a process that goes beyond the limit of its control group, without a word, even while the computer has memory
to spare. psutil knows nothing of these limits.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil

__all__ = ["available_bytes", "total_bytes"]

_GROUPS, _OF_PROCESS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


class _Names(NamedTuple):
    """The names of the files of a memory group, and of the line of page cache that is given back when it is needed."""

    limit: str
    usage: str
    cache: str


_VERSION_1 = _Names("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_VERSION_2 = _Names("memory.max", "memory.current", "inactive_file")


def available_bytes() -> int:
    """Bytes that this process may still take before the system ends it or swaps."""
    free = [limit - _used(folder, names) for folder, names, limit in _limits()]
    return max(0, min([int(psutil.virtual_memory().available), *free]))


def total_bytes() -> int:
    """Bytes that this process and the others of its container or job may take together."""
    return min([int(psutil.virtual_memory().total), *(limit for _, _, limit in _limits())])


@functools.cache
def _limits() -> tuple[tuple[Path, _Names, int], ...]:
    """The control groups of this process that limit it, and their limits. They are looked for once: that takes 3 ms."""
    total = psutil.virtual_memory().total
    limits = ((folder, names, _number(folder / names.limit)) for folder, names in _groups())
    return tuple(
        (folder, names, limit) for folder, names, limit in limits if limit is not None and limit < total
    )


def _used(folder: Path, names: _Names) -> int:
    """Bytes that a group uses, without the page cache."""
    return (_number(folder / names.usage) or 0) - _cache(folder, names.cache)


def _groups() -> Iterator[tuple[Path, _Names]]:
    """The memory groups that this process is in: its own, and those around it, which limit it too.

    A container may not see its own group under the name that the kernel gives it, but at the root.
    """
    try:
        lines = _OF_PROCESS.read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            root, names = _GROUPS, _VERSION_2
        elif "memory" in controllers.split(","):
            root, names = _GROUPS / "memory", _VERSION_1
        else:
            continue
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(root):
                yield folder, names


def _number(file: Path) -> int | None:
    """The number in a file; None for "max", and where there is no such file."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _cache(folder: Path, name: str) -> int:
    """Bytes of the page cache among those that a group uses."""
    try:
        lines = (folder / "memory.stat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0)
