"""A whole run on a simulated cluster."""

from __future__ import annotations

import functools
from dataclasses import replace

import numba
import numpy as np
import pytest
from small_runs import run_here

from pairloom.cluster.config.config_file import load_config, with_overrides
from pairloom.cluster.drive.driver import load_data
from pairloom.cluster.simulator import (
    SimulatedCluster,
    UnitCosts,
    costs_of_run,
    imagined_workload,
    measure_costs,
    planned_workload,
    simulate,
    stage_seconds,
)
from pairloom.cluster.simulator.forecast import forecast_overhead, validate
from pairloom.cluster.simulator.unit_costs import StageTimes, unit_seconds
from pairloom.cluster.simulator.workload import _touched_by, _touched_by_all_pairs, planned_sizes
from pairloom.pipeline.run.ledger import Ledger
from pairloom.pipeline.run.run import Run, Stage
from pairloom.pipeline.run.tiles import order_by_blocks
from pairloom.pipeline.stages import STAGES  # STAGES, Stage
from pairloom.pipeline.stages.planning import plan_run
from pairloom.pipeline.stages.run_file import read_run, write_run


@pytest.fixture(scope="module")
def plan(small_run) -> Run:
    return read_run(small_run)


@pytest.fixture(scope="module")
def costs(plan) -> UnitCosts:
    """A millisecond per unit of the small run, more or less."""
    random = np.random.default_rng(0)
    return UnitCosts(
        planned_sizes(plan),
        {
            stage.name: StageTimes(0.001 * random.lognormal(0, 0.3, plan.units(stage.name)), 0.05)
            for stage in STAGES
            if plan.units(stage.name)
        },
    )


@pytest.fixture(scope="module")
def forecast(plan, costs):
    """Simulate a larger run like the small one, on a cluster with these keys."""
    work = imagined_workload(plan, classes=400, rows=100, features=64, samples=2000)
    return functools.cache(lambda **keys: simulate(work, costs, SimulatedCluster(**keys), seed=1))


def test_the_stages_of_a_forecast_are_those_of_the_plan(plan, costs):
    found = simulate(planned_workload(plan), costs, SimulatedCluster.this_computer(2))
    assert [stage.stage for stage in found.stages] == [
        stage.name for stage in STAGES if plan.units(stage.name)
    ]
    assert [stage.units for stage in found.stages] == [plan.units(stage.stage) for stage in found.stages]


def test_rows_are_stored_where_the_run_stores_them(costs):
    """By tasks if these generate or read the rows, and then faster on more workers; otherwise by the driver."""
    config = with_overrides(load_config("imagenet50-synthetic"), ("model.C=1", "model.kernel=linear"))
    by_tasks = plan_run(config, load_data(config))
    shape = by_tasks.shape._replace(train_source=None, test_source=None)
    by_driver = replace(by_tasks, shape=shape)

    def played(plan, workers):
        work = imagined_workload(plan, classes=2000, rows=1000)
        stages = simulate(work, costs, SimulatedCluster(workers=workers)).stages
        return {stage.stage: stage for stage in stages if stage.stage in ("order", "features", "samples")}

    few, many, alone = played(by_tasks, 4), played(by_tasks, 64), played(by_driver, 64)
    assert [stage.where for stage in many.values()] == ["driver", "cluster", "cluster"]
    assert [(name, stage.where) for name, stage in alone.items()] == [
        ("features", "driver"), ("samples", "driver"),
    ]  # fmt: skip
    assert many["features"].units == alone["features"].units
    assert 4 * many["features"].seconds < alone["features"].seconds
    assert 4 * many["features"].seconds < few["features"].seconds
    assert alone["features"].limited_by == "driver" != many["features"].limited_by


def test_every_stage_has_a_cost_of_its_own():
    assert all(type(stage).cost is not Stage.cost for stage in STAGES)


def test_the_units_of_an_imagined_run_are_counted_as_those_of_a_plan(plan):
    sizes = planned_sizes(plan)
    assert {stage.name: stage.cost.units(sizes) for stage in STAGES} == {
        stage.name: plan.units(stage.name) for stage in STAGES
    }


def test_the_blocks_of_all_pairs_are_those_of_the_tiles(plan):
    n, tile, b = 61, 16, 4
    edges = order_by_blocks(np.stack(np.triu_indices(n, 1), axis=1), tile)
    by_class = _touched_by(edges, tile)
    by_block = _touched_by_all_pairs(
        planned_sizes(plan)._replace(classes=n, edges=len(edges), edges_per_tile=tile)
    )
    assert by_block.classes_per_piece == b
    assert len(by_block.first) == len(by_class.first)
    missed = 0
    for t in range(len(by_class.first) - 1):
        exact = set(by_class.pieces[by_class.first[t] : by_class.first[t + 1]] // b)
        found = set(by_block.pieces[by_block.first[t] : by_block.first[t + 1]])
        assert found <= exact
        missed += len(exact - found)
    # A tile over three pairs of blocks, on the diagonal, may touch one more.
    assert missed <= n // b


def test_equal_seeds_give_equal_forecasts_and_others_do_not(plan, costs):
    work = imagined_workload(plan, classes=300, rows=50)
    cluster = SimulatedCluster(workers=16, failures_per_hour=500)
    once, twice, other = (simulate(work, costs, cluster, seed=seed) for seed in (3, 3, 4))
    assert once.stages == twice.stages
    assert once.seconds == twice.seconds
    assert once.seconds != other.seconds


def test_more_workers_take_less_time_until_something_else_limits(forecast):
    seconds = [forecast(workers=workers, startup=0).seconds for workers in (1, 2, 4, 8, 16)]
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[0] > 4 * seconds[-1]


def test_a_slow_store_a_slow_link_and_a_slow_driver_are_named_as_what_limits(forecast):
    def limit(**keys):
        found = forecast(workers=64, startup=0, latency=0, **keys)
        return next(stage.limited_by for stage in found.stages if stage.stage == "machines")

    quick = {"submit_seconds": 0, "handle_seconds": 0}
    assert limit(store=1e6, link=1e6, **quick) == "cores"
    assert limit(store=0.001, link=1e6, **quick) == "store"
    assert limit(store=1e6, link=0.00005, **quick) == "network"
    assert limit(store=1e6, link=1e6, submit_seconds=0.1, handle_seconds=0.5) == "scheduler"


def test_workers_are_paid_from_their_start_to_the_end_of_the_run(forecast):
    found = forecast(workers=10, startup=100, price=2.0)
    assert 100 < found.paid_seconds < found.seconds
    assert found.price == pytest.approx(2.0 * 10 * found.paid_seconds / 3600)


def test_a_task_that_needs_more_memory_than_a_worker_has_is_reported(forecast):
    assert forecast(workers=2).too_large == ()
    assert "calibration" in [stage.stage for stage in forecast(workers=2, memory="1MB").too_large]


def test_measured_times_keep_their_distribution_and_their_sum(plan):
    measured = np.array([1.0, 2.0, 7.0])
    sizes = planned_sizes(plan)
    costs = UnitCosts(sizes, {"machines": StageTimes(measured, 0.0)})
    drawn = costs.drawn("machines", 6, 3, sizes, np.random.default_rng(0))
    assert sorted(drawn) == [1.0, 1.0, 2.0, 2.0, 7.0, 7.0]
    halves = costs.drawn("machines", 6, 6, sizes, np.random.default_rng(0))
    assert halves.sum() == pytest.approx(measured.sum())


def test_a_growing_run_repeats_its_stages_wave_by_wave(client, tmp_path, small_config):
    plan = run_here(
        small_config, tmp_path / "run", client, "graph.family=star", "graph.centre=0", "growth.pairs=10",
        "growth.wave=3", "growth.plateau=never", until="report",
    )  # fmt: skip
    plan = read_run(tmp_path / "run")
    work = planned_workload(plan)
    assert len(plan.waves) > 1
    assert [phase.stage for phase in work.phases].count("growth") == len(plan.waves)
    assert sum(phase.units for phase in work.phases if phase.stage == "machines") >= plan.units("machines")
    found = simulate(work, costs_of_run(tmp_path / "run"), SimulatedCluster.this_computer(2))
    assert found.seconds > 0


def test_the_planner_gets_an_interval_per_stage_that_narrows_with_workers(plan, costs):
    one, two = (stage_seconds(plan, costs, workers) for workers in (1, 2))
    assert list(one) == [stage.name for stage in STAGES if plan.units(stage.name)]
    assert all(0 <= low < high for low, high in one.values())
    assert two["machines"][0] < one["machines"][0]


def test_a_short_run_measures_every_stage(small_config):
    config = load_config(small_config)
    data = load_data(config)
    found = measure_costs(plan_run(config, data), data)
    assert set(found.stages) == {stage.name for stage in STAGES if plan_run(config, data).units(stage.name)}
    assert all((times.seconds > 0).all() for times in found.stages.values())


def test_a_report_may_have_no_errors_to_explain_or_as_many_as_it_explains(plan, costs):
    most = planned_sizes(plan)
    assert most.explained == min(plan.shape.samples, 200)
    report = {n: costs._replace(sizes=most._replace(explained=n)) for n in (1, most.explained)}
    few, many = (stage_seconds(plan, found, 1)["report"] for found in report.values())
    assert few[1] > many[1], "what took as long for a single error takes longer for many"
    assert few[0] == pytest.approx(many[0] * few[1] / many[1])
    unlabelled = replace(plan, shape=plan.shape._replace(labelled=False))
    assert planned_sizes(unlabelled).explained == 0


def test_the_short_run_counts_the_errors_that_its_report_explains(small_config):
    config = load_config(small_config)
    data = load_data(config)
    plan = plan_run(config, data)
    right = measure_costs(plan, data).sizes
    wrong = measure_costs(plan, replace(data, y_test=(data.y_test + 1) % len(data.classes))).sizes
    assert right.explained < wrong.explained <= wrong.samples


def test_compiling_a_kernel_is_no_work_of_a_unit(plan, tmp_path):
    class Compiling(Stage):
        name = "features"

        def work(self, run, unit, data):
            assert numba.njit(lambda x: x + 1)(1.0) == 2.0
            return []

    run = replace(plan, directory=tmp_path)
    write_run(run)  # nothing is written into a directory without a plan
    seconds = unit_seconds(run, Compiling(), 0, None)
    assert 0 < seconds < Ledger(tmp_path).read("features", 0).seconds / 2


def test_an_unfinished_run_has_no_times(client, tmp_path, small_config):
    run_here(small_config, tmp_path / "run", client, until="machines")
    with pytest.raises(ValueError, match=r"must come from a finished run, but held_out has 0 of 1 units"):
        costs_of_run(tmp_path / "run")


@pytest.mark.faults  # which run alone: other work lengthens the pauses more than the units
def test_a_real_run_took_as_long_as_its_forecast(client, tmp_path, small_config):
    # Two threads in this process. On a busy machine the pauses between units are long beside units of milliseconds:
    # they may double the time. A forecast that forgot half of the units, or the second thread, would still fail.
    from small_runs import write_config, write_features

    features = write_features(tmp_path / "set.npz", classes=12, rows=150, features=64, samples=200)
    config = write_config(tmp_path / "set.toml", features, edges_per_tile=3)
    run_here(config, tmp_path / "run", client, "cluster.workers=2", until="report")
    found = validate(tmp_path / "run")
    assert set(found.forecast) == set(found.actual)
    for stages in (["machines"], list(found.actual)):
        ratio = sum(found.forecast[stage] for stage in stages) / sum(found.actual[stage] for stage in stages)
        assert 0.5 < ratio < 1.3


@pytest.mark.parametrize(("cluster", "workers"), [("processes", (0.75, 1.5)), ("threads", (0.0, 0.0))])
def test_beside_its_stages_a_command_starts_and_ends_itself_and_its_workers(plan, cluster, workers):
    planned = replace(
        plan, config=with_overrides(plan.config, [f"cluster.kind={cluster}", "cluster.workers=1"])
    )
    low, high = forecast_overhead(planned, 2.0, 0.5)
    assert (low, high) == pytest.approx((2.8 + 2 * workers[0], 3.5 + 2 * workers[1]))
