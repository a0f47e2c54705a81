"""The cost of a crash: driver and workers are killed (SIGKILL) after a share of the units, and the run is resumed.

The commands are those of a user, `pairloom run` and `pairloom resume`, each in a separate process with local workers.
All times are wall-clock times:

- "undisturbed" is a complete `pairloom run`, from the start of the process to its end;
- "start-up" is the part of it, until the first unit of a worker ends, in which no unit is at work: from the start of
  the process to its first unit (imports, data, plan), and from the driver's last unit to the first unit of a worker
  (start of the workers). It is read from the log and the ledger of the undisturbed run;
- "killed" is the time from the start of the process to the kill, "resumed" that of the complete `pairloom resume`;
- the figure is (killed + resumed - start-up) / undisturbed: the start-up of the second process is inevitable, all other
  repeated work counts.

Each share has its own run, which is killed once; "in turn" kills the same run at every share. The memory is the largest
sum over the driver and all workers, measured twice a second (`memory.peak_of_family`).

Every resumed run must have the probabilities, logits and machines of the undisturbed one, to the byte.
"""

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil

from pairloom.benchmarks.memory import peak_of_family
from pairloom.benchmarks.record import Column, Ratio, Record, add_ratios, summary
from pairloom.benchmarks.timed_run import digest
from pairloom.pipeline.run.ledger import Ledger
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_log import begin_times
from pairloom.pipeline.stages import STAGES
from pairloom.pipeline.stages.run_file import read_run

SHARES = (0.25, 0.5, 0.75)
#: Target: at most this multiple of the undisturbed run, without the start-up.
HIGHEST_FIGURE = 1.1
#: Seconds between two checks of the ledger.
POLL = 0.005


class RunFailed(ValueError):
    """A command of the benchmark failed, or its results have different bytes."""


class Undisturbed(NamedTuple):
    """The run with which the others are compared."""

    seconds: float
    startup: float
    units: int
    digest: str
    peak_bytes: int


class Ended(NamedTuple):
    """A command that has ended: its wall-clock time, and the peak memory of all its processes together."""

    seconds: float
    peak_bytes: int


class Killed(NamedTuple):
    """A command that was killed, and the units that were done by then."""

    seconds: float
    peak_bytes: int
    units: int


@dataclass(frozen=True)
class Row:
    """One killed and resumed run: the units at the last kill, and the seconds of all killed processes together."""

    shares: tuple[float, ...]
    units_at_kill: int
    units: int
    killed_s: float
    resumed_s: float
    startup_s: float
    undisturbed_s: float
    figure: float
    peak_bytes: int
    same_bytes: bool


def shares_text(shares: Iterable[float]) -> str:
    """The shares as text, such as "25%, 75%"."""
    return ", ".join(f"{share:.0%}" for share in shares)


COLUMNS = (
    Column("killed at", lambda row: shares_text(row.shares), 13),
    Column("units", lambda row: f"{row.units_at_kill} of {row.units}", 10),
    Column("killed s", lambda row: f"{row.killed_s:.2f}"),
    Column("resumed s", lambda row: f"{row.resumed_s:.2f}"),
    Column("start-up s", lambda row: f"{row.startup_s:.2f}"),
    Column("undisturbed s", lambda row: f"{row.undisturbed_s:.2f}"),
    Column("figure", lambda row: f"{row.figure:.3f}", 7),
    Column("peak GB", lambda row: f"{row.peak_bytes / 1e9:.2f}", 7),
    Column("bytes", lambda row: "the same" if row.same_bytes else "DIFFERENT", 9),
)


def kill_and_resume(
    record: Record,
    config: str,
    overrides: Sequence[str],
    workers: int,
    shares: Sequence[float] = SHARES,
    *,
    in_turn: bool = False,
    warm_up: bool = True,
) -> list[Row]:
    """The table of all shares: a run for each, or one run that is killed at all of them in turn."""
    options = [word for override in overrides for word in ("--set", override)] + ["--workers", str(workers)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if warm_up:  # compile the kernels, and bring the data into the page cache, for all runs that follow
            run_to_the_end(["run", config, "--directory", str(folder / "warm"), *options])
        whole = undisturbed(config, options, folder / "undisturbed")
        record.begin("resumed", COLUMNS, f"{config} on {workers} workers: {whole.units} units")
        rows = []
        for number, of_run in enumerate([tuple(shares)] if in_turn else [(share,) for share in shares]):
            rows.append(killed_and_resumed(config, options, folder / f"killed-{number}", of_run, whole))
            record.add(rows[-1])
    if not all(row.same_bytes for row in rows):
        raise RunFailed(f"{config}: a resumed run has other bytes than the undisturbed one.")
    ratios = [verdict(row) for row in rows]
    heads = {"ours": "started again", "theirs": "undisturbed"}
    add_ratios(record, "targets", ratios, "(killed + resumed - start-up) / undisturbed", **heads)
    record.note(f"The undisturbed run took {whole.seconds:.1f} s and {whole.peak_bytes / 1e9:.2f} GB.")
    record.note(summary(ratios))
    return rows


def verdict(row: Row) -> Ratio:
    """Whether a resumed run keeps the target."""
    spent = row.killed_s + row.resumed_s - len(row.shares) * row.startup_s
    return Ratio(
        f"killed at {shares_text(row.shares)}",
        spent,
        row.undisturbed_s,
        "s",
        row.figure,
        "<=",
        HIGHEST_FIGURE,
    )


def undisturbed(config: str, options: Sequence[str], directory: Path) -> Undisturbed:
    """An undisturbed run."""
    began = time.time()
    ended = run_to_the_end(["run", config, "--directory", str(directory), *options])
    plan = read_run(directory)
    startup = startup_seconds(directory, plan, began)
    return Undisturbed(ended.seconds, startup, units_done(directory), digest(directory), ended.peak_bytes)


def startup_seconds(directory: Path, plan: Run, began: float) -> float:
    """Seconds before the first unit, and between the driver's first units and the first unit of a worker."""
    begun = sorted((at, *unit) for unit, at in begin_times(directory).items())
    on_cluster = {stage.name for stage in STAGES if stage.runs_in(plan) != "driver"}
    first_of_worker = next(k for k, (_, stage, _) in enumerate(begun) if stage in on_cluster)
    at, stage, unit = begun[first_of_worker - 1]
    entry = Ledger(directory).read(stage, unit)
    assert entry is not None, "the driver records a unit before it begins the next"
    return begun[0][0] - began + begun[first_of_worker][0] - (at + entry.seconds)


def killed_and_resumed(
    config: str, options: Sequence[str], directory: Path, shares: Sequence[float], whole: Undisturbed
) -> Row:
    """Kill a run when a share of its units is in the ledger, and resume it, for each share."""
    resume = ["resume", str(directory), "--local", "--workers", options[-1]]
    begin = ["run", config, "--directory", str(directory), *options]
    killed = [
        kill_at(resume if number else begin, directory, share * whole.units)
        for number, share in enumerate(shares)
    ]
    resumed = run_to_the_end(resume)
    spent = sum(run.seconds for run in killed)
    return Row(
        tuple(shares),
        killed[-1].units,
        whole.units,
        spent,
        resumed.seconds,
        whole.startup,
        whole.seconds,
        (spent + resumed.seconds - len(shares) * whole.startup) / whole.seconds,
        max(resumed.peak_bytes, *(run.peak_bytes for run in killed)),
        digest(directory) == whole.digest,
    )


def kill_at(arguments: Sequence[str], directory: Path, units: float) -> Killed:
    """Run a command until ``units`` units are done, then kill the driver and its workers."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "pairloom", *arguments]
    with (
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver,
        peak_of_family(driver.pid) as peak,
    ):
        while units_done(directory) < units:
            if driver.poll() is not None:
                raise RunFailed(f"{' '.join(command)} ended before it was killed, with {driver.returncode}.")
            time.sleep(POLL)
        kill_with_children(driver.pid)
    return Killed(time.perf_counter() - began, peak.bytes, units_done(directory))


def kill_with_children(pid: int) -> None:
    """Send SIGKILL to a process and all its children, and wait until they have ended."""
    driver = psutil.Process(pid)
    family = [driver, *driver.children(recursive=True)]
    for process in family:  # the driver first, so that it does not see its workers die
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(family[1:], timeout=30)


def run_to_the_end(arguments: Sequence[str]) -> Ended:
    """Run a command of pairloom in a separate process, which must succeed."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "pairloom", *arguments]
    with (
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process,
        peak_of_family(process.pid) as peak,
    ):
        _, errors = process.communicate()
    if process.returncode:
        raise RunFailed(f"{' '.join(command)} failed with {process.returncode}: {errors.strip()}")
    return Ended(time.perf_counter() - began, peak.bytes)


def units_done(directory: Path) -> int:
    """Number of entries in the ledger."""
    return sum(1 for _ in (directory / "ledger").glob("*/*.json"))
