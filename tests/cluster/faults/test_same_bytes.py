"""However a run is computed, its bytes are the same."""

from __future__ import annotations

import threading

import pytest
from dask_processes import finish, pairloom_process
from disturbed_runs import units_begun_again
from small_runs import assert_same_bytes, run_here

import pairloom
from pairloom.cluster.drive.tasks import Task, run_task

pytestmark = pytest.mark.long  # it kills nothing and watches no clock


@pytest.mark.parametrize("cluster", [("processes", 1), ("processes", 2), ("threads", 2)], ids=str)
def test_any_cluster_gives_the_same_bytes(cluster, faulty_config, directory, undisturbed):
    kind, workers = cluster
    options = ("--set", f"cluster.kind={kind}", "--workers", workers)
    code, errors = finish(pairloom_process("run", faulty_config, "--directory", directory, *options))
    assert code == 0, errors
    assert_same_bytes(directory, undisturbed)


def test_a_tile_is_run_twice_at_once(faulty_config, directory, client, undisturbed):
    plan = run_here(faulty_config, directory, client, until="whitening")
    tiles = dict(enumerate(plan.keys["machines"]))
    task = Task(str(directory), "machines", tiles, pairloom.__version__)
    twice = [threading.Thread(target=run_task, args=(task,)) for _ in range(2)]
    for thread in twice:
        thread.start()
    for thread in twice:
        thread.join()
    assert units_begun_again(directory, "machines") > 0, "they never met"
    run_here(faulty_config, directory, client)
    assert_same_bytes(directory, undisturbed)
