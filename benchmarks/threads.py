"""Speedup of a fit with two threads. Run it on a quiet machine with two cores.

    python -m pairloom.benchmarks.threads [--sets clinc150 icd10cm titles] [--repeats 3]

Every set is fitted with n_jobs=1 and n_jobs=2 in turn, in one warm process. "one" and "two" are the least seconds of
the repeats, "ratio" their quotient (target: at least 1.6). "serial" is the CPU time of the main thread in a fit with
two threads, the work that is not divided. "bound" is the possible ratio on two idle cores if the threads share the rest
evenly; unlike the ratio it is valid on a busy machine.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pairloom import PairwiseSVC
from pairloom.benchmarks.datasets import DataNotFound, Split, load
from pairloom.benchmarks.record import Column, Record
from pairloom.benchmarks.sparse_text import titles

#: The smallest acceptable ratio.
TARGET = 1.6
GRAPHS = {"clinc150": "complete"}
USUAL_SETS = ("clinc150", "icd10cm", "titles")


@dataclass(frozen=True)
class Row:
    """One set: seconds with one thread and with two; CPU seconds of the main thread with two, and of all threads."""

    data: str
    one_s: float
    two_s: float
    serial_cpu_s: float
    cpu_s: float

    @property
    def ratio(self) -> float:
        """How many times as fast two threads are."""
        return self.one_s / self.two_s

    @property
    def bound(self) -> float:
        """CPU time, divided by the serial part and half of the rest."""
        return self.cpu_s / (self.serial_cpu_s + (self.cpu_s - self.serial_cpu_s) / 2)


COLUMNS = (
    Column("set", lambda row: row.data, 10, left=True),
    Column("one s", lambda row: f"{row.one_s:.2f}", 7),
    Column("two s", lambda row: f"{row.two_s:.2f}", 7),
    Column("ratio", lambda row: f"{row.ratio:.2f}", 6),
    Column("serial CPU s", lambda row: f"{row.serial_cpu_s:.2f}", 12),
    Column("CPU s", lambda row: f"{row.cpu_s:.2f}", 7),
    Column("bound", lambda row: f"{row.bound:.2f}", 6),
)


def compare_threads(record: Record, data: str, split: Split, repeats: int) -> Row:
    """The row of one set."""
    _fit_seconds(data, split, 2)  # loads the kernels
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(repeats):
        for threads in seconds:
            cpu, serial = time.process_time(), time.thread_time()
            seconds[threads].append(_fit_seconds(data, split, threads))
            cpu, serial = time.process_time() - cpu, time.thread_time() - serial
    row = Row(data, min(seconds[1]), min(seconds[2]), serial, cpu)
    record.add(row)
    return row


def _fit_seconds(data: str, split: Split, threads: int) -> float:
    began = time.perf_counter()
    PairwiseSVC(GRAPHS.get(data, "hub_neighbours"), random_state=0, n_jobs=threads).fit(split.X, split.y)
    return time.perf_counter() - began


def _split_of(data: str) -> Split:
    return titles() if data == "titles" else load(data)


def main(arguments: list[str] | None = None) -> None:
    """Print the table and the verdict."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--sets", nargs="+", default=list(USUAL_SETS), choices=["digits", *USUAL_SETS])
    parser.add_argument("--repeats", type=int, default=3)
    given: Any = parser.parse_args(arguments)
    record = Record("threads", f"python -m pairloom.benchmarks.threads --sets {' '.join(given.sets)}", {})
    record.begin("threads", COLUMNS)
    try:
        splits = {data: _split_of(data) for data in given.sets}
    except DataNotFound as missing:
        parser.error(str(missing))
    rows = [compare_threads(record, data, split, given.repeats) for data, split in splits.items()]
    record.note(verdict(rows))


def verdict(rows: Sequence[Row]) -> str:
    """Whether every ratio reaches the target, and if not, whether the machine was too busy to tell."""
    missed = [row for row in rows if row.ratio < TARGET]
    if not missed:
        return f"PASSED: {min(row.ratio for row in rows):.2f} times as fast or more (target {TARGET})."
    found = ", ".join(f"{row.data} {row.ratio:.2f} (bound {row.bound:.2f})" for row in missed)
    if all(row.bound >= TARGET for row in missed):
        return (
            f"NOT SHOWN: below {TARGET} on {found}, though two idle cores could reach it: repeat this on a machine"
            " with nothing else to do."
        )
    return f"MISSED: below {TARGET} on {found}: too much of the fit is serial."


if __name__ == "__main__":
    main()
