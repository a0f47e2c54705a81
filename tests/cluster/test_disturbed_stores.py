"""Requests to an object store fail, hang or lose their answers: the run ends, or is resumed, with the same bytes."""

from __future__ import annotations

import re
import time
import uuid

import pytest
from click.testing import CliRunner
from object_stores import SECRET, in_environment, new_bucket
from small_runs import bytes_of
from store_proxy import StoreProxy

import pairloom
from pairloom.cluster.commands.cli import main
from pairloom.pipeline.run.lock import Locked, RunLock
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.location import StoreUrl
from pairloom.pipeline.storage.object_store import PATIENCE, StoreAway

THREADS = {"cluster.kind": "threads"}


@pytest.fixture(scope="module")
def one_bucket(seaweed_port):
    return new_bucket(seaweed_port)


@pytest.fixture
def proxy(seaweed_port):
    proxy = StoreProxy(seaweed_port)
    with in_environment(proxy.port):
        yield proxy
    proxy.close()


@pytest.fixture
def url(one_bucket):
    return StoreUrl("s3", one_bucket, f"run-{uuid.uuid4().hex}")


def run_and_resume(config, url, proxy) -> None:
    """Run, and once more without faults if the run was stopped."""
    try:
        pairloom.run(config, directory=url, overrides=THREADS).result(timeout=300)
    except StoreAway:
        proxy.fault_of = lambda number: None
        pairloom.run(config, directory=url, overrides=THREADS).result(timeout=300)


@pytest.mark.long
@pytest.mark.quick("is lost")
@pytest.mark.parametrize("fault", ["fails", "hangs", "is lost"])
def test_some_requests_are_disturbed(fault, small_config, small_run, url, proxy, monkeypatch):
    period = 331 if fault == "hangs" else 41
    monkeypatch.setenv(PATIENCE, "6" if fault == "hangs" else "60")
    proxy.fault_of = lambda number: fault if number % period == 7 else None
    run_and_resume(small_config, url, proxy)
    assert proxy.disturbed >= proxy.seen // period > 0
    assert bytes_of(url) == bytes_of(small_run)


@pytest.mark.parametrize(
    ("fault", "rests"),
    [
        *(pytest.param(fault, [3], marks=pytest.mark.long) for fault in ("fails", "is lost")),
        *(
            pytest.param(fault, range(20), marks=pytest.mark.stores)
            for fault in ("fails", "is lost", "hangs")
        ),
    ],
)
def test_every_request_of_a_run_is_disturbed_once(
    fault, rests, small_config, small_run, one_bucket, proxy, monkeypatch
):
    """Of twenty runs, each is disturbed at every twentieth request, beginning with another one."""
    period = 20
    if fault == "hangs":
        monkeypatch.setenv(PATIENCE, "2")  # half of it is waited for an answer
    for rest in rests:
        url = StoreUrl("s3", one_bucket, f"every-{uuid.uuid4().hex}")
        first = proxy.seen
        proxy.fault_of = lambda number, at=first + rest: fault if (number - at) % period == 0 else None
        run_and_resume(small_config, url, proxy)
        assert bytes_of(url) == bytes_of(small_run), rest


@pytest.mark.long
def test_a_request_of_a_run_hangs(small_config, small_run, url, proxy, monkeypatch):
    monkeypatch.setenv(PATIENCE, "10")
    proxy.fault_of = lambda seen: "hangs" if seen == 107 else None
    run_and_resume(small_config, url, proxy)
    assert proxy.disturbed == 1
    assert bytes_of(url) == bytes_of(small_run)


@pytest.mark.long
def test_a_store_that_is_away_for_a_while_delays_a_run(small_config, small_run, url, proxy, monkeypatch):
    monkeypatch.setenv(PATIENCE, "60")
    handle = pairloom.run(small_config, directory=url, overrides=THREADS)
    with proxy.away_for(4):
        handle.result(timeout=120)
    assert bytes_of(url) == bytes_of(small_run)


@pytest.mark.long
def test_a_store_that_stays_away_ends_a_run_which_can_be_resumed(
    small_config, small_run, url, proxy, monkeypatch
):
    monkeypatch.setenv(PATIENCE, "2")
    proxy.fault_of = lambda number: "fails" if number > 300 else None
    run = ["run", str(small_config), "--directory", str(url), "--set", "cluster.kind=threads"]
    stopped = CliRunner().invoke(main, run, catch_exceptions=False)
    assert stopped.exit_code == 4, stopped.output
    assert "the store does not answer" in stopped.stderr
    assert f"Resume with: pairloom resume {url}" in stopped.stderr
    assert SECRET not in stopped.output
    proxy.fault_of = lambda number: None
    resumed = CliRunner().invoke(main, ["resume", str(url)], catch_exceptions=False)
    assert resumed.exit_code == 0, resumed.output
    assert bytes_of(url) == bytes_of(small_run)


@pytest.mark.long
@pytest.mark.parametrize("fault", ["is refused", "has expired"])
def test_credentials_that_expire_half_way_stop_a_run(fault, small_config, small_run, url, proxy, monkeypatch):
    monkeypatch.setenv(PATIENCE, "300")  # nobody waits for new ones
    proxy.fault_of = lambda number: fault if number > 300 else None
    run = ["run", str(small_config), "--directory", str(url), "--set", "cluster.kind=threads"]
    began = time.monotonic()
    stopped = CliRunner().invoke(main, run, catch_exceptions=False)
    assert time.monotonic() - began < 120
    assert stopped.exit_code == 3, stopped.output
    assert re.search("the store refuses.*Check the bucket, its region, and the credentials", stopped.stderr)
    assert f"Resume with: pairloom resume {url}" in stopped.stderr
    assert SECRET not in stopped.output
    proxy.fault_of = lambda number: None
    resumed = CliRunner().invoke(main, ["resume", str(url)], catch_exceptions=False)
    assert resumed.exit_code == 0, resumed.output
    assert bytes_of(url) == bytes_of(small_run)


def test_a_lock_whose_answer_is_lost_is_held(url, proxy):
    proxy.fault_of = lambda number: "is lost" if number <= 4 else None
    with RunLock(url) as lock:
        assert lock.number == 1
        with pytest.raises(Locked):
            RunLock(url).__enter__()
    assert Folder(url).names("drivers") == ["0001"]
