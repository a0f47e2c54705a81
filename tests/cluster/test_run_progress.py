from __future__ import annotations

import pytest

from pairloom.cluster.watch.run_progress import RunFacts, RunProgress


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
    run.set_done({"features": 1, "machines": 8})
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


def test_the_share_that_is_done_does_not_depend_on_who_did_it(clock):
    before, after = planned(clock), planned(clock)
    do(before, clock, "features", 1, 8.0)  # slower than forecast, as the first stage often is
    do(before, clock, "machines", 2, 1.0)
    after.set_done({"features": 1, "machines": 2})
    after.begin("machines", 2, 10)
    assert before.share == after.share == pytest.approx((1 + 2) / 15)
    clock.now += 500.0
    before.tick()
    assert before.share == after.share


LONG = {"features": 24.0, "statistics": 12.0, "machines": 120.0, "held_out": 20.0, "probabilities": 40.0}
UNITS = {"features": 2, "statistics": 3, "machines": 10, "held_out": 1, "probabilities": 4}


def ends(clock, slower, start=30.0):
    """The estimates of the end of a run, at every event and every second, and when it has ended."""
    run, found = RunProgress(clock), []
    run.plan(RunFacts("test", 10, seconds=LONG, seconds_to_start=start), UNITS)

    def wait(seconds):
        for _ in range(round(seconds)):
            clock.now += seconds / round(seconds)
            run.tick()
            found.append(run.elapsed + run.remaining)

    for stage, units in UNITS.items():
        run.begin(stage, 0, units)
        if stage == "statistics":
            run.say("starting the workers")
            wait(start)
            run.say(None)
        for unit in range(units):
            wait(LONG[stage] * slower[stage] / units)
            run.advance(unit)
            found.append(run.elapsed + run.remaining)
    assert run.remaining == 0.0
    return found, run.elapsed


def test_the_end_of_a_run_that_goes_as_forecast_is_known_from_the_start(clock):
    found, end = ends(clock, dict.fromkeys(LONG, 1.0))
    assert found == pytest.approx([end] * len(found), rel=0.02)


@pytest.mark.parametrize("factor", [0.5, 2.0, 5.0])
def test_the_end_of_a_run_that_is_slower_or_faster_by_one_factor_is_known_once_a_tenth_was_seen(
    clock, factor
):
    found, end = ends(clock, dict.fromkeys(LONG, factor))
    seen = round(LONG["features"] * factor) + UNITS["features"] - 1
    assert found[seen:] == pytest.approx([end] * len(found[seen:]), rel=0.15)
    assert found[-10:] == pytest.approx([end] * 10, rel=0.02)


def test_a_short_stage_that_is_slow_for_reasons_of_its_own_does_not_delay_the_others(clock):
    found, end = ends(clock, dict.fromkeys(LONG, 1.0) | {"statistics": 6.0})
    after = [one for one in found if one > end * 1.1]
    assert len(after) < 60  # while it runs, at its own pace
    assert found[-1] == pytest.approx(end, rel=0.01)


def test_fixed_costs_of_a_second_do_not_make_a_short_run_slow(clock):
    run = RunProgress(clock)
    seconds = {"features": 0.01, "samples": 0.01, "statistics": 0.3, "machines": 2.0}
    run.plan(RunFacts("test", 10, seconds=seconds), dict.fromkeys(seconds, 1))
    for stage in ("features", "samples", "statistics"):
        do(run, clock, stage, 1, 0.9)
        assert run.remaining <= 2.31
    assert run.remaining == pytest.approx(2.0)


def test_the_time_left_counts_the_start_of_the_workers_down(clock):
    run = planned(clock, seconds_to_start=6.0)
    assert run.remaining == pytest.approx(21.0)
    run.begin("features", 0, 1)
    run.say("starting the workers")
    seen = []
    for _ in range(5):
        clock.now += 1.0
        run.tick()
        seen.append(run.remaining)
    assert seen == pytest.approx([20.0, 19.0, 18.0, 17.0, 16.0])
    run.say(None)
    assert run.remaining == pytest.approx(15.0)


def test_the_time_to_grow_is_counted_before_the_first_pair(clock):
    run = RunProgress(clock)
    stages = {"machines": 2, "held_out": 1, "growth": 1, "calibration": 1}
    run.plan(RunFacts("test", 10, [5, 5], dict.fromkeys(stages, 1.0), most_pairs=30), stages)
    assert run.remaining == pytest.approx(4.0 + 2 * 3.0)
    do(run, clock, "machines", 2, 0.5)
    assert run.remaining == pytest.approx(3.0 + 2 * 3.0)


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


def test_compiling_kernels_is_counted_down_and_is_no_sign_of_a_slow_stage(clock):
    run = planned(clock)
    run.begin("features", 0, 1)
    run.compile("solve", ended=False)
    assert run.remaining == pytest.approx(15.0 + 10.0)
    clock.now += 4.0
    run.tick()
    assert run.remaining == pytest.approx(15.0 + 6.0)
    run.compile("solve", ended=True)
    clock.now += 1.0
    run.advance(0)
    assert run.stages["features"].seconds == pytest.approx(1.0)
    assert run.remaining == pytest.approx(14.0)
