"""The cost of a crash: driver and workers are killed (SIGKILL) after a share of the units, and the run is resumed.

The commands are those of a user, `pairloom run` and `pairloom resume`, each in a process of its own with local workers.
All times are of the wall clock:

- "undisturbed" is a whole `pairloom run`, from the start of the process to its end;
- "start-up" is the part of that in which no unit is under way before the first unit of a worker ends: from the start
  of the process to its first unit (imports, data, plan), and from the driver's last unit to the first unit of a
  worker (start of the workers). From the log and the ledger of the undisturbed run;
- "killed" is from the start of the process to the kill, "resumed" is the whole `pairloom resume`;
- the figure is (killed + resumed - start-up) / undisturbed: the second process has to start too, everything else that
  is done twice counts.

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

from pairloom.benchmarks.record import Column, Ratio, Record, add_ratios, summary
from pairloom.benchmarks.timed_run import digest
from pairloom.pipeline.run.ledger import Ledger
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_log import begin_times
from pairloom.pipeline.stages import STAGES
from pairloom.pipeline.stages.run_file import read_run

SHARES = (0.25, 0.5, 0.75)
#: Target: at most so many times the undisturbed run, beside the start-up.
MOST = 1.1
#: Seconds between two checks of the ledger.
POLL = 0.005


class RunFailed(ValueError):
    """A command of the benchmark has failed, or has left other bytes."""


class Undisturbed(NamedTuple):
    """The run that the others are compared with."""

    seconds: float
    startup: float
    units: int
    digest: str


@dataclass(frozen=True)
class Row:
    """One killed and resumed run."""

    share: float
    units_at_kill: int
    units: int
    killed_s: float
    resumed_s: float
    startup_s: float
    undisturbed_s: float
    figure: float
    same_bytes: bool


COLUMNS = (
    Column("killed at", lambda row: f"{row.share:.0%}"),
    Column("units", lambda row: f"{row.units_at_kill} of {row.units}", 10),
    Column("killed s", lambda row: f"{row.killed_s:.2f}"),
    Column("resumed s", lambda row: f"{row.resumed_s:.2f}"),
    Column("start-up s", lambda row: f"{row.startup_s:.2f}"),
    Column("undisturbed s", lambda row: f"{row.undisturbed_s:.2f}"),
    Column("figure", lambda row: f"{row.figure:.3f}", 7),
    Column("bytes", lambda row: "the same" if row.same_bytes else "DIFFERENT", 9),
)


def kill_and_resume(
    record: Record,
    config: str,
    overrides: Sequence[str],
    workers: int,
    shares: Iterable[float] = SHARES,
    *,
    warm_up: bool = True,
) -> list[Row]:
    """The table of all shares."""
    options = [word for override in overrides for word in ("--set", override)] + ["--workers", str(workers)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if warm_up:  # compiles the kernels, and brings the data into the page cache for all runs that follow
            run_to_the_end(["run", config, "--directory", str(folder / "warm"), *options])
        whole = undisturbed(config, options, folder / "undisturbed")
        record.begin("resumed", COLUMNS, f"{config} on {workers} workers: {whole.units} units")
        rows = []
        for share in shares:
            rows.append(killed_and_resumed(config, options, folder / f"killed-{share}", share, whole))
            record.add(rows[-1])
    if not all(row.same_bytes for row in rows):
        raise RunFailed(f"{config}: a resumed run has other bytes than the undisturbed one.")
    ratios = [verdict(row) for row in rows]
    heads = {"ours": "twice started", "theirs": "undisturbed"}
    add_ratios(record, "targets", ratios, "(killed + resumed - start-up) / undisturbed", **heads)
    record.note(summary(ratios))
    return rows


def verdict(row: Row) -> Ratio:
    """Whether a resumed run keeps the target."""
    spent = row.killed_s + row.resumed_s - row.startup_s
    return Ratio(f"killed at {row.share:.0%}", spent, row.undisturbed_s, "s", row.figure, "<=", MOST)


def undisturbed(config: str, options: Sequence[str], directory: Path) -> Undisturbed:
    """An undisturbed run."""
    began = time.time()
    seconds = run_to_the_end(["run", config, "--directory", str(directory), *options])
    plan = read_run(directory)
    return Undisturbed(
        seconds, startup_seconds(directory, plan, began), units_done(directory), digest(directory)
    )


def startup_seconds(directory: Path, plan: Run, began: float) -> float:
    """Seconds before the first unit, and between the driver's first units and the first unit of a worker."""
    begun = sorted((at, *unit) for unit, at in begin_times(directory).items())
    on_cluster = {stage.name for stage in STAGES if stage.where != "driver"}
    first_of_worker = next(k for k, (_, stage, _) in enumerate(begun) if stage in on_cluster)
    at, stage, unit = begun[first_of_worker - 1]
    entry = Ledger(directory).read(stage, unit)
    assert entry is not None, "the driver records a unit before it begins the next"
    return begun[0][0] - began + begun[first_of_worker][0] - (at + entry.seconds)


def killed_and_resumed(
    config: str, options: Sequence[str], directory: Path, share: float, whole: Undisturbed
) -> Row:
    """Kill a run when a share of its units is in the ledger, and resume it."""
    killed, units = kill_at(config, options, directory, share * whole.units)
    resumed = run_to_the_end(["resume", str(directory), "--local", "--workers", options[-1]])
    return Row(
        share,
        units,
        whole.units,
        killed,
        resumed,
        whole.startup,
        whole.seconds,
        (killed + resumed - whole.startup) / whole.seconds,
        digest(directory) == whole.digest,
    )


def kill_at(config: str, options: Sequence[str], directory: Path, units: float) -> tuple[float, int]:
    """Run until so many units are done, then kill the driver and its workers. Seconds, and units that were done."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "pairloom", "run", config, "--directory", str(directory), *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver:
        while units_done(directory) < units:
            if driver.poll() is not None:
                raise RunFailed(f"{' '.join(command)} ended before it was killed, with {driver.returncode}.")
            time.sleep(POLL)
        kill_with_children(driver.pid)
    return time.perf_counter() - began, units_done(directory)


def kill_with_children(pid: int) -> None:
    """Send SIGKILL to a process and all its children, and wait until they have ended."""
    driver = psutil.Process(pid)
    family = [driver, *driver.children(recursive=True)]
    for process in family:  # the driver first: it must not see its workers die
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(family[1:], timeout=30)


def run_to_the_end(arguments: Sequence[str]) -> float:
    """Seconds of a command of pairloom in a process of its own."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "pairloom", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RunFailed(f"{' '.join(command)} failed with {done.returncode}: {done.stderr.strip()}")
    return time.perf_counter() - began


def units_done(directory: Path) -> int:
    """Entries of the ledger."""
    return sum(1 for _ in (directory / "ledger").glob("*/*.json"))
