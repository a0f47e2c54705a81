"""Repeat an experiment on a cluster: repetitions are tasks, and workers read the trained tensor from its file."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any

from distributed import Client, KilledWorker
from distributed.comm.core import CommClosedError

import pairloom
from pairloom.cluster.drive.schedule import ClusterLost, UnitFailed
from pairloom.cluster.drive.tasks import VersionMismatch
from pairloom.pipeline.experiments.trained_tensor import TensorFile, TrainedTensor
from pairloom.pipeline.threads import one_blas_thread, pieces

__all__ = ["repeat_on_cluster"]

# A repetition takes from 20 ms to a minute. With this many tasks per thread, their overhead (about a millisecond) is
# negligible, and all threads finish at about the same time.
TASKS_PER_THREAD = 16

Repetition = Callable[[TrainedTensor, Any], Any]

_reading = threading.Lock()


def repeat_on_cluster(
    client: Client, function: Repetition, file: TensorFile, items: Sequence[Any]
) -> Iterator[Any]:
    """Yield ``function(trained, item)`` for each item, in the order of the items."""
    client.wait_for_workers(1)
    size = max(1, len(items) // (TASKS_PER_THREAD * sum(client.nthreads().values())))
    batches = [list(items[some]) for some in pieces(len(items), size)]
    futures = deque(
        client.submit(_repeat, function, file, batch, pairloom.__version__, pure=False) for batch in batches
    )
    try:
        while futures:
            yield from futures[0].result()
            futures.popleft()
    except KilledWorker as error:
        raise UnitFailed(
            f"A repetition lost its worker too often: {error}. Give the workers more memory."
        ) from error
    except (CommClosedError, CancelledError, TimeoutError) as error:
        raise ClusterLost(f"Lost the connection to the Dask scheduler: {error!r}.") from error
    finally:
        # The scheduler may be gone.
        with contextlib.suppress(CommClosedError, CancelledError, TimeoutError, RuntimeError):
            client.cancel(list(futures), force=True)


def _repeat(function: Repetition, file: TensorFile, items: Sequence[Any], version: str) -> list[Any]:
    """The task of a worker: compute some repetitions."""
    if version != pairloom.__version__:
        raise VersionMismatch(
            f"Workers must have the driver's version of pairloom, {version}, got {pairloom.__version__}. "
            "Install the same version on both."
        )
    with _reading:  # the threads of a worker share one tensor
        trained = _tensor(file)
    with one_blas_thread():
        return [function(trained, item) for item in items]


@functools.lru_cache(maxsize=1)
def _tensor(file: TensorFile) -> TrainedTensor:
    """The trained tensor, read once per process. It couples in one thread, since tasks run in parallel."""
    try:
        return file.read()._replace(n_jobs=1)
    except OSError as error:
        raise OSError(
            f"--out must be a folder with the same path on all workers: a worker cannot read the trained tensor "
            f"{file.path}: {error}."
        ) from error
