"""Run directories whose plan or record of drivers is nonsense."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest
from folder_snapshot import snapshot
from odd_files import flipped

from pairloom.pipeline.run.run import FORMAT
from pairloom.pipeline.storage.digests import sealed, unsealed


def edited(**changes):
    """The plan of the run with other values, sealed as if it were sound."""
    return lambda plan: sealed(unsealed(plan) | changes)


PLANS = [
    ("text", lambda plan: b"hello", 1, "run.json: damaged: it is truncated, or not sealed JSON"),
    ("nothing", lambda plan: b"", 1, "run.json: damaged"),
    ("a list", lambda plan: b"[]", 1, "run.json: damaged"),
    ("nested", lambda plan: b"[" * 50_000, 1, "run.json: damaged"),
    ("cut", lambda plan: plan[:-30], 1, "run.json: damaged"),
    ("flipped", lambda plan: flipped(plan, len(plan) // 2), 1, "run.json: damaged"),
    ("older", edited(format=1), 3, f"run.json: format must be {FORMAT}, got 1"),
    ("newer", edited(format=99), 3, f"run.json: format must be {FORMAT}, got 99"),
    ("of no version", edited(format=None), 3, f"run.json: format must be {FORMAT}, got None"),
]


@pytest.fixture
def copied(here, tmp_path):
    """A copy of the run, to be damaged."""
    return Path(shutil.copytree(here / "run", tmp_path / "run"))


@pytest.mark.parametrize(("what", "plan", "code", "message"), PLANS, ids=[row[0] for row in PLANS])
@pytest.mark.parametrize("command", ["status", "attach", "cancel", "report", "resume"])
def test_a_plan_that_cannot_be_used_is_refused(command, what, plan, code, message, assert_refused, copied):
    (copied / "run.json").write_bytes(plan((copied / "run.json").read_bytes()))
    assert_refused(f"{command} {copied}", code, message, copied)


RECORDS = [
    "[]",
    "{}",
    "null",
    "3",
    "hello",
    "",
    "[" * 50_000,
    '{"pid": "x"}',
    '{"host": 1, "pid": 2, "process_start": 3.0, "since": 4}',
    '{"host": "HERE", "pid": -1, "process_start": 1.0, "since": "x"}',
    '{"host": "HERE", "pid": 99999999999999999999, "process_start": 1.0, "since": "x"}',
    '{"host": "HERE", "pid": 1.5, "process_start": 1.0, "since": "x"}',
    '{"host": "HERE", "pid": "1", "process_start": NaN, "since": "x"}',
    '{"host": "\\ud800", "pid": 1, "process_start": 1.0, "since": "x", "ended": "x"}',
    '{"host": "x", "pid": 1, "process_start": 1.0, "since": "x", "ended": "x", "outcome": [1]}',
    '{"host": "x", "pid": 1, "process_start": 1.0, "since": "x", "unknown": 1}',
]


@pytest.mark.parametrize("record", RECORDS, ids=[record[:60] for record in RECORDS])
def test_nonsense_in_the_record_of_a_driver_stops_no_command(record, pairloom, copied):
    newest = max((copied / "drivers").glob("*.json"))
    newest.write_text(record.replace("HERE", socket.gethostname()))
    before = snapshot(copied)
    for command in ("status", "attach", "cancel"):
        done = pairloom(f"{command} {copied}")
        assert done.exit_code == 0, done.output
    assert snapshot(copied) == before
    assert pairloom(f"resume {copied}").exit_code == 0
