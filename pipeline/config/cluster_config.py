"""The section ``[cluster]``: where the tasks run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Self

import dask
from pydantic import ConfigDict, Field, JsonValue, model_validator

from pairloom.graphs.text import format_bytes
from pairloom.pipeline.config.sections import ADDRESS, SIZE, WALLTIME, Section, bytes_in
from pairloom.pipeline.model.settings import LARGEST_COUNT
from pairloom.pipeline.process_memory import total_bytes

__all__ = [
    "JOB_QUEUES",
    "PROCESS_BYTES",
    "ClusterConfig",
    "JobQueueConfig",
    "WorkersTooSmall",
    "check_worker_memory",
    "is_shown",
    "least_worker_bytes",
    "shown_setting",
    "without_hidden",
]

#: Keys of [cluster], and of the section of a batch system, that reports, comparisons and errors show. Any other may
#: hold a secret, such as a token that `job_script_prologue` exports.
_SHOWN = {
    "kind",
    "workers",
    "scheduler",
    "scheduler_file",
    "tls_ca_file",
    "tls_cert",
    "tls_key",
    "insecure",
    "worker_timeout",
    "retries",
}
_SHOWN_OF_JOBS = {"queue", "account", "cores", "processes", "memory", "walltime", "jobs", "interface"}
HIDDEN = "(not shown)"


class ClusterConfig(Section):
    """Where the tasks run. No result depends on these keys."""

    kind: Literal["processes", "threads", "scheduler", "slurm", "pbs", "lsf", "sge"] = Field(
        "processes",
        description="where workers are: processes or threads of this computer, a Dask scheduler, or a batch system",
    )
    workers: int | None = Field(None, ge=1, description="number of local workers; default: one per CPU")
    scheduler: str | None = Field(
        None, pattern=ADDRESS, description="address of a Dask scheduler, such as tcp://127.0.0.1:8786"
    )
    scheduler_file: str | None = Field(None, description="scheduler file that a Dask scheduler wrote")
    tls_ca_file: str | None = Field(None, description="certificate of the authority (PEM)")
    tls_cert: str | None = Field(None, description="certificate of this client (PEM)")
    tls_key: str | None = Field(None, description="private key of this client (PEM)")
    insecure: bool = Field(False, description="allow a scheduler off loopback without TLS")
    worker_timeout: float = Field(
        120.0,
        gt=0,
        le=LARGEST_COUNT,
        description="seconds to wait for a worker: the first, or others when all left",
    )
    retries: int = Field(10, ge=0, description="how often a task may lose its worker before the run fails")
    slurm: JobQueueConfig | None = Field(None, description="jobs of SLURM")
    pbs: JobQueueConfig | None = Field(None, description="jobs of PBS")
    lsf: JobQueueConfig | None = Field(None, description="jobs of LSF")
    sge: JobQueueConfig | None = Field(None, description="jobs of SGE")

    @property
    def is_remote(self) -> bool:
        """Whether the workers are not processes or threads that the driver starts on its own computer."""
        return self.kind not in ("processes", "threads")

    @property
    def job_queue(self) -> JobQueueConfig | None:
        """The section of the batch system, if one runs the workers."""
        section: JobQueueConfig | None = getattr(self, self.kind) if self.kind in JOB_QUEUES else None
        return section

    @property
    def expected_workers(self) -> int:
        """Expected number of workers: those of all jobs, or local ones, by default one per core.

        The workers of a scheduler are unknown until the driver connects; one per core of this computer is assumed.
        """
        if self.job_queue is not None:
            return self.job_queue.jobs * self.job_queue.processes
        return self.workers or os.cpu_count() or 1

    @property
    def worker_bytes(self) -> int:
        """Memory per worker: its share of a job's, or of this computer's, as Dask divides it among local workers.

        The workers of a scheduler are unknown until the driver connects; those of this computer are assumed.
        """
        if self.job_queue is not None:
            return bytes_in(self.job_queue.memory) // self.job_queue.processes
        return total_bytes() // self.expected_workers

    @model_validator(mode="after")
    def _one_way_to_the_cluster(self) -> Self:
        if self.scheduler and self.scheduler_file:
            raise ValueError("cluster.scheduler and cluster.scheduler_file must not both be set: remove one")
        if (self.kind == "scheduler") != bool(self.scheduler or self.scheduler_file):
            raise ValueError(
                'cluster.kind must be "scheduler" if and only if cluster.scheduler or cluster.scheduler_file '
                f"is set, got {self.kind!r}"
            )
        for queue in JOB_QUEUES:
            if (self.kind == queue) != (getattr(self, queue) is not None):
                raise ValueError(
                    f'cluster.kind must be "{queue}" if and only if there is a section [cluster.{queue}], '
                    f"got {self.kind!r}"
                )
        if len({bool(part) for part in (self.tls_ca_file, self.tls_cert, self.tls_key)}) > 1:
            raise ValueError("cluster.tls_ca_file, tls_cert and tls_key must be set together")
        return self

    @model_validator(mode="after")
    def _a_core_for_every_process(self) -> Self:
        jobs = self.job_queue
        if jobs is not None and jobs.processes > jobs.cores:
            raise ValueError(
                f"cluster.{self.kind}.processes must be at most cluster.{self.kind}.cores ({jobs.cores}), "
                f"got {jobs.processes}"
            )
        return self

    @model_validator(mode="after")
    def _memory_for_every_process(self) -> Self:
        jobs, least = self.job_queue, least_worker_bytes()
        if jobs is not None and bytes_in(jobs.memory) < jobs.processes * least:
            raise ValueError(
                f"cluster.{self.kind}.memory must be at least {format_bytes(jobs.processes * least)}, "
                f"{format_bytes(least)} for each process, or Dask pauses them before their first task, "
                f"got {jobs.memory}"
            )
        return self


#: Batch systems that dask-jobqueue submits to. Each has a section of its own, ``[cluster.slurm]`` and so on.
JOB_QUEUES = ("slurm", "pbs", "lsf", "sge")


class JobQueueConfig(Section):
    """Jobs of a batch system. Keys are arguments of its class in dask-jobqueue, except `jobs`, the number of jobs.

    Keys that are not declared here are checked against the signature of the class.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue]

    queue: str | None = Field(None, description="queue, or partition, of the batch system")
    account: str | None = Field(None, description="account that the jobs are charged to")
    cores: int = Field(1, ge=1, description="cores per job")
    processes: int = Field(1, ge=1, description="workers per job")
    memory: str = Field("4GiB", pattern=SIZE, description="memory per job")
    walltime: str = Field("01:00:00", pattern=WALLTIME, description="workers leave shortly before it ends")
    jobs: int = Field(1, ge=1, description="number of jobs; lost ones are asked for again")
    interface: str | None = Field(None, description="network interface of scheduler and workers, such as ib0")
    job_extra_directives: list[str] = Field([], description="further lines of the job's header")
    job_script_prologue: list[str] = Field([], description="commands of the job before a worker starts")
    worker_extra_args: list[str] = Field([], description="further arguments of dask worker")


def shown_setting(key: str, value: Any) -> Any:
    """The value of a dotted key of a configuration as others may see it: hidden if it may be a secret.

    Examples
    --------
    >>> shown_setting("cluster.slurm.job_script_prologue", ["export TOKEN=1"]), shown_setting("graph.hubs", 3)
    ('(not shown)', 3)
    """
    return value if is_shown(key) or not value else HIDDEN


def is_shown(key: str) -> bool:
    """Whether others may see the value of a dotted key of a configuration."""
    match key.split("."):
        case ["cluster", kind, name, *_] if kind in JOB_QUEUES:
            return name in _SHOWN_OF_JOBS
        case ["cluster", name, *_]:
            return name in _SHOWN
    return True


def without_hidden(text: str, config: JobQueueConfig) -> str:
    """A text, such as the answer of a batch system, in which the values of hidden keys are masked."""
    values = config.model_dump(mode="json", exclude=_SHOWN_OF_JOBS)
    for value in sorted(_texts(values), key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return text


def _texts(value: Any) -> Iterator[str]:
    """All lines of text in a JSON value, except those too short to be secrets, which occur in any sentence."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield from (line.strip() for line in value.splitlines() if len(line.strip()) > 2)


#: Memory of a worker process before its first task: Python, numpy, scikit-learn, dask, zarr and compiled kernels.
PROCESS_BYTES = 450 * 2**20


class WorkersTooSmall(RuntimeError):
    """No worker has enough memory to begin a task."""


def least_worker_bytes() -> int:
    """The least memory with which Dask does not pause an idle worker; 0 if Dask is configured not to pause workers."""
    share = dask.config.get("distributed.worker.memory.pause", 0.8)
    return int(PROCESS_BYTES / share) if share else 0


def check_worker_memory(limits: Mapping[str, int]) -> list[str]:
    """Raise if no worker can begin a task; else return the workers that cannot.

    Parameters
    ----------
    limits
        Memory in bytes by the address of the worker. Zero is no limit.
    """
    least = least_worker_bytes()
    small = {worker: limit for worker, limit in limits.items() if 0 < limit < least}
    if small and len(small) == len(limits):
        worker, limit = max(small.items(), key=lambda item: item[1])
        raise WorkersTooSmall(
            f"Workers must have at least {format_bytes(least)} of memory each, or Dask pauses them before their first"
            f" task, got at most {format_bytes(limit)} ({worker}). Start fewer of them, or give them more memory."
        )
    return list(small)
