"""The record of a benchmark: the machine, tables that are printed row by row, ratios with targets, and one JSON file.

Every benchmark has the same form::

    {"benchmark", "command", "started", "seconds", "machine", "versions", "settings", "notes", "rows"}

``rows`` has the rows of all tables, each with the name of its table and its figures in full precision.
"""

import json
import math
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import psutil

from pairloom.pipeline.experiments.perform import processor
from pairloom.pipeline.storage.atomic_file import write_atomically

PACKAGES = ("pairloom", "numpy", "scipy", "scikit-learn", "numba", "dask", "distributed", "zarr")


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
    """The results of a benchmark so far. Rows are dataclasses.

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
        """Print and keep a row; ``text`` is printed instead of its cells."""
        self._echo(text if text is not None else self._line(column.cell(row) for column in self._columns))
        self.rows.append({"table": self._table, **asdict(row)})

    def show(self, columns: Iterable[Column], rows: Iterable[Any], title: str) -> None:
        """Print other columns of rows that were added before."""
        self.begin(self._table, columns, title)
        for row in rows:
            self._echo(self._line(column.cell(row) for column in self._columns))

    def note(self, line: str) -> None:
        """Print and keep a sentence."""
        self._echo(line)
        self.notes.append(line)

    def as_dict(self) -> dict[str, Any]:
        """The common form. JSON has no NaN and no infinity, so missing values are null."""
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
        """Write the common form as JSON. An existing file is replaced atomically."""
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


def machine() -> dict[str, Any]:
    """Processor, cores, memory, operating system, and the load when the benchmark started.

    The load is the average number of runnable processes in the last minute. A quiet machine has less than one.
    """
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "usable_cores": usable_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": platform.platform(),
        "load": psutil.getloadavg()[0],
    }


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that do the work."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def machine_lines(facts: dict[str, Any], packages: dict[str, str]) -> list[str]:
    """Facts and versions as lines to print."""
    return [
        f"{facts['processor']}, {facts['cores']} cores ({facts['usable_cores']} usable), "
        f"{facts['memory_bytes'] / 2**30:.1f} GiB, {facts['system']}, load {facts['load']:.2f}",
        ", ".join(f"{name} {number}" for name, number in packages.items()),
    ]


@dataclass(frozen=True)
class Ratio:
    """Two figures, a figure derived from them, and its target.

    Parameters
    ----------
    what
        The comparison, as text.
    ours, theirs, unit
        Both figures and their unit.
    figure
        Usually their ratio; ``what`` says which.
    relation, target
        The target is a lower (">=") or an upper ("<=") bound on ``figure``.
    """

    what: str
    ours: float
    theirs: float
    unit: str
    figure: float
    relation: Literal[">=", "<="]
    target: float
    met: bool = field(init=False)

    def __post_init__(self) -> None:
        met = self.figure >= self.target if self.relation == ">=" else self.figure <= self.target
        object.__setattr__(self, "met", met)


def ratio_columns(ours: str = "ours", theirs: str = "theirs", width: int = 40) -> tuple[Column, ...]:
    """The columns of a table of ratios."""
    return (
        Column("", lambda row: row.what, width, left=True),
        Column(ours, lambda row: quantity(row.ours, row.unit), 12),
        Column(theirs, lambda row: quantity(row.theirs, row.unit), 12),
        Column("figure", lambda row: f"{row.figure:.3f}", 8),
        Column("target", lambda row: f"{row.relation} {row.target:g}", 8),
        Column("", lambda row: "OK" if row.met else "missed", 6, left=True),
    )


def quantity(value: float, unit: str) -> str:
    """A figure with its unit; short times are printed in milliseconds."""
    if unit == "s" and value < 1:
        return f"{1000 * value:.3g} ms"
    return f"{value:.4g} {unit}".rstrip()


def add_ratios(record: Record, table: str, ratios: Sequence[Ratio], title: str = "", **heads: str) -> None:
    """Print and keep a table of ratios."""
    width = max((len(ratio.what) for ratio in ratios), default=0)
    record.begin(table, ratio_columns(**heads, width=width), title)
    for ratio in ratios:
        record.add(ratio)


def summary(ratios: Sequence[Ratio]) -> str:
    """The number of missed targets, as a sentence."""
    missed = sum(not ratio.met for ratio in ratios)
    return "All targets met." if not missed else f"{missed} of {len(ratios)} targets missed."
