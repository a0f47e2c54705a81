"""The section ``[cluster]``: where the tasks run."""

from __future__ import annotations

import os
from typing import Literal, Self

from dask.utils import format_bytes, parse_bytes
from pydantic import Field, model_validator

from pairloom.cluster.config.job_queue_config import JOB_QUEUES, JobQueueConfig
from pairloom.cluster.config.patterns import ADDRESS
from pairloom.cluster.config.section import Section
from pairloom.cluster.worker_memory import least_worker_bytes
from pairloom.pipeline.model.number_checks import MOST

__all__ = ["ClusterConfig"]


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
        120.0, gt=0, le=MOST, description="seconds to wait for the first worker of a scheduler"
    )
    retries: int = Field(10, ge=0, description="how often a task may lose its worker before the run fails")
    slurm: JobQueueConfig | None = Field(None, description="jobs of SLURM")
    pbs: JobQueueConfig | None = Field(None, description="jobs of PBS")
    lsf: JobQueueConfig | None = Field(None, description="jobs of LSF")
    sge: JobQueueConfig | None = Field(None, description="jobs of SGE")

    @property
    def is_elsewhere(self) -> bool:
        """Whether the workers are others than processes or threads that the driver starts on its computer."""
        return self.kind not in ("processes", "threads")

    @property
    def job_queue(self) -> JobQueueConfig | None:
        """The section of the batch system, if one runs the workers."""
        section: JobQueueConfig | None = getattr(self, self.kind) if self.kind in JOB_QUEUES else None
        return section

    @property
    def expected_workers(self) -> int:
        """How many workers there should be: those of all jobs, or local ones, by default one per core.

        Those of a scheduler are not known before it is asked; as many as this computer has cores are taken.
        """
        if self.job_queue is not None:
            return self.job_queue.jobs * self.job_queue.processes
        return self.workers or os.cpu_count() or 1

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
        if jobs is not None and parse_bytes(jobs.memory) < jobs.processes * least:
            raise ValueError(
                f"cluster.{self.kind}.memory must be at least {format_bytes(jobs.processes * least)}, "
                f"{format_bytes(least)} for each process, or Dask pauses them before their first task, "
                f"got {jobs.memory}"
            )
        return self
