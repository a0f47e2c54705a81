"""A run in an object store compared with the same run in a folder.

The commands are those of a user, `pairloom run`, each in a separate process with local workers. The store is SeaweedFS
on this computer, whose own CPU time does not count. The runs take turns, after one that compiles the kernels and brings
the data into the page cache, and the fastest of each place counts. All must have the same bytes.
"""

import contextlib
import hashlib
import os
import re
import resource
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pairloom.benchmarks.local_store import new_bucket, seaweed
from pairloom.benchmarks.record import Column, Ratio, Record, add_ratios, summary
from pairloom.benchmarks.resume import RunFailed, run_to_the_end
from pairloom.benchmarks.timed_run import GROUPS
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.location import Location, location_of

#: Targets: highest ratio to the run in a folder, and highest number of requests.
HIGHEST_RATIO, HIGHEST_REQUESTS = 1.5, 20_000


@dataclass(frozen=True)
class Row:
    """One run."""

    home: str
    seconds: float
    cpu_s: float
    requests: int
    digest: str


COLUMNS = (
    Column("home", lambda row: row.home, 6),
    Column("wall s", lambda row: f"{row.seconds:.1f}"),
    Column("CPU s", lambda row: f"{row.cpu_s:.1f}"),
    Column("requests", lambda row: f"{row.requests or '-'}", 8),
)


def compare_homes(
    record: Record, config: str, overrides: Sequence[str], workers: int, rounds: int, *, warm_up: bool = True
) -> list[Row]:
    """Runs in a folder and in a store, in turns."""
    options = [word for override in overrides for word in ("--set", override)] + ["--workers", str(workers)]
    with tempfile.TemporaryDirectory() as name, _local_store(Path(name)) as bucket:
        folder = Path(name) / "runs"
        if warm_up:
            run_to_the_end(["run", config, "--directory", str(folder / "warm"), *options])
        record.begin("homes", COLUMNS, f"{config} on {workers} workers")
        rows = []
        for number in range(rounds):
            for home, directory in (
                ("folder", str(folder / str(number))),
                ("store", f"s3://{bucket}/{number}"),
            ):
                rows.append(_measured(home, config, directory, options))
                record.add(rows[-1])
    if len({row.digest for row in rows}) > 1:
        raise RunFailed(f"{config}: a run in the store has other bytes than one in a folder.")
    ratios = verdicts(rows)
    add_ratios(record, "targets", ratios, "store / folder", ours="store", theirs="folder")
    record.note(summary(ratios))
    return rows


def verdicts(rows: Sequence[Row]) -> list[Ratio]:
    """Whether the store keeps the targets."""
    stored, local = ([row for row in rows if row.home == home] for home in ("store", "folder"))
    wall, cpu = (
        (min(getattr(row, name) for row in stored), min(getattr(row, name) for row in local))
        for name in ("seconds", "cpu_s")
    )
    most = max(row.requests for row in stored)
    return [
        Ratio("wall time", *wall, "s", wall[0] / wall[1], "<=", HIGHEST_RATIO),
        Ratio("CPU time", *cpu, "s", cpu[0] / cpu[1], "<=", HIGHEST_RATIO),
        Ratio("requests", most, HIGHEST_REQUESTS, "", most, "<=", HIGHEST_REQUESTS),
    ]


@contextlib.contextmanager
def _local_store(folder: Path) -> Iterator[str]:
    """A bucket in a store on this computer; the environment is set to reach it."""
    data, before = folder / "store", dict(os.environ)
    data.mkdir()
    with seaweed(data) as port:
        os.environ.update(
            AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}",
            AWS_ALLOW_HTTP="true",
            AWS_ACCESS_KEY_ID="anyone",
            AWS_SECRET_ACCESS_KEY="anything",
            AWS_REGION="us-east-1",
        )
        try:
            yield new_bucket(port)
        finally:
            os.environ.clear()
            os.environ.update(before)


def _measured(home: str, config: str, directory: str, options: Sequence[str]) -> Row:
    before = _cpu_of_children()
    seconds = run_to_the_end(["run", config, "--directory", directory, *options]).seconds
    where = location_of(directory, "directory")
    return Row(home, seconds, _cpu_of_children() - before, _requests(where), _digest(where))


def _cpu_of_children() -> float:
    """CPU seconds of all child processes that have ended, including theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _requests(directory: Location) -> int:
    """The number of requests that a run reports."""
    log = b"".join(Folder(directory).appended("log.txt")).decode()
    return sum(map(int, re.findall(r"(\d+) requests to the store", log)))


def _digest(directory: Location) -> str:
    folder, total = Folder(directory), hashlib.sha256()
    for group in GROUPS:
        for path in folder.below(group):
            total.update(path.encode() + folder.read(path))
    return total.hexdigest()
