"""The status of a run, the list of the runs in a folder, and their differing settings, all read from directories."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from pairloom.pipeline.config.cluster_config import shown_setting
from pairloom.pipeline.config.config import flattened
from pairloom.pipeline.report.report import judgement
from pairloom.pipeline.run.growing_run import end_of_growth, judged_waves
from pairloom.pipeline.run.ledger import Ledger
from pairloom.pipeline.run.lock import SUBMITTED, Driver, last_at_work, newest_driver
from pairloom.pipeline.run.results import held_out_loss
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import run_groups
from pairloom.pipeline.stages.run_file import DamagedPlan, Mismatch, read_run
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.location import Location
from pairloom.pipeline.storage.zarr_layout import differing_files

__all__ = [
    "RunRow",
    "RunStatus",
    "best_log_loss",
    "differing_settings",
    "finished_units",
    "list_runs",
    "outcome_text",
    "run_row",
    "run_status",
    "scores_of",
]


# Texts for the outcomes of drivers that a signal ended.
_SIGNALLED = {"KeyboardInterrupt": "interrupted", "Terminated": "terminated"}


class RunStatus(NamedTuple):
    """Status of a run: ``submitted``, ``running``, ``finished`` or ``unfinished``, which can be resumed.

    ``stages`` has the finished units and all units per stage, ``waves`` the score after each wave of a growing run.
    ``damaged`` is empty unless the files were verified. ``pairs`` is the number of trained pairs (or columns of a
    code), and ``log_loss`` is the best so far: see `best_log_loss`.
    """

    directory: str
    state: str
    stages: dict[str, tuple[int, int]]
    waves: list[dict[str, float]]
    driver: str | None
    damaged: list[str]
    pairs: int = 0
    log_loss: float | None = None


def run_status(directory: Location, *, verify: bool = False) -> RunStatus:
    """Read the ledger; with ``verify``, also compare every file of the run with its checksum."""
    run, ledger = read_run(directory), Ledger(directory)
    stages: dict[str, tuple[int, int]] = {}
    damaged: list[str] = []
    for stage in run.keys:
        if verify:
            sound, damage = ledger.verified(stage, run.keys[stage])
            done = len(sound)
            damaged += damage
        else:
            done = sum(1 for _ in ledger.claimed(stage, run.keys[stage]))
        stages[stage] = (done, run.units(stage))
    if verify:
        damaged += _damaged_metadata(run)
    driver, alive = newest_driver(directory)
    finished = not damaged and all(done == total for done, total in stages.values())
    if run.config.growth is not None and driver is not None:
        # If all planned units are finished, the driver may still have to plan the next wave.
        worked = last_at_work(directory)
        finished = finished and worked is not None and worked.outcome == "finished"
    return RunStatus(
        directory=str(directory),
        state=_state(driver, alive, finished),
        stages=stages,
        waves=[judgement(wave) for wave in judged_waves(run)],
        driver=_driver_text(driver, alive),
        damaged=damaged,
        pairs=_trained_pairs(ledger, run),
        log_loss=best_log_loss(run),
    )


def finished_units(run: Run) -> dict[str, int]:
    """Number of units of each stage with a ledger entry. Files are not checked."""
    ledger = Ledger(run.directory)
    return {stage: sum(1 for _ in ledger.claimed(stage, run.keys[stage])) for stage in run.keys}


def best_log_loss(run: Run) -> float | None:
    """The best held-out log loss so far of coupled models.

    It includes the waves of a run that grows, and the couplings once they are calibrated, but not the losses of
    candidates, which are trained on a part of the classes. It is None if there is none yet, or if a file is damaged.
    """
    try:
        return min(_log_losses(run), default=None)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _log_losses(run: Run) -> list[float]:
    done = Ledger(run.directory).claimed("calibration", run.keys["calibration"])
    calibrated = [held_out_loss(run.directory, entry.unit) for entry in done]
    waves = [wave.log_loss for wave in judged_waves(run)]
    return waves + [loss for loss in calibrated if loss is not None]


def _trained_pairs(ledger: Ledger, run: Run) -> int:
    tiles = run.tiles
    done = (tiles[entry.unit] for entry in ledger.claimed("machines", run.keys["machines"]))
    return sum(tile.stop - tile.start for tile in done)


def _state(driver: Driver | None, alive: bool, finished: bool) -> str:
    if alive:
        return "running"
    if finished:
        return "finished"
    return "submitted" if driver is not None and driver.outcome == SUBMITTED else "unfinished"


def _driver_text(driver: Driver | None, alive: bool) -> str | None:
    if driver is None:
        return None
    outcome = driver.outcome or ("at work" if alive else "died")
    return f"{driver}: {outcome_text(outcome)}"


def outcome_text(outcome: str) -> str:
    """How a driver ended, on one line.

    Examples
    --------
    >>> outcome_text("KeyboardInterrupt: "), outcome_text("DiskFull: no space left")
    ('interrupted', 'DiskFull: no space left')
    """
    line = outcome.splitlines()[0].rstrip(": ")
    return _SIGNALLED.get(line, line)


def _damaged_metadata(run: Run) -> list[str]:
    return [
        path
        for group, files in run_groups(run.shape).items()
        for path in differing_files(
            Folder(run.directory), {f"{group}/{name}": data for name, data in files.items()}
        )
    ]


# Outcomes of drivers that were stopped from outside. All others are failures, which a resumed run would repeat.
_STOPPED = (
    "Stopped",
    "interrupted",
    "terminated",
    "SystemExit",
    "ClusterLost",
    "DiskFull",
    "StoreAway",
    "StoreDenied",
    "Unreachable",
    "cancelled before it started",
)


class RunRow(NamedTuple):
    """One run in a list of runs.

    Attributes
    ----------
    directory : str
    state : "done", "running", "growing", "submitted", "stopped", "failed", or "unreadable"
    why : the reason why it stopped, failed or cannot be read, or why a run that grew stopped growing; else empty
    classes, pairs : int or None
        ``pairs`` is the number of machines, also on sets of classes.
    accuracy, log_loss : float or None
        Scores of the coupling of the model on the test samples.
    bytes : size of all files
    changed : time of the last change of its log, in seconds since 1970
    """

    directory: str
    state: str
    why: str
    classes: int | None
    pairs: int | None
    accuracy: float | None
    log_loss: float | None
    bytes: int
    changed: float

    @property
    def age(self) -> float:
        """Seconds since it last changed."""
        return max(0.0, datetime.now(UTC).timestamp() - self.changed)

    def as_json(self) -> dict[str, Any]:
        """The row with its time as text."""
        changed = datetime.fromtimestamp(self.changed, UTC).isoformat(timespec="seconds")
        return {**self._asdict(), "changed": changed}


def list_runs(folder: Location) -> list[RunRow]:
    """The run in a folder, or the runs in the folders inside it, the newest first."""
    if _is_run(folder):
        return [run_row(folder)]
    inside = (folder / name for name in Folder(folder).folders())
    rows = [run_row(path) for path in inside if _is_run(path)]
    return sorted(rows, key=lambda row: -row.changed)


def _is_run(path: Location) -> bool:
    return Folder(path).exists("run.json")


def run_row(directory: Location) -> RunRow:
    """The row of one run. Nothing is verified; see `pairloom status --verify`."""
    size, changed = Folder(directory).size(), _last_change(directory)
    try:
        run, status = read_run(directory), run_status(directory)
    except (DamagedPlan, Mismatch, ValueError, KeyError, TypeError, OSError) as error:
        why = str(error).removeprefix(f"{directory / 'run.json'}: ")
        return RunRow(str(directory), "unreadable", why, None, None, None, None, size, changed)
    state, why = _row_state(run, status)
    scores = scores_of(directory) if state == "done" else {}
    of_model = scores.get(run.config.couplings[0], {})
    return RunRow(
        str(directory),
        state,
        why,
        len(run.shape.classes),
        run.shape.n_edges,
        of_model.get("accuracy"),
        of_model.get("log_loss"),
        size,
        changed,
    )


def _row_state(run: Run, status: RunStatus) -> tuple[str, str]:
    """The state of a run, and the reason for it."""
    if status.state == "finished":
        return "done", end_of_growth(run) or ""
    if status.state == "running":
        growing = run.config.growth is not None and status.stages["calibration"][0] == 0
        return ("growing" if growing else "running"), ""
    if status.state == "submitted":
        return "submitted", ""
    driver = last_at_work(run.directory)
    outcome = "" if driver is None or driver.outcome is None else outcome_text(driver.outcome)
    if not outcome:
        return "stopped", "its driver died"
    if outcome == "finished":
        return (
            "stopped",
            "files or units are missing" if run.config.growth is None else "it may grow further",
        )
    kind, _, message = outcome.partition(": ")
    return ("stopped" if kind in _STOPPED else "failed"), message or outcome


def scores_of(directory: Location) -> dict[str, Any]:
    """The scores of each coupling, from the report of a run; none without labels or without a report."""
    try:
        methods = json.loads(Folder(directory).read("report/metrics.json")).get("methods", {})
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}
    return methods if isinstance(methods, dict) else {}


def _last_change(directory: Location) -> float:
    for name in ("log.txt", "run.json"):
        try:
            return Folder(directory).written_at(name)
        except OSError:
            continue
    return directory.stat().st_mtime if isinstance(directory, Path) else 0.0


def differing_settings(directories: Sequence[Location]) -> dict[str, list[Any]]:
    """The keys in which the configurations of runs differ, with the value in each run."""
    tables = [dict(_settings(read_run(directory))) for directory in directories]
    keys = sorted({key for table in tables for key in table})
    values = {key: [table.get(key) for table in tables] for key in keys}
    return {
        key: [shown_setting(key, value) for value in of_runs]
        for key, of_runs in values.items()
        if any(value != of_runs[0] for value in of_runs)
    }


def _settings(run: Run) -> Iterator[tuple[str, Any]]:
    content: Mapping[str, Any] = run.config.model_dump(mode="json", exclude={"run": {"name"}})
    yield from flattened(content)
    for part, fingerprint in run.fingerprints.items():
        # The fingerprint of a generated set is its name; others are digests, of which the beginning is shown.
        yield f"fingerprint of {part} samples", fingerprint if " " in fingerprint else fingerprint[:12]
    yield "pairloom version", run.versions["pairloom"]
