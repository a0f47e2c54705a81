"""How a run scales with its workers: the same run on one worker, on two, and so on.

    python -m pairloom.benchmarks.scaling [--config imagenet50-synthetic] [--workers 1 2 4] [--set SECTION.KEY=VALUE]
    python -m pairloom.benchmarks.scaling --quick

Workers are processes on this machine with one thread each. They are started, and warmed up by small runs, before the
clock starts. Seconds are those of the stages that run on the cluster. "speedup" is against the first number of workers,
and "efficiency" is the speedup divided by the ratio of the numbers of workers. All runs must write the same bytes,
otherwise the benchmark ends with an error.
"""

import argparse
import functools
import hashlib
import os
import tempfile
import time
from pathlib import Path
from types import TracebackType

from distributed import Client

from pairloom.cluster.config import ClusterConfig, Config
from pairloom.cluster.config_file import load_config
from pairloom.cluster.connect import connected
from pairloom.cluster.driver import adopt_plan, drive, prepare_run
from pairloom.cluster.progress import Quiet
from pairloom.cluster.schedule import Stop
from pairloom.pipeline.experiments.perform import computer

#: The stages that run on the cluster, in the order of a run; the driver does the others itself.
STAGES = ("machines", "draw_logits", "growth", "calibration", "logits", "probabilities")
GROUPS = ("machines.zarr", "logits.zarr", "probabilities.zarr")


class Stopwatch(Quiet):
    """Measures the seconds from the start of each stage to the start of the next."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._stage: str | None = None
        self._since = 0.0

    def begin(self, stage: str, done: int, total: int) -> None:
        """Start a stage and end the one before. A run that grows starts some stages more than once."""
        now = time.perf_counter()
        if self._stage is not None:
            self.seconds[self._stage] = self.seconds.get(self._stage, 0.0) + now - self._since
        self._stage, self._since = stage, now


def run(config: Config, directory: Path, client: Client) -> dict[str, float]:
    """Do a whole run on a cluster and return the seconds of its stages."""
    fresh, data = prepare_run(config, directory)
    directory.mkdir()
    plan, watch = adopt_plan(directory, config, fresh), Stopwatch()
    drive(directory, plan, data, functools.partial(_Given, client), Stop(), watch)
    return {stage: watch.seconds.get(stage, 0.0) for stage in STAGES}


class _Given:
    """A connection to a client that is connected already and stays so."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __enter__(self) -> Client:
        return self._client

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


def digest(directory: Path) -> str:
    """Digest of all files that the cluster has written."""
    total = hashlib.sha256()
    for group in GROUPS:
        for path in sorted((directory / group).rglob("*")):
            if path.is_file():
                total.update(path.relative_to(directory).as_posix().encode() + path.read_bytes())
    return total.hexdigest()


def measure(config: Config, workers: int, folder: Path) -> tuple[dict[str, float], str]:
    """Seconds of the stages on a number of workers, and the digest of the result."""
    with connected(ClusterConfig(workers=workers)) as client:
        # Every worker compiles or loads the kernels once, which is not to be measured.
        for turn in range(2):
            small = load_config("digits", [f"model.random_state={turn}"])
            run(small, folder / f"warm-{workers}-{turn}", client)
        directory = folder / f"run-{workers}"
        return run(config, directory, client), digest(directory)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--config", default="imagenet50-synthetic", help="a configuration's name or file")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="SECTION.KEY=VALUE")
    parser.add_argument(
        "--workers",
        type=int,
        nargs="+",
        default=[1, os.cpu_count() or 1],
        help="numbers of workers (default: 1 and one per core)",
    )
    parser.add_argument("--quick", action="store_true", help="digits in place of ImageNet-50")
    chosen = parser.parse_args(arguments)
    config = load_config("digits" if chosen.quick else chosen.config, chosen.overrides)
    print(computer())
    print(f"{config.run.name}: {config.graph.family}\n")
    print(
        f"{'workers':>7s}  " + "".join(f"{stage:>14s}" for stage in STAGES) + "   total  speedup  efficiency"
    )
    first: tuple[int, float] | None = None
    digests: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        for workers in dict.fromkeys(chosen.workers):
            seconds, found = measure(config, workers, Path(folder))
            digests.add(found)
            total = sum(seconds.values())
            first = first or (workers, total)
            speedup = first[1] / total
            cells = "".join(f"{seconds[stage]:14.2f}" for stage in STAGES)
            print(
                f"{workers:7d}  {cells} {total:7.2f} {speedup:8.2f} {speedup * first[0] / workers:11.2f}",
                flush=True,
            )
    if len(digests) > 1:
        raise SystemExit("runs on different numbers of workers differ")
    print("\nthe same bytes on every number of workers")


if __name__ == "__main__":
    main()
