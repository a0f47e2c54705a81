"""A worker that was held up in a unit comes back after the run has another plan: it changes nothing of that."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from small_runs import bytes_of, run_here

from pairloom.cluster.drive.tasks import StaleTask, run_unit
from pairloom.pipeline.run.ledger import Ledger
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.location import StoreUrl


@pytest.fixture(params=["folder", "store"])
def directory(request, tmp_path):
    return tmp_path / "run" if request.param == "folder" else StoreUrl("memory", uuid.uuid4().hex, "run")


def held_up(stage, begun: threading.Event, may_go_on: threading.Event):
    """The stage, whose work waits before it writes anything."""

    def work(*arguments):
        begun.set()
        assert may_go_on.wait(60)
        return stage.work(*arguments)

    return SimpleNamespace(name=stage.name, work=work)


def ledger_of(directory) -> dict[str, bytes]:
    folder = Folder(directory)
    return {path: folder.read(path) for path in folder.below("ledger")}


@pytest.mark.parametrize("stage", ["machines", "probabilities"])
def test_a_unit_of_an_older_plan_is_not_written(stage, directory, small_config, client):
    old = run_here(small_config, directory, client)
    Ledger(directory).forget(stage, 0)
    begun, may_go_on = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as threads:
        late = threads.submit(run_unit, old, held_up(old.stage(stage), begun, may_go_on), 0)
        assert begun.wait(60)
        new = run_here(small_config, directory, client, "model.C=0.01", update=True)
        assert new.keys[stage][0] != old.keys[stage][0]
        results, entries = bytes_of(directory), ledger_of(directory)
        may_go_on.set()
        with pytest.raises(StaleTask):
            late.result(60)
    assert (bytes_of(directory), ledger_of(directory)) == (results, entries)


def test_a_unit_of_the_same_plan_writes_the_same_bytes(directory, small_config, client):
    plan = run_here(small_config, directory, client)
    results = bytes_of(directory)
    Ledger(directory).forget("machines", 0)
    begun, may_go_on = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as threads:
        late = threads.submit(run_unit, plan, held_up(plan.stage("machines"), begun, may_go_on), 0)
        assert begun.wait(60)
        run_here(small_config, directory, client)
        entries = ledger_of(directory)
        may_go_on.set()
        assert late.result(60).computed
    assert bytes_of(directory) == results
    if isinstance(directory, StoreUrl):  # in a folder the last of two entries counts
        assert ledger_of(directory) == entries
