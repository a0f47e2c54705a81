"""What a plan says that a run needs, against what real processes take."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from distributed import Client, LocalCluster
from small_runs import run_here, write_config, write_features

from pairloom.benchmarks.memory import peak_bytes
from pairloom.cluster.commands.cli import main
from pairloom.cluster.config.config_file import load_config, with_cluster
from pairloom.cluster.drive.driver import load_data, prepare_run
from pairloom.cluster.simulator.forecast import forecast_seconds
from pairloom.graphs import CODE_FAMILIES, FAMILIES
from pairloom.pipeline.run.needs import worker_bytes
from pairloom.pipeline.run.run_log import begin_times, read_forecast, write_forecast
from pairloom.pipeline.stages.planning import plan_run

RUNS = {
    "shortlists": (
        {"classes": 300, "rows": 40, "features": 256, "samples": 3000},
        ("graph.family=hub_neighbours", "run.tensor=virtual", "run.also_couple=[]"),
    ),
    "a stored tensor": (
        {"classes": 90, "rows": 30, "features": 64, "samples": 1500},
        ("graph.family=complete", "run.tensor=stored", "model.shortlist=none", "run.samples_per_slab=1024"),
    ),
    "weights learned through the coupling": (
        {"classes": 60, "rows": 100, "features": 300, "samples": 500},
        ("graph.family=complete", "run.also_couple=[]", "model.learn=coupled", "run.tensor=virtual"),
    ),
    "large classes": (
        {"classes": 8, "rows": 9000, "features": 300, "samples": 500},
        ("graph.family=complete", "run.also_couple=[]"),
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", RUNS)
def test_a_worker_stays_below_the_memory_of_its_plan(name, tmp_path):
    sizes, settings = RUNS[name]
    config = write_config(tmp_path / "run.toml", write_features(tmp_path / "data.npz", **sizes))
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        plan = run_here(config, tmp_path / "run", client, *settings, until="report")
        (peak,) = client.run(peak_bytes).values()
    assert peak < worker_bytes(plan) < 3 * peak


def test_the_stage_that_needs_most_is_named(tmp_path):
    features = write_features(tmp_path / "data.npz", classes=12, rows=9, features=5, samples=20)
    config = load_config(write_config(tmp_path / "run.toml", features), ["run.memory_limit=1MB"])
    with pytest.raises(ValueError, match=r"at least .* MiB, the memory of one task of report, got 1MB"):
        prepare_run(config, tmp_path / "run")


@pytest.mark.long
def test_a_forecast_stands_beside_the_times_in_the_report(small_config, tmp_path, monkeypatch):
    monkeypatch.setattr("pairloom.cluster.simulator.forecast._LONG_SECONDS", 0.0)  # every run is worth one
    done = CliRunner().invoke(
        main,
        ["run", str(small_config), "--directory", str(tmp_path / "run"), "--set", "cluster.kind=threads"],
    )
    assert done.exit_code == 0, done.output
    metrics = json.loads((tmp_path / "run" / "report" / "metrics.json").read_text())
    planned, took = metrics["planned_seconds"], metrics["elapsed_seconds"]
    assert all(low < high for low, high in planned.values())
    assert took.keys() == {stage for stage, work in metrics["seconds_of_work"].items() if work}
    assert took.keys() <= planned.keys()
    low, high = planned["machines"]
    page = (tmp_path / "run" / "report" / "index.html").read_text()
    assert (
        f'<td>machines</td><td class="number">{low:.1f} to {high:.1f} s</td>'
        f'<td class="number">{took["machines"]:.1f} s</td>'
    ) in page
    assert "planned: " in done.stdout


def test_a_short_run_is_not_measured_first(small_run):
    assert not (small_run / "forecast.json").exists()
    metrics = json.loads((small_run / "report" / "metrics.json").read_text())
    assert "planned_seconds" not in metrics
    assert metrics["elapsed_seconds"]["machines"] > 0


def test_a_forecast_that_cannot_be_read_is_none(tmp_path):
    assert read_forecast(tmp_path) is None
    for text in ("", "[1, 2]", '{"machines": 3}', '{"machines": ["a", "b"]}'):
        (tmp_path / "forecast.json").write_text(text)
        assert read_forecast(tmp_path) is None
    write_forecast(tmp_path, {"machines": (1.0, 2.0)})
    assert read_forecast(tmp_path) == {"machines": (1.0, 2.0)}


GRAPHS = {
    "star": ["graph.centre=2"],
    "path": [],
    "tree": ["graph.parents=[-1, 0, 0, 1, 1]"],
    "spanning_tree": [],
    "star_of_least_distance": [],
    "bipartite": ["graph.hubs=2"],
    "complete": [],
    "hub_neighbours": ["graph.hubs=1", "graph.neighbours=2"],
    "grown": ["graph.edges=7", "graph.seed=3"],
}


@pytest.mark.quick("star", "hub_neighbours", "grown", "dense")
@pytest.mark.parametrize("family", [*FAMILIES, *sorted(set(CODE_FAMILIES) - {"code"})])
def test_every_family_can_be_forecast(family, small_config):
    parameters = GRAPHS.get(family, [])
    config = load_config(
        small_config, [f"graph.family={family}", *parameters, "run.also_couple=[]", "model.coupling=auto"]
    )
    data = load_data(config)
    plan = plan_run(config, data)
    ranges = forecast_seconds(plan, data)
    assert ranges.keys() == {stage for stage in plan.keys if plan.units(stage)}
    assert all(0 <= low < high for low, high in ranges.values())


def test_weights_and_priors_of_all_classes_do_not_stop_a_forecast(small_config):
    settings = ["model.priors=[5, 4, 3, 2, 1]", 'model.class_weight={"class 4" = 2.0}', "growth.share=0.9"]
    config = load_config(small_config, ["graph.family=star", *settings])
    data = load_data(config)
    assert forecast_seconds(plan_run(config, data), data)["machines"][1] > 0


def test_a_run_goes_on_without_a_forecast_that_fails(small_config, tmp_path, monkeypatch):
    monkeypatch.setattr("pairloom.cluster.simulator.forecast._LONG_SECONDS", 0.0)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "absent"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    options = ["--directory", str(tmp_path / "run"), "--set", "cluster.kind=threads"]
    done = CliRunner().invoke(main, ["run", str(small_config), *options])
    assert done.exit_code == 0, done.output
    assert "could not be measured" in done.stderr
    assert not (tmp_path / "run" / "forecast.json").exists()


def test_the_workers_of_jobs_are_counted(small_config):
    jobs = {"kind": "slurm", "slurm": {"jobs": 4, "processes": 8, "cores": 8, "memory": "8GiB"}}
    config = with_cluster(load_config(small_config), jobs)
    assert config.cluster.expected_workers == 32


def test_a_torn_line_of_the_log_is_passed_over(tmp_path):
    stamp = "2026-01-02T03:04:05+00:00"
    lines = [
        f"{stamp} host:1 begin machines 0",
        f"{stamp} host:1 begin machines x",
        "20 host:1 begin machines 1",
    ]
    (tmp_path / "log.txt").write_bytes("\n".join(lines).encode() + b"\n\xff\xfe")
    assert begin_times(tmp_path).keys() == {("machines", 0)}
