"""The user's files: a run reads, replaces and removes nothing that it did not make."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from small_runs import bytes_of, run_here, write_config, write_features

from pairloom.cluster.commands.cli import main
from pairloom.cluster.watch.status import run_status
from pairloom.pipeline.run.lock import SUBMITTED, RunLock
from pairloom.pipeline.stages.run_file import read_run, write_run

THREADS = ("--set", "cluster.kind=threads")


def pairloom(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)


def snapshot(folder):
    """Everything below a folder: the bytes of files, the targets of links, the names of folders."""
    return {
        path.relative_to(folder).as_posix(): os.readlink(path)
        if path.is_symlink()
        else path.read_bytes()
        if path.is_file()
        else "folder"
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def copied_run(small_run, tmp_path):
    shutil.copytree(small_run, tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize(
    "theirs",
    [
        "features.zarr/zarr.json",
        "notes.txt",
        "thesis.tex.partial",
        "report/index.html",
        "ledger/2026.json",
        "drivers/0001.json",
        "run.json",
        "model.json",
    ],
)
def test_a_directory_that_holds_anything_else_is_refused_and_left_alone(theirs, small_config, tmp_path):
    directory = tmp_path / "mine"
    (directory / theirs).parent.mkdir(parents=True)
    (directory / theirs).write_text('{"theirs": true}')
    before = snapshot(directory)
    done = pairloom("run", small_config, "--directory", directory, *THREADS)
    assert done.exit_code == 3, done.output
    assert f"got {directory}, which holds '{theirs.split('/')[0]}'" in done.stderr
    assert snapshot(directory) == before


def test_a_file_is_no_directory(small_config, tmp_path):
    (tmp_path / "mine").write_text("theirs")
    done = pairloom("run", small_config, "--directory", tmp_path / "mine", *THREADS)
    assert done.exit_code == 3
    assert "must be a folder" in done.stderr


def test_litter_of_a_file_manager_is_no_obstacle(small_config, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".DS_Store").write_bytes(b"finder")
    assert pairloom("run", small_config, "--directory", tmp_path / "run", *THREADS).exit_code == 0
    assert (tmp_path / "run" / ".DS_Store").read_bytes() == b"finder"


def test_data_in_the_run_directory_are_refused(tmp_path):
    directory = tmp_path / "run"
    directory.mkdir()
    features = write_features(directory / "features.npz", classes=3, rows=9, features=3, samples=6)
    config = write_config(tmp_path / "run.toml", features)
    before = snapshot(directory)
    done = pairloom("run", config, "--directory", directory, *THREADS)
    assert done.exit_code == 2
    assert "data.features must not lie in the run directory" in done.stderr
    assert snapshot(directory) == before


def test_a_run_that_reads_the_store_of_another_leaves_it_alone(small_run, small_config, tmp_path):
    done = pairloom(
        "run", small_config, "--directory", small_run, "--set", f"data.features={small_run}/features.zarr"
    )
    assert done.exit_code == 2
    assert run_status(small_run, verify=True).state == "finished"


def test_strange_files_in_the_stores_are_left_alone_and_stop_nothing(copied_run, small_config, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "thesis.0123456789abcdef0123456789abcdef.partial").write_text("theirs")
    strange = [
        "notes.partial",
        "features.zarr/.DS_Store",
        "features.zarr/mine.txt",
        "features.zarr/train/.nfs0001",
        "machines.zarr/coef/c/.DS_Store",
        "machines.zarr/coef/c/0/0/.nfs0002",
        "logits.zarr/old/data",
        "ledger/machines/.DS_Store",
        "ledger/machines/notes.json",
        "drivers/notes.json",
        "growth/notes.json",
        "report/mine.html",
    ]
    for name in strange:
        (copied_run / name).parent.mkdir(parents=True, exist_ok=True)
        (copied_run / name).write_text("theirs")
    (copied_run / "probabilities.zarr" / "link").symlink_to(outside)
    reference = bytes_of(copied_run)
    shutil.rmtree(copied_run / "ledger" / "probabilities")
    assert pairloom("resume", copied_run, *THREADS).exit_code == 0
    assert pairloom("report", copied_run).exit_code == 0
    done = pairloom(
        "resume", copied_run, *THREADS, "--set", "run.also_couple=['vote']", "--set", "run.tensor=virtual",
        "--update",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert not (copied_run / "logits.zarr" / "tensor").exists(), "the run's own arrays are removed"
    assert not (copied_run / "probabilities.zarr" / "wlw2").exists()
    for name in strange:
        assert (copied_run / name).read_text() == "theirs"
    assert (copied_run / "probabilities.zarr" / "link").is_symlink()
    assert [path.read_text() for path in outside.iterdir()] == ["theirs"]
    assert bytes_of(copied_run)["machines.zarr/coef/c/0/0/0"] == reference["machines.zarr/coef/c/0/0/0"]


def test_half_written_files_of_a_killed_process_are_removed(copied_run):
    ours = copied_run / "machines.zarr/coef/c/0/0/.0.0123456789abcdef0123456789abcdef.partial"
    ours.write_bytes(b"half")
    shutil.rmtree(copied_run / "ledger" / "report")
    assert pairloom("resume", copied_run, *THREADS).exit_code == 0
    assert not ours.exists()


@pytest.mark.parametrize("key", ["data.test", "data.features"])
@pytest.mark.parametrize("command", ["resume", "run"])
def test_a_data_path_that_does_not_exist_is_an_error(command, key, copied_run, small_config):
    before = (copied_run / "run.json").read_bytes()
    what = [copied_run] if command == "resume" else [small_config, "--directory", copied_run]
    done = pairloom(command, *what, "--set", f"{key}=/nope.npz", *THREADS)
    assert done.exit_code == 2
    assert "no such file or folder: /nope.npz" in done.stderr
    assert (copied_run / "run.json").read_bytes() == before


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".zarr"])
def test_predict_overwrites_only_if_told_to(suffix, small_run, tmp_path):
    np.savez(tmp_path / "new.npz", X=np.zeros((2, 6)))
    out = tmp_path / f"p{suffix}"
    predict = ("predict", small_run, "--features", tmp_path / "new.npz", "--out", out)
    assert pairloom(*predict).exit_code == 0
    before = snapshot(tmp_path)
    refused = pairloom(*predict, "--coupling", "vote")
    assert refused.exit_code == 3
    assert f"--out must be new, got {out}, which exists. Pass --force" in refused.stderr
    assert snapshot(tmp_path) == before
    assert pairloom(*predict, "--coupling", "vote", "--force").exit_code == 0
    assert snapshot(tmp_path) != before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.npz", out.name]


@pytest.mark.parametrize("kind", ["folder", "group with a note in it", "link"])
def test_force_replaces_no_folder_of_the_users(kind, small_run, tmp_path):
    np.savez(tmp_path / "new.npz", X=np.zeros((2, 6)))
    out = tmp_path / "p.zarr"
    predict = ("predict", small_run, "--features", tmp_path / "new.npz", "--out", out)
    if kind == "group with a note in it":
        assert pairloom(*predict).exit_code == 0
    elif kind == "link":
        (tmp_path / "mine").mkdir()
        out.symlink_to(tmp_path / "mine")
    else:
        out.mkdir()
    (out / "notes.txt").write_text("theirs")
    before = snapshot(tmp_path)
    refused = pairloom(*predict, "--force")
    assert refused.exit_code == 3
    assert "--force replaces a file or a .zarr folder of probabilities and nothing else" in refused.stderr
    assert snapshot(tmp_path) == before


@pytest.fixture
def abandoned_run(small_config, tmp_path, client):
    """A run that was submitted to a cluster which has died since."""
    directory = tmp_path / "run"
    run_here(small_config, directory, client, until="machines")
    plan = read_run(directory)
    cluster = plan.config.cluster.model_copy(update={"kind": "scheduler", "scheduler": "tcp://127.0.0.1:9"})
    with RunLock(directory) as lock:
        write_run(replace(plan, config=plan.config.model_copy(update={"cluster": cluster})))
        lock.end_as(SUBMITTED)
    assert run_status(directory).state == "submitted"
    return directory


def test_attach_and_cancel_say_that_the_cluster_is_dead(abandoned_run):
    attached = pairloom("attach", abandoned_run)
    assert attached.exit_code == 4
    assert "does not answer, so no driver will start" in attached.stderr
    assert f"pairloom resume {abandoned_run} --local" in attached.stderr
    cancelled = pairloom("cancel", abandoned_run)
    assert cancelled.exit_code == 0
    assert "does not answer" in cancelled.stderr
    assert run_status(abandoned_run).state == "unfinished"
    assert "No driver is at work" in pairloom("cancel", abandoned_run).stdout


@pytest.mark.long
def test_a_run_whose_cluster_is_dead_is_resumed_here(abandoned_run):
    # A request to cancel that the submitted driver never saw is not meant for this one.
    (abandoned_run / "drivers" / "0001.cancel").write_bytes(b"")
    done = pairloom("resume", abandoned_run, "--local", "--workers", 1)
    assert done.exit_code == 0, done.output
    assert run_status(abandoned_run).state == "finished"


LINKED = [
    "report",
    "report/index.html",
    "log.txt",
    "run.json",
    "model.json",
    "drivers",
    "drivers/0009.json",
    "ledger",
    "ledger/report",
    "ledger/report/000000.json",
    "calibration",
    "probabilities.zarr",
    "probabilities.zarr/scale",
    "probabilities.zarr/scale/c/0",
    "machines.zarr/zarr.json",
]


def put_link(run, name, outside):
    """Move what has this name in a run to a folder outside, and put a link in its place."""
    path = run / name
    kept = outside / path.name
    path.parent.mkdir(exist_ok=True)
    if path.exists():
        shutil.move(path, kept)
    else:
        kept.write_text("theirs")
    path.symlink_to(kept)


@pytest.mark.parametrize("command", ["report", "resume"])
@pytest.mark.parametrize("name", LINKED)
def test_nothing_is_written_or_removed_through_a_link(name, command, copied_run, tmp_path):
    """A run directory from somebody else may have links to any file of this computer."""
    outside = tmp_path / "home"
    outside.mkdir()
    put_link(copied_run, name, outside)
    before = snapshot(tmp_path)
    done = pairloom(command, copied_run, *(THREADS if command == "resume" else ()))
    assert done.exit_code == 3, done.output
    assert f"{copied_run / name} must be a file or folder, got a symbolic link" in done.stderr
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("name", ["report", "log.txt", "drivers", "ledger", "features.zarr/mine", "mine"])
def test_reading_commands_follow_links_and_write_nothing(name, copied_run, tmp_path):
    outside = tmp_path / "home"
    outside.mkdir()
    put_link(copied_run, name, outside)
    before = snapshot(tmp_path)
    for command in ("status", "compare"):
        assert pairloom(command, *[copied_run] * (1 + (command == "compare"))).exit_code == 0
    assert snapshot(tmp_path) == before


def test_a_link_of_the_users_own_is_no_obstacle(copied_run, tmp_path):
    for name in ("mine", "features.zarr/mine"):
        (copied_run / name).symlink_to(tmp_path / "nowhere")
    assert pairloom("report", copied_run).exit_code == 0
    assert all((copied_run / name).is_symlink() for name in ("mine", "features.zarr/mine"))


def test_the_run_directory_itself_may_be_a_link(copied_run, tmp_path):
    (tmp_path / "latest").symlink_to(copied_run)
    assert pairloom("report", tmp_path / "latest").exit_code == 0
