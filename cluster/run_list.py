"""Runs in a folder, and two or more of them side by side: state, scores, size, age, and what differs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from pairloom.cluster.config import flattened
from pairloom.cluster.growing_run import end_of_growth
from pairloom.cluster.lock import last_at_work
from pairloom.cluster.plan import DamagedPlan, Mismatch, Plan
from pairloom.cluster.status import RunStatus, outcome_text, run_status

__all__ = ["RunRow", "differing_settings", "list_runs", "read_run"]

# Outcomes of drivers that were stopped from outside. Others have failed, and would fail again.
_STOPPED = (
    "Stopped",
    "interrupted",
    "terminated",
    "SystemExit",
    "ClusterLost",
    "DiskFull",
    "Unreachable",
    "cancelled before it started",
)


class RunRow(NamedTuple):
    """What a list of runs tells of one.

    Attributes
    ----------
    directory : str
    state : "done", "running", "growing", "submitted", "stopped", "failed", or "unreadable"
    why : why it stopped, failed or cannot be read; of a run that grew, why it grew no further; else empty
    classes, pairs : int or None
        Machines are counted as pairs, on sets of classes too.
    accuracy, log_loss : float or None
        Of the coupling of the model, on the test samples.
    bytes : size of all files
    changed : when its log was last written to, in seconds since 1970
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


def list_runs(folder: Path) -> list[RunRow]:
    """The run in a folder, or the runs in the folders inside it, the newest first."""
    if _is_run(folder):
        return [read_run(folder)]
    found = [read_run(path) for path in sorted(folder.iterdir()) if _is_run(path)]
    return sorted(found, key=lambda run: -run.changed)


def _is_run(path: Path) -> bool:
    return (path / "run.json").is_file()


def read_run(directory: Path) -> RunRow:
    """The row of one run. Nothing is verified; see `pairloom status --verify`."""
    size, changed = _bytes_in(directory), _last_change(directory)
    try:
        plan, found = Plan.read(directory), run_status(directory)
    except (DamagedPlan, Mismatch, ValueError, KeyError, TypeError, OSError) as error:
        why = str(error).removeprefix(f"{directory / 'run.json'}: ")
        return RunRow(str(directory), "unreadable", why, None, None, None, None, size, changed)
    state, why = _state(directory, plan, found)
    scores = scores_of(directory) if state == "done" else {}
    own = scores.get(plan.config.couplings[0], {})
    return RunRow(
        str(directory),
        state,
        why,
        len(plan.shape.classes),
        plan.shape.n_edges,
        own.get("accuracy"),
        own.get("log_loss"),
        size,
        changed,
    )


def _state(directory: Path, plan: Plan, found: RunStatus) -> tuple[str, str]:
    """The state of a run, and why it is in it."""
    if found.state == "finished":
        return "done", end_of_growth(directory, plan) or ""
    if found.state == "running":
        growing = plan.config.growth is not None and found.stages["calibration"][0] == 0
        return ("growing" if growing else "running"), ""
    if found.state == "submitted":
        return "submitted", ""
    driver = last_at_work(directory)
    outcome = "" if driver is None or driver.outcome is None else outcome_text(driver.outcome)
    if not outcome:
        return "stopped", "its driver died"
    if outcome == "finished":
        return (
            "stopped",
            "files or units are missing" if plan.config.growth is None else "it may grow further",
        )
    kind, _, message = outcome.partition(": ")
    return ("stopped" if kind in _STOPPED else "failed"), message or outcome


def scores_of(directory: Path) -> dict[str, Any]:
    """The scores of each coupling, from the report of a run; none without labels or without a report."""
    try:
        methods = json.loads((directory / "report" / "metrics.json").read_bytes()).get("methods", {})
    except (OSError, ValueError, AttributeError):
        return {}
    return methods if isinstance(methods, dict) else {}


def _bytes_in(directory: Path) -> int:
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:  # removed since by its driver
                continue
    return total


def _last_change(directory: Path) -> float:
    for name in ("log.txt", "run.json"):
        try:
            return (directory / name).stat().st_mtime
        except OSError:
            continue
    return directory.stat().st_mtime


def differing_settings(directories: Sequence[Path]) -> dict[str, list[Any]]:
    """The keys in which the configurations of runs differ, with the value in each run."""
    tables = [dict(_settings(Plan.read(directory))) for directory in directories]
    keys = sorted({key for table in tables for key in table})
    values = {key: [table.get(key) for table in tables] for key in keys}
    return {key: found for key, found in values.items() if any(value != found[0] for value in found)}


def _settings(plan: Plan) -> Iterator[tuple[str, Any]]:
    content: Mapping[str, Any] = plan.config.model_dump(mode="json", exclude={"run": {"name"}})
    yield from flattened(content)
    for part, fingerprint in plan.fingerprints.items():
        # That of a generated set is its name, which says more than its beginning.
        yield f"fingerprint of {part} samples", fingerprint if " " in fingerprint else fingerprint[:12]
    yield "pairloom version", plan.versions["pairloom"]
