"""Checks of a Dask cluster before it is used: address and certificates, workers, their memory and versions."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import json
import os
import socket
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any, TypeVar

from distributed import Client
from distributed.comm.addressing import parse_address, parse_host_port

import pairloom
from pairloom.cluster.drive.tasks import DirectoryUnseen, VersionMismatch, problem_with_source
from pairloom.pipeline.config.cluster_config import (
    ClusterConfig,
    WorkersTooSmall,
    check_worker_memory,
)
from pairloom.pipeline.config.config import ConfigError
from pairloom.pipeline.features.source_files import shown
from pairloom.pipeline.storage.atomic_file import PARTIAL_SUFFIX
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.location import Location, StoreUrl, location_of
from pairloom.pipeline.storage.object_store import StoreError

__all__ = [
    "Insecure",
    "Unreachable",
    "check_address",
    "check_dask_versions",
    "check_shared",
    "check_workers",
    "scheduler_address",
    "scheduler_answers",
    "workers_without_source",
]

#: Seconds that a scheduler may take to accept a connection.
ANSWER_SECONDS = 3
#: Seconds that workers may take to report their versions.
VERSION_SECONDS = 10
#: Seconds that workers may take to read two rows: they import the package, and look up the chunks of the source.
SOURCE_SECONDS = 60
#: Seconds until a worker must see a new file: a network file system may have cached that a folder did not exist.
SEEN_SECONDS = 5

Answer = TypeVar("Answer")


class Insecure(RuntimeError):
    """The scheduler is on an open network, without TLS."""


class Unreachable(RuntimeError):
    """No cluster can be reached."""


def check_address(config: ClusterConfig) -> None:
    """Raise unless it is safe to connect to the scheduler of a configuration. This connects to nothing."""
    if config.kind != "scheduler":
        return
    address = scheduler_address(config)
    if address.startswith("tls://") and config.tls_ca_file is None:
        raise ConfigError(f"The scheduler {address} uses TLS. Pass --tls-ca-file, --tls-cert and --tls-key.")
    if config.tls_ca_file is not None and not _is_encrypted(address):
        raise ConfigError(
            f"The address of a scheduler with TLS must begin with tls://, got {address} and --tls-ca-file. "
            "Write tls:// if the scheduler uses TLS, or leave out --tls-ca-file, --tls-cert and --tls-key."
        )
    _check_certificates(config)
    if not (config.insecure or config.tls_ca_file or _on_loopback(address)):
        raise Insecure(
            f"The scheduler {address} is not on loopback and does not use TLS, so anyone who can reach it can run "
            "code on it. Pass --tls-ca-file, --tls-cert and --tls-key, or --insecure if the network is private."
        )


def _is_encrypted(address: str) -> bool:
    # Dask refuses other addresses with TLS, but only half a minute later, in a less clear error.
    return parse_address(address)[0] in ("tls", "wss")


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


def _on_loopback(address: str) -> bool:
    # Use Dask's own parser to find the host that Dask will connect to: others read "127.0.0.1/@elsewhere:8786"
    # differently.
    try:
        host, _ = parse_host_port(parse_address(address)[1])
    except ValueError:
        return False
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def scheduler_address(config: ClusterConfig) -> str:
    """The address of the scheduler that a configuration names, directly or by a scheduler file."""
    return config.scheduler or _address_in(Path(str(config.scheduler_file)))


def _address_in(scheduler_file: Path) -> str:
    try:
        return str(json.loads(scheduler_file.read_text())["address"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise Unreachable(
            f"--scheduler-file must be a scheduler file of Dask, got {shown(scheduler_file)}: {error!r}."
        ) from error


def scheduler_answers(config: ClusterConfig) -> bool:
    """Whether a process listens at the address of the scheduler. This takes a few seconds at most."""
    try:
        host, port = parse_host_port(parse_address(scheduler_address(config))[1])
        with socket.create_connection((host, port), timeout=ANSWER_SECONDS):
            return True
    except (OSError, ValueError, Unreachable):
        return False


def check_workers(client: Client, timeout: float, note: Callable[[str], None] = lambda line: None) -> None:
    """Wait for a worker; check the memory of all present workers, and compare their versions with those here.

    Tasks compare the version of pairloom again, for workers that join later or did not answer.

    Raises
    ------
    Unreachable
        If there is no worker within ``timeout`` seconds.
    VersionMismatch
        If the scheduler or a worker has another version of Python or Dask, or a worker another version of pairloom.
    WorkersTooSmall
        If no worker has enough memory to begin a task.
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


def _wait_for_worker(client: Client, timeout: float, note: Callable[[str], None]) -> None:
    """Wait until there is a worker. A waiting task makes an adaptive cluster without workers start one."""
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


def _memory_limits(client: Client) -> dict[str, int]:
    """Memory in bytes of all workers; 0 is no limit."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    return {address: worker["memory_limit"] or 0 for address, worker in workers.items()}


def _versions_of(client: Client) -> tuple[Any, Any]:
    """Versions of Dask everywhere, and of pairloom on the workers."""
    return client.get_versions(), client.run(_version, on_error="return")


def check_shared(client: Client, directory: Location) -> None:
    """Check that every worker sees the run directory: each must open a new file there.

    The file is removed again, as are folders that were made for it. Workers that join later, or do not answer, are
    checked in their first task.

    Raises
    ------
    DirectoryUnseen
        If a worker does not see it, or may not write into it.
    """
    with _token(directory.absolute()) as token:
        try:
            ask = functools.partial(client.run, _sight_of, token, SEEN_SECONDS, on_error="return")
            answers = _within(VERSION_SECONDS + SEEN_SECONDS, ask)
        except TimeoutError:
            return
        except (OSError, RuntimeError, CancelledError) as error:
            raise Unreachable(f"Lost the connection to the Dask scheduler: {error!r}.") from error
    for worker, problem in answers.items():
        if isinstance(problem, str):
            raise DirectoryUnseen(
                f"The run directory must have the same path on all workers, got {directory.absolute()}: {worker} "
                f"{problem}. {_ADVICE[isinstance(directory, Path)]}"
            )


def workers_without_source(client: Client, directory: Location) -> dict[str, str]:
    """The present workers that do not read the same rows from the source of a run as its driver, and why.

    Workers that join later, or do not answer, are found out by the checksums of the rows in their first task.
    """
    try:
        ask = functools.partial(client.run, problem_with_source, str(directory.absolute()), on_error="return")
        answers = _within(SOURCE_SECONDS, ask)
    except TimeoutError:
        return {}
    except (OSError, RuntimeError, CancelledError) as error:
        raise Unreachable(f"Lost the connection to the Dask scheduler: {error!r}.") from error
    return {worker: str(problem) for worker, problem in answers.items() if problem is not None}


_ADVICE = {
    True: "Choose a --directory that they share.",
    False: 'Workers need the extra cloud, in a clone pip install -e ".[cloud]", and credentials of their own.',
}


@contextlib.contextmanager
def _token(directory: Location) -> Iterator[str]:
    """The place of a temporary file with a new name in a directory."""
    name = f".token.{uuid.uuid4().hex}{PARTIAL_SUFFIX}"
    with _made(directory) if isinstance(directory, Path) else contextlib.nullcontext():
        if isinstance(directory, Path):
            (directory / name).touch(exist_ok=False)
        else:
            Folder(directory).write(name, b"")
        try:
            yield str(directory / name)
        finally:
            Folder(directory).delete(name)


@contextlib.contextmanager
def _made(directory: Path) -> Iterator[None]:
    """Make a folder for a while. If it did not exist before, it is removed again, unless it has content."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        for path in missing:
            with contextlib.suppress(OSError):  # another process has put a file there meanwhile
                path.rmdir()


async def _sight_of(token: str, seconds: float) -> str | None:
    """The problem that this worker has with the folder of a token, or None. A worker serves others meanwhile."""
    if isinstance(place := location_of(token, "token"), StoreUrl):
        return await asyncio.to_thread(_sight_in_store, place)
    deadline = time.monotonic() + seconds
    while True:
        try:
            Path(token).read_bytes()
            break
        except OSError as error:
            if time.monotonic() > deadline:
                return f"cannot read it ({error})"
            await asyncio.sleep(0.1)
    return None if os.access(Path(token).parent, os.W_OK) else "may not write into it"


def _sight_in_store(token: StoreUrl) -> str | None:
    """The problem that this worker has with an object, which it reads and writes, or None."""
    try:
        folder = Folder(token.parent)
        folder.write(token.name, folder.read(token.name))
    except (OSError, StoreError) as error:
        return f"cannot read and write it ({error})"
    return None


def _within(seconds: float, ask: Callable[[], Answer]) -> Answer:
    """The result of a call, or TimeoutError, because Dask would wait for a frozen worker forever."""
    answer: Future[Answer] = Future()

    def work() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=work, name="pairloom-versions", daemon=True).start()
    return answer.result(seconds)


def check_dask_versions(versions: Mapping[str, Any]) -> None:
    """Raise unless scheduler and workers have the same releases of Python and Dask (such as 2026.1) as this client.

    Parameters
    ----------
    versions
        The result of ``Client.get_versions``. Only the first two numbers of a version are compared, because the
        protocol between processes does not change within a release.
    """
    here = versions["client"]["packages"]
    for where, there in {"the scheduler": versions["scheduler"], **versions["workers"]}.items():
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
