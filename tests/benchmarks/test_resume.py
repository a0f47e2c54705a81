import subprocess
import sys
import time

import psutil
import pytest
from bench_command import bench

from pairloom.benchmarks.resume import RunFailed, kill_with_children, run_to_the_end


@pytest.mark.faults
def test_a_killed_run_is_resumed_to_the_same_bytes(tmp_path):
    """Speed is not asserted: a machine that runs tests does other work too."""
    _, record = bench("resume", "--small", "--workers", 2, json_file=tmp_path / "resume.json")
    resumed, target = record["rows"]
    assert resumed["same_bytes"]
    assert resumed["units_at_kill"] >= resumed["units"] / 2
    assert 0 < resumed["startup_s"] < resumed["undisturbed_s"]
    spent = resumed["killed_s"] + resumed["resumed_s"] - resumed["startup_s"]
    assert target["figure"] == pytest.approx(spent / resumed["undisturbed_s"])
    assert (target["ours"], target["theirs"]) == pytest.approx((spent, resumed["undisturbed_s"]))


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
