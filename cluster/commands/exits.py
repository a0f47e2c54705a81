"""The end of a command: messages and exit codes.

An expected error ends a command with a message and an exit code. A signal stops it cleanly, with a hint how to resume.
"""

from __future__ import annotations

import _thread
import contextlib
import logging
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator

from rich.console import Console

from pairloom.cluster.commands.streams import closed_pipe_is_no_error, exit_interrupted, silence_closed_pipes
from pairloom.cluster.connect.cluster_checks import Insecure, Unreachable
from pairloom.cluster.drive.schedule import ClusterLost, DiskFull, Stopped, UnitFailed
from pairloom.cluster.drive.tasks import DirectoryUnseen, VersionMismatch
from pairloom.graphs.text import printable
from pairloom.pipeline.config.cluster_config import WorkersTooSmall
from pairloom.pipeline.config.config import ConfigError, InputError, InputMissing, OutputExists
from pairloom.pipeline.images.image_folder import StoreRefused
from pairloom.pipeline.run.lock import Locked
from pairloom.pipeline.run.ownership import NotARun
from pairloom.pipeline.run.run_model import UnknownCoupling
from pairloom.pipeline.stages.run_file import DamagedPlan, Mismatch
from pairloom.pipeline.storage.location import BadUrl, Location, NotLocal
from pairloom.pipeline.storage.object_store import StoreAway, StoreDenied, StoreUnfit
from pairloom.pipeline.storage.places import LinkInside

__all__ = [
    "RESUMABLE",
    "PipedConsole",
    "ended_by_signals",
    "error_named",
    "exits",
    "print_error",
    "resumable",
    "stderr",
]


class PipedConsole(Console):
    """A console that raises if its output is no longer read; rich would end the process with an error."""

    def on_broken_pipe(self) -> None:
        """Raise, so that the command decides: it may be done already."""
        raise BrokenPipeError


stderr = PipedConsole(stderr=True)


def print_error(message: str) -> None:
    """Print a message on standard error, in lines of any length. Control characters, as in names, are escaped."""
    stderr.print(printable(message), highlight=False, markup=False, soft_wrap=True)


# Exit codes, for scripts.
FAILED, WRONG, REFUSED, RESUMABLE, INTERRUPTED, TERMINATED = 1, 2, 3, 4, 130, 143

# Seconds after which a lost signal is sent again.
_RESEND_SECONDS = 0.05

# The first class that an error is an instance of counts.
_EXIT_CODES: dict[type[BaseException], int] = {
    ConfigError: WRONG,
    NotLocal: WRONG,
    BadUrl: WRONG,
    InputMissing: WRONG,
    InputError: WRONG,
    UnknownCoupling: WRONG,
    OutputExists: REFUSED,
    Locked: REFUSED,
    NotARun: REFUSED,
    LinkInside: REFUSED,
    Mismatch: REFUSED,
    Insecure: REFUSED,
    VersionMismatch: REFUSED,
    DirectoryUnseen: REFUSED,
    WorkersTooSmall: REFUSED,
    StoreRefused: REFUSED,
    StoreDenied: REFUSED,
    StoreUnfit: REFUSED,
    StoreAway: RESUMABLE,
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


@contextlib.contextmanager
def exits() -> Iterator[None]:
    """Turn expected errors into a message and an exit code. Any other error is a bug and shows its traceback."""
    try:
        with closed_pipe_is_no_error(), _plain_warnings():
            yield
    except KeyboardInterrupt:
        print_error("Stopped.")
        exit_interrupted(INTERRUPTED)
    except tuple(_EXIT_CODES) as error:
        hint = ""
        if isinstance(error, DamagedPlan):
            hint = "\nTo plan the run again and keep its valid results: pairloom run CONFIG --directory DIRECTORY"
        print_error(f"Error: {error or 'not enough memory'}{hint}")
        sys.exit(_exit_code(error))


@contextlib.contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show warnings like errors, without the line of code that issued them."""
    before = warnings.formatwarning
    warnings.formatwarning = lambda message, *place: f"Warning: {printable(str(message))}\n"
    try:
        yield
    finally:
        warnings.formatwarning = before


def _exit_code(error: BaseException) -> int:
    return next(code for kind, code in _EXIT_CODES.items() if isinstance(error, kind))


def error_named(outcome: str) -> Exception:
    """The error that ended a driver in another process, from the outcome in its record, such as "UnitFailed: ..."."""
    name, _, message = outcome.partition(": ")
    kinds = {kind.__name__: kind for kind in _EXIT_CODES if issubclass(kind, Exception)}
    return kinds[name](message) if name in kinds else RuntimeError(f"The driver of the run ended: {outcome}")


@contextlib.contextmanager
def resumable(directory: Location) -> Iterator[None]:
    """Turn signals and recoverable errors into a clean stop, with a hint how to resume."""
    hint = f"Finished work is kept. Resume with: pairloom resume {directory}"
    with ended_by_signals(hint):
        try:
            yield
        except (Stopped, ClusterLost, DiskFull, UnitFailed, Unreachable, StoreAway, StoreDenied) as error:
            print_error(f"Stopped: {error}\n{hint}")
            sys.exit(_exit_code(error))
        except BrokenPipeError:
            if not silence_closed_pipes():
                raise
            sys.exit(RESUMABLE)  # the output is no longer read, but the run is not done


class Terminated(KeyboardInterrupt):
    """SIGTERM, which batch systems send before they kill a job."""


@contextlib.contextmanager
def ended_by_signals(hint: str, outcome: str = "Stopped.") -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into a clean stop with a message and a hint how to continue."""

    def terminate(number: int, frame: object) -> None:
        _silence_tornado()
        raise Terminated

    def interrupt(number: int, frame: object) -> None:
        _silence_tornado()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, terminate)
    # A shell makes its background jobs ignore Ctrl-C; it stays ignored.
    by_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if by_default:
        signal.signal(signal.SIGINT, interrupt)
    try:
        with _resent_if_lost():
            yield
    except KeyboardInterrupt as error:
        print_error(f"{outcome}\n{hint}")
        exit_interrupted(TERMINATED if isinstance(error, Terminated) else INTERRUPTED)
    finally:
        signal.signal(signal.SIGTERM, before)
        if by_default:
            signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def _resent_if_lost() -> Iterator[None]:
    """Send a signal again if it arrived inside a destructor, where Python drops every exception.

    Dask's futures have destructors, and a driver drops futures all the time.
    """
    before = sys.unraisablehook

    def resend(lost: sys.UnraisableHookArgs) -> None:
        if not isinstance(lost.exc_value, KeyboardInterrupt):
            before(lost)
            return
        number = signal.SIGTERM if isinstance(lost.exc_value, Terminated) else signal.SIGINT
        # The handler must not raise inside this function, where the signal would be lost again, so send it later. Use
        # a bare thread, since starting a `threading.Thread` waits until it runs.
        _thread.start_new_thread(_signal_main_thread, (number,))

    sys.unraisablehook = resend
    try:
        yield
    finally:
        sys.unraisablehook = before


def _signal_main_thread(number: int) -> None:
    time.sleep(_RESEND_SECONDS)
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:  # also wakes the thread if it waits
        signal.pthread_kill(main, number)
    else:  # Windows
        signal.raise_signal(number)


def _silence_tornado() -> None:
    """Stop tornado from logging errors, because an interrupted call of Dask leaves a callback that fails."""
    logging.getLogger("tornado.application").setLevel(logging.CRITICAL + 1)
