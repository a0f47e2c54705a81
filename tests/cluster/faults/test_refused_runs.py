"""What does not fit together is refused, and nothing is written: other settings or data, versions, no workers."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from dask_processes import finish
from small_runs import bytes_of, write_features

import pairloom

pytestmark = pytest.mark.long  # it kills nothing and watches no clock


def test_the_configuration_or_the_data_are_changed(begin, resume, directory, dask_processes, faulty_config):
    dask_processes.start_worker()
    assert finish(begin())[0] == 0
    before = bytes_of(directory)
    code, errors = resume("--set", "model.folds=3", "--set", "graph.family=star")
    assert code == 3
    assert "model.folds: was 'auto', is 3" in errors
    assert "graph.family: was 'complete', is 'star'" in errors
    content = json.loads((directory / "run.json").read_text())
    data = Path(content["config"]["data"]["features"])
    original = data.read_bytes()
    try:
        write_features(data, classes=12, rows=150, features=200, samples=120, seed=1)
        code, errors = resume()
    finally:
        data.write_bytes(original)
    assert code == 3
    assert "fingerprint of train samples" in errors
    assert "fingerprint of test samples" in errors
    assert bytes_of(directory) == before


def another_pairloom(folder: Path) -> Path:
    """A pairloom with another version, which Python finds first."""
    other = folder / "pairloom"
    other.mkdir(parents=True)
    here = Path(pairloom.__file__).parent
    for room in ("graphs", "pipeline", "cluster", "configs"):
        (other / room).symlink_to(here / room)
    (other / "__init__.py").write_text('__version__ = "9.9.9"\n')
    return folder


def another_dask(folder: Path) -> Path:
    """The metadata of an older Dask, which Python finds first."""
    (folder / "distributed-2020.1.0.dist-info").mkdir(parents=True)
    metadata = folder / "distributed-2020.1.0.dist-info" / "METADATA"
    metadata.write_text("Metadata-Version: 2.1\nName: distributed\nVersion: 2020.1.0\n")
    return folder


@pytest.mark.parametrize(("other", "version"), [(another_pairloom, "9.9.9"), (another_dask, "2020.1.0")])
def test_a_worker_has_another_version(other, version, begin, directory, dask_processes, tmp_path):
    dask_processes.start_worker(env={**os.environ, "PYTHONPATH": str(other(tmp_path / "other"))})
    driver = begin()
    code, errors = finish(driver)
    assert code == 3, errors
    assert version in errors
    assert "Install the same version on both" in errors
    assert not directory.exists()


def test_a_cluster_without_workers_is_given_up_before_anything_is_written(
    start_driver, directory, dask_processes
):
    scheduler = ("--scheduler-file", dask_processes.scheduler_file)
    code, errors = finish(start_driver(directory, *scheduler, "--set", "cluster.worker_timeout=1"))
    assert code == 4, errors
    assert "none came within 1 s" in errors
    assert "cluster.worker_timeout" in errors
    assert not directory.exists()
