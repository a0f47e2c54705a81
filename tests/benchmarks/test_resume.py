import subprocess
import sys
import time

import psutil
import pytest
from bench_command import bench
from click.testing import CliRunner

from pairloom.benchmarks.memory import peak_of_family
from pairloom.benchmarks.resume import RunFailed, kill_with_children, run_to_the_end
from pairloom.cluster.commands.cli import main


@pytest.mark.faults
def test_killed_runs_are_resumed_to_the_same_bytes(tmp_path):
    """Speed is not asserted: a machine that runs tests does other work too."""
    arguments = ("--small", "--workers", 2, "--shares", "0.3,0.6", "--in-turn")
    _, record = bench("resume", *arguments, json_file=tmp_path / "resume.json")
    resumed, target = record["rows"]
    assert resumed["shares"] == [0.3, 0.6]
    assert resumed["same_bytes"]
    assert resumed["units_at_kill"] >= 0.6 * resumed["units"]
    assert 0 < resumed["startup_s"] < resumed["undisturbed_s"]
    spent = resumed["killed_s"] + resumed["resumed_s"] - 2 * resumed["startup_s"]
    assert target["figure"] == pytest.approx(spent / resumed["undisturbed_s"])
    assert (target["ours"], target["theirs"]) == pytest.approx((spent, resumed["undisturbed_s"]))
    assert resumed["peak_bytes"] > 200e6, "a driver and two workers"


@pytest.mark.parametrize("shares", ["0.5,0.5", "0", "1", "half", ""])
def test_shares_grow_between_zero_and_one(shares):
    done = CliRunner().invoke(main, ["bench", "resume", "--small", "--shares", shares])
    assert done.exit_code == 2
    assert "must be growing numbers between 0 and 1" in done.output


@pytest.mark.long
def test_the_memory_of_a_family_counts_children_and_what_they_share_once():
    code = "import sys, os, time; x = bytearray(2**26); x[::4096] = b'1' * 2**14; os.fork(); time.sleep(100)"
    with subprocess.Popen([sys.executable, "-c", code]) as parent, peak_of_family(parent.pid, 0.02) as peak:
        while not (children := psutil.Process(parent.pid).children()):
            time.sleep(0.005)
        time.sleep(0.3)
        kill_with_children(parent.pid)
    assert len(children) == 1
    assert 2**26 < peak.bytes < (2**27 if psutil.LINUX else 2**28)


@pytest.mark.long
def test_a_process_is_killed_with_all_that_it_has_started():
    sleep = "import time; time.sleep(100)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', '{sleep}'])"
    with subprocess.Popen([sys.executable, "-c", code]) as parent:
        while not (children := psutil.Process(parent.pid).children()):
            time.sleep(0.005)
        kill_with_children(parent.pid)
    assert not any(child.is_running() for child in children)


@pytest.mark.long
def test_a_command_that_fails_ends_the_benchmark_with_its_message():
    with pytest.raises(RunFailed, match=r"failed with 2: (.|\n)*No such option"):
        run_to_the_end(["bench", "resume", "--no-such-option"])
