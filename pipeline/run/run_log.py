"""The log of a run, with the start times of units and the warnings of tasks, and the forecast of its duration."""

from __future__ import annotations

import bisect
import contextlib
import json
import math
import os
import socket
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from pairloom.pipeline.run.ledger import Entry
from pairloom.pipeline.run.lock import REFUSED, SUBMITTED
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.location import Location
from pairloom.pipeline.storage.object_store import StoreError

__all__ = [
    "Ranges",
    "begin_times",
    "driver_spans",
    "driver_starts",
    "elapsed_seconds",
    "first_time",
    "flush_log",
    "log_line",
    "read_forecast",
    "this_process",
    "worker_starts",
    "write_forecast",
    "written_warnings",
]


_LOG = "log.txt"


def log_line(directory: Location, *lines: str) -> None:
    """Add lines to the log of the run, each with the time and the process."""
    stamp = datetime.now(UTC).isoformat(timespec="milliseconds")
    text = "".join(f"{stamp} {this_process()} {line}\n" for line in lines)
    Folder(directory).append(_LOG, text.encode())


def flush_log(directory: Location) -> None:
    """Write the lines of this process that wait for others. No error is raised: the log is not worth a run."""
    with contextlib.suppress(StoreError):
        Folder(directory).flush(_LOG)


def this_process() -> str:
    """Host and process, as the log and the ledger name them."""
    return f"{socket.gethostname()}:{os.getpid()}"


def begin_times(directory: Location) -> dict[tuple[str, int], float]:
    """When each unit was last begun according to the log, in seconds since 1970."""
    starts = {}
    for words in (line.split() for line in _log_lines(directory)):
        if len(words) == 5 and words[2] == "begin":
            # On a file system that does not append atomically lines may be damaged; such a line is ignored.
            with contextlib.suppress(ValueError):
                starts[words[3], int(words[4])] = _seconds(words[0])
    return starts


def elapsed_seconds(directory: Location, entries: Iterable[Entry]) -> dict[str, float]:
    """Seconds from the first start to the last end of each stage.

    A stage that several drivers worked on is left out, since the time between the drivers would count.
    """
    begun, starts = begin_times(directory), driver_starts(directory)
    times, drivers = dict[str, list[tuple[float, float]]](), dict[str, set[int]]()
    for entry in entries:
        if (start := begun.get((entry.stage, entry.unit))) is not None:
            times.setdefault(entry.stage, []).append((start, start + entry.seconds))
            drivers.setdefault(entry.stage, set()).add(bisect.bisect_right(starts, start))
    return {
        stage: max(end for _, end in spans) - min(start for start, _ in spans)
        for stage, spans in times.items()
        if len(drivers[stage]) == 1
    }


def driver_starts(directory: Location) -> list[float]:
    """When each driver of a run started, ascending, in seconds since 1970."""
    starts = []
    for record in _driver_records(directory):
        # A record may be damaged; times can do without it.
        with contextlib.suppress(ValueError, KeyError, TypeError):
            starts.append(_seconds(record["since"]))
    return sorted(starts)


def driver_spans(directory: Location, end: float) -> list[tuple[float, float]]:
    """Start and end of each driver's work, ascending, up to the end of all work.

    Ends are recorded in whole seconds. A killed driver records no end: its last line in the log stands for it. Lines
    before the first record come from a driver without a record.
    """
    lines = sorted(_line_times(directory))
    records = sorted(_times_of_drivers(directory), key=lambda record: record[0])
    if lines and lines[0] < min((since for since, _ in records), default=math.inf):
        records = [(lines[0], None), *records]
    following = [*(since for since, _ in records[1:]), math.inf]
    spans = []
    for (since, ended), later in zip(records, following, strict=True):
        last_line = lines[bisect.bisect_left(lines, later) - 1] if lines and later < math.inf else end
        spans.append((since, min(end, later, last_line if ended is None else ended + 1)))
    return [(since, until) for since, until in spans if until > since]


def _times_of_drivers(directory: Location) -> Iterator[tuple[float, float | None]]:
    """When each driver that worked started, and when it ended, if its record says so."""
    for record in _driver_records(directory):
        # A record may be damaged; times can do without it.
        with contextlib.suppress(ValueError, KeyError, TypeError):
            if record["outcome"] not in (REFUSED, SUBMITTED):
                ended = None if record["ended"] is None else _seconds(record["ended"])
                yield _seconds(record["since"]), ended


def _driver_records(directory: Location) -> Iterator[Any]:
    """The records of all drivers that can be read, in the order of their numbers."""
    folder = Folder(directory)
    for name in folder.names("drivers"):
        with contextlib.suppress(OSError, ValueError, RecursionError):
            yield json.loads(folder.read(f"drivers/{name}.json"))


def worker_starts(directory: Location) -> list[tuple[float, float]]:
    """Start and end of each wait of a driver for workers; it ends when a worker begins its first unit."""
    waits, since = [], None
    for words in (line.split() for line in _log_lines(directory)):
        if len(words) < 3 or not _is_time(words[0]):
            continue
        if words[2] == "connecting":
            since = _seconds(words[0])
        elif words[2] == "begin" and since is not None:
            waits.append((since, _seconds(words[0])))
            since = None
    return waits


def written_warnings(directory: Location) -> Counter[str]:
    """The warnings of tasks in the log of a run, with their counts.

    A message may have several lines, of which only the first begins with a time.
    """
    counts: Counter[str] = Counter()
    message: list[str] = []
    for line in [*_log_lines(directory), _END]:
        words = line.split(" ", 3)
        if not _is_time(words[0]):
            message += [line] if message else []
            continue
        if message:
            counts["\n".join(message)] += 1
        message = [words[3]] if len(words) == 4 and words[2] == "warning" else []
    return counts


def first_time(directory: Location) -> str:
    """The time of the first line in the log of a run, ISO 8601; empty if no line has a time."""
    return next((line.split(" ")[0] for line in _log_lines(directory) if _is_time(line.split(" ")[0])), "")


#: Ends the last message of a log.
_END = "1970-01-01T00:00:00+00:00"


def _line_times(directory: Location) -> Iterator[float]:
    words = (line.split(" ")[0] for line in _log_lines(directory))
    return (_seconds(word) for word in words if _is_time(word))


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def _is_time(word: str) -> bool:
    try:
        return datetime.fromisoformat(word).tzinfo is not None
    except ValueError:
        return False


def _log_lines(directory: Location) -> list[str]:
    parts = [part.decode(errors="replace").splitlines() for part in Folder(directory).appended(_LOG)]
    return parts[0] if len(parts) == 1 else _in_order(parts)


def _in_order(parts: Iterable[list[str]]) -> list[str]:
    """The lines of several processes, sorted by time. A line without a time follows the line before it."""
    timed, last = [], ""
    for line in chain.from_iterable(parts):
        time = line.split(" ")[0]
        last = time if _is_time(time) else last
        timed.append((last, line))
    return [line for _, line in sorted(timed, key=lambda pair: pair[0])]


#: Least and most seconds by stage.
Ranges = dict[str, tuple[float, float]]

_FORECAST = "forecast.json"


def write_forecast(directory: Location, ranges: Ranges) -> None:
    """Write the forecast of a run."""
    Folder(directory).write(_FORECAST, (json.dumps(ranges, indent=1) + "\n").encode())


def read_forecast(directory: Location) -> Ranges | None:
    """The forecast of a run; None if it is missing or damaged, since a report does not need it."""
    try:
        content = json.loads(Folder(directory).read(_FORECAST))
        return {stage: (float(low), float(high)) for stage, (low, high) in content.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None
