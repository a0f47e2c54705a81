"""One driver at a time on a run directory.

Every driver leaves a record, ``drivers/0001.json``, ``drivers/0002.json`` and so on: who it is, since when,
and in the end how it ended. The newest record is the lock. A driver takes it by creating the next record,
which only one of many can do, once the newest says that its driver ended or its driver is dead. No record is
ever removed, so there is no moment at which two drivers can each believe that the directory is free.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from pairloom.pipeline.storage.atomic_file import create_exclusively, write_atomically

__all__ = ["SUBMITTED", "Driver", "Locked", "RunLock", "newest_driver", "request_cancel"]

HEARTBEAT_SECONDS = 2.0
# A driver on another host cannot be looked at: it counts as dead after this long without a heartbeat.
STALE_SECONDS = 60.0

# The outcome of a driver that only sends another one to the cluster.
SUBMITTED = "submitted"


class Locked(RuntimeError):
    """Another driver is at work on the directory."""


@dataclass(frozen=True)
class Driver:
    """The record of one driver. ``process_start`` tells its process from a later one with the same number."""

    host: str
    pid: int
    process_start: float
    since: str
    ended: str | None = None
    outcome: str | None = None

    @classmethod
    def here(cls) -> Driver:
        """This process."""
        start = psutil.Process().create_time()
        return cls(socket.gethostname(), os.getpid(), start, datetime.now(UTC).isoformat(timespec="seconds"))

    def __str__(self) -> str:
        return f"host {self.host}, pid {self.pid}, since {self.since}"


class RunLock:
    """Hold a run directory while a driver works on it.

    Parameters
    ----------
    directory
        The run directory.
    on_stop
        Called, from another thread, with the reason why this driver must stop: it was asked to, or another
        driver took the directory because it thought this one dead, after a laptop slept, say.

    Attributes
    ----------
    taken_over : Driver or None
        The dead driver whose lock was taken, to be told to the person.
    """

    def __init__(self, directory: Path, on_stop: Callable[[str], None] = lambda reason: None) -> None:
        self._folder = directory / "drivers"
        self._on_stop = on_stop
        self._released = threading.Event()
        self._outcome = "failed"
        self.taken_over: Driver | None = None

    def __enter__(self) -> Self:
        newest = newest_number(self._folder)
        previous = _settled_record(self._folder, newest)
        if previous is not None and previous.ended is None:
            if _alive(previous, self._folder / _name(newest)):
                raise Locked(_refusal(self._folder.parent, previous))
            self.taken_over = previous
        self._number, self._driver = newest + 1, Driver.here()
        if not create_exclusively(self._path, _encoded(self._driver)):
            winner = _settled_record(self._folder, newest_number(self._folder))
            raise Locked(_refusal(self._folder.parent, winner))
        self._beating = threading.Thread(target=self._beat, name="pairloom-heartbeat", daemon=True)
        self._beating.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._released.set()
        self._beating.join()
        ended = datetime.now(UTC).isoformat(timespec="seconds")
        with contextlib.suppress(OSError):  # then the record reads as a dead driver's, which is taken over
            write_atomically(self._path, _encoded(replace(self._driver, ended=ended, outcome=self._outcome)))

    def end_as(self, outcome: str) -> None:
        """Say how the driver ended: the last word of its record."""
        self._outcome = outcome

    @property
    def _path(self) -> Path:
        return self._folder / _name(self._number)

    def _beat(self) -> None:
        while True:
            if newest_number(self._folder) > self._number:
                self._on_stop("another driver took over this run directory")
                return
            if self._path.with_suffix(".cancel").exists():
                self._on_stop("cancelled")
            # A record that was damaged heals here too, before anyone else can take it for a dead driver's.
            with contextlib.suppress(OSError):  # a full disk stops the run where it writes results, not here
                write_atomically(self._path, _encoded(self._driver))
            if self._released.wait(HEARTBEAT_SECONDS):
                return


def newest_number(folder: Path) -> int:
    """Number of the newest record, 0 where no driver has been."""
    return max((int(path.stem) for path in folder.glob("*.json") if path.stem.isdecimal()), default=0)


def newest_driver(directory: Path) -> tuple[Driver | None, bool]:
    """The driver that last had the directory, and whether it is at work now."""
    folder = directory / "drivers"
    newest = newest_number(folder)
    driver = _record(folder, newest)
    return driver, driver is not None and driver.ended is None and _alive(driver, folder / _name(newest))


def request_cancel(directory: Path) -> Driver | None:
    """Ask the driver of a directory, at work or submitted, to stop, and return it; None where there is
    none."""
    folder = directory / "drivers"
    driver, alive = newest_driver(directory)
    submitted = driver is not None and driver.outcome == SUBMITTED
    if not (alive or submitted):
        return None
    # The request is for one driver and no later one, so it can stay when that driver is gone.
    number = newest_number(folder) + submitted
    create_exclusively((folder / _name(number)).with_suffix(".cancel"), b"")
    return driver


def _settled_record(folder: Path, number: int) -> Driver | None:
    """Read a record; one that cannot be read gets the time in which a living driver rewrites it."""
    driver = _record(folder, number)
    if driver is None and number:
        time.sleep(1.5 * HEARTBEAT_SECONDS)
        driver = _record(folder, number)
    return driver


def _record(folder: Path, number: int) -> Driver | None:
    try:
        return Driver(**json.loads((folder / _name(number)).read_bytes()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _alive(driver: Driver, record: Path) -> bool:
    if driver.host != socket.gethostname():
        return _now_of_the_file_system(record.parent) - record.stat().st_mtime < STALE_SECONDS
    try:
        started = float(psutil.Process(driver.pid).create_time())
        return abs(started - driver.process_start) < 1.0
    except psutil.NoSuchProcess:
        return False


def _now_of_the_file_system(folder: Path) -> float:
    """The clock that stamps files there, which need not be this host's clock."""
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".partial") as probe:
        probe.write(b"now")
        probe.flush()
        return os.fstat(probe.fileno()).st_mtime


def _refusal(directory: Path, driver: Driver | None) -> str:
    return f"{directory}: another driver is at work on this run ({driver or 'it has just started'})"


def _name(number: int) -> str:
    return f"{number:04d}.json"


def _encoded(driver: Driver) -> bytes:
    return json.dumps(asdict(driver), indent=1).encode()
