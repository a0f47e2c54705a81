"""What a plan says that a run needs, against what real processes take."""

from __future__ import annotations

import json
import resource

import pytest
from click.testing import CliRunner
from distributed import Client, LocalCluster
from small_runs import run_here, write_config, write_features

from pairloom.cluster.cli import main
from pairloom.cluster.config_file import load_config
from pairloom.cluster.driver import prepare_run
from pairloom.cluster.forecast_file import read_forecast, write_forecast
from pairloom.cluster.needs import worker_bytes

RUNS = {
    "shortlists": (
        {"classes": 300, "rows": 40, "features": 256, "samples": 3000},
        ("graph.family=hub_neighbours", "run.tensor=virtual", "run.also_couple=[]"),
    ),
    "a stored tensor": (
        {"classes": 90, "rows": 30, "features": 64, "samples": 1500},
        ("graph.family=complete", "run.tensor=stored", "model.shortlist=none", "run.samples_per_slab=1024"),
    ),
    "large classes": (
        {"classes": 8, "rows": 9000, "features": 300, "samples": 500},
        ("graph.family=complete", "run.also_couple=[]"),
    ),
}


def peak_bytes():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.long
@pytest.mark.parametrize("name", RUNS)
def test_a_worker_stays_below_the_memory_of_its_plan(name, tmp_path):
    sizes, settings = RUNS[name]
    config = write_config(tmp_path / "run.toml", write_features(tmp_path / "data.npz", **sizes))
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
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


def test_a_forecast_stands_beside_the_times_in_the_report(small_config, tmp_path, monkeypatch):
    monkeypatch.setattr("pairloom.cluster.forecast._LONG_SECONDS", 0.0)  # every run is worth one
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
    assert f"<td>machines</td><td>{low:.1f} to {high:.1f} s</td><td>{took['machines']:.1f} s</td>" in page
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
