"""The identity of a process, and whether it still lives.

A system reuses the pid of a process that has ended, so the identity includes the start of the process. The date of the
start is not reliable: it moves with the clock of the computer, which is set after a boot and when a virtual machine
wakes up. Linux counts ticks from the boot, and each boot has an id; neither moves. Other systems have only the date. A
different date proves nothing there, so callers have to look at the heartbeat of the process.
"""

from __future__ import annotations

import functools
import os
import socket
from dataclasses import dataclass
from pathlib import Path

import psutil

__all__ = ["ProcessIdentity"]

_PROC = Path("/proc")
# States of a process that has ended but whose exit code its parent has not read yet.
_ENDED_STATES = (b"Z", b"X", b"x")
# The start dates read for one process differ by rounding errors.
_SAME_DATE_SECONDS = 1.0


@dataclass(frozen=True)
class ProcessIdentity:
    """The identity of a process.

    ``boot`` names the boot of the computer and the namespaces in which ``pid`` and ``start`` are valid; ``start`` is in
    ticks of the kernel. On systems without boot ids, and in old records, ``boot`` is empty and ``start`` is a date in
    seconds.
    """

    host: str
    pid: int
    boot: str
    start: float

    @classmethod
    def here(cls) -> ProcessIdentity:
        """This process."""
        pid, boot = os.getpid(), _boot()
        start = _start_ticks(pid) if boot else psutil.Process().create_time()
        return cls(socket.gethostname(), pid, boot, float(start))

    def is_alive(self) -> bool | None:
        """Whether the process lives; None if this host cannot know, so that only its heartbeat tells."""
        if self.boot:
            return self._has_its_ticks() if self.boot == _boot() else None
        return self._has_its_date() if self.host == socket.gethostname() else None

    def _has_its_ticks(self) -> bool | None:
        try:
            return _start_ticks(self.pid) == self.start
        except ProcessLookupError:
            return False
        except OSError:  # /proc may hide the processes of others
            return None if psutil.pid_exists(self.pid) else False

    def _has_its_date(self) -> bool | None:
        try:
            process = psutil.Process(self.pid)
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            return True if abs(process.create_time() - self.start) < _SAME_DATE_SECONDS else None
        except psutil.NoSuchProcess:
            return False
        except psutil.AccessDenied:
            return None


@functools.cache
def _boot() -> str:
    """The id of this boot and the namespaces of this process; empty if the system has no boot id."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        _start_ticks(os.getpid())
        # A container may share the name of its host but has its own pids and even its own ticks.
        names = [_PROC / "self/ns" / kind for kind in ("pid", "time")]
        return " ".join([boot, *(os.readlink(name) for name in names if name.is_symlink())])
    except OSError:
        return ""


def _start_ticks(pid: int) -> int:
    """When a process started, in ticks since the boot. Raise `ProcessLookupError` if it has ended."""
    # The second field is the name of the program, in brackets, and may have spaces and brackets itself.
    _, _, after = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")
    fields = after.split()
    if not fields or fields[0] in _ENDED_STATES:
        raise ProcessLookupError(pid)
    return int(fields[19])
