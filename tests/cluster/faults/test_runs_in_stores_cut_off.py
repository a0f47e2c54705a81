"""Drivers of runs in an object store die and are resumed: nothing is lost, nothing is computed twice."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest
from dask_processes import finish, pairloom_process, wait_until
from small_runs import bytes_of, write_config, write_features

from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.location import StoreUrl
from pairloom.pipeline.storage.object_store import PATIENCE

pytestmark = pytest.mark.faults


@pytest.fixture
def config(tmp_path):
    """Twelve classes, 22 tiles."""
    features = write_features(tmp_path / "x.npz", classes=12, rows=30, features=8, samples=60)
    return write_config(tmp_path / "x.toml", features, edges_per_tile=3, samples_per_slab=16)


def on_host(name: str, *arguments: object) -> subprocess.Popen[str]:
    """The command line on a host of another name, where no process of other hosts can be looked for."""
    words = " ".join(shlex.quote(str(word)) for word in (sys.executable, "-m", "pairloom", *arguments))
    spaces = ["--uts", "--pid", "--fork", "--mount-proc", "--kill-child"]
    command = ["unshare", *spaces, "sh", "-c", f"hostname {name} && exec {words}"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, start_new_session=True, **pipes)


def hosts_can_be_made() -> bool:
    return shutil.which("unshare") is not None and os.geteuid() == 0


def test_a_driver_that_is_killed_is_resumed_by_processes(config, bucket, tmp_path):
    """The driver and its workers die at once. Whoever resumes computes what is missing, and nothing else."""
    url, here = StoreUrl("s3", bucket, "killed"), tmp_path / "here"
    options = ("--workers", 1)
    driver = pairloom_process("run", config, "--directory", url, *options, start_new_session=True)
    folder = Folder(url)
    wait_until(lambda: len(folder.names("ledger/machines")) >= 3, "some tiles")
    os.killpg(driver.pid, signal.SIGKILL)
    driver.communicate()
    done = {path: folder.read(path) for path in folder.below("ledger/machines")}
    code, errors = finish(pairloom_process("resume", url, *options))
    assert code == 0, errors
    assert "Taking over from a dead driver" in errors
    assert {path: folder.read(path) for path in done} == done
    code, errors = finish(pairloom_process("run", config, "--directory", here, *options))
    assert code == 0, errors
    assert bytes_of(url) == bytes_of(here)


@pytest.mark.skipif(not hosts_can_be_made(), reason="needs root and unshare to make a host of another name")
def test_a_driver_that_was_frozen_and_replaced_stops_when_it_thaws(config, bucket, tmp_path, monkeypatch):
    """Its successor, on another host, waits until the heart has stopped, and nothing that it wrote is changed."""
    url, here, options = StoreUrl("s3", bucket, "frozen"), tmp_path / "here", ("--workers", 1)
    folder = Folder(url)
    monkeypatch.setenv(PATIENCE, "600")  # a request that was under way when the driver froze is repeated
    frozen = on_host("first", "run", config, "--directory", url, *options)
    wait_until(lambda: len(folder.names("ledger/machines")) >= 3, "some tiles")
    os.killpg(frozen.pid, signal.SIGSTOP)
    try:
        code, errors = finish(on_host("second", "resume", url, *options))
        assert code == 3, "its last heartbeat was just now"
        assert "another driver is working on this run (host first" in errors
        deadline = time.monotonic() + 180
        while code == 3 and time.monotonic() < deadline:
            code, errors = finish(on_host("second", "resume", url, *options))
        assert code == 0, errors
        assert "Taking over from a dead driver: host first" in errors
        plan, results = folder.read("run.json"), bytes_of(url)
        os.killpg(frozen.pid, signal.SIGCONT)
        code, errors = finish(frozen)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(frozen.pid, signal.SIGKILL)
    assert code == 4, errors
    assert "Another driver took over this run directory" in errors
    assert (folder.read("run.json"), bytes_of(url)) == (plan, results)
    code, errors = finish(pairloom_process("run", config, "--directory", here, *options))
    assert code == 0, errors
    assert results == bytes_of(here)
