"""The record of a benchmark: tables that are printed row by row, and one JSON file with all of it.

Every benchmark has the same form::

    {"benchmark", "command", "started", "seconds", "machine", "versions", "settings", "notes", "rows"}

``rows`` has the rows of all tables, each with the name of its table and its figures in full precision.
"""

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pairloom.benchmarks.machine import machine, machine_lines, versions
from pairloom.pipeline.storage.atomic_file import write_atomically


@dataclass(frozen=True)
class Column:
    """A column of a table: its title, the text of its cells, and its width."""

    title: str
    cell: Callable[[Any], str]
    width: int = 0
    left: bool = False

    def padded(self, text: str) -> str:
        """A cell, or the title, in the width of the column."""
        width = max(self.width, len(self.title))
        return f"{text:<{width}s}" if self.left else f"{text:>{width}s}"


class Record:
    """What a benchmark has found so far. Rows are dataclasses.

    Parameters
    ----------
    benchmark, command
        Its name, and the command that repeats it.
    settings
        The parameters of the benchmark.
    echo
        Prints a line.
    """

    def __init__(
        self,
        benchmark: str,
        command: str,
        settings: Mapping[str, Any],
        echo: Callable[[str], None] = lambda line: print(line, flush=True),
    ) -> None:
        self.benchmark, self.command, self.settings, self._echo = benchmark, command, settings, echo
        self.machine, self.versions = machine(), versions()
        self.started, self._began = datetime.now(UTC), time.perf_counter()
        self.rows: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self._table, self._columns = "", tuple[Column, ...]()
        for line in [f"$ {command}", *machine_lines(self.machine, self.versions)]:
            echo(line)

    def begin(self, table: str, columns: Iterable[Column], title: str = "") -> None:
        """Print the head of a table; the rows that follow belong to it."""
        self._table, self._columns = table, tuple(columns)
        self._echo("")
        if title:
            self._echo(title)
        self._echo(self._line(column.title for column in self._columns))

    def add(self, row: Any, text: str | None = None) -> None:
        """Print and keep a row; ``text`` is printed in place of its cells."""
        self._echo(text if text is not None else self._line(column.cell(row) for column in self._columns))
        self.rows.append({"table": self._table, **asdict(row)})

    def note(self, line: str) -> None:
        """Print and keep a sentence."""
        self._echo(line)
        self.notes.append(line)

    def as_dict(self) -> dict[str, Any]:
        """The common form. JSON has no NaN and no infinity: what was not measured is null."""
        return _finite(
            {
                "benchmark": self.benchmark,
                "command": self.command,
                "started": self.started.isoformat(timespec="seconds"),
                "seconds": time.perf_counter() - self._began,
                "machine": self.machine,
                "versions": self.versions,
                "settings": dict(self.settings),
                "notes": self.notes,
                "rows": self.rows,
            }
        )

    def write(self, path: Path) -> None:
        """Write the common form as JSON. An existing file is replaced only by a whole one."""
        write_atomically(path, (json.dumps(self.as_dict(), indent=1, default=_plain) + "\n").encode())

    def _line(self, cells: Iterable[str]) -> str:
        padded = [column.padded(cell) for column, cell in zip(self._columns, cells, strict=True)]
        return "  ".join(padded).rstrip()


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: Any) -> Any:
    """numpy's scalars as Python's, paths as text."""
    return str(value) if isinstance(value, Path) else value.item()
