"""The time of the first fit after an installation, which compiles kernels, and of the next one.

A process has an empty folder for compiled kernels, or one that an earlier process has filled. If two processes start at
once, one compiles a kernel and the other waits for it.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pairloom.benchmarks.record import Column, Record, quantity

#: Targets in seconds on a quiet machine.
FIRST_FIT, IMPORT = 15.0, 1.0

_MEASURED = """
import json, time
began = time.perf_counter(), time.process_time()
from pairloom import PairwiseSVC, couple
imported = time.perf_counter() - began[0], time.process_time() - began[1]

import numpy as np
from sklearn.datasets import load_digits
from pairloom.pipeline.accelerate import compilations_reported

X, y = load_digits(return_X_y=True)
kernels, waiting = {}, {}

def listen(compilation):
    if compilation.state == "compiled":
        kernels[compilation.kernel] = compilation.seconds
    elif compilation.state == "waiting":
        waiting[compilation.kernel] = compilation.seconds

def seconds():
    began = time.perf_counter()
    WORK
    return time.perf_counter() - began

with compilations_reported(listen):
    cpu = time.process_time()
    first = seconds()
    cpu = time.process_time() - cpu
    second = seconds()
print(json.dumps(dict(imported=imported, first=first, first_cpu=cpu, second=second, kernels=kernels,
                      waited=sum(waiting.values()))))
"""
_FIT = "PairwiseSVC(random_state=0).fit(X[::2], y[::2]).predict_proba(X[1::2])"
_COUPLING = "couple(np.zeros((3, 3, 2)), 'normal')"


@dataclass(frozen=True)
class Process:
    """Seconds of one process: imports, the first and the second fit, compiling, and waiting for other compilers."""

    process: str
    import_seconds: float
    import_cpu_seconds: float
    first_fit: float
    first_fit_cpu_seconds: float
    second_fit: float
    kernels: int
    compiling: float
    waiting: float


@dataclass(frozen=True)
class Kernel:
    """A kernel of the first process, including those that it calls."""

    kernel: str
    seconds: float


COLUMNS = (
    Column("process", lambda row: row.process, 24, left=True),
    Column("import", lambda row: quantity(row.import_seconds, "s"), 9),
    Column("first fit", lambda row: quantity(row.first_fit, "s"), 9),
    Column("of it CPU", lambda row: quantity(row.first_fit_cpu_seconds, "s"), 9),
    Column("second fit", lambda row: quantity(row.second_fit, "s"), 10),
    Column("kernels", lambda row: str(row.kernels)),
    Column("compiling", lambda row: quantity(row.compiling, "s"), 9),
    Column("waiting", lambda row: quantity(row.waiting, "s"), 9),
)
KERNELS = (
    Column("kernel", lambda row: row.kernel, 44, left=True),
    Column("compiling", lambda row: quantity(row.seconds, "s"), 9),
)


def measure(record: Record, small: bool) -> None:
    """The first process, the second, and two at once; then the kernels that the first compiled."""
    work = _COUPLING if small else _FIT
    record.begin(
        "processes", COLUMNS, "coupling three classes" if small else "fit and predict_proba of digits"
    )
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        first, second = _outcome(_start(one, work)), _outcome(_start(one, work))
        at_once = [_outcome(process) for process in [_start(other, work), _start(other, work)]]
    for name, found in zip(
        ("first", "second", "one of two at once", "other of two at once"),
        (first, second, *at_once),
        strict=True,
    ):
        record.add(_process(name, found))
    record.begin("kernels", KERNELS, "compiled by the first process, each with the kernels that it calls")
    for kernel, seconds in sorted(first["kernels"].items(), key=lambda item: -item[1]):
        record.add(Kernel(kernel, seconds))
    twice = set(at_once[0]["kernels"]) & set(at_once[1]["kernels"])
    record.note(f"compiled by both of two at once: {', '.join(sorted(twice)) or 'nothing'} (target nothing)")
    record.note(f"first fit {first['first']:.1f} s (target {FIRST_FIT:g} s on a quiet machine)")
    record.note(f"import {first['imported'][0]:.2f} s (target {IMPORT:g} s on a quiet machine)")


def _start(folder: str, work: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(Path(folder, "kernels"))}
    command = [sys.executable, "-c", _MEASURED.replace("WORK", work)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def _outcome(process: "subprocess.Popen[str]") -> dict[str, Any]:
    out, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"The process that was measured ended with {process.returncode}.")
    found: dict[str, Any] = json.loads(out)
    return found


def _process(name: str, found: dict[str, Any]) -> Process:
    kernels, (wall, cpu) = found["kernels"], found["imported"]
    return Process(
        name,
        wall,
        cpu,
        found["first"],
        found["first_cpu"],
        found["second"],
        len(kernels),
        sum(kernels.values()),
        found["waited"],
    )
