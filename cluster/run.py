"""Runs from Python: `pairloom.run` drives one in the background of this process, `pairloom.submit` on a cluster.

Both work like the commands of the same names, and return a handle.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from distributed import Client, Future
from rich.console import Console

from pairloom.cluster.commands.exits import error_named
from pairloom.cluster.config.config_file import configured, with_cluster
from pairloom.cluster.connect.cluster_checks import (
    Unreachable,
    check_address,
    check_workers,
    scheduler_answers,
)
from pairloom.cluster.connect.connect import check_guarded, connected
from pairloom.cluster.drive.driver import Connect
from pairloom.cluster.drive.given_data import GivenData, arrays_of_data
from pairloom.cluster.drive.schedule import ClusterLost, Stop, UnitFailed
from pairloom.cluster.drive.whole_run import LockedRun, checked_run, locked_run, submit_driver
from pairloom.cluster.watch.progress import Quiet, progress_for
from pairloom.cluster.watch.status import RunStatus, run_status
from pairloom.pipeline.config.config import Config, ConfigError
from pairloom.pipeline.display.printed_tables import Table, html_of
from pairloom.pipeline.estimator.pairwise_svc import PairwiseSVC
from pairloom.pipeline.features.source_files import IN_MEMORY
from pairloom.pipeline.run.lock import SUBMITTED, newest_driver, request_cancel
from pairloom.pipeline.storage.location import Location, location_of

__all__ = ["BackgroundRun", "RunHandle", "SubmittedRun", "run", "submit"]

POLL_SECONDS = 1.0


class RunHandle(ABC):
    """A run that is at work or has ended.

    Attributes
    ----------
    directory : Path
        The run directory. The handle, like the command line, reads everything about the run from it.
    """

    def __init__(self, directory: Location) -> None:
        self.directory = directory

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.directory}: {self.status().state}>"

    def _repr_html_(self) -> str:
        status = self.status()
        rows = [(stage, f"{done} of {total}") for stage, (done, total) in status.stages.items()]
        lines = [f"held-out log loss {status.log_loss:.4f}"] if status.log_loss is not None else []
        return html_of(f"{self.directory.name}: {status.state}", lines, [Table("", ["stage", "units"], rows)])

    def status(self) -> RunStatus:
        """The state of the run and the finished units of every stage, as ``pairloom status`` shows them."""
        return run_status(self.directory)

    @abstractmethod
    def wait(self, timeout: float | None = None) -> None:
        """Wait until the run has ended.

        Parameters
        ----------
        timeout : float, default=None
            Maximum number of seconds to wait. By default there is none.

        Raises
        ------
        TimeoutError
            If the run has not ended by then. It goes on.
        Exception
            The error that ended the run: `Stopped` if it was cancelled, `ClusterLost`, `UnitFailed` and so on. Finished
            work is kept, and the same call of `pairloom.run` resumes the run.
        """

    def result(self, timeout: float | None = None) -> PairwiseSVC:
        """Wait until the run has ended, and return its model, which is `PairwiseSVC.from_run` of its directory.

        Parameters
        ----------
        timeout : float, default=None
            Maximum number of seconds to wait. By default there is none.
        """
        self.wait(timeout)
        return PairwiseSVC.from_run(self.directory)

    @abstractmethod
    def cancel(self, *, wait: bool = True) -> None:
        """Stop the run. Finished work is kept, and the run can be resumed.

        Parameters
        ----------
        wait : bool, default=True
            Whether to return only when the driver has ended.
        """


class BackgroundRun(RunHandle):
    """A run that a thread of this process drives. It ends with the process, and can be resumed."""

    def __init__(self, begun: LockedRun, leaving: contextlib.ExitStack, progress: Quiet) -> None:
        super().__init__(begun.ready.directory)
        self._begun, self._leaving, self._progress = begun, leaving, progress
        self._error: BaseException | None = None
        # A daemon thread: a program that ends should not hang on a run, which can be resumed.
        self._thread = threading.Thread(target=self._drive, name="pairloom-driver", daemon=True)
        self._thread.start()

    def _drive(self) -> None:
        try:
            with self._leaving:
                self._begun.finish(self._progress)
        except BaseException as error:
            self._error = error

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the run has ended, and raise the error that ended it."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise TimeoutError(f"{self.directory}: the run has not ended within {timeout:g} s. It goes on.")
        if self._error is not None:
            raise self._error

    wait.__doc__ = RunHandle.wait.__doc__

    def cancel(self, *, wait: bool = True) -> None:
        """Stop the run."""
        self._begun.stop.request("The run was cancelled.")
        if wait:
            self._thread.join()

    cancel.__doc__ = RunHandle.cancel.__doc__


class SubmittedRun(RunHandle):
    """A run whose driver is a task on a cluster. It does not need this process."""

    def __init__(self, directory: Location, driver: Future[str], cluster_answers: Callable[[], bool]) -> None:
        super().__init__(directory)
        self._driver, self._cluster_answers = driver, cluster_answers

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the run has ended, and raise the error that ended it."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (outcome := self._outcome()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(
                    f"{self.directory}: the run has not ended within {timeout:g} s. It goes on."
                )
            time.sleep(POLL_SECONDS)
        if outcome != "finished":
            raise error_named(outcome)

    wait.__doc__ = RunHandle.wait.__doc__

    def _outcome(self) -> str | None:
        """How the driver ended; None while it works or may yet begin, as when another worker takes over."""
        driver, alive = newest_driver(self.directory)
        if driver is not None and driver.outcome not in (None, SUBMITTED):
            return driver.outcome
        if not alive and self._driver.status == "error":
            raise UnitFailed(
                f"{self.directory}: Dask has given up the driver of the run, which has lost its worker too often "
                f"({self._driver.exception()}). Resume it with pairloom.run or pairloom.submit."
            )
        if not alive and not self._cluster_answers():
            raise ClusterLost(
                f"{self.directory}: no driver is at work, and the cluster that the run was submitted to does not "
                "answer (or its client was closed). Resume it with pairloom.run."
            )
        return None

    def cancel(self, *, wait: bool = True) -> None:
        """Stop the run."""
        request_cancel(self.directory)
        while wait and self._outcome() is None:
            time.sleep(POLL_SECONDS)

    cancel.__doc__ = RunHandle.cancel.__doc__


def run(
    config: str | Path | Mapping[str, Any] | Config,
    *,
    data: GivenData | None = None,
    directory: str | Location | None = None,
    client: Client | None = None,
    overrides: Mapping[str, Any] | None = None,
    update: bool = False,
    verbose: bool = False,
) -> BackgroundRun:
    """Plan and begin a run, or resume it, and drive it in the background of this process.

    This is ``pairloom run`` in Python. The call returns when the run has begun. If the configuration, the data, the
    directory or the cluster are unsuitable, it raises an error, and nothing is written.

    Parameters
    ----------
    config : str, Path, mapping or Config
        Name of a configuration that ships with pairloom, path of a TOML file, or its tables as a mapping.
    data : tuple (X, y) or mapping, default=None
        The data, instead of those that the configuration names: X and y, which are split into training and test
        samples, or a mapping with X_train, y_train, X_test and y_test, and any other arrays of a file of features.
        Features may be arrays, data frames, dask arrays or data frames, and zarr arrays. The run copies them into its
        own store, block by block, and can then be resumed without them.
    directory : str or Path, default=None
        Run directory, with the same path on all workers. By default ``runs/`` and the name of the configuration. If it
        holds the same run, the run is resumed.
    client : distributed.Client, default=None
        A client of any Dask cluster, which stays open. It must not be asynchronous. By default the run uses the cluster
        that the configuration names: by default worker processes on this computer, which end with the run. A script
        that starts them must begin the run under ``if __name__ == "__main__":``.
    overrides : mapping, default=None
        Keys of the configuration to set, such as ``{"graph.hubs": 5}``.
    update : bool, default=False
        Accept changed settings or data, and recompute the stages that depend on them.
    verbose : bool, default=False
        Print the progress on standard error, as the command line does. In a notebook, the handle as the last value of a
        cell displays the finished units of every stage.

    Returns
    -------
    BackgroundRun
        With the methods ``status``, ``wait``, ``result`` and ``cancel``.

    Examples
    --------
    >>> import pairloom, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     handle = pairloom.run("digits", directory=f"{folder}/run", overrides={"cluster.kind": "threads"})
    ...     model = handle.result(timeout=600)
    >>> model.n_features_in_
    64
    """
    given = None if data is None else arrays_of_data(data)
    source = {} if data is None else {"data.features": IN_MEMORY}
    settings = configured(config, {**(overrides or {}), **source})
    if client is None and settings.cluster.kind == "processes":
        check_guarded()
    where, stop = _directory(settings, directory), Stop()
    connect, at_once = (
        _connection(settings, client, stop),
        client is not None or settings.cluster.is_remote,
    )
    with contextlib.ExitStack() as stack:
        progress = stack.enter_context(progress_for(Console(stderr=True)) if verbose else Quiet())
        checked = checked_run(
            settings, where, connect, at_once=at_once, update=update, say=progress.say, given=given
        )
        ready = stack.enter_context(checked)
        begun = stack.enter_context(locked_run(ready, stop, progress))
        return BackgroundRun(begun, stack.pop_all(), progress)


def submit(
    config: str | Path | Mapping[str, Any] | Config,
    *,
    data: GivenData | None = None,
    directory: str | Location | None = None,
    client: Client | None = None,
    overrides: Mapping[str, Any] | None = None,
    update: bool = False,
) -> SubmittedRun:
    """Plan a run, send its driver to a worker of a cluster, and return.

    This is ``pairloom submit`` in Python. The run goes on when this process ends. ``pairloom attach DIRECTORY`` follows
    it. The run directory, and the data if they are files, must have the same paths here and on the workers.

    Parameters
    ----------
    config, directory, overrides, update
        As in `run`.
    data : tuple (X, y) or mapping, default=None
        The data, as in `run`. This process copies them into the run directory before the call returns; the driver does
        not need them.
    client : distributed.Client, default=None
        A client of any Dask cluster, which stays open. By default the run uses the scheduler in the configuration.

    Returns
    -------
    SubmittedRun
        With the methods ``status``, ``wait``, ``result`` and ``cancel``.

    Examples
    --------
    >>> import pairloom, tempfile
    >>> from distributed import Client, LocalCluster
    >>> local = {"n_workers": 1, "threads_per_worker": 2, "host": "127.0.0.1", "dashboard_address": None}
    >>> with tempfile.TemporaryDirectory() as folder, LocalCluster(**local) as cluster, Client(cluster) as client:
    ...     handle = pairloom.submit("digits", directory=f"{folder}/run", client=client)
    ...     model = handle.result(timeout=600)
    >>> model.n_features_in_
    64
    """
    given = None if data is None else arrays_of_data(data)
    source = {} if data is None else {"data.features": IN_MEMORY}
    settings = configured(config, {**(overrides or {}), **source})
    where = _directory(settings, directory)
    if client is None:
        if settings.cluster.kind != "scheduler":
            raise ConfigError(
                "pairloom.submit needs a running cluster: pass client=, or set cluster.scheduler or "
                "cluster.scheduler_file."
            )
        answers = functools.partial(scheduler_answers, settings.cluster)
    else:
        _check_client(client)
        settings = _on_cluster_of(client, settings)
        answers = functools.partial(_is_open, client)
    connect = _connection(settings, client, Stop())
    with checked_run(settings, where, connect, at_once=True, update=update, given=given) as ready:
        driver = submit_driver(ready, copies_data=given is not None)
    return SubmittedRun(where, driver, answers)


def _directory(settings: Config, directory: str | Location | None) -> Location:
    """The run directory, as an absolute path, because the working directory may change during the run."""
    if directory is None:
        directory = Path("runs") / settings.run.name
    return location_of(directory, "directory").absolute()


def _connection(settings: Config, client: Client | None, stop: Stop) -> Connect:
    """A function that connects to the client of the user, or to the cluster of the configuration."""
    if client is None:
        check_address(settings.cluster)
        return functools.partial(connected, settings.cluster, on_failure=stop.request)
    _check_client(client)
    return functools.partial(_borrowed, client, settings.cluster.worker_timeout)


def _check_client(client: object) -> None:
    if not isinstance(client, Client):
        raise TypeError(f"client must be a distributed.Client, got {type(client).__name__}.")
    if client.asynchronous:
        raise TypeError(
            "client must not be asynchronous: a run is driven by a thread, which waits for its tasks. "
            "Pass Client(address) without asynchronous=True; that works in a notebook too."
        )
    if not _is_open(client):
        raise Unreachable(f"client must be connected to its scheduler, got one that is {client.status}.")


def _is_open(client: Client) -> bool:
    return bool(client.status == "running")


@contextlib.contextmanager
def _borrowed(client: Client, worker_timeout: float) -> Iterator[Client]:
    """The client of the user, which stays open."""
    check_workers(client, worker_timeout)
    yield client


def _on_cluster_of(client: Client, settings: Config) -> Config:
    """The configuration with the address of a client, from which `pairloom attach` checks that the cluster lives.

    The configuration stays as it is if only the cluster's own client understands its address.
    """
    address = str(client.scheduler.address)
    if not address.startswith(("tcp://", "tls://")):
        return settings
    return with_cluster(settings, {"kind": "scheduler", "scheduler": address})
