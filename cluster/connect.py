"""Connect to a Dask cluster: one started here, an address, a scheduler file, or jobs of a batch system."""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import functools
import ipaddress
import json
import logging
import os
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, TypeVar

import dask.config
import psutil
from distributed import Client, LocalCluster, Nanny
from distributed.comm.addressing import parse_address, parse_host_port
from distributed.deploy.spec import close_clusters
from distributed.security import Security

import pairloom
from pairloom.cluster.config import ClusterConfig, ConfigError, JobQueueConfig
from pairloom.cluster.job_queue import JobsFailed, job_cluster, kept_up
from pairloom.cluster.units import VersionMismatch
from pairloom.cluster.worker_memory import WorkersTooSmall, check_worker_memory
from pairloom.pipeline.features.source_files import shown

__all__ = [
    "Insecure",
    "Unreachable",
    "check_address",
    "check_dask_versions",
    "check_workers",
    "connected",
    "install_hint",
    "scheduler_answers",
]

CONNECT_SECONDS = 15
#: Seconds that workers may take to say which versions they have.
VERSION_SECONDS = 10
ANSWER_SECONDS = 3
#: Seconds for a cluster that is being started, and is not wanted any more, to notice that its workers are gone.
_ABANDON_SECONDS = 0.5
# Run by every worker process that is started here. They share the terminal of the driver, and Dask has them log every
# task that is cancelled because the run was stopped.
#: Dask's profiler looks at the stacks of a worker this often. Every 10 ms, its default, takes 10% of a run's time.
_PROFILER = "distributed.worker.profile.interval"
_PROFILER_DEFAULT, _PROFILER_INTERVAL = "10ms", "100ms"
QUIET_WORKER = "import logging; logging.getLogger('distributed.worker.state_machine').setLevel(logging.ERROR)"


Answer = TypeVar("Answer")


class Insecure(RuntimeError):
    """The scheduler is on an open network, without TLS."""


class Unreachable(RuntimeError):
    """There is no cluster to connect to."""


def install_hint(extra: str) -> str:
    """How to install an optional dependency: from a clone, as long as no release is on PyPI."""
    return f'Install it, in a clone of pairloom, with: pip install -e ".[{extra}]"'


@contextlib.contextmanager
def connected(
    config: ClusterConfig,
    *,
    note: Callable[[str], None] = lambda line: None,
    on_failure: Callable[[str], None] = lambda reason: None,
) -> Iterator[Client]:
    """Connect a client to the configured cluster. A cluster started for it is closed with it.

    Parameters
    ----------
    note
        Called with messages for the user.
    on_failure
        Called from another thread, with a reason, when a batch system no longer brings workers.

    Raises
    ------
    Unreachable
        If there is no scheduler, or if it has no worker in time. Jobs of a batch system may wait for long, so nobody
        waits for them here.
    VersionMismatch
        If the versions of driver, scheduler and workers do not go together.
    WorkersTooSmall
        If no worker has the memory to begin a task.
    """
    with _quiet_client(), contextlib.ExitStack() as stack:
        if config.kind == "scheduler":
            client = stack.enter_context(_client_of_scheduler(config))
        else:
            stack.enter_context(_sparing_profiler())
            cluster = stack.enter_context(_started_cluster(config))
            if config.job_queue is not None:
                stack.enter_context(kept_up(cluster, config.kind, config.job_queue.jobs, on_failure))
            client = stack.enter_context(Client(cluster, set_as_default=False))
        if config.job_queue is None:
            check_workers(client, config.worker_timeout, note)
        yield client


def _sparing_profiler() -> contextlib.AbstractContextManager[object]:
    """Have Dask profile the workers that are started less often, unless a user has set how often."""
    usual = dask.config.get(_PROFILER) == _PROFILER_DEFAULT
    return dask.config.set({_PROFILER: _PROFILER_INTERVAL}) if usual else contextlib.nullcontext()


@contextlib.contextmanager
def _quiet_client() -> Iterator[None]:
    """Log no lost connection with its traceback: whoever uses the client gets an error."""
    # It has a level of its own, whatever that of its parent "distributed" is.
    logger = logging.getLogger("distributed.client")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def check_workers(client: Client, timeout: float, note: Callable[[str], None] = lambda line: None) -> None:
    """Wait for a worker; check the memory of all that are there, and compare their versions with those here.

    Tasks compare the version of pairloom again, for workers that join later or could not answer.

    Raises
    ------
    Unreachable
        If there is no worker within ``timeout`` seconds.
    VersionMismatch
        If the scheduler or a worker has another version of Python or Dask, or a worker another one of pairloom.
    WorkersTooSmall
        If no worker has the memory to begin a task.
    """
    try:
        _wait_for_worker(client, timeout, note)
        for worker in check_worker_memory(_memory_limits(client)):
            note(f"{worker} has too little memory to begin a task, and does nothing.")
        versions, answers = _within(VERSION_SECONDS, lambda: _versions_of(client))
        check_dask_versions(versions)
    except TimeoutError:
        note("Some workers do not answer. Their versions are compared when they do their first task.")
        return
    except (OSError, RuntimeError, CancelledError) as error:
        if isinstance(error, VersionMismatch | WorkersTooSmall | Unreachable):
            raise
        raise Unreachable(f"Lost the connection to the Dask scheduler: {error!r}.") from error
    for worker, answer in answers.items():
        if answer != pairloom.__version__ and not isinstance(answer, OSError):
            raise VersionMismatch(
                f"Workers must have the driver's version of pairloom, {pairloom.__version__}, "
                f"got {answer!r} on {worker}. Install the same version on both."
            )


def _memory_limits(client: Client) -> dict[str, int]:
    """Memory in bytes of all workers; 0 is no limit."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    return {address: worker["memory_limit"] or 0 for address, worker in workers.items()}


def _versions_of(client: Client) -> tuple[Any, Any]:
    """Versions of Dask everywhere, and of pairloom on the workers."""
    return client.get_versions(), client.run(_version, on_error="return")


def _within(seconds: float, ask: Callable[[], Answer]) -> Answer:
    """The result of a question that a frozen worker would not answer. Raises TimeoutError if it takes longer."""
    answer: Future[Answer] = Future()

    def work() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=work, name="pairloom-versions", daemon=True).start()
    return answer.result(seconds)


def _wait_for_worker(client: Client, timeout: float, note: Callable[[str], None]) -> None:
    """Wait until there is a worker. A waiting task makes an adaptive cluster, which may be empty, start one."""
    if client.nthreads():
        return
    note(f"The cluster has no workers yet; waiting {timeout:g} s for the first.")
    waiting = client.submit(_version, pure=False)
    deadline = time.monotonic() + timeout
    try:
        while not client.nthreads():
            if time.monotonic() > deadline:
                raise Unreachable(
                    f"The cluster has no workers, and none came within {timeout:g} s. "
                    "Start some, or raise cluster.worker_timeout."
                )
            time.sleep(0.1)
    finally:
        waiting.release()


def check_dask_versions(found: Mapping[str, Any]) -> None:
    """Raise unless scheduler and workers have the Python (3.11) and Dask (2026.1) of this client.

    Parameters
    ----------
    found
        The answer of ``Client.get_versions``. Of each version the first two numbers count: that is how far messages
        between processes are the same.
    """
    here = found["client"]["packages"]
    for where, there in {"the scheduler": found["scheduler"], **found["workers"]}.items():
        for package in ("python", "dask", "distributed"):
            version = there["packages"].get(package)
            if _release(version) != _release(here[package]):
                raise VersionMismatch(
                    f"Scheduler and workers must have the driver's version of {package}, "
                    f"{_release(here[package])}, got {version} on {where}. Install the same version on both."
                )


def _release(version: str | None) -> str:
    return ".".join(str(version).split(".")[:2])


def _version() -> str:
    return pairloom.__version__


@contextlib.contextmanager
def _started_cluster(config: ClusterConfig) -> Iterator[Any]:
    """Start a cluster, and close it in the end."""
    if config.job_queue is not None:
        with _signals_held_back(), _interrupts_masked():
            cluster = _job_cluster(config.kind, config.job_queue)
        with cluster:
            yield cluster
        return
    with _signals_held_back() as held:
        cluster = _interruptible(held, functools.partial(_local_cluster, config))
    if cluster is None:  # a signal whose handler has returned
        raise KeyboardInterrupt
    with cluster:
        try:
            yield cluster
        except KeyboardInterrupt:
            # To close them takes seconds, since they finish their tasks. Nobody waits for these any more.
            nannies = [worker for worker in cluster.workers.values() if isinstance(worker, Nanny)]
            for nanny in nannies:
                nanny.close_gracefully()  # so that its worker is not replaced
            _kill(nanny.pid for nanny in nannies)
            raise


def _interruptible(held: list[int], start: Callable[[], Answer]) -> Answer | None:
    """Start a cluster in a thread. If a signal is held back meanwhile, end its workers and return None at once."""
    if threading.current_thread() is not threading.main_thread():
        return start()
    started: Future[Answer] = Future()
    before = _spawned()

    def work() -> None:
        try:
            with _interrupts_masked():
                started.set_result(start())
        except BaseException as error:
            started.set_exception(error)

    threading.Thread(target=work, name="pairloom-start", daemon=True).start()
    while not started.done() and not held:
        concurrent.futures.wait([started], timeout=0.05)
    if not held:
        return started.result()
    # At the end of the process, Dask would wait ten seconds for a cluster that is half started.
    atexit.unregister(close_clusters)
    deadline = time.monotonic() + _ABANDON_SECONDS
    while not started.done() and time.monotonic() < deadline:
        _kill(_spawned() - before)
        concurrent.futures.wait([started], timeout=0.05)
    _kill(_spawned() - before)
    return None


def _spawned() -> set[int]:
    """The processes that multiprocessing has started for this one; also those that are still starting."""
    found = set()
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if any("spawn_main" in word for word in child.cmdline()):
                found.add(child.pid)
    return found


def _kill(processes: Iterable[int | None]) -> None:
    for pid in processes:
        with contextlib.suppress(psutil.Error):
            if pid is not None:
                psutil.Process(pid).kill()


def _local_cluster(config: ClusterConfig) -> LocalCluster:
    workers = config.workers or os.cpu_count() or 1
    if config.kind == "threads":
        return LocalCluster(
            n_workers=1, threads_per_worker=workers, processes=False, dashboard_address="127.0.0.1:0"
        )
    try:
        return LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            preload=[*dask.config.get("distributed.worker.preload"), QUIET_WORKER],
        )
    except (RuntimeError, OSError) as error:
        raise Unreachable(
            f"A worker process did not start, or died while it started ({error.__cause__ or error}). "
            "If memory is short, pass a smaller number of --workers."
        ) from error


def _job_cluster(kind: str, jobs: JobQueueConfig) -> Any:
    try:
        return job_cluster(kind, jobs)
    except ImportError as error:
        raise Unreachable(f'cluster.kind = "{kind}" needs dask-jobqueue. {install_hint("slurm")}') from error
    except JobsFailed as error:
        raise Unreachable(str(error)) from error


@contextlib.contextmanager
def _signals_held_back() -> Iterator[list[int]]:
    """Hold back Ctrl-C and SIGTERM while a cluster starts, because one that is half started cannot be closed.

    Yields a list to which a signal that arrives is appended; it is sent again in the end. A second signal is not held
    back.
    """
    held: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # which receives the signals
        yield held
        return

    def hold(number: int, frame: object) -> None:
        held.append(number)
        signal.signal(number, before[number])

    heeded = (signal.SIGINT, signal.SIGTERM)
    before: dict[int, Any] = {
        number: handler
        for number in heeded
        if (handler := signal.getsignal(number)) not in (signal.SIG_IGN, None)
    }
    for number in before:
        signal.signal(number, hold)
    try:
        yield held
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if held:
            signal.raise_signal(held[0])


@contextlib.contextmanager
def _interrupts_masked() -> Iterator[None]:
    """Mask Ctrl-C, which a terminal also sends to the workers: they inherit the mask and print no traceback."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    # Otherwise multiprocessing starts its tracker with the first process, which unblocks Ctrl-C again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def scheduler_answers(config: ClusterConfig) -> bool:
    """Whether anything listens at the address of a scheduler that is said to run. Takes a few seconds at most."""
    try:
        host, port = parse_host_port(parse_address(_scheduler_address(config))[1])
        with socket.create_connection((host, port), timeout=ANSWER_SECONDS):
            return True
    except (OSError, ValueError, Unreachable):
        return False


def check_address(config: ClusterConfig) -> None:
    """Raise if the scheduler of a configuration may not be connected to. Connects to nothing."""
    if config.kind != "scheduler":
        return
    address = _scheduler_address(config)
    if address.startswith("tls://") and config.tls_ca_file is None:
        raise ConfigError(f"The scheduler {address} uses TLS. Pass --tls-ca-file, --tls-cert and --tls-key.")
    _check_certificates(config)
    if not (config.insecure or config.tls_ca_file or _on_loopback(address)):
        raise Insecure(
            f"The scheduler {address} is not on loopback and does not use TLS, so anyone who can reach it can run "
            "code on it. Pass --tls-ca-file, --tls-cert and --tls-key, or --insecure if the network is private."
        )


def _check_certificates(config: ClusterConfig) -> None:
    if config.tls_ca_file is None or config.tls_cert is None:
        return
    try:
        context = ssl.create_default_context(cafile=config.tls_ca_file)
    except OSError as error:
        raise ConfigError(
            f"cluster.tls_ca_file must be a certificate file (PEM), got {shown(config.tls_ca_file)!r}: {error}."
        ) from error
    try:
        context.load_cert_chain(config.tls_cert, config.tls_key)
    except OSError as error:
        raise ConfigError(
            f"cluster.tls_cert and cluster.tls_key must be a certificate and its key (PEM), "
            f"got {config.tls_cert!r} and {config.tls_key!r}: {error}."
        ) from error


def _client_of_scheduler(config: ClusterConfig) -> Client:
    check_address(config)
    address = _scheduler_address(config)
    try:
        return Client(address, security=_security(config), timeout=CONNECT_SECONDS, set_as_default=False)
    except OSError as error:
        raise Unreachable(
            f"No Dask scheduler answers at {address}: {error}. Start it, or pass --local to run here."
        ) from error


def _scheduler_address(config: ClusterConfig) -> str:
    return config.scheduler or _address_in(Path(str(config.scheduler_file)))


def _address_in(scheduler_file: Path) -> str:
    try:
        return str(json.loads(scheduler_file.read_text())["address"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise Unreachable(
            f"--scheduler-file must be a scheduler file of Dask, got {shown(scheduler_file)}: {error!r}."
        ) from error


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
    # The host that Dask will connect to, by Dask's own parser: others read "127.0.0.1/@elsewhere:8786" differently.
    try:
        host, _ = parse_host_port(parse_address(address)[1])
    except ValueError:
        return False
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
