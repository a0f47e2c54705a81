"""Both homes of a run keep the same promises; a store that cannot keep them is refused."""

from __future__ import annotations

import hashlib
import multiprocessing
import pickle
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from object_stores import (
    SECRET,
    careless_server,
    environment_of,
    google_stand_in,
    in_environment,
    new_bucket,
    stand_in,
)

from pairloom.pipeline.storage import object_folder
from pairloom.pipeline.storage.folder import Folder, fenced
from pairloom.pipeline.storage.location import StoreUrl
from pairloom.pipeline.storage.object_store import (
    PATIENCE,
    StoreAway,
    StoreDenied,
    StoreUnfit,
    requests,
)
from pairloom.pipeline.storage.unit_memory import remembering
from pairloom.pipeline.storage.zarr_layout import ChunkedArray, group_files, stamp
from pairloom.pipeline.storage.zarr_metadata import MissingChunk, RefusedArray


def of_home(name: str) -> Iterator[Folder]:
    """A folder in a home that needs no server."""
    if name == "memory":
        yield Folder(StoreUrl("memory", uuid.uuid4().hex, "run"))
    else:
        with google_stand_in():
            yield Folder(StoreUrl("gs", uuid.uuid4().hex, "some/run"))


@pytest.fixture(params=["local", "memory", "seaweed", "moto", "google"])
def folder(request, tmp_path):
    """A folder in each home."""
    if request.param == "local":
        yield Folder(tmp_path)
    elif request.param in ("memory", "google"):
        yield from of_home(request.param)
    else:
        port = request.getfixturevalue(f"{request.param}_port")
        with in_environment(port):
            yield Folder(StoreUrl("s3", new_bucket(port), "some/run"))


def test_files_are_written_listed_and_deleted(folder):
    folder.make()
    assert folder.below("") == []
    folder.write("a/b/c.json", b"one")
    folder.write("a/b/c.json", b"two")
    folder.write("a/bb", b"not below a/b")
    assert folder.read("a/b/c.json") == b"two"
    assert not folder.create("a/b/c.json", b"three")
    assert folder.create("a/b/d.json", b"three")
    assert folder.names("a/b") == ["c", "d"]
    assert folder.below("a/b") == ["a/b/c.json", "a/b/d.json"]
    assert folder.folders() == ["a"]
    assert folder.exists("a/b/d.json")
    assert not folder.exists("a/b")
    assert folder.size() == len(b"twothreenot below a/b")
    assert list(folder.read_each(["a/b/d.json", "a/b/x", "a/b/c.json"])) == [b"three", None, b"two"]
    for path in ("a/b/c.json", "a/b/d.json", "a/b/d.json", "not/there"):
        folder.delete(path)
    folder.prune("a")
    assert folder.below("") == ["a/bb"]
    assert pickle.loads(pickle.dumps(folder)) == folder


def test_what_is_missing_is_missing(folder):
    for ask in (folder.read, folder.version, folder.written_at):
        with pytest.raises(FileNotFoundError):
            ask("nothing")
    assert folder.digest("nothing") is None
    assert folder.appended("nothing") == []
    assert folder.names("nothing") == folder.below("nothing") == []
    with pytest.raises((RefusedArray, FileNotFoundError)):
        folder.array("nothing")


def test_the_age_of_a_file_is_by_the_clock_of_its_store(folder):
    folder.write("a", b"")
    assert 0 <= folder.age("a") < 60
    assert folder.below("") == ["a"]


def test_lines_that_are_appended_are_all_there(folder):
    lines = [f"{number:04} line\n".encode() for number in range(60)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda line: folder.append("log.txt", line), lines))
    assert sorted(b"".join(folder.appended("log.txt")).splitlines(keepends=True)) == lines


def test_a_file_that_is_read_again_is_the_new_one(folder):
    for content in (b"first", b"other", b"third"):
        folder.write("ledger/a", content)
        assert list(folder.read_each(["ledger/a"])) == [content]


def test_arrays_are_the_same_bytes_in_both_homes(folder, tmp_path):
    layout = [
        ChunkedArray("x", ("row", "feature"), (5, 3), (2, 3)),
        ChunkedArray("sharded", ("row",), (64,), (4,), "int32", chunks_per_file=(8,)),
    ]
    values = np.arange(15, dtype=np.float32).reshape(5, 3)
    here = Folder(tmp_path / "reference")
    for home in (here, folder):
        stamp(home, {f"g.zarr/{path}": data for path, data in group_files(layout, [], {}).items()})
        home.array("g.zarr/x", write=True)[:] = values
        home.array("g.zarr/sharded", write=True)[:] = np.arange(64)
        assert home.chunks("g.zarr/x") == [f"g.zarr/x/c/{number}/0" for number in range(3)]
    written = folder.below("g.zarr")
    assert written == here.below("g.zarr")
    assert {path: folder.read(path) for path in written} == {path: here.read(path) for path in written}
    assert {path: folder.digest(path) for path in written} == {path: here.digest(path) for path in written}
    np.testing.assert_array_equal(folder.array("g.zarr/x")[...], values)
    np.testing.assert_array_equal(folder.array("g.zarr/sharded")[10:13], [10, 11, 12])
    folder.delete("g.zarr/x/c/1/0")
    with pytest.raises(MissingChunk, match="c/1/0"):
        folder.chunks("g.zarr/x")


def test_of_many_writers_one_creates_a_file(folder):
    def create(number):
        return folder.create(f"drivers/{number // 8}", f"writer {number}".encode())

    with ThreadPoolExecutor(8) as threads:
        created = np.reshape(list(threads.map(create, range(24))), (3, 8))
    assert created.sum(axis=1).tolist() == [1, 1, 1]
    for race, winners in enumerate(created):
        assert folder.read(f"drivers/{race}") == f"writer {8 * race + winners.argmax()}".encode()


@pytest.mark.parametrize("folder", ["memory", "seaweed", "moto", "google"], indirect=True)
def test_the_first_final_entry_of_a_store_stays(folder):
    """In a folder, where entries are renamed into place, the last one counts."""
    folder.write("entry", b"outdated")

    def finish(number):
        folder.put_once("entry", f"final {number}".encode(), lambda data: data.startswith(b"final"))
        return folder.read("entry")

    with ThreadPoolExecutor(8) as threads:
        seen = set(threads.map(finish, range(8)))
    assert len(seen) == 1
    finish(8)
    assert {folder.read("entry")} == seen


def test_a_probe_leaves_nothing_behind(bucket):
    folder = Folder(StoreUrl("s3", bucket, "run"))
    folder.make()
    assert folder.below("") == []


def test_a_store_that_ignores_conditions_is_refused():
    with careless_server() as (port, objects), in_environment(port):
        with pytest.raises(StoreUnfit, match=r"ignores the condition .*If-None-Match.* Use a store that"):
            Folder(StoreUrl("s3", "careless", "run")).make()
        assert objects == {}


@pytest.mark.parametrize("condition", ["If-None-Match", "If-Match"])
@pytest.mark.parametrize(
    ("treatment", "reason"),
    [
        ("ignores", r"ignores the condition .*{condition}.* Use a store that"),
        ("refuses", r"refuses .* on the condition .*{condition}.* Use a store that"),
        ("does not know", r"cannot do what runs need: .*501"),
    ],
)
def test_a_store_without_a_condition_is_refused_at_once(treatment, reason, condition, monkeypatch):
    with stand_in({condition: treatment}) as (port, objects), in_environment(port):
        monkeypatch.setenv(PATIENCE, "600")
        folder = Folder(StoreUrl("s3", uuid.uuid4().hex, "run"))
        before = requests.total()
        with pytest.raises(StoreUnfit, match=reason.format(condition=condition)):
            folder.make()
        assert requests.total() - before <= 8
        assert objects == {}


@pytest.mark.parametrize("condition", ["If-None-Match", "If-Match"])
def test_a_store_that_refuses_a_condition_later_is_not_asked_for_ever(condition, monkeypatch):
    monkeypatch.setattr(object_folder, "_PAUSE_SECONDS", 0.001)
    treatments = {}
    with stand_in(treatments) as (port, _), in_environment(port):
        folder = Folder(StoreUrl("s3", uuid.uuid4().hex, "run"))
        folder.make()
        if condition == "If-Match":
            folder.write("entry", b"old")
        treatments[condition] = "refuses"
        for put in (
            lambda: folder.write("entry", b"new"),
            lambda: folder.put_once("entry", b"new", lambda data: False),
        ):
            before = requests.total()
            with fenced(lambda: None), pytest.raises(StoreUnfit, match="that nobody has changed"):
                put()
            assert requests.total() - before < 50


def test_a_missing_bucket_is_named(seaweed_port):
    with in_environment(seaweed_port):
        folder = Folder(StoreUrl("s3", "no-such-bucket", "run"))
        for ask in (lambda: folder.read("run.json"), lambda: folder.below(""), folder.make):
            with pytest.raises(StoreDenied, match=r"s3://no-such-bucket/run.*refuses"):
                ask()


@pytest.mark.long
def test_a_store_that_is_away_is_no_missing_file(monkeypatch):
    for name, value in environment_of(1).items():  # nobody listens there
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(PATIENCE, "1")
    folder = Folder(StoreUrl("s3", uuid.uuid4().hex, "run"))
    for ask in (
        folder.read,
        folder.digest,
        folder.exists,
        folder.below,
        lambda path: folder.create(path, b""),
    ):
        with pytest.raises(StoreAway, match=r"does not answer") as caught:
            ask("run.json")
        assert SECRET not in str(caught.value)


def test_nothing_beyond_the_prefix_is_seen(bucket):
    Folder(StoreUrl("s3", bucket, "run-2")).write("theirs", b"")
    Folder(StoreUrl("s3", bucket)).write("theirs", b"")
    folder = Folder(StoreUrl("s3", bucket, "run"))
    assert folder.below("") == []
    assert folder.names("", "") == folder.folders() == []


def test_entries_that_are_known_are_not_asked_for_again(bucket):
    folder, paths = Folder(StoreUrl("s3", bucket, "run")), [f"ledger/{number}" for number in range(5)]
    for path in paths:
        folder.write(path, path.encode())
    list(folder.read_each(paths))
    before = dict(requests)
    assert list(folder.read_each(paths)) == [path.encode() for path in paths]
    asked = {kind: requests[kind] - before[kind] for kind in before if requests[kind] != before[kind]}
    assert asked == {"list_with_delimiter": 1}


def requests_of(act) -> dict[str, int]:
    """The requests that something takes, by kind."""
    before = requests.copy()
    act()
    return dict(requests - before)


@pytest.fixture(params=["memory", "google"])
def quick_store(request):
    """A folder in a store that is there at once."""
    yield from of_home(request.param)


def test_lines_are_put_together(quick_store):
    for number in range(50):
        quick_store.append("log.txt", f"line {number}\n".encode())
    assert requests_of(lambda: None) == {}
    assert len(quick_store.below("log.txt")) == 1
    written = requests_of(lambda: quick_store.flush("log.txt"))
    assert written == {"put": 1}
    assert requests_of(lambda: quick_store.flush("log.txt")) == {}
    (lines,) = quick_store.appended("log.txt")
    assert lines.decode().split() == [word for n in range(50) for word in ("line", str(n))]


def test_lines_that_nobody_waits_for_are_put_soon(quick_store, monkeypatch):
    monkeypatch.setattr(object_folder, "_LOG_SECONDS", 0.2)
    for line in (b"first\n", b"second\n"):
        quick_store.append("log.txt", line)
    (path,) = quick_store.below("log.txt")
    deadline = time.monotonic() + 10
    while quick_store.read(path) != b"first\nsecond\n":
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_process_that_ends_puts_its_last_lines(bucket):
    """One of multiprocessing too, as workers are."""
    url = StoreUrl("s3", bucket, "run")
    worker = multiprocessing.get_context("spawn").Process(target=append_two_lines, args=(url,))
    worker.start()
    worker.join(60)
    assert worker.exitcode == 0
    assert b"".join(Folder(url).appended("log.txt")) == b"first\nsecond\n"


def append_two_lines(url: StoreUrl) -> None:
    Folder(url).append("log.txt", b"first\n")
    Folder(url).append("log.txt", b"second\n")


def test_a_unit_asks_for_nothing_twice(quick_store, tmp_path):
    layout = [
        ChunkedArray("x", ("row", "feature"), (300, 50), (3, 50), chunks_per_file=(50, 1), compressed=False)
    ]
    values = np.random.default_rng(0).standard_normal((300, 50)).astype(np.float32)
    stamp(quick_store, {f"g.zarr/{path}": data for path, data in group_files(layout, [], {}).items()})
    files = ["g.zarr/x/c/0/0", "g.zarr/x/c/1/0"]

    def write() -> None:
        quick_store.array("g.zarr/x", write=True)[:] = values

    def seal() -> list[str | None]:
        return [quick_store.digest(path) for path in files]

    def read() -> None:
        for start in (0, 17, 100, 150, 201):
            np.testing.assert_array_equal(
                quick_store.array("g.zarr/x")[start : start + 30], values[start : start + 30]
            )

    with fenced(lambda: None), remembering():
        write()
        digests = seal()
        assert requests_of(seal) == {}
    assert seal() == digests
    assert requests_of(read)["get"] > 50
    with remembering():  # once the metadata, and of each file the index of its chunks and one block
        assert requests_of(read) == {"head": 1, "get": 4}


def test_what_a_unit_knows_ends_with_it(quick_store):
    make_array(quick_store, 4)
    with fenced(lambda: None), remembering():
        quick_store.write("a", b"ours")
        digest = quick_store.digest("a")
    quick_store.write("a", b"theirs")
    assert quick_store.digest("a") != digest
    with remembering():
        quick_store.write("a", b"without a fence")
        assert quick_store.digest("a") == hashlib.sha256(b"without a fence").hexdigest()


def test_what_a_unit_changes_it_reads_anew(quick_store):
    make_array(quick_store, 4)
    with fenced(lambda: None), remembering():
        for value in (1, 2):
            array = quick_store.array("zarr/x", write=True)
            array[:] = value
            np.testing.assert_array_equal(array[:], value)
        make_array(quick_store, 6)
        assert quick_store.array("zarr/x").shape == (6,)
        quick_store.delete("zarr/x/c/0")
        assert quick_store.digest("zarr/x/c/0") is None


def make_array(folder: Folder, length: int) -> None:
    """An array "x" in chunks of two, without any."""
    files = group_files([ChunkedArray("x", ("a",), (length,), (2,))], [], {})
    stamp(folder, {f"zarr/{path}": data for path, data in files.items()})


class TakenOver(RuntimeError):
    """Another driver has a new plan."""


def refuse() -> None:
    raise TakenOver


def test_nothing_is_written_or_deleted_behind_a_fence(folder):
    folder.make()
    make_array(folder, 4)
    array = folder.array("zarr/x", write=True)
    array[:2] = 1
    folder.write("entry", b"theirs")
    before = {path: folder.read(path) for path in folder.below("")}
    for act in (
        lambda: folder.write("entry", b"ours"),
        lambda: folder.write("new", b"ours"),
        lambda: folder.delete("entry"),
        lambda: folder.retract("entry"),
        lambda: folder.put_once("entry", b"ours", lambda data: False),
        lambda: folder.put_once("new", b"ours", lambda data: False),
        lambda: array.__setitem__(slice(0, 2), 2),
        lambda: array.__setitem__(slice(2, 4), 2),
    ):
        with pytest.raises(TakenOver), fenced(refuse):
            act()
    assert {path: folder.read(path) for path in folder.below("")} == before
    with fenced(lambda: None):
        folder.write("entry", b"ours")
        array[:] = 3
    assert folder.read("entry") == b"ours"
    np.testing.assert_array_equal(array[:], 3)
    folder.write("entry", b"without a fence")


@pytest.mark.parametrize("folder", ["memory", "seaweed", "moto", "google"], indirect=True)
@pytest.mark.parametrize("there", [True, False])
def test_what_a_successor_puts_while_a_writer_is_held_up_stays(folder, there):
    """It is held up after its check, which still passed: another driver takes over, and puts the same object."""
    make_array(folder, 2)
    array, successor = folder.array("zarr/x", write=True), folder.array("zarr/x", write=True)
    if there:
        folder.write("entry", b"old")
        array[:] = 1
    for write, put, chunk in (
        (lambda: folder.write("entry", b"ours"), lambda: folder.write("entry", b"theirs"), "entry"),
        (
            lambda: folder.put_once("entry2", b"ours", lambda data: False),
            lambda: folder.write("entry2", b"theirs"),
            "entry2",
        ),
        (
            lambda: array.__setitem__(slice(None), 2),
            lambda: successor.__setitem__(slice(None), 3),
            "zarr/x/c/0",
        ),
        *(
            [(lambda: folder.retract("entry"), lambda: folder.write("entry", b"new"), "entry")]
            if there
            else []
        ),
    ):
        checks = []

        def check(put=put, checks=checks) -> None:
            if checks:
                raise TakenOver
            checks.append("passed")
            with fenced(lambda: None):
                put()

        with pytest.raises(TakenOver), fenced(check):
            write()
        assert folder.read(chunk) not in (b"ours", b"")
    np.testing.assert_array_equal(array[:], 3)
