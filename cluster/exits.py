"""How a command ends: an expected error is a message and an exit code; a signal is a clean stop."""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

from pairloom.cluster.closed_pipe import QuietConsole, closed_pipe_is_no_error, silence_closed_pipes
from pairloom.cluster.config import ConfigError
from pairloom.cluster.connect import Insecure, Unreachable
from pairloom.cluster.input_errors import InputError, InputMissing, InTheWay
from pairloom.cluster.local_path import NotLocal
from pairloom.cluster.lock import Locked
from pairloom.cluster.ownership import NotARun
from pairloom.cluster.plan import DamagedPlan, Mismatch
from pairloom.cluster.schedule import ClusterLost, DiskFull, Stopped, UnitFailed
from pairloom.cluster.units import VersionMismatch
from pairloom.cluster.worker_memory import WorkersTooSmall
from pairloom.pipeline.images.name_list import WrongNames
from pairloom.pipeline.images.store_refused import StoreRefused
from pairloom.pipeline.run.run_model import UnknownCoupling

__all__ = ["RESUMABLE", "ended_by_signals", "error_named", "exits", "print_error", "resumable", "stderr"]

# Exit codes, for scripts.
FAILED, WRONG, REFUSED, RESUMABLE, INTERRUPTED, TERMINATED = 1, 2, 3, 4, 130, 143

_EXIT_CODES: dict[type[BaseException], int] = {
    ConfigError: WRONG,
    NotLocal: WRONG,
    InputMissing: WRONG,
    InputError: WRONG,
    UnknownCoupling: WRONG,
    WrongNames: WRONG,
    InTheWay: REFUSED,
    Locked: REFUSED,
    NotARun: REFUSED,
    Mismatch: REFUSED,
    Insecure: REFUSED,
    VersionMismatch: REFUSED,
    WorkersTooSmall: REFUSED,
    StoreRefused: REFUSED,
    Unreachable: RESUMABLE,
    ClusterLost: RESUMABLE,
    DiskFull: RESUMABLE,
    Stopped: RESUMABLE,
    DamagedPlan: FAILED,
    UnitFailed: FAILED,
    ValueError: FAILED,
    OSError: FAILED,
    MemoryError: FAILED,
}

stderr = QuietConsole(stderr=True)


class Terminated(KeyboardInterrupt):
    """SIGTERM, which batch systems send before they kill a job."""


@contextlib.contextmanager
def resumable(directory: Path) -> Iterator[None]:
    """Turn signals and recoverable errors into a clean stop, with a hint how to resume."""
    hint = f"Finished work is kept. Resume with: pairloom resume {directory}"
    with ended_by_signals(hint):
        try:
            yield
        except (Stopped, ClusterLost, DiskFull, UnitFailed, Unreachable) as error:
            print_error(f"Stopped: {error}\n{hint}")
            sys.exit(_exit_code(error))
        except BrokenPipeError:
            if not silence_closed_pipes():
                raise
            sys.exit(RESUMABLE)  # nobody reads any more, but the run is not done


@contextlib.contextmanager
def ended_by_signals(hint: str, outcome: str = "Stopped.") -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into a clean stop, which is reported with a hint how to go on."""

    def terminate(number: int, frame: object) -> None:
        _hush_callbacks()
        raise Terminated

    def interrupt(number: int, frame: object) -> None:
        _hush_callbacks()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, terminate)
    # Ctrl-C may be ignored, as in the background of a shell.
    by_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if by_default:
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except KeyboardInterrupt as error:
        print_error(f"{outcome}\n{hint}")
        sys.exit(TERMINATED if isinstance(error, Terminated) else INTERRUPTED)
    finally:
        signal.signal(signal.SIGTERM, before)
        if by_default:
            signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show warnings as errors are shown: whoever types a command does not care in which line of code they arose."""
    before = warnings.formatwarning
    warnings.formatwarning = lambda message, *place: f"Warning: {message}\n"
    try:
        yield
    finally:
        warnings.formatwarning = before


def _hush_callbacks() -> None:
    """Have tornado log no errors any more: a call of Dask's that a signal interrupts at its start leaves it one."""
    logging.getLogger("tornado.application").setLevel(logging.CRITICAL + 1)


@contextlib.contextmanager
def exits() -> Iterator[None]:
    """Turn expected errors into a message and an exit code. Any other error is a bug and shows its traceback."""
    try:
        with closed_pipe_is_no_error(), _plain_warnings():
            yield
    except KeyboardInterrupt:
        print_error("Stopped.")
        sys.exit(INTERRUPTED)
    except tuple(_EXIT_CODES) as error:
        hint = ""
        if isinstance(error, DamagedPlan):
            hint = "\nTo plan the run again and keep its valid results: pairloom run CONFIG --directory DIRECTORY"
        print_error(f"Error: {error or 'not enough memory'}{hint}")
        sys.exit(_exit_code(error))


def _exit_code(error: BaseException) -> int:
    return next(code for kind, code in _EXIT_CODES.items() if isinstance(error, kind))


def error_named(outcome: str) -> Exception:
    """The error that ended a driver elsewhere, from the outcome in its record, such as "UnitFailed: ..."."""
    name, _, message = outcome.partition(": ")
    kinds = {kind.__name__: kind for kind in _EXIT_CODES if issubclass(kind, Exception)}
    return kinds[name](message) if name in kinds else RuntimeError(f"The driver of the run ended: {outcome}")


def print_error(message: str) -> None:
    stderr.print(message, highlight=False, markup=False, soft_wrap=True)
