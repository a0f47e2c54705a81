"""Folders: files are whole or absent, and none is written or removed through a link."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest
import zarr

from pairloom.pipeline.storage import places
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.places import LinkInside
from pairloom.pipeline.storage.zarr_layout import ChunkedArray, group_files, stamp


@pytest.fixture(params=["descriptors", "paths"])
def folder(request, tmp_path, monkeypatch):
    """A folder, with both ways to reach its files: that of POSIX and that of Windows."""
    if request.param == "paths":
        monkeypatch.setattr(places, "_BY_DESCRIPTOR", False)
    (tmp_path / "inside").mkdir()
    return Folder(tmp_path / "inside")


@pytest.fixture
def outside(tmp_path):
    (tmp_path / "outside" / "b").mkdir(parents=True)
    (tmp_path / "outside" / "b" / "c").write_bytes(b"theirs")
    (tmp_path / "outside" / "empty").mkdir()
    return tmp_path / "outside"


def test_files_are_written_created_appended_to_and_deleted(folder):
    folder.write("a/b/c", b"one")
    folder.write("a/b/c", b"two")
    assert folder.read("a/b/c") == b"two"
    assert not folder.create("a/b/c", b"three")
    assert folder.create("a/b/d", b"three")
    folder.append("log.txt", b"1")
    folder.append("log.txt", b"2")
    assert folder.read("log.txt") == b"12"
    assert 0 <= folder.age("log.txt") < 60
    for path in ("a/b/c", "a/b/d", "a/b/d", "not/there"):
        folder.delete(path)
    folder.prune("a")
    assert os.listdir(folder.root) == ["log.txt"]


ACTIONS = {
    "write": lambda folder, path: folder.write(path, b"ours"),
    "create": lambda folder, path: folder.create(path, b"ours"),
    "append": lambda folder, path: folder.append(path, b"ours"),
    "delete": lambda folder, path: folder.delete(path),
    "age": lambda folder, path: folder.age(path),
}


def content_of(root):
    return {str(p.relative_to(root)): p.read_bytes() if p.is_file() else None for p in root.rglob("*")}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("at", ["file", "folder", "folder above"])
def test_nothing_passes_a_link(at, action, folder, outside):
    (folder.root / "a").mkdir()
    if at == "file":
        (folder.root / "a" / "b").mkdir()
        (folder.root / "a" / "b" / "c").symlink_to(outside / "b" / "c")
    elif at == "folder":
        (folder.root / "a" / "b").symlink_to(outside / "b")
    else:
        (folder.root / "a").rmdir()
        (folder.root / "a").symlink_to(outside)
    before = content_of(outside)
    with pytest.raises(LinkInside, match="got a symbolic link"):
        ACTIONS[action](folder, "a/b/c")
    assert content_of(outside) == before


def test_a_link_to_nowhere_makes_no_file(folder, outside):
    (folder.root / "log.txt").symlink_to(outside / "new.txt")
    for action in ("write", "create", "append"):
        with pytest.raises(LinkInside):
            ACTIONS[action](folder, "log.txt")
    assert not (outside / "new.txt").exists()


def test_empty_folders_behind_links_stay(folder, outside):
    (folder.root / "a").symlink_to(outside)
    (folder.root / "b").mkdir()
    (folder.root / "b" / "c").symlink_to(outside)
    for name in ("a", "a/empty", "b"):
        folder.prune(name)
        assert folder.below(name) == []
    assert (outside / "empty").is_dir()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_for_a_log_is_refused_and_does_not_wait_for_a_reader(folder):
    os.mkfifo(folder.root / "log.txt")
    with pytest.raises(OSError, match="device"):
        folder.append("log.txt", b"line")


@pytest.mark.parametrize("at", ["a", "a/c", "a/c/0", "a/c/0/0"])
def test_chunks_are_not_written_through_a_link(at, folder, outside):
    layout = ChunkedArray("a", ("x", "y"), (4, 4), (2, 2))
    stamp(folder, group_files([layout], [], {}))
    array = folder.array("a", write=True)
    array[:] = np.ones((4, 4))
    (folder.root / at).rename(outside / "moved")
    (folder.root / at).symlink_to(outside / "moved")
    before = content_of(outside)
    with pytest.raises(LinkInside):
        array[:] = np.full((4, 4), 2.0)
    assert content_of(outside) == before


def test_chunks_are_those_of_zarrs_own_store(folder, tmp_path):
    layout = [
        ChunkedArray("a", ("x",), (5,), (2,)),
        ChunkedArray("s", ("x",), (9,), (2,), chunks_per_file=(2,)),
    ]
    values = np.arange(9, dtype=np.float32)
    stamp(folder, group_files(layout, [], {}))
    shutil.copytree(folder.root, tmp_path / "zarr")
    theirs = zarr.open_group(tmp_path / "zarr", mode="r+")
    for name, n in (("a", 5), ("s", 9)):
        folder.array(name, write=True)[:] = values[:n]
        theirs[name][:] = values[:n]
    assert content_of(folder.root) == content_of(tmp_path / "zarr")
