"""Connect to a Dask cluster: one started here, an address, a scheduler file, or jobs of a batch system.

Most of this file makes sure that Ctrl-C and SIGTERM leave no worker processes behind, whenever they come.

multiprocessing imports the script that began the run in every process that it starts. A script that begins its run on
import would begin it again in every worker, so such a script gets an error that says what to write instead.
"""

from __future__ import annotations

import ast
import atexit
import concurrent.futures
import contextlib
import functools
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from multiprocessing import resource_tracker
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import dask.config
import psutil
from distributed import Client, LocalCluster, Nanny
from distributed.deploy.spec import close_clusters
from distributed.security import Security

from pairloom.cluster.connect.cluster_checks import (
    Unreachable,
    check_address,
    check_workers,
    scheduler_address,
)
from pairloom.cluster.connect.job_queue import JobsFailed, job_cluster, kept_up
from pairloom.pipeline.config.cluster_config import (
    ClusterConfig,
    JobQueueConfig,
)
from pairloom.pipeline.config.config import ConfigError

__all__ = [
    "GUARD_HINT",
    "check_guarded",
    "connected",
    "install_hint",
]


#: Seconds that a scheduler may take to answer a client.
CONNECT_SECONDS = 15
# Dask's HTTP servers listen on loopback, on any free port.
_LOOPBACK = "127.0.0.1:0"
#: Seconds that a cluster whose start was interrupted has to notice that its workers are gone.
_ABANDON_SECONDS = 0.5
# Dask's profiler samples the stacks of a worker every 10 ms by default, which takes 10% of the time of a run.
_PROFILER = "distributed.worker.profile.interval"
_PROFILER_DEFAULT, _PROFILER_INTERVAL = "10ms", "100ms"
# A cluster that is started for a run must live as long as the run. Lifetimes and timeouts in the user's configuration
# of Dask would make its workers leave for good, and its scheduler while the driver itself is at work. Workers in jobs
# get a lifetime on their command line.
_STAYING = {
    "distributed.worker.lifetime.duration": None,
    "distributed.scheduler.idle-timeout": None,
    "distributed.scheduler.no-workers-timeout": None,
}
# Every worker process that is started here runs this. Workers share the terminal of the driver, and by default they log
# every task that is cancelled because the run was stopped.
QUIET_WORKER = "import logging; logging.getLogger('distributed.worker.state_machine').setLevel(logging.ERROR)"

Answer = TypeVar("Answer")


def install_hint(extra: str) -> str:
    """How to install an optional dependency. From a clone, until a release is on PyPI."""
    return f'Install it, in a clone of pairloom, with: pip install -e ".[{extra}]"'


@contextlib.contextmanager
def connected(
    config: ClusterConfig,
    *,
    note: Callable[[str], None] = lambda line: None,
    on_failure: Callable[[str], None] = lambda reason: None,
) -> Iterator[Client]:
    """Connect a client to the configured cluster. A cluster that is started for it is closed with it.

    Parameters
    ----------
    note
        Called with messages for the user.
    on_failure
        Called from another thread, with a reason, when the jobs of a batch system keep failing.

    Raises
    ------
    Unreachable
        If there is no scheduler, or if it has no worker in time. Jobs of a batch system may queue for hours, so this
        does not wait for their workers.
    VersionMismatch
        If the versions of driver, scheduler and workers do not match.
    WorkersTooSmall
        If no worker has enough memory to begin a task.
    """
    with _quiet_client(), contextlib.ExitStack() as stack:
        if config.kind == "scheduler":
            client = stack.enter_context(_client_of_scheduler(config))
        else:
            stack.enter_context(_slower_profiler())
            stack.enter_context(dask.config.set(_STAYING))
            cluster = stack.enter_context(_started_cluster(config))
            if config.job_queue is not None:
                stack.enter_context(kept_up(cluster, config.kind, config.job_queue.jobs, on_failure))
            client = stack.enter_context(Client(cluster, set_as_default=False))
        if config.job_queue is None:
            check_workers(client, config.worker_timeout, note)
        yield client


def _slower_profiler() -> contextlib.AbstractContextManager[object]:
    """Make Dask's profiler sample started workers less often, unless the user has set its interval."""
    is_default = dask.config.get(_PROFILER) == _PROFILER_DEFAULT
    return dask.config.set({_PROFILER: _PROFILER_INTERVAL}) if is_default else contextlib.nullcontext()


@contextlib.contextmanager
def _quiet_client() -> Iterator[None]:
    """Silence tracebacks of lost connections, because the caller of the client gets an error anyway."""
    # This logger has its own level, independent of its parent "distributed".
    logger = logging.getLogger("distributed.client")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextlib.contextmanager
def _started_cluster(config: ClusterConfig) -> Iterator[Any]:
    """Start a cluster, and close it at the end."""
    if config.job_queue is not None:
        with _signals_held_back(), _interrupts_masked():
            cluster = _job_cluster(config.kind, config.job_queue)
        with cluster:
            yield cluster
        return
    with _signals_held_back() as held:
        cluster = _interruptible(held, functools.partial(_local_cluster, config))
    if cluster is None:  # interrupted by a signal whose handler returned without raising
        raise KeyboardInterrupt
    with cluster:
        try:
            yield cluster
        except KeyboardInterrupt:
            # Closing workers takes seconds, since they finish tasks whose results are no longer needed: kill them.
            nannies = [worker for worker in cluster.workers.values() if isinstance(worker, Nanny)]
            for nanny in nannies:
                nanny.close_gracefully()  # so that it does not replace its worker
            _kill(nanny.pid for nanny in nannies)
            raise


def _interruptible(held: list[int], start: Callable[[], Answer]) -> Answer | None:
    """Start a cluster in a thread. If a signal arrives meanwhile, end the workers and return None at once."""
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
    # Otherwise Dask would wait ten seconds for the half started cluster when the process ends.
    atexit.unregister(close_clusters)
    deadline = time.monotonic() + _ABANDON_SECONDS
    while not started.done() and time.monotonic() < deadline:
        _kill(_spawned() - before)
        concurrent.futures.wait([started], timeout=0.05)
    _kill(_spawned() - before)
    return None


def _spawned() -> set[int]:
    """The processes that multiprocessing has started for this one, including those that are still starting."""
    spawned = set()
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if any("spawn_main" in word for word in child.cmdline()):
                spawned.add(child.pid)
    return spawned


def _kill(processes: Iterable[int | None]) -> None:
    for pid in processes:
        with contextlib.suppress(psutil.Error):
            if pid is not None:
                psutil.Process(pid).kill()


def _local_cluster(config: ClusterConfig) -> LocalCluster:
    workers = config.workers or os.cpu_count() or 1
    if config.kind == "threads":
        # Without its own dashboard address a worker would serve its state on every network.
        return LocalCluster(
            n_workers=1,
            threads_per_worker=workers,
            processes=False,
            dashboard_address=_LOOPBACK,
            worker_dashboard_address=_LOOPBACK,
        )
    try:
        return LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address=_LOOPBACK,
            worker_dashboard_address=_LOOPBACK,
            preload=[*dask.config.get("distributed.worker.preload"), QUIET_WORKER],
        )
    except (RuntimeError, OSError) as error:
        raise Unreachable(
            f"A worker process did not start, or died while it started ({error.__cause__ or error}). "
            f"If memory is short, pass a smaller number of --workers.{_script_hint()}"
        ) from error


def _script_hint() -> str:
    """Another possible reason why worker processes do not start: they import the user's script."""
    main = sys.modules["__main__"]
    of_pairloom = str(main.__package__ or "").partition(".")[0] == "pairloom"
    return (
        "" if of_pairloom or not hasattr(main, "__file__") else f" If a script begins the run: {GUARD_HINT}"
    )


def _job_cluster(kind: str, jobs: JobQueueConfig) -> Any:
    try:
        return job_cluster(kind, jobs)
    except ImportError as error:
        raise Unreachable(f'cluster.kind = "{kind}" needs dask-jobqueue. {install_hint("slurm")}') from error
    except JobsFailed as error:
        raise Unreachable(str(error)) from error


@contextlib.contextmanager
def _signals_held_back() -> Iterator[list[int]]:
    """Hold back Ctrl-C and SIGTERM while a cluster starts, because a half started cluster cannot be closed.

    Yields a list to which a signal is appended when it arrives. It is sent again at the end. A second signal takes
    effect at once.
    """
    held: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # only the main thread receives signals
        yield held
        return

    def hold(number: int, frame: object) -> None:
        held.append(number)
        signal.signal(number, before[number])

    # Signals that are ignored stay ignored.
    before: dict[int, Any] = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM)
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
    # Start multiprocessing's tracker now: starting it together with the first process would unblock Ctrl-C.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _client_of_scheduler(config: ClusterConfig) -> Client:
    check_address(config)
    address = scheduler_address(config)
    try:
        return Client(address, security=_security(config), timeout=CONNECT_SECONDS, set_as_default=False)
    except OSError as error:
        raise Unreachable(
            f"No Dask scheduler answers at {address}: {error}. Start it, or pass --local to run here."
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


#: Advice about a script that begins its run on import.
GUARD_HINT = (
    'Put the call of pairloom.run, and what follows it, under `if __name__ == "__main__":`. Worker processes import '
    'the script, and must not begin the run again. (cluster.kind = "threads" starts no processes.)'
)
# The name of the script while a worker process imports it.
_IMPORTED = "__mp_main__"


def check_guarded() -> None:
    """Raise `ConfigError` if the running script would begin its run again in every worker process.

    A script that tests ``__name__`` is assumed to be guarded. If it is not, its worker processes end here with a hint.
    """
    for frame in _modules_under_way():
        if frame.f_globals.get("__name__") == _IMPORTED:
            raise SystemExit(f"{frame.f_code.co_filename}, line {frame.f_lineno}: {GUARD_HINT}")
        if _is_imported_again(frame) and _is_unguarded(frame.f_code.co_filename):
            raise ConfigError(f"{frame.f_code.co_filename}, line {frame.f_lineno}: {GUARD_HINT}")


def _modules_under_way() -> Iterator[FrameType]:
    """The modules whose code is being executed, innermost first."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            yield frame
        frame = frame.f_back


def _is_imported_again(frame: FrameType) -> bool:
    """Whether a module is the script, which workers import. They do not import the ``__main__`` of a package."""
    main = sys.modules.get("__main__")
    if main is None or frame.f_globals is not vars(main):
        return False
    name = main.__spec__.name if main.__spec__ is not None else ""
    return name.rpartition(".")[2] != "__main__"


def _is_unguarded(file: str) -> bool:
    """Whether a script never tests its name. Workers do not import consoles and notebooks."""
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return False
    tests = (node.test for node in ast.walk(tree) if isinstance(node, ast.If | ast.IfExp))
    return not any(
        isinstance(node, ast.Name) and node.id == "__name__" for test in tests for node in ast.walk(test)
    )
