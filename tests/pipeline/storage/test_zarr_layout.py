from __future__ import annotations

import warnings

import numpy as np
import pytest
import xarray
import zarr

from pairloom.pipeline.run.run_directory import write_chunks
from pairloom.pipeline.storage.zarr_layout import (
    ChunkedArray,
    Coordinate,
    chunk_file,
    group_files,
    read_whole,
    remove_outdated,
    stamp,
)

ARRAYS = [
    ChunkedArray("coef", ("edge", "feature"), (10, 3), (4, 3)),
    ChunkedArray("iterations", ("edge",), (10,), (4,), "int32"),
]
COORDINATES = [
    Coordinate("class", ("class",), np.array(["gar", "été"])),
    Coordinate("class_i", ("edge",), np.arange(10, dtype=np.int32)),
]


@pytest.fixture
def group(tmp_path):
    stamp(tmp_path, group_files(ARRAYS, COORDINATES, {"synthetic": False}))
    return zarr.open_group(tmp_path, mode="r+")


def test_xarray_reads_a_group_without_a_warning(group, tmp_path):
    write_chunks(group["coef"], (0, 0), np.ones((4, 3), np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = xarray.open_zarr(tmp_path)
    assert dict(found.sizes) == {"edge": 10, "feature": 3, "class": 2}
    assert found["class"].values.tolist() == ["gar", "été"]
    assert "class_i" in found.coords
    assert found["coef"][:4].values.tolist() == [[1.0] * 3] * 4
    assert np.isnan(found["coef"][4:].values).all()


def test_stamping_twice_writes_nothing_and_heals_damage(group, tmp_path):
    files = group_files(ARRAYS, COORDINATES, {"synthetic": False})
    chunks = write_chunks(group["coef"], (8, 0), np.ones((2, 3), np.float32))
    before = chunks[0].read_bytes()
    assert stamp(tmp_path, files) == []
    (tmp_path / "coef" / "zarr.json").write_text("{}")
    (tmp_path / "class" / "c" / "0").unlink()
    assert sorted(stamp(tmp_path, files)) == ["class/c/0", "coef/zarr.json"]
    assert chunks[0].read_bytes() == before


def test_only_whole_chunks_are_written(group):
    assert [path.name for path in write_chunks(group["coef"], (4, 0), np.ones((6, 3), np.float32))] == [
        "0",
        "0",
    ]
    for start, rows in ((1, 3), (0, 5)):
        with pytest.raises(ValueError, match="not whole chunks of 4"):
            write_chunks(group["coef"], (start, 0), np.ones((rows, 3), np.float32))


@pytest.mark.parametrize("position", range(0, 60, 7))
def test_a_flipped_bit_is_never_data(group, position):
    values = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    (path,) = write_chunks(group["coef"], (0, 0), values)
    assert path == chunk_file(group["coef"], (0, 0))
    content = bytearray(path.read_bytes())
    content[position % len(content)] ^= 16
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match="checksum"):
        read_whole(group["coef"], slice(0, 4))


def test_a_missing_chunk_is_never_data(group):
    write_chunks(group["coef"], (0, 0), np.ones((4, 3), np.float32))
    write_chunks(group["iterations"], (0,), np.ones(4, np.int32))
    assert read_whole(group["coef"], slice(0, 4)).sum() == 12
    for name in ("coef", "iterations"):
        with pytest.raises(ValueError, match="chunks are missing"):
            read_whole(group[name])


def test_what_another_layout_left_is_removed(group, tmp_path):
    for start in (0, 4, 8):
        write_chunks(group["coef"], (start, 0), np.ones((min(4, 10 - start), 3), np.float32))
    smaller = [ChunkedArray("coef", ("edge", "feature"), (7, 3), (4, 3))]
    files = group_files(smaller, [], {})
    members = [path.name for path in tmp_path.iterdir() if path.is_dir()]
    remove_outdated(tmp_path, smaller, files, known=members)
    stamp(tmp_path, files)
    left = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert left == ["coef/c/0/0", "coef/c/1/0", "coef/zarr.json", "zarr.json"]


def test_files_that_are_not_ours_stay(group, tmp_path):
    for start in (0, 4, 8):
        write_chunks(group["coef"], (start, 0), np.ones((min(4, 10 - start), 3), np.float32))
    write_chunks(group["iterations"], (0,), np.ones(4, np.int32))
    strange = ["notes.txt", "mine/data.bin", "coef/.DS_Store", "coef/c/9/.nfs0001", "iterations/c/readme"]
    for name in strange:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a user's")
    (tmp_path / "coef/c/7").symlink_to(tmp_path / "mine")
    smaller = [ChunkedArray("coef", ("edge", "feature"), (7, 3), (4, 3))]
    remove_outdated(tmp_path, smaller, group_files(smaller, [], {}), known=["iterations", "absent"])
    for name in strange:
        assert (tmp_path / name).read_text() == "a user's"
    assert (tmp_path / "coef/c/7").is_symlink()
    assert not (tmp_path / "coef/c/2/0").exists()
    assert not (tmp_path / "iterations/c/0").exists()
    assert not (tmp_path / "iterations/zarr.json").exists()
