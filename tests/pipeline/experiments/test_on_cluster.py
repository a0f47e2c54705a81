"""Experiments whose repetitions run on a cluster."""

import os
import signal
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner
from dask_processes import finish, pairloom_process, wait_until

from pairloom.cluster.commands.cli import main
from pairloom.cluster.connect.connect import connected
from pairloom.cluster.drive.repetitions import repeat_on_cluster
from pairloom.pipeline.config.cluster_config import ClusterConfig
from pairloom.pipeline.experiments.perform import EXPERIMENTS, perform
from pairloom.pipeline.experiments.trained_tensor import cached_tensor, machine_settings, tensor_file

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def client():
    """A client of two worker processes."""
    with connected(ClusterConfig(workers=2)) as client:
        yield client


@pytest.fixture(scope="module")
def digits_file(digits_features, tmp_path_factory):
    settings = machine_settings(digits_features.X_train)
    path = tmp_path_factory.mktemp("tensor") / "tensor.npz"
    cached_tensor(digits_features, settings, path)
    return tensor_file(path, digits_features, settings)


@pytest.mark.parametrize("name", ["triplets", "centres", "bipartite"])
def test_a_cluster_gives_the_bytes_of_this_process(name, client, tmp_path):
    tables = []
    for on_cluster in (None, partial(repeat_on_cluster, client)):
        perform(EXPERIMENTS[name], "digits", tmp_path, repetitions=4, seed=5, on_cluster=on_cluster)
        tables.append((tmp_path / "digits" / f"{name}.csv").read_bytes())
    assert tables[0] == tables[1]


def whereabouts(trained, item):
    """The item, and the process, the tensor and the number of threads that it is computed with."""
    return item, os.getpid(), id(trained.logits), trained.n_jobs


def test_results_come_in_order_from_workers_that_read_the_tensor_once(client, digits_file):
    seen = list(repeat_on_cluster(client, whereabouts, digits_file, range(100)))
    items, processes, tensors, n_jobs = zip(*seen, strict=True)
    assert items == tuple(range(100))
    assert len(set(processes) - {os.getpid()}) == 2
    assert len(set(zip(processes, tensors, strict=True))) == 2
    assert set(n_jobs) == {1}


def refuse(trained, item):
    raise ValueError(f"item {item}")


def test_an_error_in_a_repetition_is_raised_here(client, digits_file):
    with pytest.raises(ValueError, match="item 0"):
        list(repeat_on_cluster(client, refuse, digits_file, range(3)))


def test_workers_that_do_not_find_the_tensor_say_so(client, digits_file):
    missing = digits_file._replace(path=Path("elsewhere.npz"))
    with pytest.raises(OSError, match=r"a worker cannot read the trained tensor elsewhere\.npz"):
        list(repeat_on_cluster(client, whereabouts, missing, range(3)))


def test_ctrl_c_ends_it_cleanly(tmp_path):
    # A terminal sends Ctrl-C to the whole group, workers included.
    arguments = ("growth", "--data", "digits", "--repetitions", 5000, "--out", tmp_path, "--workers", 2)
    driver = pairloom_process("experiment", *arguments, start_new_session=True)
    wait_until((tmp_path / "digits" / "tensor.npz").exists, "the trained tensor")
    os.killpg(driver.pid, signal.SIGINT)
    code, errors = finish(driver)
    assert code == 130, errors
    assert "Stopped" in errors
    assert "Traceback" not in errors


def test_the_rules_of_a_cluster_are_those_of_a_run(tmp_path):
    options = ["--data", "digits", "--out", str(tmp_path), "--scheduler", "tcp://192.0.2.7:8786"]
    refused = CliRunner().invoke(main, ["experiment", "triplets", *options])
    assert refused.exit_code == 3
    assert "--insecure" in refused.stderr
    # Without repetitions no scheduler is contacted.
    assert CliRunner().invoke(main, ["experiment", "boundaries", *options]).exit_code == 0
