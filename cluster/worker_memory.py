"""The least memory of a worker. Dask pauses a worker that is nearly full, and one that is full at birth for ever."""

from __future__ import annotations

from collections.abc import Mapping

import dask
from dask.utils import format_bytes

__all__ = ["PROCESS_BYTES", "WorkersTooSmall", "check_worker_memory", "least_worker_bytes"]

#: Python, numpy, scikit-learn, dask, zarr and compiled kernels, before the first task.
PROCESS_BYTES = 450 * 2**20


class WorkersTooSmall(RuntimeError):
    """No worker has the memory to begin a task."""


def least_worker_bytes() -> int:
    """Memory with which a worker that has done nothing yet is not paused; 0 if Dask is told not to pause workers."""
    share = dask.config.get("distributed.worker.memory.pause", 0.8)
    return int(PROCESS_BYTES / share) if share else 0


def check_worker_memory(limits: Mapping[str, int]) -> list[str]:
    """Raise if no worker can begin a task; else return the workers that cannot.

    Parameters
    ----------
    limits
        Memory in bytes by the address of the worker. Zero is no limit.
    """
    least = least_worker_bytes()
    small = {worker: limit for worker, limit in limits.items() if 0 < limit < least}
    if small and len(small) == len(limits):
        worker, limit = max(small.items(), key=lambda item: item[1])
        raise WorkersTooSmall(
            f"Workers must have at least {format_bytes(least)} of memory each, or Dask pauses them before their first"
            f" task, got at most {format_bytes(limit)} ({worker}). Start fewer of them, or give them more memory."
        )
    return list(small)
