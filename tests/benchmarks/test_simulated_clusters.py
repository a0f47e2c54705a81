import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
def test_the_table_of_simulated_clusters_can_be_made_again():
    root = Path(__file__).parents[2]
    before = {path: path.read_bytes() for path in (root / "docs" / "scaling").iterdir()}
    command = [sys.executable, "-m", "pairloom.benchmarks.simulated_clusters", "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, cwd=root, env=os.environ)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| 1000 200 complete | " in done.stdout
    assert {path: path.read_bytes() for path in (root / "docs" / "scaling").iterdir()} == before
