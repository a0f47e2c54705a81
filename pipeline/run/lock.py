"""The lock of a run directory: one driver at a time.

Every driver writes a record, ``drivers/0001.json``, ``drivers/0002.json`` and so on: its process, its start, and how
it ended. The newest record is the lock. If its driver has ended or is dead, another driver takes the lock by creating
the next record, which only one process can do. Records are never removed, so two drivers can never both hold the lock.

A driver rewrites its record periodically. This heartbeat shows that a driver lives where its process is not visible, on
another host for example. Clocks may be changed meanwhile, so a driver that seems silent is watched before its lock is
taken.

A request to cancel is a file too, ``drivers/0002.cancel``. It stops the drivers up to that number, and all drivers that
a submission up to that number will still start: a scheduler that loses the worker of a driver starts it on another.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from pairloom.pipeline.run.process_identity import ProcessIdentity
from pairloom.pipeline.storage.folder import Folder, Version
from pairloom.pipeline.storage.location import Location, StoreUrl
from pairloom.pipeline.storage.object_store import StoreError

__all__ = [
    "CANCELLED",
    "REFUSED",
    "SUBMITTED",
    "Driver",
    "Locked",
    "RunLock",
    "check_free",
    "is_cancelled",
    "last_at_work",
    "newest_driver",
    "request_cancel",
]

HEARTBEAT_SECONDS = 2.0
# Requests to an object store cost money, so heartbeats there are this many times further apart.
_STORE_FACTOR = 3
# A driver whose process is not visible, as on another host, counts as dead after this long without a heartbeat.
STALE_SECONDS = 60.0
# A watched driver may miss this many heartbeats before its lock is taken.
_WATCHED_BEATS = 3

# The outcome of `pairloom submit`, which only sends a driver to the cluster.
SUBMITTED = "submitted"
# The outcome of a driver that changed nothing, because its configuration was not that of the run.
REFUSED = "refused"
# The reason that a cancelled driver gives.
CANCELLED = "The run was cancelled."


# Tokens of the drivers of this process that hold a lock.
_held: set[str | None] = set()


class Locked(RuntimeError):
    """Another driver is working on the directory."""


@dataclass(frozen=True)
class Driver:
    """The record of one driver.

    ``boot`` and ``process_start`` tell its process from others with the same pid. ``submission`` is the number of the
    record of the `pairloom submit` that sent it, if any. ``token`` makes a record in an object store unique.
    """

    host: str
    pid: int
    process_start: float
    since: str
    ended: str | None = None
    outcome: str | None = None
    boot: str = ""
    submission: int | None = None
    token: str | None = None

    @classmethod
    def here(cls) -> Driver:
        """This process."""
        me, since = ProcessIdentity.here(), datetime.now(UTC).isoformat(timespec="milliseconds")
        return cls(me.host, me.pid, me.start, since, boot=me.boot)

    @property
    def process(self) -> ProcessIdentity:
        """Its process."""
        return ProcessIdentity(self.host, self.pid, self.boot, self.process_start)

    def __str__(self) -> str:
        return f"host {self.host}, pid {self.pid}, since {self.since}"


class RunLock:
    """Hold the lock of a run directory while a driver works on it.

    Parameters
    ----------
    directory
        The run directory.
    on_stop
        Called with a reason, possibly from another thread, when this driver must stop: it was cancelled, or another
        driver took over because this one seemed dead (after a laptop slept, for example).
    submission
        Number of the record of the `pairloom submit` that sent this driver. Such a driver may have been cancelled
        before it started; a driver that a person starts has not.

    Attributes
    ----------
    taken_over : Driver or None
        The dead driver whose lock was taken over.
    number : int
        The number of this driver's record, while the lock is held.
    """

    def __init__(
        self,
        directory: Location,
        on_stop: Callable[[str], None] = lambda reason: None,
        *,
        submission: int | None = None,
    ) -> None:
        self._folder, self._submission = Folder(directory), submission
        self._on_stop = on_stop
        self._released = threading.Event()
        self._outcome = "failed"
        self.taken_over: Driver | None = None

    def __enter__(self) -> Self:
        newest = newest_number(self._folder)
        previous = _settled_record(self._folder, newest)
        if previous is not None and previous.ended is None:
            if _surely_alive(previous, self._folder, newest):
                raise Locked(_refusal(self._folder.root, previous))
            self.taken_over = previous
        # If the answer of a store is lost, the token tells whether the record there is the one of this driver.
        token = secrets.token_hex(16) if isinstance(self._folder.root, StoreUrl) else None
        self.number = newest + 1
        self._driver = replace(Driver.here(), submission=self._submission, token=token)
        _held.add(token)  # before the record is visible: another thread would take this driver for dead
        try:
            created = self._folder.create(_path(self.number), _encoded(self._driver))
        except StoreError:
            _held.discard(token)
            raise
        if not created:
            _held.discard(token)
            winner = _settled_record(self._folder, newest_number(self._folder))
            raise Locked(_refusal(self._folder.root, winner))
        self._beating = threading.Thread(target=self._beat, name="pairloom-heartbeat", daemon=True)
        self._beating.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._released.set()
        self._beating.join()
        _held.discard(self._driver.token)
        ended = datetime.now(UTC).isoformat(timespec="seconds")
        with contextlib.suppress(
            OSError, StoreError
        ):  # then the driver counts as dead, and another can take over
            record = replace(self._driver, ended=ended, outcome=self._outcome)
            self._folder.write(_path(self.number), _encoded(record))

    def end_as(self, outcome: str) -> None:
        """Set the outcome in the record of the driver."""
        self._outcome = outcome

    def heed(self) -> bool:
        """Stop this driver if it was cancelled or another took over; return whether another took over."""
        names = self._folder.names("drivers", "")
        taken_over = _newest(names, ".json") > self.number
        if taken_over:
            self._on_stop("Another driver took over this run directory.")
        elif _newest(names, ".cancel") >= (self._submission or self.number):
            self._on_stop(CANCELLED)
        return taken_over

    def _beat(self) -> None:
        while True:
            # A full disk stops the run when it writes results, not here; a disk that does not answer may recover.
            with contextlib.suppress(OSError, StoreError):
                if self.heed():
                    return
                # This also repairs a damaged record, before another driver can take over.
                self._folder.write(_path(self.number), _encoded(self._driver))
            if self._released.wait(_beat_seconds(self._folder)):
                return


def _beat_seconds(folder: Folder) -> float:
    """Seconds between two heartbeats."""
    return HEARTBEAT_SECONDS * (_STORE_FACTOR if isinstance(folder.root, StoreUrl) else 1)


def check_free(directory: Location) -> None:
    """Raise `Locked` if a driver is at work on a directory. This writes nothing; only `RunLock` keeps others away."""
    driver, alive = newest_driver(directory)
    if alive:
        raise Locked(_refusal(directory, driver))


def newest_number(folder: Folder) -> int:
    """Number of the newest record in a run directory, 0 if there is none."""
    return _newest(folder.names("drivers", ""), ".json")


def _newest(names: Iterable[str], suffix: str) -> int:
    """The highest number that is the name of a file with this suffix, 0 if there is none."""
    numbers = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


def newest_driver(directory: Location) -> tuple[Driver | None, bool]:
    """The last driver of the directory, and whether it is alive."""
    folder = Folder(directory)
    newest = newest_number(folder)
    driver = _record(folder, newest)
    return driver, driver is not None and driver.ended is None and _alive(driver, folder, newest)


def last_at_work(directory: Location) -> Driver | None:
    """The last driver that was not refused: its outcome is the state of the run."""
    folder = Folder(directory)
    records = (_record(folder, number) for number in range(newest_number(folder), 0, -1))
    return next((driver for driver in records if driver is None or driver.outcome != REFUSED), None)


def is_cancelled(directory: Location, number: int) -> bool:
    """Whether the driver or submission with this record number was cancelled."""
    return _newest(Folder(directory).names("drivers", ""), ".cancel") >= number


def request_cancel(directory: Location) -> Driver | None:
    """Ask the running driver of a directory to stop, and drivers that its submission may still start not to begin.

    Returns the record of the last driver, or None if no driver is at work and none will come.
    """
    folder = Folder(directory)
    driver, alive = newest_driver(directory)
    if not (alive or _may_come(folder)):
        return None
    # The file names drivers by number, so it may stay after they have ended.
    folder.create(_cancel(newest_number(folder)), b"")
    if not alive:
        # A driver that started in this moment reads the request and ends by itself.
        with contextlib.suppress(Locked), RunLock(directory) as lock:
            lock.end_as(f"Stopped: {CANCELLED}")
    return driver


def _may_come(folder: Folder) -> bool:
    """Whether a scheduler may start a driver: one was submitted, not cancelled, and has not ended since."""
    for number in range(newest_number(folder), 0, -1):
        driver = _record(folder, number)
        if driver is not None and driver.submission is not None and driver.ended is not None:
            return False
        if driver is not None and driver.outcome == SUBMITTED:
            return not is_cancelled(folder.root, number)
    return False


def _settled_record(folder: Folder, number: int) -> Driver | None:
    """Read a record. If it is damaged, give a living driver the time to rewrite it."""
    driver = _record(folder, number)
    if driver is None and number:
        time.sleep(1.5 * _beat_seconds(folder))
        driver = _record(folder, number)
    return driver


def _record(folder: Folder, number: int) -> Driver | None:
    try:
        driver = Driver(**json.loads(folder.read(_path(number))))
        texts = (driver.host, driver.since, driver.boot, driver.ended or "", driver.outcome or "")
        "".join(texts).encode()  # raises unless all are strings that can be printed
        sound = isinstance(driver.pid, int) and driver.pid > 0 and driver.process_start >= 0
        sound = sound and isinstance(driver.submission, int | None)
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    return driver if sound else None


def _alive(driver: Driver, folder: Folder, number: int) -> bool:
    """Whether a driver lives, as far as can be told without waiting."""
    if driver.token is not None and driver.process == ProcessIdentity.here() and driver.token not in _held:
        return False  # its end was not recorded: the store was unreachable
    alive = driver.process.is_alive()
    return abs(folder.age(_path(number))) < STALE_SECONDS if alive is None else alive


def _surely_alive(driver: Driver, folder: Folder, number: int) -> bool:
    """Whether a driver lives. A silent driver is watched for a while: the clock may have been changed."""
    if _alive(driver, folder, number):
        return True
    return driver.process.is_alive() is None and _beats(folder, number)


def _beats(folder: Folder, number: int) -> bool:
    """Whether a driver writes its record again while it is watched."""
    before, deadline = _last_beat(folder, number), time.monotonic() + _WATCHED_BEATS * _beat_seconds(folder)
    while time.monotonic() < deadline:
        time.sleep(_beat_seconds(folder) / 4)
        if _last_beat(folder, number) != before:
            return True
    return False


def _last_beat(folder: Folder, number: int) -> Version | None:
    """A value that changes with every heartbeat."""
    with contextlib.suppress(OSError):
        return folder.version(_path(number))
    return None


def _refusal(directory: Location, driver: Driver | None) -> str:
    return (
        f"{directory}: another driver is working on this run ({driver or 'it has just started'}). "
        f"Run `pairloom attach {directory}` to follow it."
    )


def _path(number: int) -> str:
    return f"drivers/{number:04d}.json"


def _cancel(number: int) -> str:
    """The file that asks drivers to stop."""
    return f"drivers/{number:04d}.cancel"


def _encoded(driver: Driver) -> bytes:
    record = asdict(driver)
    if driver.token is None:
        del record["token"]
    return json.dumps(record, indent=1).encode()
