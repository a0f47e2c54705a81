"""The description of a cluster to simulate: the keys of a ``[simulate]`` table, and options of `pairloom simulate`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from dask.utils import parse_bytes
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pairloom.cluster.config.config_problems import problems_of
from pairloom.pipeline.config.config import ConfigError
from pairloom.pipeline.config.sections import SIZE

__all__ = ["SimulatedCluster", "described_cluster"]

_GIGABYTE = 1e9


class SimulatedCluster(BaseModel):
    """A cluster. Default speeds are typical of clouds; the driver's times were measured with Dask 2026, two cores."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=True)

    workers: int = Field(1, ge=1, le=100_000, description="number of workers, processes with one cache each")
    cores: int = Field(1, ge=1, le=1024, description="threads per worker, each on its own core")
    memory: str = Field("4GiB", pattern=SIZE, description="memory per worker")
    link: float = Field(1.25, gt=0, description="bandwidth of a worker's network link, in GB/s")
    store: float = Field(5.0, gt=0, description="bandwidth of the store, shared by all, in GB/s")
    latency: float = Field(0.001, ge=0, description="seconds per operation of the store")
    submit_seconds: float = Field(3e-4, ge=0, description="driver's seconds to submit a task")
    handle_seconds: float = Field(
        0.0047, ge=0, description="seconds of driver and scheduler per finished task"
    )
    handle_seconds_per_worker: float = Field(
        2e-6, ge=0, description="the same, for each worker: the driver asks for the threads of all of them"
    )
    unit_seconds: float = Field(0.0015, ge=0, description="worker's seconds to record a unit in the ledger")
    ledger_seconds: float = Field(1e-5, ge=0, description="driver's seconds to look for a ledger entry")
    plan_seconds_per_pair: float = Field(
        2.3e-6, ge=0, description="worker's seconds to read the plan, for each pair"
    )
    startup: float = Field(60.0, ge=0, description="seconds until workers have started")
    price: float = Field(0.05, ge=0, description="price of a worker per hour")
    failures_per_hour: float = Field(0.0, ge=0, description="workers that fail per hour, of all together")
    preemptions: float = Field(0.0, ge=0, description="preemptions per hour and worker")
    failed_seconds: float = Field(120.0, ge=0, description="seconds until a failed worker is back")
    preempted_seconds: float = Field(600.0, ge=0, description="seconds until a preempted worker is back")
    notice_seconds: float = Field(5.0, ge=0, description="seconds until the scheduler notices a lost worker")

    @property
    def memory_bytes(self) -> int:
        """Memory per worker."""
        return int(parse_bytes(self.memory))

    @property
    def link_bytes(self) -> float:
        """Bytes per second of a worker's link."""
        return self.link * _GIGABYTE

    @property
    def store_bytes(self) -> float:
        """Bytes per second of the store."""
        return self.store * _GIGABYTE

    @property
    def losses_per_second(self) -> float:
        """Workers lost per second, in total."""
        return (self.failures_per_hour + self.preemptions * self.workers) / 3600

    @property
    def preempted_share(self) -> float:
        """The share of lost workers that are preempted."""
        lost = self.losses_per_second
        return self.preemptions * self.workers / 3600 / lost if lost else 0.0

    @classmethod
    def this_computer(cls, workers: int, startup: float = 2.5) -> SimulatedCluster:
        """Processes on this computer. Measured times include their reads and writes, so no time is added for these."""
        return cls(workers=workers, memory="1TiB", link=1e9, store=1e9, latency=0, startup=startup, price=0.0)


def described_cluster(file: Path | None, options: dict[str, Any]) -> SimulatedCluster:
    """The cluster of the ``[simulate]`` table of a TOML file, with some keys replaced.

    Raises
    ------
    ConfigError
        If anything is invalid, with one line per problem.
    """
    table = {} if file is None else _table(file)
    given = table | {key: value for key, value in options.items() if value is not None}
    try:
        return SimulatedCluster.model_validate(given)
    except ValidationError as error:
        problems = problems_of([dict(detail) for detail in error.errors()], given)
        raise ConfigError("\n".join(["simulate:", *(f"  {line}" for line in problems)])) from error


def _table(file: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8")).get("simulate", {})
    except (ValueError, OSError, RecursionError) as error:
        raise ConfigError(
            f"--cluster must be a TOML file with a table [simulate], got {file}: {error}."
        ) from error
    if not isinstance(table, dict):
        raise ConfigError(f"{file}: simulate must be a table, got {table!r}.")
    return table
