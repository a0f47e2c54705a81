"""Memory: the peak of this process or of a process with its children, and the size of the arrays of an object.

Run as a program, it prints the time and the peak memory of `normal` over a bipartite graph (for `coupling.py`).
"""

import contextlib
import os
import sys
import threading
import time
import types
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np
import psutil

from pairloom import graphs
from pairloom.pipeline.completion.complete import plan_completion
from pairloom.pipeline.completion.slab import couple_slab

#: Standard deviation of the logits.
SPREAD = 3.0


def peak_bytes() -> int:
    """Peak memory of this process, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss would include the memory of the parent at the fork
        peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(peak.split()[1]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


class Peak:
    """The largest memory measured so far."""

    bytes = 0


@contextlib.contextmanager
def peak_of_family(pid: int, interval: float = 0.5) -> Iterator[Peak]:
    """Measure a process and all its children every ``interval`` seconds. Shared memory counts once."""
    peak, over = Peak(), threading.Event()

    def look() -> None:
        while not over.wait(interval):
            peak.bytes = max(peak.bytes, _family_bytes(pid))

    watch = threading.Thread(target=look, daemon=True)
    watch.start()
    try:
        yield peak
    finally:
        over.set()
        watch.join()


@contextlib.contextmanager
def added_memory(interval: float = 0.02) -> Iterator[Peak]:
    """The peak memory of this process and its children, minus the memory at the start."""
    pid = os.getpid()
    before = _family_bytes(pid)
    with peak_of_family(pid, interval) as peak:
        yield peak
    peak.bytes = max(0, peak.bytes - before)


def _family_bytes(pid: int) -> int:
    try:
        first = psutil.Process(pid)
        family = [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    return sum(map(_process_bytes, family))


def _process_bytes(process: psutil.Process) -> int:
    """Memory of a process, with its proportion of shared memory if the system knows it (Linux), else all of it."""
    try:
        memory = process.memory_full_info()
    except (psutil.NoSuchProcess, psutil.AccessDenied):  # it has just ended
        return 0
    return int(getattr(memory, "pss", memory.rss))


def array_bytes(root: object) -> int:
    """Bytes of all arrays that can be reached from an object, each once. A view counts as its base array."""
    total, waiting = 0, [root]
    seen: dict[int, object] = {}  # by id; the objects are kept alive so that no id is reused
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen[id(thing)] = thing
        if not isinstance(thing, np.ndarray):
            waiting.extend(parts(thing))
        elif isinstance(thing.base, np.ndarray):
            waiting.append(thing.base)
        else:
            total += thing.nbytes
    return total


def parts(thing: object) -> Iterator[object]:
    """The objects inside an object: elements, values, attributes."""
    if isinstance(thing, type | types.ModuleType | types.FunctionType):
        return
    if isinstance(thing, dict):
        yield from thing.values()
    elif isinstance(thing, list | tuple | set | frozenset):
        yield from thing
    elif is_dataclass(thing):
        yield from (getattr(thing, field.name) for field in fields(thing))
    yield from getattr(thing, "__dict__", {}).values()


def complete_and_couple_bipartite(n_classes: int, hubs: int, n_samples: int) -> None:
    """Print the time and the peak memory of `normal` over K(hubs, n_classes - hubs)."""
    completion = plan_completion(graphs.bipartite(n_classes, hubs))
    rng = np.random.default_rng(0)
    edge_logits = SPREAD * rng.standard_normal((len(completion.edges), n_samples), np.float32)
    began = time.perf_counter()
    p = couple_slab(edge_logits, completion, ["normal"])["normal"]
    seconds = time.perf_counter() - began
    assert abs(p.sum(axis=1) - 1).max() < 1e-5
    print(seconds, peak_bytes())


if __name__ == "__main__":
    complete_and_couple_bipartite(*map(int, sys.argv[1:]))
