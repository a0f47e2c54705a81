"""What a plan says that a run needs, against what real processes take."""

from __future__ import annotations

import resource

import pytest
from distributed import Client, LocalCluster
from small_runs import run_here, write_config, write_features

from pairloom.cluster.config_file import load_config
from pairloom.cluster.driver import prepare_run
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
