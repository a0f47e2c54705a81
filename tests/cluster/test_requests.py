"""How many requests a run in an object store takes, and that it says so."""

from __future__ import annotations

import re
import time
import uuid

import pytest
from distributed import Client
from object_stores import in_environment, new_bucket
from small_runs import write_config, write_features
from store_proxy import StoreProxy
from store_requests import hooked_requests

import pairloom
from pairloom.cluster.drive.schedule import Stopped
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.location import StoreUrl

ONE_THREAD = {"cluster.kind": "threads", "cluster.workers": 1, "run.also_couple": []}


def told(url: StoreUrl) -> list[int]:
    """The numbers that runs in this place have told of."""
    log = b"".join(Folder(url).appended("log.txt")).decode()
    return [int(number) for number in re.findall(r"(\d+) requests to the store", log)]


@pytest.fixture(scope="module")
def ten_classes(tmp_path_factory):
    """A run of 45 pairs, in as many tiles as it is asked for."""
    folder = tmp_path_factory.mktemp("ten")
    features = write_features(folder / "ten.npz", classes=10, rows=12, features=6, samples=40)
    return lambda pairs: write_config(
        folder / f"{pairs}.toml", features, edges_per_tile=pairs, samples_per_slab=40
    )


def requests_of_run(config, **overrides: object) -> int:
    """All requests of a run, which says nearly as many: those before and after its work are left out."""
    url, numbers = StoreUrl("memory", uuid.uuid4().hex, "run"), []
    with hooked_requests(before=lambda number, kind, path: numbers.append(number)):
        handle = pairloom.run(config, directory=url, overrides=ONE_THREAD | overrides)
        handle.wait(60)
    (number,) = told(url)
    assert 0.9 * len(numbers) < number <= len(numbers)
    return len(numbers)


def test_a_tile_takes_few_requests(ten_classes):
    """Its plan, its entry, the rows of its classes, a few for each file that it writes, and the report's reading."""
    few, many = (requests_of_run(ten_classes(pairs)) for pairs in (9, 3))
    assert (many - few) / (15 - 5) <= 22


def test_a_run_that_is_stopped_says_it_too(ten_classes):
    url = StoreUrl("memory", uuid.uuid4().hex, "run")
    handle = pairloom.run(ten_classes(1), directory=url, overrides=ONE_THREAD)
    while handle.status().stages["machines"][0] < 3:
        time.sleep(0.05)
    handle.cancel()
    with pytest.raises(Stopped):
        handle.wait(60)
    assert len(told(url)) == 1
    pairloom.run(ten_classes(1), directory=url, overrides=ONE_THREAD).wait(60)
    assert len(told(url)) == 2


@pytest.mark.long
def test_runs_on_the_same_workers_count_their_own_requests(ten_classes, seaweed_port, dask_processes):
    """All that the store was asked is told of, but for what is asked before and after the work."""
    proxy = StoreProxy(seaweed_port)
    with in_environment(proxy.port):
        dask_processes.start_worker(threads=1)
        dask_processes.start_worker(threads=1)
        bucket = new_bucket(seaweed_port)
        with Client(scheduler_file=dask_processes.scheduler_file) as client:
            for name in ("first", "second"):
                url, before = StoreUrl("s3", bucket, name), proxy.seen
                pairloom.run(ten_classes(3), directory=url, client=client).wait(120)
                (number,) = told(url)
                assert 0.8 * (proxy.seen - before) < number <= proxy.seen - before
    proxy.close()
