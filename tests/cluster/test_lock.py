from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from pairloom.pipeline.run import lock as lock_module
from pairloom.pipeline.run.lock import Driver, Locked, RunLock, newest_driver, request_cancel

HOLD = """
import sys, time
from pathlib import Path
from pairloom.pipeline.run.lock import RunLock
with RunLock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def record(directory: Path, number: int, driver: Driver) -> Path:
    path = directory / "drivers" / f"{number:04d}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(asdict(driver)))
    return path


def test_the_second_driver_is_refused_and_told_who_the_first_is(holder, tmp_path):
    with pytest.raises(Locked, match=rf"pid {holder.pid}, since 20"), RunLock(tmp_path):
        pass
    driver, alive = newest_driver(tmp_path)
    assert alive
    assert driver.pid == holder.pid


def test_the_lock_of_a_dead_driver_is_taken_over_and_said(holder, tmp_path):
    holder.kill()
    holder.wait()
    with RunLock(tmp_path) as taken:
        assert taken.taken_over.pid == holder.pid


def test_a_lock_that_was_released_is_free(tmp_path):
    for outcome in ("finished", "cancelled"):
        with RunLock(tmp_path) as held:
            assert held.taken_over is None
            held.end_as(outcome)
    driver, alive = newest_driver(tmp_path)
    assert not alive
    assert driver.outcome == "cancelled"
    assert len(list((tmp_path / "drivers").iterdir())) == 2


def test_another_process_with_the_same_number_is_not_the_driver(tmp_path):
    record(tmp_path, 1, replace(Driver.here(), process_start=1.0))
    with RunLock(tmp_path) as taken:
        assert taken.taken_over is not None


def test_a_driver_on_another_host_is_alive_while_its_heart_beats(tmp_path):
    path = record(tmp_path, 1, replace(Driver.here(), host="elsewhere"))
    with pytest.raises(Locked, match="elsewhere"), RunLock(tmp_path):
        pass
    old = time.time() - 2 * lock_module.STALE_SECONDS
    os.utime(path, (old, old))
    with RunLock(tmp_path) as taken:
        assert taken.taken_over.host == "elsewhere"


def test_of_many_drivers_at_once_one_gets_the_lock(tmp_path):
    holding, refused, ready = [], [], threading.Barrier(8)

    def compete():
        ready.wait()
        try:
            with RunLock(tmp_path):
                holding.append(1)
                time.sleep(0.5)
        except Locked:
            refused.append(1)

    threads = [threading.Thread(target=compete) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(holding), len(refused)) == (1, 7)


def test_a_driver_hears_that_it_is_cancelled(tmp_path, monkeypatch):
    monkeypatch.setattr(lock_module, "HEARTBEAT_SECONDS", 0.02)
    heard = threading.Event()
    with RunLock(tmp_path, lambda reason: heard.set()):
        assert request_cancel(tmp_path).pid == os.getpid()
        assert heard.wait(5)
    assert request_cancel(tmp_path) is None


def test_a_driver_hears_that_it_was_taken_for_dead(tmp_path, monkeypatch):
    monkeypatch.setattr(lock_module, "HEARTBEAT_SECONDS", 0.02)
    reasons, heard = [], threading.Event()
    with RunLock(tmp_path, lambda reason: (reasons.append(reason), heard.set())):
        record(tmp_path, 2, Driver.here())
        assert heard.wait(5)
    assert "took over" in reasons[0]


def test_a_damaged_record_of_a_living_driver_heals(tmp_path, monkeypatch):
    monkeypatch.setattr(lock_module, "HEARTBEAT_SECONDS", 0.05)
    with RunLock(tmp_path):
        (tmp_path / "drivers" / "0001.json").write_text("{")
        with pytest.raises(Locked), RunLock(tmp_path):
            pass


def test_a_damaged_record_of_a_dead_driver_holds_nobody(tmp_path, monkeypatch):
    monkeypatch.setattr(lock_module, "HEARTBEAT_SECONDS", 0.05)
    record(tmp_path, 1, Driver.here()).write_text("{")
    with RunLock(tmp_path):
        pass
