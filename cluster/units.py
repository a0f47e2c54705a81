"""What a worker does with a task: some units of one stage, each entered into the ledger when it is done."""

from __future__ import annotations

import functools
import os
import socket
import time
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from threadpoolctl import threadpool_limits

import pairloom
from pairloom.cluster.ledger import Entry, Ledger
from pairloom.cluster.plan import Plan
from pairloom.pipeline.machines.linear_machines import MachineSettings
from pairloom.pipeline.run import stages

__all__ = ["Receipt", "StaleTask", "Task", "VersionMismatch", "log_line", "run_task", "run_unit"]


class Task(NamedTuple):
    """Some units of one stage of the run in ``directory``, each with its key in the driver's plan.

    ``version`` is the driver's.
    """

    directory: str
    stage: str
    units: dict[int, str]
    version: str


class Receipt(NamedTuple):
    """What a worker sends back for a unit: a few words, never an array."""

    stage: str
    unit: int
    seconds: float
    computed: bool


class StaleTask(RuntimeError):
    """A task of a driver whose plan is no longer the plan of the run directory."""


class VersionMismatch(RuntimeError):
    """A worker that has another version of pairloom than the driver."""


def run_task(task: Task) -> list[Receipt]:
    """Do the units of a task that are not done yet."""
    if task.version != pairloom.__version__:
        raise VersionMismatch(
            f"the driver has pairloom {task.version}, the worker on {_here()} has {pairloom.__version__}"
        )
    warnings.showwarning = functools.partial(_log_warning, Path(task.directory))
    return [_run_wanted(task, unit, key) for unit, key in task.units.items()]


def _run_wanted(task: Task, unit: int, key: str) -> Receipt:
    """Do a unit of a task, unless its driver is gone and the run directory has been given another plan."""
    directory = Path(task.directory)
    plan = _plan(directory)
    if plan.keys[task.stage][unit : unit + 1] != (key,):
        raise StaleTask(f"{directory}: a task of an older plan was dropped")
    return run_unit(directory, task.stage, unit, key, _work(directory, plan, task.stage))


def run_unit(directory: Path, stage: str, unit: int, key: str, work: Callable[[int], list[Path]]) -> Receipt:
    """Do one unit, unless the ledger has it, and enter it. The entry is the last thing that is written."""
    ledger = Ledger(directory)
    done = ledger.read(stage, unit)
    if done is not None and done.key == key:
        return Receipt(stage, unit, done.seconds, computed=False)
    _one_blas_thread()
    log_line(directory, f"begin {stage} {unit}")
    started = time.perf_counter()
    files = ledger.seal_files(work(unit))
    seconds = time.perf_counter() - started
    ledger.record(Entry(stage, unit, key, files, seconds, _here()))
    return Receipt(stage, unit, seconds, computed=True)


def log_line(directory: Path, line: str) -> None:
    """Add a line to the log of the run. One write in append mode: lines of several processes do not mix."""
    stamp = datetime.now(UTC).isoformat(timespec="milliseconds")
    with (directory / "log.txt").open("ab", buffering=0) as log:
        log.write(f"{stamp} {_here()} {line}\n".encode())


def _work(directory: Path, plan: Plan, stage: str) -> Callable[[int], list[Path]]:
    """What a stage does with a unit."""
    shape, keys, settings = plan.shape, plan.feature_keys, machine_settings(plan)
    works: dict[str, Callable[[int], list[Path]]] = {
        "machines": lambda unit: stages.train_tile(directory, shape, keys, settings, plan.tiles[unit]),
        "draw_logits": lambda unit: stages.apply_tile_to_draws(
            directory, shape, keys, settings, plan.tiles[unit]
        ),
        "growth": lambda unit: _judge_wave(directory, plan, unit),
        "calibration": lambda unit: stages.choose_method_scale(directory, shape, unit),
        "logits": lambda unit: stages.apply_tile(
            directory, shape, keys, settings, plan.tiles[unit], plan.slabs
        ),
        "probabilities": lambda unit: stages.couple_samples(directory, shape, plan.slabs[unit]),
    }
    return works[stage]


def _judge_wave(directory: Path, plan: Plan, wave: int) -> list[Path]:
    growth = plan.config.growth
    assert growth is not None
    return stages.judge_model(
        directory,
        plan.shape,
        wave,
        pairs=plan.waves[wave],
        method=plan.judging_method,
        cost=growth.cost,
        most=plan.pairs_to_propose(wave),
        seed=plan.config.run.seed,
    )


def machine_settings(plan: Plan) -> MachineSettings:
    """The machine's section of the configuration, and the seed of the run."""
    machine = plan.config.machine
    return MachineSettings(
        C=plan.cost,
        folds=machine.folds,
        fit_on=machine.fit_on,
        calibration=machine.calibration,
        thresholds=machine.thresholds,
        tol=machine.tol,
        seed=plan.config.run.seed,
    )


def _plan(directory: Path) -> Plan:
    """The plan, read again only when the file is another one."""
    status = (directory / "run.json").stat()
    return _plan_of(directory, status.st_mtime_ns, status.st_ino)


@functools.lru_cache(maxsize=4)
def _plan_of(directory: Path, modified: int, inode: int) -> Plan:
    return Plan.read(directory)


@functools.cache
def _one_blas_thread() -> threadpool_limits:
    """Give BLAS one thread, for the rest of this process: tasks are what runs in parallel.

    The number of threads decides how a product is split and so the last bits of a sum. It is never set back,
    as another task may be in the middle of one.
    """
    return threadpool_limits(1)


def _log_warning(directory: Path, message: Warning | str, category: type[Warning], *where: object) -> None:
    """Put a warning into the log of the run: a worker has no terminal, or one that shows a progress bar."""
    log_line(directory, f"warning {category.__name__}: {message}")


def _here() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"
