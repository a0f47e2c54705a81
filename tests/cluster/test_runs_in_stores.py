"""Runs in an object store: the bytes of a run in a folder, and the same promises."""

from __future__ import annotations

import json
import uuid

import numpy as np
import pytest
from click.testing import CliRunner
from object_stores import SECRET, google_stand_in
from small_runs import bytes_of, run_here

import pairloom
from pairloom import PairwiseSVC
from pairloom.cluster.commands.cli import main
from pairloom.pipeline.run.ledger import Ledger
from pairloom.pipeline.run.lock import Locked, RunLock
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.location import StoreUrl, location_of

THREADS = {"cluster.kind": "threads"}


def command(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)


def everything_in(url: StoreUrl) -> dict[str, bytes]:
    folder = Folder(url)
    return {path: folder.read(path) for path in folder.below("")}


@pytest.fixture
def url(bucket) -> StoreUrl:
    return StoreUrl("s3", bucket, "runs/small")


@pytest.fixture
def stored_run(small_config, url):
    """A finished run in the store."""
    handle = pairloom.run(small_config, directory=str(url), overrides=THREADS)
    handle.result(timeout=120)
    return url


def test_a_run_in_a_store_has_the_bytes_of_one_in_a_folder(stored_run, small_run):
    assert bytes_of(stored_run) == bytes_of(small_run)
    folder = Folder(stored_run)
    for name in ("report/predictions.csv", "report/confusions.csv"):
        if (small_run / name).exists():
            assert folder.read(name) == (small_run / name).read_bytes()
    written = everything_in(stored_run)
    assert [path for path in written if SECRET.encode() in written[path]] == []
    assert [path for path in written if path.endswith(".partial")] == []


def test_commands_take_the_url(stored_run, small_run, tmp_path, small_config):
    status = json.loads(command("status", stored_run, "--json", "--verify").stdout)
    assert (status["state"], status["damaged"]) == ("finished", [])
    for where in (stored_run, stored_run.parent):
        (row,) = json.loads(command("ls", where, "--json").stdout)
        assert (row["directory"], row["state"], row["classes"]) == (str(stored_run), "done", 5)
    compared = json.loads(command("compare", stored_run, small_run, "--json").stdout)
    assert compared["differing"].keys() == {"cluster.kind"}
    assert command("report", stored_run).exit_code == 0
    assert command("attach", stored_run).exit_code == 0
    assert "No driver is at work" in command("cancel", stored_run).stdout
    before = bytes_of(stored_run)
    resumed = command("resume", stored_run)
    assert resumed.exit_code == 0, resumed.output
    assert bytes_of(stored_run) == before
    other = command("resume", stored_run, "--set", "model.folds=3")
    assert other.exit_code == 3
    assert "model.folds: was 'auto', is 3" in other.stderr


def test_the_runs_of_a_whole_bucket_are_listed(bucket, small_config):
    directory = StoreUrl("s3", bucket, "small")
    pairloom.run(small_config, directory=directory, overrides=THREADS).wait(120)
    for where in (f"s3://{bucket}", f"s3://{bucket}/"):
        (row,) = json.loads(command("ls", where, "--json").stdout)
        assert (row["directory"], row["state"]) == (str(directory), "done")


def test_its_model_predicts_the_same_bits(stored_run, small_run, tmp_path, small_config):
    X = np.random.default_rng(1).standard_normal((30, 6))
    here, there = PairwiseSVC.from_run(small_run), PairwiseSVC.from_run(str(stored_run))
    np.testing.assert_array_equal(there.predict_proba(X), here.predict_proba(X))
    np.savez(tmp_path / "new.npz", X=X)
    made = []
    for number, directory in enumerate((small_run, stored_run)):
        out = tmp_path / f"{number}.csv"
        done = command("predict", directory, "--features", tmp_path / "new.npz", "--out", out)
        assert done.exit_code == 0, done.output
        made.append(out.read_bytes())
    assert made[0] == made[1]
    Folder(stored_run).delete("machines.zarr/parameters/c/0/0/0")
    with pytest.raises(
        ValueError, match=r"parameters/c/0/0/0 is missing or damaged. Run `pairloom resume s3://"
    ):
        PairwiseSVC.from_run(str(stored_run))


@pytest.mark.long
def test_damaged_and_missing_objects_are_computed_again(stored_run, small_run):
    folder = Folder(stored_run)
    folder.write("machines.zarr/parameters/c/1/0/0", b"damaged")
    folder.delete("probabilities.zarr/vote/c/1/0")
    folder.write("logits.zarr/tensor/zarr.json", b"{}")
    assert len(json.loads(command("status", stored_run, "--json", "--verify").stdout)["damaged"]) == 3
    resumed = command("resume", stored_run)
    assert resumed.exit_code == 0, resumed.output
    assert "Recomputing machines 1" in resumed.stderr
    assert bytes_of(stored_run) == bytes_of(small_run)


def test_a_run_in_memory(small_config, small_run):
    url = StoreUrl("memory", "test", "small")
    model = pairloom.run(small_config, directory=url, overrides=THREADS).result(timeout=120)
    assert model.classes_.tolist() == [f"class {c}" for c in range(5)]
    assert bytes_of(url) == bytes_of(small_run)


def test_a_file_url_is_a_folder(small_config, client, tmp_path, small_run):
    directory = location_of((tmp_path / "a run").as_uri(), "directory")
    assert directory == tmp_path / "a run"
    run_here(small_config, directory, client)
    assert bytes_of(directory).keys() == bytes_of(small_run).keys()


def test_a_second_driver_is_refused(url):
    with RunLock(url) as first:
        assert first.number == 1
        with pytest.raises(Locked, match=r"another driver is working on this run .*pairloom attach s3://"):
            RunLock(url).__enter__()
        first.end_as("finished")
    with RunLock(url) as second:
        assert second.number == 2


def test_objects_of_a_stranger_are_left_alone(bucket, small_config):
    url = StoreUrl("s3", bucket, "theirs")
    Folder(url).write("notes.txt", b"theirs")
    refused = command("run", small_config, "--directory", url)
    assert refused.exit_code == 3
    assert "which holds 'notes.txt'. Nothing was changed." in refused.stderr
    assert everything_in(url) == {"notes.txt": b"theirs"}
    whole = command("run", small_config, "--directory", f"s3://{bucket}")
    assert whole.exit_code == 3
    assert "which is a whole bucket" in whole.stderr


def test_a_bucket_that_does_not_exist_is_named(bucket, small_config):
    for arguments in (("run", small_config, "--directory"), ("status",), ("resume",), ("ls",)):
        refused = command(*arguments, "s3://no-such-bucket/run")
        assert refused.exit_code == 3, refused.output
        assert "s3://no-such-bucket/run" in refused.stderr
        assert "no such bucket" in refused.stderr
        assert SECRET not in refused.output


@pytest.fixture(scope="module")
def fitted():
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 30)
    X = random.standard_normal((4, 5))[y] + random.standard_normal((120, 5))
    return PairwiseSVC(kernel="linear", random_state=0).fit(X, y), X, y


def test_a_model_is_saved_replaced_and_loaded(fitted, url):
    model, X, y = fitted
    model.save(str(url))
    loaded = PairwiseSVC.load(str(url))
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    with pytest.raises(FileExistsError, match="exists already; overwrite=True"):
        model.save(str(url))
    other = PairwiseSVC(kernel="linear", random_state=0, graph="path").fit(X, y)
    other.save(str(url), overwrite=True)
    np.testing.assert_array_equal(PairwiseSVC.load(str(url)).predict_proba(X), other.predict_proba(X))
    assert {path.split("/")[0] for path in Folder(url).below("")} == {"model.json", "arrays-2.zarr"}


def test_what_is_no_whole_model_is_neither_loaded_nor_replaced(fitted, url):
    model, _, _ = fitted
    with pytest.raises(FileNotFoundError, match=r"s3://.* is not a saved model: it has no model.json"):
        PairwiseSVC.load(str(url))
    Folder(url).write("notes.txt", b"theirs")
    with pytest.raises(FileExistsError, match="which is not one"):
        model.save(str(url), overwrite=True)
    assert everything_in(url) == {"notes.txt": b"theirs"}
    Folder(url).delete("notes.txt")
    model.save(str(url))
    Folder(url).write("notes.txt", b"theirs")
    with pytest.raises(FileExistsError, match=r"which holds 'notes\.txt' too"):
        model.save(str(url), overwrite=True)
    chunk = next(path for path in Folder(url).below("") if "/c/" in path)
    Folder(url).delete(chunk)
    with pytest.raises(ValueError, match=rf"{url} is not a whole model: it has no {chunk}"):
        PairwiseSVC.load(str(url))


def test_data_of_a_program_are_kept_in_the_store(url):
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 30)
    X = random.standard_normal((3, 4))[y] + random.standard_normal((90, 4))
    settings = {
        "cluster": {"kind": "threads"},
        "graph": {"family": "complete"},
        "model": {"kernel": "linear"},
    }
    model = pairloom.run(settings, data=(X, y), directory=str(url)).result(timeout=120)
    Ledger(url).forget("probabilities", 0)
    resumed = command("resume", url)
    assert resumed.exit_code == 0, resumed.output
    again = PairwiseSVC.from_run(str(url))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.long
def test_a_run_at_google(small_config, small_run):
    """The library is the real one; what it talks to answers as Google Cloud Storage is documented to."""
    with google_stand_in():
        url = StoreUrl("gs", uuid.uuid4().hex, "runs/small")
        pairloom.run(small_config, directory=url, overrides=THREADS).result(timeout=120)
        assert bytes_of(url) == bytes_of(small_run)
        updated = command("resume", url, "--set", "model.C=0.1", "--update")
        assert updated.exit_code == 0, updated.output
        assert bytes_of(url) != bytes_of(small_run)


@pytest.mark.long
def test_a_driver_is_submitted_to_a_cluster(small_config, small_run, url, dask_processes):
    """The driver runs on a worker, which knows nothing but the scheduler and the store."""
    dask_processes.start_worker(threads=2)
    dask_processes.start_worker(threads=2)
    options = ("--scheduler-file", dask_processes.scheduler_file)
    sent = command("submit", small_config, "--directory", url, *options)
    assert sent.exit_code == 0, sent.output
    followed = command("attach", url)
    assert followed.exit_code == 0, followed.output
    assert json.loads(command("status", url, "--json").stdout)["state"] == "finished"
    assert bytes_of(url) == bytes_of(small_run)
