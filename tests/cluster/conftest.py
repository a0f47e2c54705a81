"""Fixtures: a cluster in this process, and a finished small run."""

from __future__ import annotations

from pathlib import Path

import pytest
from dask_processes import DaskProcesses
from distributed import Client, LocalCluster
from small_runs import run_here, write_config, write_features


@pytest.fixture(scope="session")
def client():
    """A Dask cluster of two threads in this process."""
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="session")
def small_config(tmp_path_factory) -> Path:
    """Five classes, four tiles, three slabs: a run of well under a second."""
    folder = tmp_path_factory.mktemp("small")
    features = write_features(folder / "small.npz", classes=5, rows=20, features=6, samples=40)
    return write_config(folder / "small.toml", features, edges_per_tile=3, samples_per_slab=16)


@pytest.fixture(scope="session")
def small_run(small_config, client, tmp_path_factory) -> Path:
    """The finished run of `small_config`. Copy it before you change it."""
    directory = tmp_path_factory.mktemp("runs") / "small"
    run_here(small_config, directory, client, until="report")
    return directory


@pytest.fixture
def dask_processes(tmp_path):
    """A scheduler without workers, as a process."""
    processes = DaskProcesses(tmp_path)
    yield processes
    processes.close()
