"""The sections ``[cluster.slurm]``, ``[cluster.pbs]`` and so on: jobs of a batch system."""

from __future__ import annotations

from pydantic import ConfigDict, Field, JsonValue

from pairloom.cluster.config.patterns import SIZE, WALLTIME
from pairloom.cluster.config.section import Section

__all__ = ["JOB_QUEUES", "JobQueueConfig"]

#: Batch systems that dask-jobqueue submits to. Each has a section of its own, ``[cluster.slurm]`` and so on.
JOB_QUEUES = ("slurm", "pbs", "lsf", "sge")


class JobQueueConfig(Section):
    """Jobs of a batch system. Keys are arguments of its class in dask-jobqueue, except `jobs`, the number of jobs.

    Those that are not declared here are compared with the signature of the class.
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
