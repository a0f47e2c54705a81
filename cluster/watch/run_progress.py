"""The progress of a run as numbers: finished units per stage, pace, and the time that is left.

The driver of a run counts here, as does `pairloom attach`, which follows a run. `progress` turns the numbers into text.

The time that is left starts from a forecast of the stages, in seconds, and is corrected by measured times. The running
stage is expected to keep its pace. The stages ahead are expected to be slower than forecast by the median factor of the
work so far, so that a few stages that are slow for special reasons, such as files to open, do not affect the others.
The start of the workers and the compilation of kernels are separate steps.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pairloom.cluster.simulator.forecast import crude_seconds, start_seconds
from pairloom.pipeline.run.run import Run, Stage
from pairloom.pipeline.run.run_log import Ranges
from pairloom.pipeline.stages import STAGES

__all__ = ["RunFacts", "RunProgress", "StageProgress", "run_facts"]


# The weight of the forecast relative to measured times: as if a tenth of the run, or stage, had taken as long as
# forecast.
_BELIEF = 0.1
# Fixed costs of a stage: a smaller difference from the forecast says nothing about its pace.
_FIXED_SECONDS = 1.0
# A unit that is overdue is expected to take this share of its waiting time longer.
_OVERDUE = 0.1
# Seconds to compile the kernels of a stage that are not compiled yet.
_COMPILE_SECONDS = 10.0
_STAGES = {stage.name: stage for stage in STAGES}


@dataclass(frozen=True)
class RunFacts:
    """Facts that are known about a run before its first unit.

    Attributes
    ----------
    name, classes
        Its name and its number of classes.
    pairs_per_unit
        Number of pairs (or columns of a code) of every tile.
    seconds
        Expected seconds of every stage, all units together. Only their ratios matter once some work was measured.
    seconds_to_start
        Expected seconds until the workers have started; 0 if none are started.
    most_pairs
        The maximum number of pairs of a run that grows; None if it does not grow.
    machines_on
        "pairs", or "columns" of a code.
    """

    name: str
    classes: int
    pairs_per_unit: Sequence[int] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    seconds_to_start: float = 0.0
    most_pairs: int | None = None
    machines_on: str = "pairs"

    @property
    def pairs(self) -> int:
        """Pairs that are planned so far."""
        return sum(self.pairs_per_unit)


@dataclass
class StageProgress:
    """One stage: its units, and its measured times.

    ``seen`` units were finished while this process watched, the last of them after ``seconds_to_last``; ``seconds`` is
    the time for which the stage has been running. A stage that runs in every wave of a growing run adds these up. It is
    ``disturbed`` if workers were started meanwhile; their imports distort its pace, which is then ignored.
    """

    name: str
    done: int = 0
    total: int = 0
    seen: int = 0
    seconds: float = 0.0
    seconds_to_last: float = 0.0
    disturbed: bool = False

    @property
    def stage(self) -> Stage:
        """The definition of the stage."""
        return _STAGES[self.name]

    @property
    def share(self) -> float:
        """The share of its units that are done."""
        return self.done / self.total if self.total else 1.0

    @property
    def is_done(self) -> bool:
        """Whether all its units are done."""
        return self.done >= self.total

    def remaining(self, forecast: float) -> float:
        """Seconds that are left, given the forecast for all units together."""
        if self.is_done:
            return 0.0
        seen = self.seen / self.total
        whole = (_paced(self.seconds_to_last, seen * forecast) + _BELIEF * forecast) / (seen + _BELIEF)
        waited = self.seconds - self.seconds_to_last
        return max(whole * (1 - self.share) - waited, _OVERDUE * waited)

    def slower(self, forecast: float) -> float:
        """The ratio of the measured to the forecast time of its watched units."""
        expected = forecast * self.seen / self.total
        return _paced(self.seconds_to_last, expected) / expected


def _paced(took: float, forecast: float) -> float:
    """The time that work took, without possible fixed costs."""
    difference = took - forecast
    return forecast + math.copysign(max(0.0, abs(difference) - _FIXED_SECONDS), difference)


def _weighted_median(weights: Sequence[tuple[float, float]]) -> float:
    """The weighted median of pairs of value and weight: half of the weight is at or below it."""
    ordered = sorted(weights)
    below = itertools.accumulate(weight for _, weight in ordered)
    half = sum(weight for _, weight in ordered) / 2
    return next(value for (value, _), weight in zip(ordered, below, strict=True) if weight >= half)


class RunProgress:
    """The progress of a run.

    Parameters
    ----------
    clock
        Returns seconds, as `time.monotonic` does.

    Attributes
    ----------
    facts
        None until the run is planned.
    doing
        The present work outside of the stages, such as reading the data.
    stages
        The stages with units, in their order.
    starting, compiling
        The start of the workers and the compilation of kernels, which are not stages.
    running
        Name of the stage that is running, or None.
    log_loss
        The best held-out log loss so far.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self.began_at = clock, clock()
        self._ticked_at = self.began_at
        self.facts: RunFacts | None = None
        self.doing: str | None = None
        self.stages: dict[str, StageProgress] = {}
        self.starting = StageProgress("start", total=1)
        self.compiling = StageProgress("compile")
        self._compiled_now: set[str] = set()
        self.running: str | None = None
        self.log_loss: float | None = None
        self._pairs_seen = 0

    def plan(self, facts: RunFacts, units: Mapping[str, int]) -> None:
        """Set the facts of the run, and the number of units of its stages, in their order."""
        self.tick()
        self.facts = facts
        self.stages = {name: self.stages.get(name) or StageProgress(name) for name in units}
        for name, total in units.items():
            self.stages[name].total = total

    def set_done(self, done: Mapping[str, int]) -> None:
        """Set the units that were finished before."""
        for name, units in done.items():
            self.stages[name].done = units

    def begin(self, stage: str, done: int, total: int) -> None:
        """Start a stage; ``done`` of its ``total`` units are finished."""
        self.tick()
        begun = self.stages.setdefault(stage, StageProgress(stage))
        begun.done, begun.total = done, total
        self.running, self.doing = stage, None
        self._compile(set())  # a worker that died while compiling never reports the end

    def advance(self, unit: int) -> None:
        """Count one more finished unit of the running stage."""
        assert self.running is not None
        self.reach(self.stages[self.running].done + 1, self._pairs_of(unit))

    def reach(self, done: int, pairs: int = 0) -> None:
        """Set the finished units of the running stage. ``pairs`` were trained since the last call."""
        assert self.running is not None
        self.doing = None
        self.tick()
        stage = self.stages[self.running]
        if done <= stage.done:
            return
        stage.seen += done - stage.done
        stage.done, stage.seconds_to_last = done, stage.seconds
        self._pairs_seen += pairs

    def say(self, what: str | None) -> None:
        """Set the work outside of the stages; None when workers are ready. During a stage it is their start."""
        self.tick()
        self.doing = what
        if what is None:
            self.starting.done = 1
        elif self.running is not None:
            self.stages[self.running].disturbed = True

    def compile(self, kernel: str, *, ended: bool) -> None:
        """Note that a process has started or ended to compile a kernel, for which units of the running stage wait."""
        self.tick()
        self._compile(self._compiled_now - {kernel} if ended else self._compiled_now | {kernel})

    def _compile(self, kernels: set[str]) -> None:
        self._compiled_now = kernels
        self.compiling.total = 1 if kernels else 0

    def tick(self) -> None:
        """Add the time since the last call to the running stage, or to the step for which it waits."""
        now = self._clock()
        stage = self.stages.get(self.running or "")
        if stage is not None and not stage.is_done:
            step = (
                self.starting if self.doing is not None else self.compiling if self._compiled_now else stage
            )
            step.seconds += now - self._ticked_at
        self._ticked_at = now

    def _pairs_of(self, unit: int) -> int:
        if self.running is None or not _STAGES[self.running].trains or self.facts is None:
            return 0
        return self.facts.pairs_per_unit[unit] if unit < len(self.facts.pairs_per_unit) else 0

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return self._clock() - self.began_at

    @property
    def pairs_per_second(self) -> float | None:
        """Pairs trained per second of training; None before any."""
        seconds = sum(stage.seconds_to_last for stage in self.stages.values() if stage.stage.trains)
        return self._pairs_seen / seconds if self._pairs_seen and seconds else None

    @property
    def is_growing(self) -> bool:
        """Whether further waves may be planned."""
        if self.facts is None or self.facts.most_pairs is None:
            return False
        names = list(self.stages)
        last = max((names.index(name) for name in names if _STAGES[name].waves), default=-1)
        return self.running is None or names.index(self.running) <= last

    @property
    def remaining(self) -> float | None:
        """Seconds that are left, an upper bound if the run grows; None if nothing is known."""
        if self.facts is None or not any(self.facts.seconds.values()):
            return None
        waits = self._start_left() + self.compiling.remaining(_COMPILE_SECONDS)
        left = waits + sum(map(self._left, self.stages.values()))
        return left + self._growth_left() if self.is_growing else left

    @property
    def share(self) -> float | None:
        """The share of the forecast work that is done, by any driver; None if nothing is known."""
        whole = sum(map(self._expected, self.stages.values()))
        if not whole or self.is_growing:
            return None
        return sum(self._expected(stage) * stage.share for stage in self.stages.values()) / whole

    def _expected(self, stage: StageProgress) -> float:
        return 0.0 if self.facts is None else self.facts.seconds.get(stage.name, 0.0)

    def _slower(self) -> float:
        """The median ratio of measured to forecast time, weighted by the work of each stage."""
        stages = [stage for stage in self.stages.values() if stage.total and self._expected(stage)]
        belief = _BELIEF * sum(map(self._expected, stages))
        seen = [
            (stage.slower(self._expected(stage)), self._expected(stage) * stage.seen / stage.total)
            for stage in stages
            if stage.seen and not stage.disturbed
        ]
        return _weighted_median([(1.0, belief), *seen])

    def _start_left(self) -> float:
        """Seconds until the workers have started; 0 if they have nothing to do."""
        assert self.facts is not None
        is_over = all(stage.is_done for stage in self.stages.values())
        return 0.0 if is_over else self.starting.remaining(self.facts.seconds_to_start)

    def _left(self, stage: StageProgress) -> float:
        return stage.remaining(self._expected(stage) * self._slower())

    def _whole(self, stage: StageProgress) -> float:
        """Seconds of a stage from its first unit to its last, including units that other drivers did."""
        unseen = max(0, stage.done - stage.seen) / max(stage.total, 1)
        return stage.seconds + self._left(stage) + unseen * self._expected(stage) * self._slower()

    def _growth_left(self) -> float:
        """Seconds to grow to the maximum number of pairs, at the pace of the pairs that are planned."""
        assert self.facts is not None
        assert self.facts.most_pairs is not None
        room = max(0, self.facts.most_pairs - self.facts.pairs)
        growing = sum(self._whole(stage) for stage in self.stages.values() if stage.stage.waves)
        return room * growing / max(self.facts.pairs, 1)


def run_facts(plan: Run, forecast: Ranges | None) -> RunFacts:
    """The facts of a plan. Without a forecast, its times are guessed from its sizes."""
    seconds = crude_seconds(plan)
    if forecast is not None:
        seconds |= {stage: (low + high) / 2 for stage, (low, high) in forecast.items()}
    return RunFacts(
        name=plan.config.run.name,
        classes=len(plan.shape.classes),
        pairs_per_unit=[tile.stop - tile.start for tile in plan.tiles],
        seconds=seconds,
        seconds_to_start=start_seconds(plan),
        most_pairs=None if plan.config.growth is None else plan.most_pairs,
        machines_on=f"{plan.shape.decomposition.noun}s",
    )
