"""Hosts of their own on this computer: each with its network address, its processes and its files.

A host is a network namespace on a bridge that nothing else is connected to, and what runs on it has namespaces of
mounts, processes and names. Of this computer's files it sees what an image would bring (the package, Python) and
writes to copies of its own, so no path is shared. Links between hosts can be cut without either noticing.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pairloom import __file__ as _PACKAGE

_SUBNET = "10.203.77"
_CLONE_NEWNET = 0x40000000


def needs_hosts() -> None:
    """Skip the test where hosts cannot be made."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("hosts of their own need root on Linux")
    for name in ("ip", "unshare", "openssl"):
        if shutil.which(name) is None:
            pytest.skip(f"hosts of their own need {name} (iproute2, util-linux, openssl)")
    tried = subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "true"], capture_output=True)
    if tried.returncode:
        pytest.skip(f"namespaces cannot be made here: {tried.stderr.decode().strip()}")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Host:
    """A host: its name and address, and the folder of this computer that it sees as ``/tmp/own``."""

    def __init__(self, network: Network, name: str, number: int, files: Path) -> None:
        self._network, self.name, self.address = network, name, f"{_SUBNET}.{number}"
        self.namespace, self.files = f"{network.prefix}-{name}", files
        files.mkdir()
        up = f"{name}-up"
        _ip("netns", "add", self.namespace)
        _ip(
            "link",
            "add",
            up,
            "netns",
            network.switch,
            "type",
            "veth",
            "peer",
            "eth0",
            "netns",
            self.namespace,
        )
        _ip("-n", network.switch, "link", "set", up, "master", "bridge", "up")
        for device in ("lo", "eth0"):
            _ip("-n", self.namespace, "link", "set", device, "up")
        _ip("-n", self.namespace, "address", "add", f"{self.address}/24", "dev", "eth0")

    def start(
        self, *command: object, env: dict[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[str]:
        """Start a process on the host, in ``/tmp/own``; its end is the end of all that it starts."""
        words = " ".join(shlex.quote(str(word)) for word in command)
        script = f"{_own_files(self.files)} && hostname {self.name} && cd /tmp/own && exec {words}"
        spaces = ["--mount", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.namespace, "unshare", *spaces, "sh", "-ec", script],
            text=True,
            start_new_session=True,
            env={**os.environ, "TMPDIR": "/tmp", **(env or {})},
            **pipes,
        )
        self._network.processes.append(process)
        return process

    def pairloom(self, *arguments: object, **options: Any) -> subprocess.Popen[str]:
        """The command line, on this host."""
        return self.start(sys.executable, "-m", "pairloom", *arguments, **options)

    def unplug(self) -> None:
        """Take the host off the network. Nobody is told: packets are lost."""
        _ip("-n", self._network.switch, "link", "set", f"{self.name}-up", "down")

    def plug_in(self) -> None:
        """Bring it back."""
        _ip("-n", self._network.switch, "link", "set", f"{self.name}-up", "up")

    @contextlib.contextmanager
    def cut_off_from(self, other: Host) -> Iterator[None]:
        """Lose all packets from the other host to this one, while all other links stay."""
        _ip("-n", other.namespace, "route", "add", "blackhole", f"{self.address}/32")
        try:
            yield
        finally:
            _ip("-n", other.namespace, "route", "del", "blackhole", f"{self.address}/32")


def _own_files(files: Path) -> str:
    """Commands that leave a host nothing to write to that another one sees."""
    home = os.environ.get("HOME", "/root")
    roots = dict.fromkeys((Path(_PACKAGE).parent, Path(sys.prefix), Path(home)))
    # The package may hold the environment, and the home folder both: the outermost are enough.
    outermost = [
        root for root in roots if not any(root.is_relative_to(other) for other in roots if other != root)
    ]
    lines = ["mount --make-rprivate /", f"mount --bind {shlex.quote(str(files))} /mnt"]
    for number, root in enumerate(outermost):
        folder, root_ = f"/run/own-{number}", shlex.quote(str(root))
        lines += [
            *([] if number else ["mount -t tmpfs own /run"]),
            f"mkdir -p {folder}/changed {folder}/work",
            f"mount -t overlay own -o lowerdir={root_},upperdir={folder}/changed,workdir={folder}/work {root_}",
        ]
    lines += [
        "mount -t tmpfs own /tmp",
        "mkdir /tmp/own",
        "mount --move /mnt /tmp/own",
        "mount -o remount,bind,ro /",
    ]
    return " && ".join(lines)


class Network:
    """Hosts on a bridge. ``processes`` are all that were started on them."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.prefix = f"pairloom-{os.getpid()}"
        self.switch = f"{self.prefix}-switch"
        self.processes: list[subprocess.Popen[str]] = []
        self.hosts: dict[str, Host] = {}
        _ip("netns", "add", self.switch)
        _ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", self.switch, "link", "set", "bridge", "up")
        for number, name in enumerate(names, start=1):
            self.hosts[name] = Host(self, name, number, folder / name)

    def close(self) -> None:
        """End all processes and remove the hosts."""
        end_all(self.processes)
        for namespace in (*(host.namespace for host in self.hosts.values()), self.switch):
            subprocess.run(["ip", "netns", "delete", namespace], capture_output=True)


def end_all(processes: list[subprocess.Popen[str]]) -> None:
    """Kill processes, and all that they have started."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    processes.clear()


class Window:
    """A port of this computer's loopback through which tests look at a port of the network.

    A socket stays in the namespace in which it was made. So one thread, which has entered that of a host, connects
    there what was accepted here.
    """

    def __init__(self, through: Host, address: str, port: int) -> None:
        self._target, self._namespace = (address, port), f"/run/netns/{through.namespace}"
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with open(self._namespace) as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        with contextlib.suppress(OSError):  # closed
            while True:
                here, _ = self._listening.accept()
                try:
                    there = socket.create_connection(self._target, timeout=30)
                except OSError:
                    here.close()
                    continue
                there.settimeout(None)
                for source, target in ((here, there), (there, here)):
                    threading.Thread(target=_pass_on, args=(source, target), daemon=True).start()

    def close(self) -> None:
        """Accept no more."""
        self._listening.close()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(2**16):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def certificate(folder: Path) -> Path:
    """A certificate with its key in one file, signed by itself: who has it belongs to the cluster."""
    path = folder / "certificate.pem"
    key = folder / "key.pem"
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
            ),
            *("-days", "2", "-subj", "/CN=pairloom-test", "-keyout", key, "-out", path),
        ],
        check=True,
        capture_output=True,
    )
    path.write_bytes(path.read_bytes() + key.read_bytes())
    key.unlink()
    return path
