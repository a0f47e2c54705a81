"""The way to a Dask cluster: one started here, an address, a scheduler file, or SLURM jobs."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import signal
from collections.abc import Iterator
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from distributed import Client, LocalCluster
from distributed.security import Security

import pairloom
from pairloom.cluster.config import ClusterConfig, SlurmConfig
from pairloom.cluster.units import VersionMismatch

__all__ = ["Insecure", "Unreachable", "check_worker_versions", "connected", "slurm_arguments"]

CONNECT_SECONDS = 15


class Insecure(RuntimeError):
    """A scheduler that others can listen to and speak to."""


class Unreachable(RuntimeError):
    """No scheduler answers."""


@contextlib.contextmanager
def connected(config: ClusterConfig) -> Iterator[Client]:
    """A client of the cluster that a configuration describes; a cluster that was started for it ends with
    it."""
    with contextlib.ExitStack() as stack:
        if config.kind == "scheduler":
            client = stack.enter_context(_client_of_scheduler(config))
        else:
            cluster = stack.enter_context(_started_cluster(config))
            client = stack.enter_context(Client(cluster))
        check_worker_versions(client)
        yield client


def check_worker_versions(client: Client) -> None:
    """Refuse workers that have another version of pairloom, or none.

    Workers that come later, and those that could not answer, are asked again by each of their tasks.
    """
    for worker, answer in client.run(_version, on_error="return").items():
        if answer != pairloom.__version__ and not isinstance(answer, OSError):
            raise VersionMismatch(
                f"the driver has pairloom {pairloom.__version__}, the worker {worker} has {answer!r}"
            )


def _version() -> str:
    return pairloom.__version__


def _started_cluster(config: ClusterConfig) -> Any:
    if config.slurm is not None:
        return _slurm_cluster(config.slurm)
    workers = config.workers or os.cpu_count() or 1
    if config.kind == "threads":
        return LocalCluster(
            n_workers=1, threads_per_worker=workers, processes=False, dashboard_address="127.0.0.1:0"
        )
    with _interrupts_held_back():
        return LocalCluster(
            n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        )


@contextlib.contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Hold Ctrl-C back while processes are started.

    A terminal sends it to them too. They inherit the mask, never see it, and print no traceback; the driver
    sees it afterwards, and ends them.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    # The first process of Python's multiprocessing starts its tracker, which lets Ctrl-C through again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _client_of_scheduler(config: ClusterConfig) -> Client:
    address = config.scheduler or _address_in(Path(str(config.scheduler_file)))
    security = _security(config)
    if not (config.insecure or security or _on_loopback(address)):
        raise Insecure(
            f"the scheduler {address} is not on loopback and there is no TLS: who reaches it can run code "
            "on it. Give --tls-ca-file, --tls-cert and --tls-key, or --insecure if the network is yours alone"
        )
    try:
        return Client(address, security=security, timeout=CONNECT_SECONDS)
    except OSError as error:
        raise Unreachable(f"no Dask scheduler answers at {address}: {error}") from error


def _address_in(scheduler_file: Path) -> str:
    try:
        return str(json.loads(scheduler_file.read_text())["address"])
    except (OSError, ValueError, KeyError) as error:
        raise Unreachable(f"{scheduler_file}: not a scheduler file of Dask: {error!r}") from error


def _security(config: ClusterConfig) -> Security | None:
    if config.tls_ca_file is None:
        return None
    return Security(
        tls_ca_file=config.tls_ca_file,
        tls_client_cert=config.tls_cert,
        tls_client_key=config.tls_key,
        require_encryption=True,
    )


def _on_loopback(address: str) -> bool:
    host = urlsplit(address).hostname or ""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def slurm_arguments(slurm: SlurmConfig) -> dict[str, Any]:
    """The arguments of ``dask_jobqueue.SLURMCluster`` that a ``[cluster.slurm]`` section stands for."""
    arguments = slurm.model_dump(exclude={"jobs"}, exclude_none=True)
    # Workers must find the run directory under the same path, so they start where the driver is.
    arguments["job_extra_directives"] = [f"--chdir={Path.cwd()}", *arguments["job_extra_directives"]]
    return arguments


def _slurm_cluster(slurm: SlurmConfig) -> Any:
    try:
        from dask_jobqueue import SLURMCluster
    except ImportError as error:
        raise Unreachable(
            'cluster.kind = "slurm" needs dask-jobqueue: pip install "pairloom[slurm]"'
        ) from error
    cluster = SLURMCluster(**slurm_arguments(slurm))
    cluster.scale(jobs=slurm.jobs)
    return cluster
