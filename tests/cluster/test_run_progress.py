from __future__ import annotations

import pytest

from pairloom.cluster.run_progress import RunFacts, RunProgress


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


SECONDS = {"features": 1.0, "machines": 10.0, "probabilities": 4.0}


@pytest.fixture
def clock():
    return Clock()


def planned(clock, **changes):
    run = RunProgress(clock)
    facts = {"pairs_per_unit": [5] * 9 + [3], "seconds": SECONDS} | changes
    run.plan(RunFacts("test", 10, **facts), {"features": 1, "machines": 10, "probabilities": 2})
    return run


def do(run, clock, stage, units, seconds, total=None):
    """Do some units of a stage, each of so many seconds."""
    total = total or run.stages[stage].total
    run.begin(stage, run.stages[stage].done % total, total)
    for unit in range(units):
        clock.now += seconds
        run.advance(unit)


def test_before_anything_was_seen_the_forecast_is_what_is_left(clock):
    assert planned(clock).remaining == pytest.approx(15.0)
    assert planned(clock).share == 0.0


def test_nothing_is_left_of_a_run_that_took_as_long_as_forecast(clock):
    run = planned(clock)
    for stage, units in (("features", 1), ("machines", 10), ("probabilities", 2)):
        do(run, clock, stage, units, SECONDS[stage] / units)
        run.tick()
    assert run.remaining == 0.0
    assert run.share == pytest.approx(1.0)
    assert run.elapsed == pytest.approx(15.0)


def test_a_run_that_is_twice_as_slow_is_expected_to_stay_so(clock):
    run = planned(clock)
    do(run, clock, "features", 1, 2.0)
    do(run, clock, "machines", 5, 2.0)
    assert (
        12 < run.remaining < 18
    )  # 10 s of machines and 8 s of probabilities, with a tenth of belief in the forecast
    do(run, clock, "machines", 5, 2.0)
    assert 6.5 < run.remaining < 8


def test_what_was_done_before_is_not_taken_for_speed(clock):
    run = planned(clock)
    run.found({"features": 1, "machines": 8})
    assert run.remaining == pytest.approx(6.0)
    assert run.pairs_per_second is None
    run.begin("machines", 8, 10)
    clock.now += 1.0
    run.advance(8)
    assert run.remaining == pytest.approx(5.0)


def test_the_time_left_runs_down_while_a_unit_takes_its_time(clock):
    run = planned(clock)
    do(run, clock, "features", 1, 1.0)
    do(run, clock, "machines", 10, 1.0)
    run.begin("probabilities", 0, 2)
    seen = []
    for _ in range(3):
        clock.now += 1.0
        run.tick()
        seen.append(run.remaining)
    assert seen == pytest.approx([3.0, 2.0, 1.0])


def test_a_unit_that_is_overdue_has_a_little_time_left_always(clock):
    run = planned(clock)
    run.begin("machines", 0, 10)
    clock.now += 1000.0
    run.tick()
    assert run.remaining > 100


def test_pairs_per_second_are_those_of_the_time_spent_training(clock):
    run = planned(clock)
    do(run, clock, "features", 1, 100.0)
    do(run, clock, "machines", 10, 1.0)  # the last tile is smaller
    do(run, clock, "probabilities", 1, 50.0)
    assert run.pairs_per_second == pytest.approx(4.8)


def test_the_share_that_is_done_never_falls(clock):
    run = planned(clock)
    do(run, clock, "features", 1, 1.0)
    do(run, clock, "machines", 5, 1.0)
    before = run.share
    clock.now += 500.0
    run.tick()
    assert run.share >= before


def test_a_growing_run_has_a_most_that_is_left_and_no_share(clock):
    run = RunProgress(clock)
    stages = {"machines": 2, "held_out": 1, "growth": 1, "calibration": 1}
    seconds = dict.fromkeys(stages, 1.0)
    run.plan(RunFacts("test", 10, [5, 5], seconds, most_pairs=30), stages)
    do(run, clock, "machines", 2, 0.5)
    do(run, clock, "held_out", 1, 1.0)
    do(run, clock, "growth", 1, 1.0)
    assert run.share is None
    # 20 pairs more, at 3 s for 10 pairs, and the calibration
    assert run.remaining == pytest.approx(7.0)
    run.plan(RunFacts("test", 10, [5] * 4, seconds, most_pairs=30), stages | {"machines": 4, "growth": 2})
    do(run, clock, "machines", 2, 0.5, total=4)
    run.begin("calibration", 0, 1)
    assert not run.is_growing
    assert run.share is not None


def test_without_a_plan_nothing_is_known(clock):
    run = RunProgress(clock)
    assert (run.remaining, run.share, run.pairs_per_second) == (None, None, None)


def test_the_start_of_the_workers_is_no_sign_of_a_slow_run(clock):
    run = planned(clock)
    run.begin("features", 0, 1)
    run.say("starting the workers")
    clock.now += 50.0
    run.say(None)
    clock.now += 5.0  # they import what they need
    run.advance(0)
    assert run.stages["features"].seconds == pytest.approx(5.0)
    assert run.remaining == pytest.approx(14.0)
