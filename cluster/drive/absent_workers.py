"""Notice that all workers have left a cluster, tell the user, and stop the run if no others come in time.

Workers leave for good when their configured lifetime ends, or when the user who started them ends them. Dask then keeps
the tasks and waits without a message.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from distributed import Client

from pairloom.cluster.drive.schedule import Stop

__all__ = ["absence_noticed"]

WATCH_SECONDS = 1.0


@contextlib.contextmanager
def absence_noticed(
    client: Client, patience: float | None, stop: Stop, note: Callable[[str], None]
) -> Iterator[None]:
    """Watch the workers of a cluster while there are tasks for them.

    Parameters
    ----------
    patience
        Seconds without a worker after which the run is asked to stop; None if other workers will come, however late.
    stop
        The request to stop.
    note
        Called with a message when all workers have left.
    """
    ended = threading.Event()
    watch = threading.Thread(
        target=_watch, args=(client, patience, stop, note, ended), name="pairloom-workers", daemon=True
    )
    watch.start()
    try:
        yield
    finally:
        ended.set()  # do not join the thread: a pending request to the scheduler may take longer than the run


def _watch(
    client: Client,
    patience: float | None,
    stop: Stop,
    note: Callable[[str], None],
    ended: threading.Event,
) -> None:
    there, since = False, time.monotonic()
    while not ended.wait(WATCH_SECONDS):
        try:
            workers = bool(client.nthreads())
        except (
            OSError,
            RuntimeError,
            TimeoutError,
        ):  # the scheduler is busy, or gone, which the tasks will report
            continue
        if ended.is_set():
            return
        if workers:
            there, since = True, time.monotonic()
            continue
        if there:
            there = False
            limit = "" if patience is None else f" {patience:g} s"
            note(f"All workers have left the cluster; waiting{limit} for others.")
        if patience is not None and time.monotonic() - since > patience:
            stop.request(
                f"The cluster has had no workers for {patience:g} s. Start some, or raise cluster.worker_timeout. "
                "(Workers leave by themselves if Dask's configuration sets distributed.worker.lifetime.)"
            )
            return
