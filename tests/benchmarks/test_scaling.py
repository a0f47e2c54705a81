import subprocess
import sys

import pytest


@pytest.mark.long
def test_the_same_run_on_one_worker_and_on_two():
    """Speed is not asserted: a machine that runs tests does other work too."""
    command = [sys.executable, "-m", "pairloom.benchmarks.scaling", "--quick", "--workers", "1", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.strip()[:2] in ("1 ", "2 ")]
    assert [row[0] for row in rows] == ["1", "2"]
    assert float(rows[0][-2]) == 1.0
    assert done.stdout.endswith("the same bytes on every number of workers\n")
