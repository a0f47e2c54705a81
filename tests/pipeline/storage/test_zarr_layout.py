from __future__ import annotations

import warnings

import numpy as np
import pytest
import xarray
import zarr
from zarr.storage import LocalStore

from pairloom.pipeline.run.run_directory import write_chunks
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.zarr_layout import (
    ChunkedArray,
    Coordinate,
    chunk_path,
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


def in_group(files):
    """Files of a group by their paths in the folder of the group."""
    return {f"group/{path}": data for path, data in files.items()}


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


@pytest.fixture
def group(folder):
    stamp(folder, in_group(group_files(ARRAYS, COORDINATES, {"synthetic": False})))
    return zarr.open_group(LocalStore(folder.root), path="group", mode="r+")


def test_xarray_reads_a_group_without_a_warning(group, tmp_path):
    write_chunks(group["coef"], (0, 0), np.ones((4, 3), np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = xarray.open_zarr(tmp_path / "group")
    assert dict(found.sizes) == {"edge": 10, "feature": 3, "class": 2}
    assert found["class"].values.tolist() == ["gar", "été"]
    assert "class_i" in found.coords
    assert found["coef"][:4].values.tolist() == [[1.0] * 3] * 4
    assert np.isnan(found["coef"][4:].values).all()


def test_stamping_twice_writes_nothing_and_heals_damage(group, folder):
    files = in_group(group_files(ARRAYS, COORDINATES, {"synthetic": False}))
    (chunk,) = write_chunks(group["coef"], (8, 0), np.ones((2, 3), np.float32))
    before = folder.read(chunk)
    assert stamp(folder, files) == []
    folder.write("group/coef/zarr.json", b"{}")
    folder.delete("group/class/c/0")
    assert sorted(stamp(folder, files)) == ["group/class/c/0", "group/coef/zarr.json"]
    assert folder.read(chunk) == before


def test_only_whole_chunks_are_written(group):
    written = write_chunks(group["coef"], (4, 0), np.ones((6, 3), np.float32))
    assert written == ["group/coef/c/1/0", "group/coef/c/2/0"]
    for start, rows in ((1, 3), (0, 5)):
        with pytest.raises(ValueError, match="not whole chunks of 4"):
            write_chunks(group["coef"], (start, 0), np.ones((rows, 3), np.float32))


@pytest.mark.parametrize("position", range(0, 60, 7))
def test_a_flipped_bit_is_never_data(group, folder, position):
    values = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    (path,) = write_chunks(group["coef"], (0, 0), values)
    assert path == chunk_path(group["coef"], (0, 0))
    content = bytearray(folder.read(path))
    content[position % len(content)] ^= 16
    folder.write(path, bytes(content))
    with pytest.raises(ValueError, match="checksum"):
        read_whole(group["coef"], slice(0, 4))


def test_a_missing_chunk_is_never_data(group):
    write_chunks(group["coef"], (0, 0), np.ones((4, 3), np.float32))
    write_chunks(group["iterations"], (0,), np.ones(4, np.int32))
    assert read_whole(group["coef"], slice(0, 4)).sum() == 12
    for name in ("coef", "iterations"):
        with pytest.raises(ValueError, match="chunks are missing"):
            read_whole(group[name])


def test_what_another_layout_left_is_removed(group, folder, tmp_path):
    for start in (0, 4, 8):
        write_chunks(group["coef"], (start, 0), np.ones((min(4, 10 - start), 3), np.float32))
    smaller = [ChunkedArray("coef", ("edge", "feature"), (7, 3), (4, 3))]
    known = [path.name for path in (tmp_path / "group").iterdir() if path.is_dir()]
    remove_outdated(folder, "group", smaller, ["coef"], known)
    stamp(folder, in_group(group_files(smaller, [], {})))
    assert [path.removeprefix("group/") for path in folder.below("group")] == [
        "coef/c/0/0",
        "coef/c/1/0",
        "coef/zarr.json",
        "zarr.json",
    ]
    assert sorted(path.name for path in (tmp_path / "group").iterdir()) == ["coef", "zarr.json"]


def test_files_that_are_not_ours_stay(group, folder, tmp_path):
    for start in (0, 4, 8):
        write_chunks(group["coef"], (start, 0), np.ones((min(4, 10 - start), 3), np.float32))
    write_chunks(group["iterations"], (0,), np.ones(4, np.int32))
    strange = ["notes.txt", "mine/data.bin", "coef/.DS_Store", "coef/c/9/.nfs0001", "iterations/c/readme"]
    for name in strange:
        (tmp_path / "group" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "group" / name).write_text("a user's")
    (tmp_path / "group/coef/c/7").symlink_to(tmp_path / "group/mine")
    smaller = [ChunkedArray("coef", ("edge", "feature"), (7, 3), (4, 3))]
    remove_outdated(folder, "group", smaller, ["coef"], ["iterations", "absent"])
    for name in strange:
        assert (tmp_path / "group" / name).read_text() == "a user's"
    assert (tmp_path / "group/coef/c/7").is_symlink()
    assert not (tmp_path / "group/coef/c/2/0").exists()
    assert not (tmp_path / "group/iterations/c/0").exists()
    assert not (tmp_path / "group/iterations/zarr.json").exists()
