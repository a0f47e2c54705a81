"""Runs that are disturbed: the moments to disturb them at, and what must be left of them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

from dask_processes import local_workers, wait_until
from small_runs import assert_same_bytes, times_begun

from pairloom.cluster.watch.status import run_status
from pairloom.pipeline.run.ledger import Ledger


def starts_workers(driver: subprocess.Popen[str], directory: Path) -> bool:
    return len(local_workers(driver)) == 2


def trains(driver: subprocess.Popen[str], directory: Path) -> bool:
    return Ledger(directory).read("machines", 0) is not None


def stop_in_mid_unit(directory: Path, stage: str, pids: set[int]) -> tuple[int, int]:
    """Freeze one of these processes while it is at a unit that the ledger does not have; its pid and the unit."""
    log, ledger = directory / "log.txt", Ledger(directory)

    def frozen() -> tuple[int, int] | None:
        lines = log.read_text().splitlines() if log.exists() else []
        for words in (line.split() for line in reversed(lines)):
            if words[2:4] != ["begin", stage]:
                continue
            pid, unit = int(words[1].rpartition(":")[2]), int(words[4])
            if pid in pids and ledger.read(stage, unit) is None:
                os.kill(pid, signal.SIGSTOP)
                # A stopped process may yet have finished the unit before the signal arrived.
                time.sleep(0.05)
                if ledger.read(stage, unit) is None:
                    return pid, unit
                os.kill(pid, signal.SIGCONT)
        return None

    return wait_until(frozen, f"a worker in the middle of {stage}")


def units_begun_again(directory: Path, stage: str) -> int:
    return sum(times - 1 for times in times_begun(directory, stage).values())


def assert_stopped_clean(code: int, errors: str, expected: int, directory: Path) -> None:
    """One message, which says how to resume, and no traceback."""
    assert code == expected, errors
    assert "Traceback" not in errors, errors
    assert errors.count("Stopped") == 1, errors
    assert errors.rstrip().endswith(f"Resume with: pairloom resume {directory}"), errors


def assert_finished(code: int, errors: str, directory: Path, undisturbed: dict[str, bytes]) -> None:
    """The same bytes, every file as its checksum says, and no unit counted twice."""
    assert code == 0, errors
    assert_same_bytes(directory, undisturbed)
    assert run_status(directory, verify=True).state == "finished"
    assert all(int(done) <= int(total) for done, total in re.findall(r"^\w+: (\d+) of (\d+)$", errors, re.M))
