"""How a command ends: expected errors as one message and an exit code, signals as a clean end."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from pairloom.cluster.config import ConfigError
from pairloom.cluster.connect import Insecure, Unreachable
from pairloom.cluster.lock import Locked
from pairloom.cluster.plan import DamagedPlan, Mismatch
from pairloom.cluster.schedule import ClusterLost, DiskFull, Stopped, UnitFailed
from pairloom.cluster.units import VersionMismatch

__all__ = ["RESUMABLE", "ended_by_signals", "exits", "print_error", "resumable", "stderr"]

# What an exit code tells a script.
FAILED, WRONG, REFUSED, RESUMABLE, INTERRUPTED, TERMINATED = 1, 2, 3, 4, 130, 143

_EXIT_CODES: dict[type[BaseException], int] = {
    ConfigError: WRONG,
    Locked: REFUSED,
    Mismatch: REFUSED,
    Insecure: REFUSED,
    VersionMismatch: REFUSED,
    Unreachable: RESUMABLE,
    ClusterLost: RESUMABLE,
    DiskFull: RESUMABLE,
    Stopped: RESUMABLE,
    DamagedPlan: FAILED,
    UnitFailed: FAILED,
    ValueError: FAILED,
    OSError: FAILED,
}

stderr = Console(stderr=True)


class Terminated(KeyboardInterrupt):
    """SIGTERM: what a batch system sends before it kills."""


@contextlib.contextmanager
def resumable(directory: Path) -> Iterator[None]:
    """Turn signals, and what ends a run early, into a clean end that says how to go on."""
    hint = f"What is done is kept. Resume with: pairloom resume {directory}"
    with ended_by_signals(hint):
        try:
            yield
        except (Stopped, ClusterLost, DiskFull, UnitFailed, Unreachable) as error:
            print_error(f"Stopped: {error}\n{hint}")
            sys.exit(_exit_code(error))


@contextlib.contextmanager
def ended_by_signals(hint: str) -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into a clean end."""

    def terminate(number: int, frame: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    except KeyboardInterrupt as error:
        print_error(f"Stopped\n{hint}")
        sys.exit(TERMINATED if isinstance(error, Terminated) else INTERRUPTED)
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def exits() -> Iterator[None]:
    """Every expected error is one message and an exit code; every other one is a bug and shows its
    traceback."""
    try:
        yield
    except tuple(_EXIT_CODES) as error:
        hint = ""
        if isinstance(error, DamagedPlan):
            hint = (
                "\n`pairloom run CONFIG --directory DIRECTORY` plans it again, and keeps what can be proved."
            )
        print_error(f"Error: {error}{hint}")
        sys.exit(_exit_code(error))


def _exit_code(error: BaseException) -> int:
    return next(code for kind, code in _EXIT_CODES.items() if isinstance(error, kind))


def print_error(message: str) -> None:
    stderr.print(message, highlight=False, markup=False, soft_wrap=True)
