"""Bad input to the commands: a documented exit code, a message on standard error, no traceback, nothing written.

A row is a command as one types it, its exit code and a pattern of its message. Commands run in the folder of `place`,
which has `data.npz`, `config.toml`, `run` (a finished run) and the files of `odd_files`.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from folder_snapshot import snapshot
from odd_files import FILES

from pairloom.cluster.commands.cli import main
from pairloom.pipeline.run import lock

CODES = {0, 1, 2, 3, 4, 130, 143}  # as docs/runs.md has them


@pytest.fixture(scope="session")
def here(place) -> Path:
    """The folder that commands run in."""
    for name, content in FILES.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    (place / "nothing").mkdir()
    return place


@pytest.fixture
def pairloom(here, monkeypatch):
    """Run a command there; check that it ends as commands end."""
    monkeypatch.chdir(here)
    monkeypatch.delenv("PAIRLOOM_DATA", raising=False)
    monkeypatch.setattr(lock, "HEARTBEAT_SECONDS", 0.02)  # how long a damaged record is waited for

    def call(command: str):
        done = CliRunner().invoke(main, shlex.split(command))
        assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
        assert done.exit_code in CODES
        assert "Traceback" not in done.output
        return done

    return call


@pytest.fixture
def assert_refused(pairloom, here):
    """Check that a command ends as it says, and that nothing was written, here or in another folder."""

    def assert_refused(command: str, code: int, message: str, folder: Path = here) -> None:
        before = snapshot(folder)
        done = pairloom(command)
        assert done.exit_code == code, done.output
        assert re.search(message, done.stderr, re.DOTALL), done.stderr
        assert snapshot(folder) == before

    return assert_refused
