from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import psutil
import pytest

from pairloom.pipeline.run import lock as lock_module
from pairloom.pipeline.run import process_identity
from pairloom.pipeline.run.lock import (
    SUBMITTED,
    Driver,
    Locked,
    RunLock,
    is_cancelled,
    newest_driver,
    request_cancel,
)

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


def test_a_driver_on_another_host_is_alive_while_its_heart_beats(tmp_path, monkeypatch):
    monkeypatch.setattr(lock_module, "HEARTBEAT_SECONDS", 0.05)
    path = record(tmp_path, 1, replace(Driver.here(), host="elsewhere", boot="another boot"))
    with pytest.raises(Locked, match="elsewhere"), RunLock(tmp_path):
        pass
    old = time.time() - 2 * lock_module.STALE_SECONDS
    os.utime(path, (old, old))
    with RunLock(tmp_path) as taken:
        assert taken.taken_over.host == "elsewhere"


@pytest.fixture
def no_boot_id(tmp_path, monkeypatch):
    """A system that tells only the date on which a process was created, as any but Linux."""
    process_identity._boot.cache_clear()
    monkeypatch.setattr(process_identity, "_PROC", tmp_path / "nowhere")
    yield
    process_identity._boot.cache_clear()


def step_the_clock(monkeypatch):
    """What a clock that is set an hour ahead does to the dates that psutil tells."""
    create_time = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, "create_time", lambda process: create_time(process) + 3600)


def test_a_living_driver_stays_alive_when_the_clock_is_set(holder, tmp_path, monkeypatch):
    step_the_clock(monkeypatch)
    assert newest_driver(tmp_path)[1]
    with pytest.raises(Locked), RunLock(tmp_path):
        pass


def test_a_living_driver_stays_alive_when_the_clock_is_set_where_only_dates_are_known(
    no_boot_id, tmp_path, monkeypatch
):
    monkeypatch.setattr(lock_module, "HEARTBEAT_SECONDS", 0.05)
    with RunLock(tmp_path):
        assert newest_driver(tmp_path)[0].boot == ""
        step_the_clock(monkeypatch)
        assert newest_driver(tmp_path)[1]
        with pytest.raises(Locked), RunLock(tmp_path):
            pass


def test_a_dead_driver_is_known_where_only_dates_are(no_boot_id, tmp_path, monkeypatch):
    monkeypatch.setattr(lock_module, "HEARTBEAT_SECONDS", 0.05)
    ended = subprocess.Popen(["true"])
    ended.wait()
    record(tmp_path, 1, replace(Driver.here(), pid=ended.pid))
    assert not newest_driver(tmp_path)[1]
    # The same number, another date: its heartbeat tells, and there is none.
    path = record(tmp_path, 1, replace(Driver.here(), process_start=1.0))
    os.utime(path, (1e9, 1e9))
    with RunLock(tmp_path) as taken:
        assert taken.taken_over is not None


def test_a_heart_that_beats_is_heard_whatever_the_clocks_say(tmp_path, monkeypatch):
    monkeypatch.setattr(lock_module, "HEARTBEAT_SECONDS", 0.05)
    elsewhere, ended = replace(Driver.here(), host="elsewhere", boot="another boot"), threading.Event()

    def beat():
        while not ended.wait(0.02):
            os.utime(record(tmp_path, 1, elsewhere), (1e9, 1e9 + time.monotonic()))

    record(tmp_path, 1, elsewhere)
    beating = threading.Thread(target=beat)
    beating.start()
    try:
        time.sleep(0.1)
        with pytest.raises(Locked, match="elsewhere"), RunLock(tmp_path):
            pass
    finally:
        ended.set()
        beating.join()
    with RunLock(tmp_path) as taken:
        assert taken.taken_over.host == "elsewhere"


def test_a_driver_of_another_boot_is_alive_while_its_heart_beats(tmp_path, monkeypatch):
    monkeypatch.setattr(lock_module, "HEARTBEAT_SECONDS", 0.05)
    path = record(tmp_path, 1, replace(Driver.here(), boot="another boot", pid=2**22 + 1))
    assert newest_driver(tmp_path)[1]
    os.utime(path, (1e9, 1e9))
    assert not newest_driver(tmp_path)[1]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_driver_that_was_killed_is_dead_before_its_parent_knows(holder, tmp_path):
    holder.kill()
    while psutil.Process(holder.pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    with RunLock(tmp_path) as taken:
        assert taken.taken_over.pid == holder.pid


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


@pytest.fixture
def submission(tmp_path) -> int:
    """The number of a submission whose driver lost its worker."""
    with RunLock(tmp_path) as lock:
        lock.end_as(SUBMITTED)
    record(tmp_path, 2, replace(Driver.here(), process_start=1.0, submission=lock.number))
    return lock.number


def test_a_submission_whose_driver_is_dead_stays_cancelled(submission, tmp_path):
    assert not is_cancelled(tmp_path, submission)
    assert request_cancel(tmp_path) is not None
    assert newest_driver(tmp_path)[0].outcome == "Stopped: The run was cancelled."
    reasons = []
    with RunLock(tmp_path, reasons.append, submission=submission) as started_again:
        started_again.heed()
    assert "cancelled" in reasons[0]
    assert request_cancel(tmp_path) is None


def test_whoever_resumes_a_cancelled_run_is_not_cancelled(submission, tmp_path):
    request_cancel(tmp_path)
    reasons = []
    with RunLock(tmp_path, reasons.append) as resumed:
        resumed.heed()
        resumed.end_as(SUBMITTED)
    assert reasons == []
    assert not is_cancelled(tmp_path, resumed.number)


def test_a_driver_that_died_and_was_not_submitted_needs_no_wish(tmp_path):
    record(tmp_path, 1, replace(Driver.here(), process_start=1.0))
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
