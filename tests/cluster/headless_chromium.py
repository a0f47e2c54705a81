"""Chromium without a window, driven over a pipe by its DevTools protocol: no port is opened, nothing else is needed."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

#: Seconds to wait for an answer.
_PATIENCE = 60
#: Chromium reads commands from file descriptor 3 and writes to 4. The pipes may have these numbers, so they move first.
_ON_PIPES = """
import fcntl, os, sys
commands, answers = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(commands, 3)
os.dup2(answers, 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""


def chromium_program() -> str | None:
    """Debian's Chromium, or another that is installed."""
    found = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    return next((path for path in found if path), None)


class Chromium:
    """A browser with one page at a time."""

    def __init__(self, program: str, profile: Path) -> None:
        commands_in, self._commands = os.pipe()
        self._answers, answers_out = os.pipe()
        self._process = subprocess.Popen(
            [
                sys.executable, "-c", _ON_PIPES, str(commands_in), str(answers_out), program, "--headless=new",
                "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                "--no-first-run", "--disable-background-networking", f"--user-data-dir={profile}",
            ],
            pass_fds=(commands_in, answers_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(commands_in)
        os.close(answers_out)
        self._numbers, self._unread, self._session = itertools.count(1), b"", None
        self._address = self._loaded = ""
        self.complaints: list[str] = []
        self.requests: list[str] = []

    def open(self, page: Path, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """Load a page in a new tab, and wait until it is there."""
        self.complaints, self.requests, self._address, self._loaded = [], [], "", ""
        target = self._send("Target.createTarget", url="about:blank")["targetId"]
        self._session = None
        self._session = self._send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._send(f"{domain}.enable")
        self._send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
            mobile=width < 500,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._send("Emulation.setEmulatedMedia", features=[scheme])
        address = page.resolve().as_uri()
        self._send("Page.navigate", url=address)
        while self._loaded != address:
            self._receive()

    def evaluate(self, expression: str) -> Any:
        """The JSON value of an expression in the page, awaited if it is a promise."""
        found = self._send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True, userGesture=True
        )
        if "exceptionDetails" in found:
            raise AssertionError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """The page as a PNG file."""
        taken = self._send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(taken["data"]))

    def point(self, x: float, y: float, *, click: bool = False) -> None:
        """Move the pointer, and click."""
        self._send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            self._send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def close(self) -> None:
        """End the browser."""
        os.close(self._commands)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._answers)

    def _send(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]

    def _receive(self) -> dict[str, Any]:
        """The next message; complaints of the page and its requests are noted."""
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._answers], [], [], _PATIENCE)
            read = os.read(self._answers, 2**20) if ready else b""
            if not read:
                raise AssertionError("Chromium has ended." if ready else f"No answer in {_PATIENCE} seconds.")
            self._unread += read
        text, _, self._unread = self._unread.partition(b"\0")
        message = json.loads(text)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method: str | None, told: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(told["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(json.dumps(told["args"]))
        elif method == "Log.entryAdded":
            self.complaints.append(told["entry"]["text"])
        elif method == "Page.frameNavigated":
            self._address, self._loaded = told["frame"]["url"], ""
        elif method == "Page.loadEventFired":
            self._loaded = self._address
        elif method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
