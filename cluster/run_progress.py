"""The progress of a run as numbers: what is done of every stage, how fast, and how long the rest should take.

The driver of a run counts here, and so does whoever follows it from its directory; `progress_view` turns it into text.

The time that is left starts from a forecast of the stages, in seconds, and is corrected by what was seen: the stages
that lie ahead by how much the stages before took longer than forecast, and the stage that is running by its own pace.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["RunFacts", "RunProgress", "StageProgress"]

# The weight of the forecast beside what was seen, as a share of the work: a tenth of a run, or of a stage, that took as
# long as forecast.
_BELIEF = 0.1
# A unit that takes longer than expected is expected to take this share of its time longer.
_OVERDUE = 0.1
_GROWING = ("machines", "held_out", "growth")


@dataclass(frozen=True)
class RunFacts:
    """What is known of a run before its first unit.

    Attributes
    ----------
    name, classes
        Its name and its number of classes.
    pairs_per_unit
        The pairs (or columns of a code) of every tile.
    seconds
        Expected seconds of every stage, all of its units together. Only their ratios matter once some work was seen.
    most_pairs
        The maximum number of pairs of a run that grows; None for one that does not.
    machines_on
        "pairs", or "columns" of a code.
    """

    name: str
    classes: int
    pairs_per_unit: Sequence[int] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    most_pairs: int | None = None
    machines_on: str = "pairs"

    @property
    def pairs(self) -> int:
        """Pairs that are planned so far."""
        return sum(self.pairs_per_unit)


@dataclass
class StageProgress:
    """One stage: its units, and what was seen of it.

    ``seen`` units were finished while somebody watched, the last of them after ``seconds_to_last``; ``seconds`` is the
    time that the stage has been running for. A stage that runs in every wave of a growing run adds them up. It is
    ``disturbed`` if workers were started meanwhile, which also import what they need: its pace says nothing.
    """

    name: str
    done: int = 0
    total: int = 0
    seen: int = 0
    seconds: float = 0.0
    seconds_to_last: float = 0.0
    disturbed: bool = False

    @property
    def share(self) -> float:
        """The share of its units that are done."""
        return self.done / self.total if self.total else 1.0

    @property
    def is_done(self) -> bool:
        """Whether all its units are done."""
        return self.done >= self.total

    def remaining(self, forecast: float) -> float:
        """Seconds that are left, if all units were expected to take ``forecast`` seconds together."""
        if self.is_done:
            return 0.0
        seen = self.seen / self.total
        whole = (self.seconds_to_last + _BELIEF * forecast) / (seen + _BELIEF)
        waited = self.seconds - self.seconds_to_last
        return max(whole * (1 - self.share) - waited, _OVERDUE * waited)


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
        What is being done that is no stage, such as reading the data.
    stages
        The stages with units, in their order.
    running
        Name of the stage that is running, or None.
    log_loss
        The best log loss so far, of samples that the machines have not seen.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self.began_at = clock, clock()
        self._ticked_at = self.began_at
        self.facts: RunFacts | None = None
        self.doing: str | None = None
        self.stages: dict[str, StageProgress] = {}
        self.running: str | None = None
        self.log_loss: float | None = None
        self._pairs_seen, self._most_share = 0, 0.0

    def plan(self, facts: RunFacts, units: Mapping[str, int]) -> None:
        """Set what is known of the run, and the number of units of its stages, in their order."""
        self.tick()
        self.facts = facts
        self.stages = {name: self.stages.get(name) or StageProgress(name) for name in units}
        for name, total in units.items():
            self.stages[name].total = total

    def found(self, done: Mapping[str, int]) -> None:
        """Set the units that were finished by others."""
        for name, units in done.items():
            self.stages[name].done = units

    def begin(self, stage: str, done: int, total: int) -> None:
        """Start a stage; ``done`` of its ``total`` units are finished."""
        self.tick()
        found = self.stages.setdefault(stage, StageProgress(stage))
        found.done, found.total = done, total
        self.running, self.doing = stage, None

    def advance(self, unit: int) -> None:
        """Count one more finished unit of the running stage."""
        assert self.running is not None
        self.reach(self.stages[self.running].done + 1, self._pairs_of(unit))

    def reach(self, done: int, pairs: int = 0) -> None:
        """Set the finished units of the running stage. ``pairs`` were trained by those that are new."""
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
        """Set what is being done that is no stage."""
        self.tick()
        self.doing = what
        if what is not None and self.running is not None:
            self.stages[self.running].disturbed = True

    def tick(self) -> None:
        """Add the time since the last call to the stage that is running, unless something else is being done."""
        now = self._clock()
        stage = self.stages.get(self.running or "")
        if stage is not None and self.doing is None and not stage.is_done:
            stage.seconds += now - self._ticked_at
        self._ticked_at = now

    def _pairs_of(self, unit: int) -> int:
        if self.running != "machines" or self.facts is None or unit >= len(self.facts.pairs_per_unit):
            return 0
        return self.facts.pairs_per_unit[unit]

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return self._clock() - self.began_at

    @property
    def pairs_per_second(self) -> float | None:
        """Pairs trained per second of training; None before any."""
        machines = self.stages.get("machines")
        if machines is None or not self._pairs_seen or not machines.seconds_to_last:
            return None
        return self._pairs_seen / machines.seconds_to_last

    @property
    def is_growing(self) -> bool:
        """Whether further waves may be planned."""
        if self.facts is None or self.facts.most_pairs is None:
            return False
        names = list(self.stages)
        growth = names.index("growth") if "growth" in names else len(names)
        return self.running is None or names.index(self.running) <= growth

    @property
    def remaining(self) -> float | None:
        """Seconds that are left; of a run that grows, at most. None where nothing is known."""
        if self.facts is None or not any(self.facts.seconds.values()):
            return None
        slower = self._slower()
        left = sum(self._left(stage, slower) for stage in self.stages.values())
        return left + self._growth_left() if self.is_growing else left

    @property
    def share(self) -> float | None:
        """The share of the run that is done, in time, never less than before. None where nothing is known."""
        left = self.remaining
        if left is None or self.is_growing:
            return None
        slower = self._slower()
        before = sum(
            self._expected(stage) * slower * (stage.done - stage.seen) / max(stage.total, 1)
            for stage in self.stages.values()
            if stage.done > stage.seen
        )
        spent = before + sum(stage.seconds for stage in self.stages.values())
        self._most_share = max(self._most_share, spent / max(spent + left, 1e-9))
        return self._most_share

    def _expected(self, stage: StageProgress) -> float:
        return 0.0 if self.facts is None else self.facts.seconds.get(stage.name, 0.0)

    def _slower(self) -> float:
        """How much longer than forecast the units took that were seen."""
        stages = [stage for stage in self.stages.values() if stage.total]
        seen = [stage for stage in stages if not stage.disturbed]
        took = sum(stage.seconds_to_last for stage in seen)
        forecast = sum(self._expected(stage) * stage.seen / stage.total for stage in seen)
        belief = _BELIEF * sum(map(self._expected, stages))
        return (took + belief) / (forecast + belief) if forecast + belief else 1.0

    def _left(self, stage: StageProgress, slower: float) -> float:
        return stage.remaining(self._expected(stage) * slower)

    def _growth_left(self) -> float:
        """Seconds to grow to the maximum number of pairs, at the pace of the waves so far."""
        assert self.facts is not None
        assert self.facts.most_pairs is not None
        spent = sum(stage.seconds for name, stage in self.stages.items() if name in _GROWING)
        room = max(0, self.facts.most_pairs - self.facts.pairs)
        return room * spent / self._pairs_seen if self._pairs_seen else 0.0
