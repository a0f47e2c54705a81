"""The progress of a run that another process drives, from the status that is read of its directory again and again."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path

from pairloom.cluster.forecast_file import read_forecast
from pairloom.cluster.lock import newest_driver
from pairloom.cluster.plan import Plan
from pairloom.cluster.progress import Lines, View
from pairloom.cluster.status import RunStatus

__all__ = ["FollowedRun"]


class FollowedRun:
    """Shows the statuses of a run as its driver shows its progress.

    Parameters
    ----------
    directory
        The run directory.
    progress
        Where to show it.
    """

    def __init__(self, directory: Path, progress: View | Lines) -> None:
        self._directory, self._progress = directory, progress
        self._totals: dict[str, int] = {}
        self._pairs = 0
        progress.say(f"reading {directory}")

    def show(self, found: RunStatus) -> None:
        """Show a status that has just been read."""
        done = {stage: units for stage, (units, _) in found.stages.items()}
        if not self._totals:
            self._begin(found, done)
        self._expect({stage: units for stage, (_, units) in found.stages.items()})
        self._progress.score(found.log_loss)
        if found.state == "submitted":
            self._progress.say("waiting for its driver to start")
        else:
            self._advance(done, found.pairs)

    def _begin(self, found: RunStatus, done: dict[str, int]) -> None:
        """Set what was done before anybody looked, and count the time from the start of the driver."""
        self._expect({stage: units for stage, (_, units) in found.stages.items()})
        self._progress.found(done)
        self._progress.say(None)  # its workers are not started here
        self._pairs = found.pairs
        if (ranges := read_forecast(self._directory)) is not None:
            self._progress.forecast(ranges)
        driver, _ = newest_driver(self._directory)
        if driver is not None:
            ago = time.time() - datetime.fromisoformat(driver.since).timestamp()
            self._progress.run.began_at -= max(0.0, ago)

    def _expect(self, totals: dict[str, int]) -> None:
        """Take the plan, and the longer plan of a run that has grown since."""
        if totals != self._totals:
            self._totals = totals
            self._progress.expect(Plan.read(self._directory))

    def _advance(self, done: dict[str, int], pairs: int) -> None:
        run, trained = self._progress.run, pairs - self._pairs
        self._pairs = pairs
        stage = next((stage for stage in done if done[stage] < self._totals[stage]), "report")
        if run.running is not None:
            self._progress.reach(done[run.running], trained if run.running == "machines" else 0)
        if stage != run.running:
            # How long the units took that are done already, nobody saw. A wave begins its stages anew.
            begun = done[stage] < self._totals[stage]
            self._progress.begin(stage, done[stage] if begun else 0, self._totals[stage])
            self._progress.reach(done[stage], trained if stage == "machines" else 0)
        self._progress.found(done)
