"""Schedule the units of a stage: a few tasks per thread at a time, each a few seconds long."""

from __future__ import annotations

import contextlib
import errno
import math
import statistics
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError

from distributed import Client, Future, KilledWorker, as_completed
from distributed.client import ClosedClientError
from distributed.comm.core import CommClosedError

import pairloom
from pairloom.cluster.drive.tasks import DirectoryUnseen, Receipt, Task, VersionMismatch, run_task
from pairloom.pipeline.storage.location import Location
from pairloom.pipeline.storage.object_store import StoreError

__all__ = ["ClusterLost", "DiskFull", "StageTasks", "Stop", "Stopped", "UnitFailed"]

# Long enough that the overhead of a task (about a millisecond) is negligible, short enough that a lost worker loses
# little work.
TASK_SECONDS = 3.0
# While a thread works on one task, its worker already has the next, so that no thread waits for a round trip.
TASKS_PER_THREAD = 2
# Between two units, whether the run was cancelled is looked up at most this often: in a store it is a request.
_LOOK_SECONDS = 1.0


class Stopped(RuntimeError):
    """The run was asked to stop. Finished work is kept."""


class ClusterLost(RuntimeError):
    """The connection to the scheduler is lost. Finished work is kept."""


class DiskFull(RuntimeError):
    """The disk is full. Finished work is kept."""


class UnitFailed(RuntimeError):
    """A unit of work raised an error, or lost its worker too often."""


class Stop:
    """A request to stop the run, with a reason. Any thread can make it."""

    def __init__(self) -> None:
        self._looked_at = -math.inf
        self._reason: str | None = None
        self._wake: Callable[[], None] = lambda: None
        self._look: Callable[[], object] = lambda: None

    def look_with(self, look: Callable[[], object]) -> None:
        """Call ``look`` whenever a request is checked, so that it can turn one in the run directory into one here."""
        self._look = look

    def request(self, reason: str) -> None:
        """Ask the run to stop."""
        self._reason = self._reason or reason
        self._wake()

    def raise_if_requested(self) -> None:
        """Raise `Stopped` if the run was asked to stop. The run directory is looked at once in a while."""
        if time.monotonic() - self._looked_at > _LOOK_SECONDS:
            self.check()
        if self._reason is not None:
            raise Stopped(self._reason)

    def check(self) -> None:
        """Raise `Stopped` if the run was asked to stop, now: the check of a fence."""
        self._looked_at = time.monotonic()
        self._look()
        if self._reason is not None:
            raise Stopped(self._reason)

    @contextlib.contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """Call ``wake`` on a request, because the driving thread is waiting for tasks."""
        self._wake = wake
        try:
            yield
        finally:
            self._wake = lambda: None


class _Pace:
    """Chooses the number of units per task from the measured time per unit."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=64)

    def note(self, receipts: Iterable[Receipt]) -> None:
        self._seconds.extend(receipt.seconds for receipt in receipts if receipt.computed)

    def units_per_task(self, pending: int, threads: int) -> int:
        """One until a time is measured; then about TASK_SECONDS of work, but few enough to keep all threads busy."""
        if not self._seconds:
            return 1
        affordable = TASK_SECONDS / max(statistics.median(self._seconds), 1e-6)
        fair = pending / (TASKS_PER_THREAD * threads)
        return max(1, int(min(affordable, fair)))


class StageTasks:
    """Runs units of one stage on a cluster; iterating yields their receipts as they arrive.

    The scheduler holds only a few tasks per thread at a time, although a stage may have thousands of units.

    Parameters
    ----------
    client, directory, stage
        The cluster, the run directory and the name of the stage.
    units
        Keys of the units by number, in the order in which to start them.
    retries
        How often a unit may lose its worker, in addition to Dask's own retries, before the run fails.
    stop
        Checked between two receipts.
    note
        Called with messages for the user.
    """

    def __init__(
        self,
        client: Client,
        directory: Location,
        stage: str,
        units: Mapping[int, str],
        retries: int,
        stop: Stop,
        note: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._client, self._retries, self._stop, self._note = client, retries, stop, note
        # A worker may have a different working directory.
        self._task = Task(str(directory.absolute()), stage, {}, pairloom.__version__)
        self._keys, self._pending = units, deque(units)
        self._losses: Counter[int] = Counter()
        self._pace = _Pace()
        self._under_way: dict[Future[list[Receipt]], tuple[int, ...]] = {}

    def __iter__(self) -> Iterator[Receipt]:
        try:
            with self._stop.waking(self._cancel):
                # A request that came earlier did not wake this thread, so check for one now.
                self._stop.raise_if_requested()
                yield from self._receipts()
        except (CommClosedError, ClosedClientError, CancelledError, TimeoutError) as error:
            self._stop.raise_if_requested()
            raise ClusterLost(f"Lost the connection to the Dask scheduler: {error!r}.") from error
        finally:
            self._cancel()

    def _receipts(self) -> Iterator[Receipt]:
        # Without a loop, as_completed would use the loop of the default client, which may be another client.
        finished = as_completed(loop=self._client.loop)
        self._launch(finished)
        for future in finished:
            self._stop.raise_if_requested()
            # The task stays in `_under_way` until its receipts are here: its worker may have left with them, and then
            # only a cancellation ends the wait.
            receipts = self._outcome(future, self._under_way[future])
            del self._under_way[future]
            self._pace.note(receipts)
            yield from receipts
            self._launch(finished)

    def _launch(self, finished: as_completed) -> None:
        threads = self._threads()
        if not threads:
            self._note("The cluster has no workers yet; waiting.")
        threads = max(1, threads)
        while self._pending and len(self._under_way) < TASKS_PER_THREAD * threads:
            size = self._pace.units_per_task(len(self._pending), threads)
            batch = tuple(self._pending.popleft() for _ in range(size))
            # Every submission has its own key, since Dask would return the old, failed result for a known key.
            name = f"{self._task.stage}-{batch[0]}-{uuid.uuid4().hex[:8]}"
            task = self._task._replace(units={unit: self._keys[unit] for unit in batch})
            future = self._client.submit(run_task, task, key=name)
            self._under_way[future] = batch
            finished.add(future)

    def _threads(self) -> int:
        try:
            return sum(self._client.nthreads().values())
        except AttributeError as error:
            if self._client.scheduler is not None:
                raise
            # Dask does not check whether the client was closed meanwhile and has no scheduler.
            raise ClosedClientError("The client was closed.") from error

    def _outcome(self, future: Future[list[Receipt]], batch: tuple[int, ...]) -> list[Receipt]:
        """The receipts of a task. If it lost its workers, there are none and its units are pending again."""
        try:
            receipts = future.result()
        except KilledWorker as error:
            self._losses.update(batch)
            if self._losses[batch[0]] > self._retries:
                raise UnitFailed(
                    self._error_text(
                        batch,
                        f"lost its worker too often: {error}. Give the workers more memory, or raise cluster.retries",
                    )
                ) from error
            self._pending.extendleft(reversed(batch))
            return []
        except (CommClosedError, CancelledError, TimeoutError, VersionMismatch, DirectoryUnseen, StoreError):
            raise
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise DiskFull(
                    self._error_text(batch, f"could not be written: {error}. Free some disk space")
                ) from error
            raise UnitFailed(self._error_text(batch, f"failed: {_described(error)}")) from error
        except Exception as error:
            self._stop.check()  # another driver may have taken over, with another plan
            raise UnitFailed(self._error_text(batch, f"failed: {_described(error)}")) from error
        return receipts

    def _error_text(self, batch: tuple[int, ...], problem: str) -> str:
        units = f"unit {batch[0]}" if len(batch) == 1 else f"one of the units {batch[0]} to {batch[-1]}"
        return f"{self._task.stage}: {units} {problem}."

    def _cancel(self) -> None:
        # The scheduler may be gone, or the client closed.
        gone = (CommClosedError, ClosedClientError, CancelledError, TimeoutError, RuntimeError)
        with contextlib.suppress(*gone):
            self._client.cancel(list(self._under_way), force=True)


def _described(error: Exception) -> str:
    """An error with its type. (The repr of an OSError would leave out the path.)"""
    return f"{type(error).__name__}: {error}" if str(error) else repr(error)
