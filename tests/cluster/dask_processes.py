"""A Dask scheduler and its workers as processes of their own, on loopback."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

PATIENCE = 120.0


def wait_until(condition: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    """Wait for a condition, and return what it gave."""
    deadline = time.monotonic() + patience
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {patience} s for {what}"
        time.sleep(0.005)
    return found


def pairloom_process(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    """The command line, in a process of its own.

    It heeds Ctrl-C even where the tests do not: a shell makes what it starts in the background ignore it.
    """
    command = [sys.executable, "-m", "pairloom", *map(str, arguments)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **options,
    )


def finish(process: subprocess.Popen[str], patience: float = PATIENCE) -> tuple[int, str]:
    """Exit code and standard error of a process."""
    _, errors = process.communicate(timeout=patience)
    return process.returncode, errors


def local_workers(driver: subprocess.Popen[str]) -> list[psutil.Process]:
    """The worker processes that a driver has started on this computer, also those that are still starting."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return [child for child in psutil.Process(driver.pid).children() if _is_spawned(child)]
    return []


def _is_spawned(child: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return any("spawn_main" in word for word in child.cmdline())
    return False


def listening(process: psutil.Process) -> set[tuple[str, int]]:
    """Addresses and ports on which a process and its children listen, or receive datagrams."""
    found = set()
    for one in (process, *process.children(recursive=True)):
        for socket in one.net_connections("inet"):
            if socket.status == psutil.CONN_LISTEN or (
                not socket.raddr and socket.status == psutil.CONN_NONE
            ):
                found.add((socket.laddr.ip, socket.laddr.port))
    return found


@contextlib.contextmanager
def busy_processes(number: int) -> Iterator[None]:
    """Processes that keep the CPU busy."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for process in processes:
            kill_and_reap(process)


def kill_and_reap(process: subprocess.Popen[Any]) -> None:
    """kill -9, and wait until the process is gone."""
    process.kill()
    process.wait()


class DaskProcesses:
    """A scheduler, found by its scheduler file, and the workers that are started for it.

    ``env`` is added to the environment of all of them.
    """

    def __init__(self, folder: Path, *options: str, env: dict[str, str] | None = None) -> None:
        self._folder, self._options, self._env = folder, options, env or {}
        self._log = (folder / "dask.txt").open("wb")
        self.scheduler_file = folder / "scheduler.json"
        self.workers: list[subprocess.Popen[Any]] = []
        self.start_scheduler()

    def _start(self, module: str, *arguments: str, **options: Any) -> subprocess.Popen[Any]:
        where = ("--host", "127.0.0.1", "--scheduler-file", str(self.scheduler_file), "--no-dashboard")
        command = [sys.executable, "-m", f"distributed.cli.{module}", *where, *self._options, *arguments]
        options = {"env": {**os.environ, **self._env}, **options}
        return subprocess.Popen(command, stdout=self._log, stderr=self._log, cwd=self._folder, **options)

    def start_scheduler(self) -> None:
        """Start the scheduler, or start it again."""
        self.scheduler_file.unlink(missing_ok=True)
        self.scheduler = self._start("dask_scheduler", "--port=0")
        # Dask writes it in two steps.
        wait_until(
            lambda: self.scheduler_file.exists() and self.scheduler_file.stat().st_size > 0, "the scheduler"
        )

    def start_worker(self, *arguments: str, threads: int = 1, **options: Any) -> subprocess.Popen[Any]:
        """Start a worker, of one thread if not told otherwise."""
        given = ("--no-nanny", f"--nthreads={threads}", *arguments)
        self.workers.append(self._start("dask_worker", *given, **options))
        return self.workers[-1]

    def close(self) -> None:
        """End every process."""
        for process in (*self.workers, self.scheduler):
            kill_and_reap(process)
        self._log.close()
