"""The computer and the versions that a figure was measured with."""

import os
import platform
from importlib.metadata import version
from typing import Any

import psutil

from pairloom.pipeline.experiments.perform import processor

PACKAGES = ("pairloom", "numpy", "scipy", "scikit-learn", "numba", "dask", "distributed", "zarr")


def machine() -> dict[str, Any]:
    """Processor, cores, memory, operating system, and the load when the benchmark started.

    The load is the average number of runnable processes in the last minute. A quiet machine has less than one.
    """
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "usable_cores": usable_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": platform.platform(),
        "load": psutil.getloadavg()[0],
    }


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that do the work."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def machine_lines(facts: dict[str, Any], packages: dict[str, str]) -> list[str]:
    """Both, as lines to print."""
    return [
        f"{facts['processor']}, {facts['cores']} cores ({facts['usable_cores']} usable), "
        f"{facts['memory_bytes'] / 2**30:.1f} GiB, {facts['system']}, load {facts['load']:.2f}",
        ", ".join(f"{name} {number}" for name, number in packages.items()),
    ]
