from __future__ import annotations

import hashlib
import json

import pytest

from pairloom.pipeline.run.ledger import Entry, Ledger

# Of the units of the stage.
KEYS = ["k"] * 5


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path)


def entry(ledger, unit=3, content=b"chunk", key="k"):
    ledger.folder.write(f"chunk-{unit}", content)
    made = Entry("machines", unit, key, ledger.seal_files([f"chunk-{unit}"]), 0.5, "host:1")
    ledger.record(made)
    return made


def test_what_was_recorded_is_read(ledger):
    made = entry(ledger)
    assert ledger.read("machines", 3) == made
    assert ledger.read("machines", 4) is None
    assert ledger.verified("machines", KEYS) == ([made], [])


def test_another_key_is_not_claimed(ledger):
    entry(ledger)
    assert list(ledger.claimed("machines", ["k", "k", "k", "other"])) == []


def test_damaged_files_are_found(ledger):
    entry(ledger, 1)
    sound = entry(ledger, 2)
    entry(ledger, 3)
    (ledger.folder.root / "chunk-1").write_bytes(b"chunx")
    (ledger.folder.root / "chunk-3").unlink()
    assert ledger.verified("machines", KEYS) == ([sound], ["chunk-1", "chunk-3"])


def test_no_byte_of_an_entry_can_change_unseen(ledger):
    made = entry(ledger)
    path = ledger.folder.root / "ledger" / "machines" / "000003.json"
    content = path.read_bytes()
    for place in range(len(content)):
        for damaged in (
            content[:place],
            content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :],
        ):
            path.write_bytes(damaged)
            assert ledger.read("machines", 3) in (None, made)
    path.write_bytes(content)
    assert ledger.read("machines", 3) == made


def test_an_entry_of_another_unit_is_not_believed(ledger):
    entry(ledger)
    folder = ledger.folder.root / "ledger" / "machines"
    (folder / "000004.json").write_bytes((folder / "000003.json").read_bytes())
    assert ledger.read("machines", 4) is None


def test_a_ledger_is_plain_json(ledger):
    entry(ledger)
    content = json.loads((ledger.folder.root / "ledger" / "machines" / "000003.json").read_text())
    assert content["stage"] == "machines"
    assert content["files"] == {"chunk-3": hashlib.sha256(b"chunk").hexdigest()}


def test_a_forgotten_unit_is_gone(ledger):
    entry(ledger)
    ledger.forget("machines", 3)
    ledger.forget("machines", 3)
    assert ledger.read("machines", 3) is None
