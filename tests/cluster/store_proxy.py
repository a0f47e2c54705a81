"""A proxy between a run and its object store, which disturbs requests."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import re
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import parse_qs, unquote

Fault = Literal["fails", "hangs", "is lost", "is refused", "has expired"]

_EXPIRED = (
    b"<?xml version='1.0'?><Error><Code>ExpiredToken</Code><Message>The token has expired.</Message></Error>"
)
_REFUSALS = {"is refused": (403, b""), "has expired": (400, _EXPIRED)}


def _named(address: str, body: bytes) -> list[str]:
    """The objects of a request, or the prefix that it lists: of a bucket, requests list or delete."""
    path, _, query = address.partition("?")
    asked, bucket = parse_qs(query, keep_blank_values=True), unquote(path).strip("/")
    if "delete" in asked:
        return [f"{bucket}/{key}" for key in re.findall("<Key>(.*?)</Key>", body.decode())]
    return [f"{bucket}/{asked['prefix'][0]}" if "prefix" in asked else bucket]


class StoreProxy:
    """Passes requests on to a server, except those that ``fault_of`` names by their number.

    A request that fails is answered with 500 or 503, in turn. One that hangs is not answered. One that "is lost" is
    done but not answered. One that "is refused" is answered with 403, and one whose token "has expired" with 400.

    ``named`` are the objects that they were for, and the prefixes that were listed, each after its bucket.
    """

    def __init__(self, server_port: int) -> None:
        self.numbers = itertools.count(1)
        self.seen = self.disturbed = 0
        self.fault_of: Callable[[int], Fault | None] = lambda number: None
        self.away = False
        self.named: set[str] = set()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                super().setup()
                self.server_side = http.client.HTTPConnection("127.0.0.1", server_port, timeout=30)

            def handle(self) -> None:
                with contextlib.suppress(OSError):  # the client has given up
                    super().handle()

            def _pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                number = proxy.seen = next(proxy.numbers)
                proxy.named.update(_named(self.path, body))
                fault = "fails" if proxy.away else proxy.fault_of(number)
                proxy.disturbed += fault is not None
                if fault == "fails":
                    self._answer((500, 503)[proxy.disturbed % 2], [], b"")
                    return
                if fault in _REFUSALS:
                    status, page = _REFUSALS[fault]
                    self._answer(status, [], page)
                    return
                if fault == "hangs":
                    proxy.closing.wait(30)
                    self.close_connection = True
                    return
                self.server_side.request(self.command, self.path, body, dict(self.headers))
                answer = self.server_side.getresponse()
                data = answer.read()
                if fault == "is lost":
                    self.close_connection = True
                    return
                self._answer(answer.status, answer.getheaders(), data)

            def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
                self.send_response_only(status)
                for name, value in headers:
                    if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                        self.send_header(name, value)
                size = next((v for n, v in headers if n.lower() == "content-length"), str(len(data)))
                self.send_header("Content-Length", size if self.command == "HEAD" else str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _pass_on

            def log_message(self, *arguments: object) -> None:
                """Print nothing."""

        self.closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        """End all requests."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    @contextlib.contextmanager
    def away_for(self, seconds: float) -> Iterator[None]:
        """Answer all requests with errors for a while, beginning now."""
        self.away = True
        threading.Timer(seconds, lambda: setattr(self, "away", False)).start()
        began = time.monotonic()
        yield
        assert time.monotonic() - began >= seconds, "it should have been waited for"
