"""Races for the lease of a run and for entries of its ledger: no two owners, no entry written over."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from object_stores import in_environment, new_bucket

from pairloom.pipeline.run import lock as lock_module
from pairloom.pipeline.run.ledger import Entry, Ledger
from pairloom.pipeline.run.lock import Locked, RunLock, newest_number
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.location import StoreUrl


@pytest.fixture(params=["memory", "moto", "seaweed"])
def url(request):
    """A prefix of each store."""
    if request.param == "memory":
        yield StoreUrl("memory", uuid.uuid4().hex, "run")
        return
    port = request.getfixturevalue(f"{request.param}_port")
    with in_environment(port):
        yield StoreUrl("s3", new_bucket(port), "run")


def race(contenders: int, compete: Callable[[int], object]) -> list[object]:
    """The outcomes of several threads that begin at once."""
    ready = threading.Barrier(contenders)

    def begin(number: int) -> object:
        ready.wait()
        return compete(number)

    with ThreadPoolExecutor(contenders) as threads:
        return list(threads.map(begin, range(contenders)))


def owners(url: StoreUrl) -> int:
    """How many of four drivers get the lock while the others try."""
    over = threading.Barrier(4)

    def compete(_: int) -> bool:
        try:
            with RunLock(url):
                over.wait(120)
        except Locked:
            over.wait(120)
            return False
        return True

    return sum(race(4, compete))


def lease_races(url: StoreUrl, number: int) -> None:
    assert {owners(url) for _ in range(number)} == {1}
    assert newest_number(Folder(url)) == number


def ledger_races(url: StoreUrl, number: int) -> None:
    ledger = Ledger(url)
    for unit in range(number):
        ledger.record(Entry("machines", unit, "outdated", {}, 0.0, "before"))

        def record(contender: int, unit: int = unit) -> Entry | None:
            ledger.record(Entry("machines", unit, "key", {}, float(contender), f"host:{contender}"))
            return ledger.read("machines", unit)

        seen = race(4, record)
        assert len(set(map(repr, seen))) == 1, "an entry was written over"
        assert seen[0].key == "key"


@pytest.mark.parametrize("races_for", [lease_races, ledger_races])
def test_one_wins(races_for, url, monkeypatch):
    monkeypatch.setattr(lock_module, "HEARTBEAT_SECONDS", 30.0)
    races_for(url, 3 if url.scheme == "s3" else 100)


@pytest.mark.parametrize("races_for", [lease_races, ledger_races])
@pytest.mark.parametrize(
    "url",
    [
        pytest.param("memory", marks=pytest.mark.long),
        pytest.param("moto", marks=pytest.mark.stores),
    ],
    indirect=True,
)
def test_one_wins_a_thousand_times(races_for, url, monkeypatch):
    monkeypatch.setattr(lock_module, "HEARTBEAT_SECONDS", 30.0)
    races_for(url, 1000)
