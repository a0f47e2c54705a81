"""Digests, and sealed JSON: damage is never read as data."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairloom.pipeline.storage.digests import DamagedSeal, digest_of, file_digest, sealed, unsealed

CONTENT = {"scale": 3.25, "labels": ["gar", "été"], "pairs": [[0, 1], [0, 12]], "whiten": None, "done": True}
ATOMS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def same_or_damaged(data, content):
    """Whether the bytes are refused, or give the same content with the same types."""
    try:
        return repr(unsealed(data)) == repr(content)
    except DamagedSeal:
        return True


@pytest.mark.parametrize("indent", [None, 1])
def test_what_was_sealed_comes_back(indent):
    data = sealed(CONTENT, indent)
    assert unsealed(data) == CONTENT
    assert json.loads(data).keys() == {*CONTENT, "seal"}


@given(content=st.dictionaries(st.text().filter(lambda key: key != "seal"), VALUES, max_size=4))
def test_any_json_object_comes_back(content):
    assert unsealed(sealed(content)) == content


@pytest.mark.parametrize("indent", [None, 1])
def test_no_byte_can_change_unnoticed(indent):
    """Every byte replaced by every other: an error, or the same content, as with another kind of white space."""
    data = sealed({"scale": 3.25, "labels": ["a", "é"], "n": 10}, indent)
    content = unsealed(data)
    for at in range(len(data)):
        for byte in range(256):
            assert same_or_damaged(data[:at] + bytes([byte]) + data[at + 1 :], content), (at, byte)


def test_no_byte_can_be_lost_or_added_unnoticed():
    data = sealed({"scale": 3.25, "labels": ["a", "é"], "n": 10})
    content = unsealed(data)
    for at in range(len(data)):
        assert same_or_damaged(data[:at] + data[at + 1 :], content), at
        for byte in b' 0123456789"\\,.-+e{}[]:an\x00\xff':
            assert same_or_damaged(data[:at] + bytes([byte]) + data[at:], content), (at, byte)


def test_what_is_cut_short_is_refused():
    data = sealed(CONTENT)
    for length in range(len(data) - 1):  # all but the line feed at the end
        with pytest.raises(DamagedSeal, match="not sealed JSON"):
            unsealed(data[:length])


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"3", b"null", b'"seal"', b"{}", b'{"scale": 1}', b"\xff\xfe\x00", b"[" * 50]
)
def test_what_is_no_sealed_object_is_refused(data):
    with pytest.raises(DamagedSeal, match="not sealed JSON"):
        unsealed(data)


@pytest.mark.parametrize("seal", ["", "0" * 64, None, 3, ["x"]])
def test_another_seal_is_refused(seal):
    with pytest.raises(DamagedSeal, match="does not match its content"):
        unsealed(json.dumps({**CONTENT, "seal": seal}).encode())


def test_a_seal_of_other_content_is_refused():
    seal = json.loads(sealed(CONTENT | {"scale": 3.5}))["seal"]
    with pytest.raises(DamagedSeal, match="does not match its content"):
        unsealed(json.dumps({**CONTENT, "seal": seal}).encode())


def test_the_order_of_keys_does_not_matter_to_a_digest_but_all_else_does():
    assert digest_of({"a": 1, "b": {"c": 2, "d": 3}}) == digest_of({"b": {"d": 3, "c": 2}, "a": 1})
    values = [
        {"a": 1},
        {"a": "1"},
        {"a": 1.0},
        {"a": True},
        {"a": None},
        {"a": [1]},
        {"b": 1},
        [1, 2],
        [2, 1],
    ]
    assert len({digest_of(value) for value in values}) == len(values)


def test_the_digest_of_a_file_is_that_of_sha256sum(tmp_path):
    (tmp_path / "abc").write_bytes(b"abc")
    assert file_digest(tmp_path / "abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
