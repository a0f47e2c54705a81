"""``pairloom bench ...`` in a process of its own: what it prints and the JSON that it writes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple


class Result(NamedTuple):
    """Standard output, and the record."""

    printed: str
    record: dict[str, Any]


def bench(name: str, *options: object, json_file: Path) -> Result:
    """Run a benchmark, which must succeed."""
    command = [sys.executable, "-m", "pairloom", "bench", name, *map(str, options), "--json", str(json_file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    return Result(done.stdout, json.loads(json_file.read_text()))
