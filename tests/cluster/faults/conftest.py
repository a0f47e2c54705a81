"""Faults, with real processes: a run that takes a while, its bytes when nothing happens, and drivers to disturb.

Those that kill processes or watch the clock run alone, with ``pytest -m faults``.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from dask_processes import finish, kill_and_reap, pairloom_process
from small_runs import bytes_of, run_here, write_config, write_features


@pytest.fixture(scope="session")
def faulty_config(tmp_path_factory) -> Path:
    """Pairs that take a while: 66 in 17 tiles."""
    folder = tmp_path_factory.mktemp("faulty")
    features = write_features(folder / "data.npz", classes=12, rows=150, features=200, samples=120)
    return write_config(folder / "faulty.toml", features, edges_per_tile=4, samples_per_slab=32)


@pytest.fixture(scope="session")
def undisturbed(faulty_config, client, tmp_path_factory) -> dict[str, bytes]:
    directory = tmp_path_factory.mktemp("undisturbed") / "run"
    run_here(faulty_config, directory, client)
    return bytes_of(directory)


@pytest.fixture
def directory(tmp_path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def start_driver(faulty_config):
    """Start a driver as a process, which does not outlive the test."""
    drivers: list[subprocess.Popen[str]] = []

    def start_driver(
        directory: Path, *options: object, config: Path = faulty_config, **env: str
    ) -> subprocess.Popen[str]:
        arguments = ("run", config, "--directory", directory, *options)
        drivers.append(pairloom_process(*arguments, env={**os.environ, **env}))
        return drivers[-1]

    yield start_driver
    for driver in drivers:
        kill_and_reap(driver)


@pytest.fixture
def begin(start_driver, directory, dask_processes):
    """Start a driver on the cluster of processes."""
    return lambda: start_driver(directory, "--scheduler-file", dask_processes.scheduler_file)


@pytest.fixture
def resume(directory, dask_processes):
    return lambda *arguments: finish(
        pairloom_process("resume", directory, "--scheduler-file", dask_processes.scheduler_file, *arguments)
    )


@pytest.fixture
def begin_here(start_driver, directory):
    """Start a driver that starts workers of its own."""
    return lambda workers, **env: start_driver(directory, "--workers", workers, **env)


@pytest.fixture
def resume_here(directory):
    return lambda: finish(pairloom_process("resume", directory, "--local", "--workers", 2))
