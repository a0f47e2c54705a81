"""``pairloom bench ...``: what it prints and the JSON that it writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner

from pairloom.cluster.commands.cli import main


class Result(NamedTuple):
    """Standard output, and the record."""

    printed: str
    record: dict[str, Any]


def bench(name: str, *options: object, json_file: Path) -> Result:
    """Run a benchmark, which must succeed."""
    words = ["bench", name, *map(str, options), "--json", str(json_file)]
    done = CliRunner().invoke(main, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return Result(done.stdout, json.loads(json_file.read_text()))
