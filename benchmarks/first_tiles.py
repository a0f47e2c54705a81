"""The cost of a run that is too long to try: it is planned, and the first unit of each stage is done.

Stages that store rows, stages of the driver, and those whose units run one after the other are done completely. Of the
other stages only the first unit is done, and links to its files stand for the files of all others, so that later stages
read as many bytes as in a complete run. Times, memory and disk are therefore those of the run, but its predictions are
meaningless.

Times are CPU seconds of this process, which other work on the machine hardly changes. A unit in which kernels were
compiled is done again, and the second time counts. The forecast of a stage is the time of its first unit times the
number of its units.
"""

import os
import resource
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pairloom.benchmarks.record import Column, Record
from pairloom.cluster.drive.driver import adopt_run, load_data
from pairloom.cluster.drive.tasks import run_unit
from pairloom.pipeline.accelerate import Compilation, compilations_reported
from pairloom.pipeline.config.config import Config
from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.run.ledger import Ledger
from pairloom.pipeline.run.needs import disk_bytes, task_bytes
from pairloom.pipeline.run.run import Run, Stage
from pairloom.pipeline.run.run_directory import stamp_groups
from pairloom.pipeline.stages.planning import plan_run
from pairloom.pipeline.storage.zarr_metadata import OURS, stored_array


@dataclass(frozen=True)
class Row:
    """A stage. ``memory_mb`` is the peak of the process so far, ``bound_mb`` the bound of a task in the plan."""

    stage: str
    where: str
    units: int
    done: int
    unit_s: float
    forecast_s: float
    memory_mb: float
    bound_mb: float


COLUMNS = (
    Column("stage", lambda row: row.stage, 14, left=True),
    Column("where", lambda row: row.where, 8, left=True),
    Column("units", lambda row: str(row.units), 7),
    Column("done", lambda row: str(row.done), 6),
    Column("CPU s per unit", lambda row: f"{row.unit_s:.2f}"),
    Column("forecast CPU s", lambda row: f"{row.forecast_s:.0f}"),
    Column("peak MB", lambda row: f"{row.memory_mb:.0f}"),
    Column("task's bound MB", lambda row: f"{row.bound_mb:.0f}" if row.bound_mb else ""),
)


def try_first_tiles(record: Record, config: Config, workers: int, folder: Path | None = None) -> list[Row]:
    """The table. The run directory, without its later units, is made in ``folder``, and removed afterwards."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(dir=folder) as place:
        began = time.process_time()
        data = load_data(config)
        read = time.process_time()
        run = plan_run(config, data, Path(place) / "run")
        planned = time.process_time()
        shape = run.shape
        if run.kernel is not None or shape.sparse is not None:
            raise ValueError(
                "first-tiles is for linear machines on dense rows: files of others depend on their pairs. Pass --set"
                " model.kernel=linear, or another CONFIG."
            )
        record.note(
            f"{len(shape.classes):,} classes, {sum(shape.rows):,} training rows of {shape.features:,} features,"
            f" {shape.samples:,} test samples, {shape.n_edges:,} pairs"
        )
        record.note(f"disk, at most: {sum(disk_bytes(run).values()) / 2**30:.1f} GiB")
        record.begin("stages", COLUMNS, f"{run.config.run.name}: a first unit of each stage")
        rows += [_driver_row("read", read - began), _driver_row("plan", planned - read)]
        for row in rows:
            record.add(row)
        for row in _stage_rows(adopted(run), data):
            rows.append(row)
            record.add(row)
    here = sum(row.forecast_s for row in rows if row.where != "cluster")
    shared = sum(row.forecast_s for row in rows if row.where == "cluster")
    record.note(
        f"forecast: {here:.0f} s of the driver and of units done in turn, {shared:.0f} s of tasks:"
        f" {(here + shared / workers) / 60:.1f} min on {workers} workers of cores like this one"
    )
    return rows


def adopted(run: Run) -> Run:
    """The run, with its directory made."""
    assert isinstance(run.directory, Path)
    run.directory.mkdir(parents=True)
    run = adopt_run(run.directory, run.config, run)
    stamp_groups(run.directory, run.shape)
    return run


def _driver_row(stage: str, seconds: float) -> Row:
    return Row(stage, "driver", 1, 1, seconds, seconds, _peak_mb(), 0.0)


def _stage_rows(run: Run, data: OpenFeatures) -> Iterator[Row]:
    bounds = task_bytes(run)
    for stage in run.stages:
        units = run.units(stage.name)
        if not units:
            continue
        where = stage.runs_in(run)
        # All rows are stored: tiles of pairs of equal rows would take another time.
        tried = 1 if where == "cluster" and not stage.needs_data else units
        seconds = [_seconds(run, stage, unit, data) for unit in range(tried)]
        if tried < units:
            _link_others(run, stage)
        yield Row(
            stage.name,
            where,
            units,
            tried,
            sum(seconds) / tried,
            units * sum(seconds) / tried,
            _peak_mb(),
            bounds.get(stage.name, 0) / 2**20,
        )


def _seconds(run: Run, stage: Stage, unit: int, data: OpenFeatures) -> float:
    """CPU seconds of a unit, without the compilation of kernels."""
    compiled: list[Compilation] = []
    given = data if stage.needs_data and stage.runs_in(run) == "driver" else None

    def do() -> float:
        began = time.process_time()
        run_unit(run, stage, unit, given)
        return time.process_time() - began

    with compilations_reported(compiled.append):
        seconds = do()
    if not compiled:
        return seconds
    Ledger(run.directory).forget(stage.name, unit)
    return do()


def _link_others(run: Run, stage: Stage) -> None:
    """Link the files of the other units to those of the first unit, array by array, and record these units as done."""
    ledger, root = Ledger(run.directory), Path(str(run.directory))
    entry = ledger.read(stage.name, 0)
    assert entry is not None
    linked: dict[str, str] = {}
    for array in dict.fromkeys(path.partition("/c/")[0] for path in entry.files if "/c/" in path):
        first = next(path for path in entry.files if path.startswith(f"{array}/c/"))
        for file in stored_array(root / array, OURS).files():
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                os.link(root / first, file)
                linked[file.relative_to(root).as_posix()] = entry.files[first]
    for unit, key in enumerate(run.keys[stage.name][1:], start=1):
        files = linked if unit == 1 else {}
        ledger.record(replace(entry, unit=unit, key=key, files=files))


def _peak_mb() -> float:
    """The largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
