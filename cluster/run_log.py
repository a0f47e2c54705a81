"""The log of a run, read: when its units were begun."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from pairloom.cluster.ledger import Entry

__all__ = ["begin_times", "elapsed_seconds"]


def begin_times(directory: Path) -> dict[tuple[str, int], float]:
    """When each unit was begun for the last time, from the log of a run, in seconds since 1970."""
    text = (directory / "log.txt").read_text(encoding="utf-8", errors="replace")
    found = {}
    for words in (line.split() for line in text.splitlines()):
        if len(words) == 5 and words[2] == "begin":
            # A line may be torn where the file system does not append atomically; times can do without it.
            with contextlib.suppress(ValueError):
                found[words[3], int(words[4])] = datetime.fromisoformat(words[0]).timestamp()
    return found


def elapsed_seconds(directory: Path, entries: Iterable[Entry]) -> dict[str, float]:
    """Seconds from the first begin to the last end of each stage.

    Empty for a run of several drivers: the time between them would count.
    """
    if len(list((directory / "drivers").glob("*.json"))) > 1:
        return {}
    begun, times = begin_times(directory), dict[str, list[tuple[float, float]]]()
    for entry in entries:
        if (start := begun.get((entry.stage, entry.unit))) is not None:
            times.setdefault(entry.stage, []).append((start, start + entry.seconds))
    return {
        stage: max(end for _, end in spans) - min(start for start, _ in spans)
        for stage, spans in times.items()
    }
