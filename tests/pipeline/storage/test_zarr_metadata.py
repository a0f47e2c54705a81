"""Only arrays that can do no harm are opened, and only whole ones. What they are is read from their metadata."""

from __future__ import annotations

import json
import tracemalloc

import numcodecs.pickles
import numpy as np
import pytest
import zarr
from hostile_arrays import change_json, make_pickled_array

from pairloom.pipeline.storage.zarr_metadata import (
    HARMLESS,
    OURS,
    MissingChunk,
    RefusedArray,
    open_checked,
    stored_array,
)

VALUES = np.arange(1.0, 13.0).reshape(4, 3)


@pytest.fixture
def folder(tmp_path):
    zarr.create_array(tmp_path / "a", data=VALUES, chunks=(2, 3))
    return tmp_path / "a"


def read(folder, rules=HARMLESS):
    stored = stored_array(folder, rules)
    stored.check_files()
    return np.asarray(open_checked(stored)[...])


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("separator", [".", "/"])
@pytest.mark.parametrize("dtype", ["<f8", ">f4", "i1", "u2", "?", "<U3", "S2", "M8[D]"])
@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
def test_numbers_and_text_of_either_format_are_read(zarr_format, separator, dtype, tmp_path):
    values = np.arange(1, 13).reshape(4, 3).astype("u1" if dtype == "S2" else "i8").astype(dtype)
    encoding = {"name": "v2" if zarr_format == 2 else "default", "separator": separator}
    zarr.create_array(
        tmp_path / "a", data=values, chunks=(3, 2), zarr_format=zarr_format, chunk_key_encoding=encoding
    )
    found = read(tmp_path / "a")
    np.testing.assert_array_equal(found, values)
    assert len(list(stored_array(tmp_path / "a", HARMLESS).files())) == 4


def test_shards_text_of_any_length_and_single_numbers_are_read(tmp_path):
    sharded = zarr.create_array(tmp_path / "s", shape=(10, 4), chunks=(2, 2), shards=(4, 4), dtype="f4")
    sharded[:] = 1
    text = np.array(["a", "long enough", "ü"], np.dtypes.StringDType())
    zarr.create_array(tmp_path / "t", data=text)
    zarr.create_array(tmp_path / "n", data=np.array(3.0))
    zarr.create_array(tmp_path / "e", data=np.empty((0, 3)))
    assert read(tmp_path / "s", OURS).sum() == 40
    assert read(tmp_path / "t", OURS).tolist() == text.tolist()
    assert read(tmp_path / "n", OURS) == 3
    assert read(tmp_path / "e", OURS).shape == (0, 3)


def test_a_pickle_among_the_filters_is_never_decoded(tmp_path, monkeypatch):
    monkeypatch.setattr(numcodecs.pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True)
    mark = tmp_path / "code was run"
    make_pickled_array(tmp_path / "a", mark)
    for rules in (OURS, HARMLESS):
        with pytest.raises(RefusedArray):
            read(tmp_path / "a", rules)
    assert not mark.exists()
    with pytest.raises(Exception):  # noqa: B017, PT011
        zarr.open_array(tmp_path / "a", mode="r")[:]  # zarr alone runs it, then stumbles over what it made
    assert mark.exists()


ZSTD = {"name": "zstd", "configuration": {"level": 0, "checksum": False}}
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"zarr_format": 2}, "format 3"),
        ({"node_type": "group"}, "format 3"),
        ({"codecs": [BYTES, {"name": "numcodecs.pickle"}]}, "codecs must be among .* got pickle"),
        ({"codecs": [{"name": "vlen-bytes"}]}, "codecs must be among .* got vlen-bytes"),
        ({"codecs": "bytes"}, "list of codecs"),
        ({"codecs": [3]}, "must name types, grids and codecs, got '3'"),
        ({"codecs": [{"name": "bytes", "configuration": [1]}]}, "must name types"),
        (
            {"codecs": [{"name": "sharding_indexed", "configuration": {"codecs": [{"name": "pickle"}]}}]},
            "must name types|got pickle",
        ),
        ({"data_type": "object"}, "data type must be numbers or text, got 'object'"),
        ({"data_type": {"name": "variable_length_bytes"}}, "data type must be numbers or text"),
        ({"data_type": {"name": "fixed_length_utf32", "configuration": {"length_bytes": -4}}}, "a length"),
        ({"data_type": None}, "must name types"),
        ({"shape": [4, -3]}, "shape must be whole numbers"),
        ({"shape": [4, True]}, "shape must be whole numbers"),
        ({"shape": [4, 3.0]}, "shape must be whole numbers"),
        ({"shape": 4}, "shape must be a list"),
        ({"shape": [1] * 100}, "shape must be a list"),
        ({"shape": [4]}, "must have the 1 dimensions"),
        ({"shape": [10**15, 3]}, "chunk c/2/0 is missing"),
        ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0, 3]}}}, "at least 1"),
        (
            {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [10**9, 10**9]}}},
            "cannot hold",
        ),
        ({"chunk_grid": {"name": "rectangular"}}, "regular grid"),
        ({"chunk_key_encoding": {"name": "default", "configuration": {"separator": "/../"}}}, "separated by"),
        ({"chunk_key_encoding": {"name": "other"}}, "regular grid"),
        ({"storage_transformers": [{"name": "x"}]}, "storage transformers"),
    ],
    ids=str,
)
def test_metadata_that_breaks_a_rule_is_refused_without_memory(changes, complaint, folder):
    change_json(folder / "zarr.json", **changes)
    tracemalloc.start()
    try:
        with pytest.raises(RefusedArray, match=complaint):
            read(folder)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("content", [b"", b"hello", b"[" * 100_000, b"[1]", b"\xff", b"9" * 5000])
def test_metadata_that_is_no_object_is_refused(content, folder):
    (folder / "zarr.json").write_bytes(content)
    with pytest.raises(RefusedArray, match=r"zarr\.json"):
        read(folder)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"dtype": "|O"}, r"got '\|O'; save text with a length"),
        ({"dtype": [["a", "<f8"]]}, "data type must be"),
        ({"dtype": "(1000000000,)f8"}, "data type must be"),
        ({"filters": [{"id": "pickle"}]}, "got pickle"),
        ({"filters": [{"id": "delta", "dtype": "|O"}]}, "got delta"),
        ({"compressor": {"id": "msgpack2"}}, "got msgpack2"),
        ({"compressor": "zlib"}, "named by an id"),
        ({"shape": [10**9, 10**9], "chunks": [10**9, 10**9]}, "cannot hold"),
    ],
    ids=str,
)
def test_metadata_of_format_2_that_breaks_a_rule_is_refused(changes, complaint, tmp_path):
    zarr.create_array(tmp_path / "a", data=VALUES, zarr_format=2)
    change_json(tmp_path / "a" / ".zarray", **changes)
    with pytest.raises(RefusedArray, match=complaint):
        read(tmp_path / "a")


def test_data_stored_in_format_2_are_none_of_ours(tmp_path):
    zarr.create_array(tmp_path / "a", data=VALUES, zarr_format=2)
    with pytest.raises(RefusedArray, match=r"it has no zarr\.json"):
        read(tmp_path / "a", OURS)


def test_a_missing_chunk_is_named(folder):
    (folder / "c" / "1" / "0").unlink()
    with pytest.raises(MissingChunk, match="chunk c/1/0 is missing"):
        read(folder)
    stored = stored_array(folder, HARMLESS)
    stored.check_files(may_be_absent=True)
    assert open_checked(stored)[:].tolist() == [*VALUES[:2].tolist(), [0, 0, 0], [0, 0, 0]]


def test_a_chunk_holds_no_more_than_its_bytes_can_unpack_to(folder):
    """An uncompressed chunk has the bytes of its items; a compressed one as many as Zstd can make of it."""
    zarr.create_array(folder.parent / "b", data=VALUES, compressors=None)
    (folder.parent / "b" / "c" / "0" / "0").write_bytes(b"\0" * 95)
    with pytest.raises(RefusedArray, match="has 95 bytes, which cannot hold 96"):
        read(folder.parent / "b")
    most = zarr.create_array(
        folder.parent / "z", shape=(2**24,), chunks=(2**24,), dtype="f8", compressors="auto"
    )
    most[:] = 1.5
    metadata = json.loads((folder.parent / "z" / "zarr.json").read_text())
    assert "zstd" in str(metadata["codecs"])
    stored_array(folder.parent / "z", OURS).check_files()
