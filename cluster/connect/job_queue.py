"""Batch systems: dask-jobqueue asks SLURM, PBS, LSF or SGE for jobs, and each job runs workers.

Jobs end when their wall time is over, their node fails, or somebody cancels them. Workers therefore leave before the
wall time ends, and a lost job is submitted again.
"""

from __future__ import annotations

import contextlib
import getpass
import importlib
import importlib.util
import inspect
import math
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import dask.config
from dask.utils import parse_timedelta
from distributed.core import Status

from pairloom.graphs.text import did_you_mean
from pairloom.pipeline.config.cluster_config import JOB_QUEUES, JobQueueConfig, without_hidden
from pairloom.pipeline.config.config import ConfigError

__all__ = ["JobsFailed", "job_arguments", "job_cluster", "kept_up", "unknown_arguments", "worker_lifetime"]

#: The class of dask-jobqueue for every kind of cluster.
CLASSES = dict(zip(JOB_QUEUES, ("SLURMCluster", "PBSCluster", "LSFCluster", "SGECluster"), strict=True))
#: Arguments that a configuration cannot set: Pairloom sets them, they are Python objects, or dask-jobqueue itself
#: refuses them (`host` and `dashboard_address` belong in `scheduler_options`).
NOT_FOR_FILES = {
    "asynchronous",
    "dashboard_address",
    "host",
    "job_cls",
    "loop",
    "n_workers",
    "scheduler",
    "scheduler_cls",
}

WATCH_SECONDS = 2.0
# The run is stopped after this many jobs in a row that ended before a worker started: further ones would fail too.
MOST_FAILURES = 3


class JobsFailed(RuntimeError):
    """The batch system did not accept a job."""


def unknown_arguments(kind: str, given: Iterable[str]) -> list[str]:
    """One line for each key of the section ``[cluster.KIND]`` that is not an argument of its class.

    Without dask-jobqueue nothing is checked here; the run then ends with a message how to install it.
    """
    if importlib.util.find_spec("dask_jobqueue") is None:
        return []
    others = _arguments_of(_cluster_class(kind)) - JobQueueConfig.model_fields.keys()
    known = [*JobQueueConfig.model_fields, *sorted(others)]
    everything = f" Known: {', '.join(known)}."
    return [
        f"cluster.{kind}.{key}: unknown key.{did_you_mean(key, known) or everything}"
        for key in given
        if key not in known
    ]


def _cluster_class(kind: str) -> Any:
    return getattr(importlib.import_module("dask_jobqueue"), CLASSES[kind])


def _arguments_of(cluster_class: Any) -> set[str]:
    """Names of the arguments of a cluster class and of its job class, to which it passes unknown ones."""
    classes = (*inspect.getmro(cluster_class), *inspect.getmro(cluster_class.job_cls))
    of_jobqueue = [one for one in classes if one.__module__.startswith("dask_jobqueue.")]
    parameters = [p for one in of_jobqueue for p in inspect.signature(one).parameters.values()]
    return {p.name for p in parameters if p.kind is not p.VAR_KEYWORD} - NOT_FOR_FILES


def job_arguments(kind: str, config: JobQueueConfig) -> dict[str, Any]:
    """The arguments of the class of dask-jobqueue for a section ``[cluster.KIND]``."""
    arguments = config.model_dump(exclude={"jobs"}, exclude_none=True)
    # Workers start in the folder of the driver, so that relative paths are the same for both.
    here = f"cd {shlex.quote(str(Path.cwd()))} || exit 1"
    arguments["job_script_prologue"] = [here, *config.job_script_prologue]
    arguments["worker_extra_args"] = [
        *config.worker_extra_args,
        *_lifetime_arguments(config),
        *_http_arguments(config),
    ]
    arguments["walltime"] = _walltime_for(kind, config.walltime)
    # Dask's default is a dashboard that listens on every network.
    given = {
        **dask.config.get(f"jobqueue.{kind}.scheduler-options", {}),
        **arguments.get("scheduler_options", {}),
    }
    arguments["scheduler_options"] = {"dashboard_address": "127.0.0.1:0", **given}
    return arguments


def _lifetime_arguments(config: JobQueueConfig) -> list[str]:
    """Options that make a worker leave before its job ends, unless the configuration sets them."""
    if any(word.startswith("--lifetime") for word in config.worker_extra_args):
        return []
    lifetime, stagger = worker_lifetime(config.walltime)
    return ["--lifetime", f"{lifetime}s", "--lifetime-stagger", f"{stagger}s"] if lifetime else []


def _http_arguments(config: JobQueueConfig) -> list[str]:
    """Options that make the HTTP server of a worker listen on loopback, unless the configuration sets its address.

    Dask's default is every network, even if an interface is set.
    """
    if any(word.startswith("--dashboard-address") for word in config.worker_extra_args):
        return []
    return ["--dashboard-address", "127.0.0.1:0"]


def worker_lifetime(walltime: str) -> tuple[int, int]:
    """The lifetime of a worker in seconds, and its random variation, so that not all workers leave at once.

    The last worker leaves a tenth of the wall time, or a minute, before its job is killed.

    Examples
    --------
    >>> worker_lifetime("01:00:00")
    (3360, 180)
    """
    seconds = _seconds(walltime)
    margin, stagger = min(60, math.ceil(seconds / 10)), min(300, seconds // 20)
    return seconds - margin - stagger, stagger


def _seconds(walltime: str) -> int:
    days, _, clock = walltime.rpartition("-")
    hours, minutes, seconds = (int(part) for part in clock.split(":"))
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def _walltime_for(kind: str, walltime: str) -> str:
    """The wall time in the format of a batch system: only SLURM has days, and LSF has no seconds."""
    if kind == "slurm":
        return walltime
    minutes, seconds = divmod(_seconds(walltime), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}" + ("" if kind == "lsf" else f":{seconds:02d}")


def job_cluster(kind: str, config: JobQueueConfig) -> Any:
    """A cluster of dask-jobqueue that has submitted its jobs.

    Raises
    ------
    ImportError
        If dask-jobqueue is not installed.
    ConfigError
        If the class does not accept an argument of the configuration.
    JobsFailed
        If the scheduler does not start, or if the batch system accepts no job, for example because its command is
        missing or the queue is unknown.
    """
    cluster_class = _cluster_class(kind)
    try:
        cluster = cluster_class(**job_arguments(kind, config))
    except (ValueError, TypeError) as error:
        said = without_hidden(str(error), config)
        raise ConfigError(f"cluster.{kind} must be arguments of {CLASSES[kind]}: {said}") from None
    except (RuntimeError, OSError) as error:
        said = without_hidden(str(error), config)
        raise JobsFailed(f"{CLASSES[kind]} could not start a scheduler: {said}") from None
    try:
        cluster.sync(_ask_for, cluster, config.jobs)
    except (RuntimeError, OSError, ValueError) as error:
        cluster.close()
        # A batch system may repeat lines of the script, which may hold secrets; hence `from None`, too.
        said = _last_lines(without_hidden(str(error), config))
        raise JobsFailed(f"{CLASSES[kind]} could not submit a job: {said}") from None
    return cluster


async def _ask_for(cluster: Any, jobs: int) -> None:
    """Scale a cluster to a number of jobs. ``cluster.scale`` would only log an error of the batch system."""
    while len(cluster.worker_spec) < jobs:
        cluster.worker_spec.update(cluster.new_worker_spec())
    try:
        await cluster
    except BaseException:
        for job in cluster.workers.values():
            if job.job_id is None:
                job.status = Status.failed  # otherwise the cluster could not be closed
        raise


def _last_lines(text: str) -> str:
    """The output of a batch system's command, from the end of an error of dask-jobqueue."""
    return " ".join(text.partition("stderr:")[2].split()) or text


@contextlib.contextmanager
def kept_up(cluster: Any, kind: str, jobs: int, on_failure: Callable[[str], None]) -> Iterator[None]:
    """Submit lost jobs again while a cluster is used.

    Parameters
    ----------
    on_failure
        Called from another thread, with a reason, when several jobs in a row end before a worker starts.
    """
    keeper = _JobKeeper(cluster, kind, jobs, on_failure)
    try:
        yield
    finally:
        keeper.close()


class _JobKeeper:
    """A thread that compares the jobs of a cluster with its workers.

    ``cluster.adapt`` is not enough. It misses the loss of a job with several processes, whose workers have names
    different from the job's, and of a job that ends before its workers start.
    """

    def __init__(self, cluster: Any, kind: str, jobs: int, on_failure: Callable[[str], None]) -> None:
        self._cluster, self._kind, self._jobs, self._on_failure = cluster, kind, jobs, on_failure
        self._patience = parse_timedelta(dask.config.get("distributed.deploy.lost-worker-timeout"))
        self._seen: dict[str, float] = {}
        self._failures = 0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="pairloom-jobs", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._closed.wait(WATCH_SECONDS):
            try:
                there, jobs = self._cluster.sync(self._snapshot)
            except (OSError, RuntimeError, TimeoutError):  # the cluster is busy, or about to close
                continue
            listed = _listed_jobs(self._kind)
            lost = [name for name, job in jobs.items() if self._is_lost(name, job, name in there, listed)]
            if lost and not self._closed.is_set():
                self._replace(lost, [jobs[name] for name in lost])

    async def _snapshot(self) -> tuple[set[str], dict[str, str | None]]:
        """Names of the jobs that have workers, and the numbers of all jobs in the batch system, by name."""
        workers = {str(worker["name"]) for worker in self._cluster.scheduler_info["workers"].values()}
        there = {
            name
            for name, spec in self._cluster.worker_spec.items()
            if any(f"{name}{suffix}" in workers for suffix in spec.get("group", [""]))
        }
        # Dask drops a job whose workers have been gone for some seconds, even if the job has not ended.
        jobs = self._cluster.workers
        return there, {
            name: jobs[name].job_id if name in jobs else None for name in self._cluster.worker_spec
        }

    def _is_lost(self, name: str, job: str | None, there: bool, listed: set[str] | None) -> bool:
        if there:
            self._seen[name], self._failures = time.monotonic(), 0
            return False
        if job is None:
            return True
        if listed is not None:
            return job not in listed
        return name in self._seen and time.monotonic() - self._seen[name] > self._patience

    def _replace(self, lost: list[str], jobs: list[str | None]) -> None:
        # A job without a number does not count as a failure: the batch system refused it, perhaps for lack of room, or
        # Dask dropped it.
        self._failures += sum(
            name not in self._seen and job is not None for name, job in zip(lost, jobs, strict=True)
        )
        if self._failures >= MOST_FAILURES:
            self._closed.set()
            self._on_failure(
                f"{self._failures} jobs ended before a worker had come, the last of them job {jobs[-1]}. "
                f"Read their output (cluster.{self._kind}.log_directory says where it goes)."
            )
            return
        for name in lost:
            self._seen.pop(name, None)
        # If the batch system accepts no job now, the job has no number, counts as lost, and is submitted again later.
        with contextlib.suppress(RuntimeError, OSError, ValueError):
            self._cluster.sync(self._cluster.scale_down, lost)
            self._cluster.sync(_ask_for, self._cluster, self._jobs)


def _listed_jobs(kind: str) -> set[str] | None:
    """Numbers of this user's jobs that wait or run; None if the batch system cannot tell."""
    if kind != "slurm":
        return None
    command = ["squeue", "--noheader", "--format=%A", f"--user={getpass.getuser()}"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return set(answer.stdout.split()) if answer.returncode == 0 else None
