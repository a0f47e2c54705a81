"""When the units of a stage run: in waves of tasks that last a few seconds each."""

from __future__ import annotations

import contextlib
import errno
import statistics
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from pathlib import Path

from distributed import Client, Future, KilledWorker, as_completed
from distributed.comm.core import CommClosedError

import pairloom
from pairloom.cluster.units import Receipt, Task, VersionMismatch, run_task

__all__ = ["ClusterLost", "DiskFull", "StageTasks", "Stop", "Stopped", "UnitFailed"]

# Long enough that a task's overhead (about a millisecond) is nothing, short enough that a lost worker costs
# little.
TASK_SECONDS = 3.0
# While a worker does one task the next one waits beside it, so that it never idles for a round trip.
TASKS_PER_THREAD = 2


class Stopped(RuntimeError):
    """The run was told to stop. What is done stays done."""


class ClusterLost(RuntimeError):
    """The scheduler went away. What is done stays done."""


class DiskFull(RuntimeError):
    """There is no room for a result. What is done stays done."""


class UnitFailed(RuntimeError):
    """A unit of work raised, or lost its worker too often."""


class Stop:
    """A request to end the run, with its reason, that any thread can make."""

    def __init__(self) -> None:
        self._reason: str | None = None
        self._wake: Callable[[], None] = lambda: None

    def request(self, reason: str) -> None:
        """Ask for the end of the run."""
        self._reason = self._reason or reason
        self._wake()

    def raise_if_requested(self) -> None:
        """Raise `Stopped` if the run was asked to end."""
        if self._reason is not None:
            raise Stopped(self._reason)

    @contextlib.contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """Call ``wake`` at a request: the thread that has to hear of it is waiting for tasks."""
        self._wake = wake
        try:
            yield
        finally:
            self._wake = lambda: None


class _Pace:
    """How many units make a task, from what units were seen to cost."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=64)

    def note(self, receipts: Iterable[Receipt]) -> None:
        self._seconds.extend(receipt.seconds for receipt in receipts if receipt.computed)

    def units_per_task(self, pending: int, threads: int) -> int:
        """One until something is known; then about TASK_SECONDS' worth, with tasks left for every thread."""
        if not self._seconds:
            return 1
        affordable = TASK_SECONDS / max(statistics.median(self._seconds), 1e-6)
        fair = pending / (TASKS_PER_THREAD * threads)
        return max(1, int(min(affordable, fair)))


class StageTasks:
    """Runs units of one stage on a cluster; iterating yields their receipts as they come.

    Only a few tasks for each thread are under way at any time: 499,500 edges are some thousand tiles, and the
    scheduler never hears of more than a wave of them.

    Parameters
    ----------
    client, directory, stage
        Where, and what.
    units
        Numbers of the units, in the order in which they should be begun, and their keys.
    retries
        How often a unit may lose its worker, beyond what Dask allows it, before the run gives up.
    stop
        Heard between two receipts.
    note
        Told what a person should know.
    """

    def __init__(
        self,
        client: Client,
        directory: Path,
        stage: str,
        units: Mapping[int, str],
        retries: int,
        stop: Stop,
        note: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._client, self._retries, self._stop, self._note = client, retries, stop, note
        self._task = Task(str(directory), stage, {}, pairloom.__version__)
        self._keys, self._pending = units, deque(units)
        self._losses: Counter[int] = Counter()
        self._pace = _Pace()
        self._under_way: dict[Future[list[Receipt]], tuple[int, ...]] = {}

    def __iter__(self) -> Iterator[Receipt]:
        try:
            with self._stop.waking(self._cancel):
                yield from self._receipts()
        except (CommClosedError, CancelledError, TimeoutError) as error:
            self._stop.raise_if_requested()
            raise ClusterLost(f"the connection to the Dask scheduler was lost ({error!r})") from error
        finally:
            self._cancel()

    def _receipts(self) -> Iterator[Receipt]:
        finished = as_completed()
        self._launch(finished)
        for future in finished:
            batch = self._under_way.pop(future)
            self._stop.raise_if_requested()
            receipts = self._outcome(future, batch)
            self._pace.note(receipts)
            yield from receipts
            self._launch(finished)

    def _launch(self, finished: as_completed) -> None:
        threads = sum(self._client.nthreads().values())
        if not threads:
            self._note("The cluster has no workers: waiting for some to come.")
        threads = max(1, threads)
        while self._pending and len(self._under_way) < TASKS_PER_THREAD * threads:
            size = self._pace.units_per_task(len(self._pending), threads)
            batch = tuple(self._pending.popleft() for _ in range(size))
            # A key of its own for every submission: Dask would answer a known key with the old, failed,
            # result.
            name = f"{self._task.stage}-{batch[0]}-{uuid.uuid4().hex[:8]}"
            task = self._task._replace(units={unit: self._keys[unit] for unit in batch})
            future = self._client.submit(run_task, task, key=name)
            self._under_way[future] = batch
            finished.add(future)

    def _outcome(self, future: Future[list[Receipt]], batch: tuple[int, ...]) -> list[Receipt]:
        """The receipts of a task; none, and its units pending again, where it lost its workers."""
        try:
            receipts = future.result()
        except KilledWorker as error:
            self._losses.update(batch)
            if self._losses[batch[0]] > self._retries:
                raise UnitFailed(
                    self._complaint(batch, f"lost its worker again and again: {error}")
                ) from error
            self._pending.extendleft(reversed(batch))
            return []
        except (CommClosedError, CancelledError, TimeoutError, VersionMismatch):
            raise
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise DiskFull(self._complaint(batch, f"could not be written: {error}")) from error
            raise UnitFailed(self._complaint(batch, repr(error))) from error
        except Exception as error:
            raise UnitFailed(self._complaint(batch, repr(error))) from error
        return receipts

    def _complaint(self, batch: tuple[int, ...], what: str) -> str:
        units = f"unit {batch[0]}" if len(batch) == 1 else f"one of the units {batch[0]} to {batch[-1]}"
        return f"{self._task.stage}: {units} {what}"

    def _cancel(self) -> None:
        # The scheduler may be what went away.
        with contextlib.suppress(CommClosedError, CancelledError, TimeoutError, RuntimeError):
            self._client.cancel(list(self._under_way), force=True)
