"""Runs listed and compared, in every state that a run can be in."""

import contextlib
import json
import os
import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner
from small_runs import run_here

from pairloom.cluster.commands.cli import main
from pairloom.pipeline.run.lock import RunLock
from pairloom.pipeline.storage.digests import sealed, unsealed


def pairloom(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.fixture
def runs(small_run, tmp_path):
    """A folder with one finished run."""
    shutil.copytree(small_run, tmp_path / "runs" / "small")
    return tmp_path / "runs"


def rows_of(folder):
    return {
        row["directory"].rpartition("/")[2]: row
        for row in json.loads(pairloom("ls", folder, "--json").stdout)
    }


def test_a_finished_run_is_listed_with_its_scores(runs):
    metrics = json.loads((runs / "small" / "report" / "metrics.json").read_text())
    row = rows_of(runs)["small"]
    assert (row["state"], row["classes"], row["pairs"]) == ("done", 5, 10)
    assert row["log_loss"] == metrics["methods"]["stratified"]["log_loss"]
    assert row["bytes"] == sum(path.stat().st_size for path in runs.rglob("*") if path.is_file())
    heading, line = pairloom("ls", runs).stdout.splitlines()
    assert heading.split() == ["run", "state", "classes", "pairs", "accuracy", "log", "loss", "size", "age"]
    assert line.split()[:4] == [str(runs / "small"), "done", "5", "10"]
    assert f"{row['accuracy']:.4f}" in line
    assert pairloom("ls", runs / "small").stdout.splitlines()[1].split()[:2] == [str(runs / "small"), "done"]


@pytest.mark.parametrize(
    ("outcome", "word"), [("KeyboardInterrupt: ", "interrupted"), ("Terminated: ", "terminated")]
)
def test_a_run_that_a_signal_stopped_says_so_in_a_word(runs, outcome, word):
    shutil.rmtree(runs / "small" / "ledger" / "probabilities")
    with RunLock(runs / "small") as lock:
        lock.end_as(outcome)
    row = rows_of(runs)["small"]
    assert (row["state"], row["why"]) == ("stopped", word)
    assert pairloom("status", runs / "small").stdout.splitlines()[-1].endswith(f": {word}")


def test_every_state_is_told(runs):
    names = ("stopped", "failed", "died", "running", "older", "damaged")
    for name in names:
        shutil.copytree(runs / "small", runs / name)
    for name in names[:4]:
        shutil.rmtree(runs / name / "ledger" / "probabilities")
    for name, outcome in (
        ("stopped", "Stopped: The run was cancelled."),
        ("failed", "UnitFailed: machines 3 failed"),
    ):
        with RunLock(runs / name) as lock:
            lock.end_as(outcome)
    plan = runs / "older" / "run.json"
    plan.write_bytes(sealed(unsealed(plan.read_bytes()) | {"format": 4}))
    (runs / "damaged" / "run.json").write_text("{")
    (runs / "notes").mkdir()
    with RunLock(runs / "running"):
        found = rows_of(runs)
    states = {name: row["state"] for name, row in found.items()}
    assert states == {
        "small": "done",
        "stopped": "stopped",
        "failed": "failed",
        "died": "stopped",
        "running": "running",
        "older": "unreadable",
        "damaged": "unreadable",
    }
    assert found["stopped"]["why"] == "The run was cancelled."
    assert found["failed"]["why"] == "machines 3 failed"
    assert found["died"]["accuracy"] is None
    assert "machines 3 failed" in pairloom("ls", runs).stdout


def test_the_newest_run_comes_first(runs):
    shutil.copytree(runs / "small", runs / "a")
    os.utime(runs / "a" / "log.txt", (1e9, 1e9))
    assert [line.split()[0] for line in pairloom("ls", runs).stdout.splitlines()[1:]] == [
        str(runs / "small"),
        str(runs / "a"),
    ]
    assert rows_of(runs)["a"]["changed"].startswith("2001-09-09")


def test_no_runs_are_no_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for arguments in ((), (tmp_path,)):
        done = pairloom("ls", *arguments)
        assert done.exit_code == 0
        assert "No runs in" in done.stdout
    assert json.loads(pairloom("ls", "--json").stdout) == []


def test_runs_are_compared_by_scores_and_settings(runs, small_config, client):
    run_here(small_config, runs / "other", client, "model.whiten=none", "run.also_couple=[]", until="report")
    done = pairloom("compare", runs / "small", runs / "other")
    assert done.exit_code == 0, done.output
    lines = {line.split("  ")[0]: line.split()[-2:] for line in done.stdout.splitlines() if line}
    assert lines["model.whiten"] == ["0.8", '"none"']
    assert lines["pairs"] == ["10", "10"]
    assert lines["normal: accuracy"][1] == "-"
    found = json.loads(pairloom("compare", runs / "small", runs / "other", "--json").stdout)
    assert found["same_test_samples"] is True
    assert set(found["differing"]) == {"model.whiten", "run.also_couple"}
    both = [run["methods"]["stratified"]["log_loss"] for run in found["runs"]]
    assert [f"{loss:.4f}" for loss in both] == lines["stratified: log loss"]


def test_other_test_samples_are_pointed_out(runs, small_config, client, tmp_path):
    from small_runs import write_features

    others = write_features(tmp_path / "others.npz", classes=5, rows=20, features=6, samples=20, seed=1)
    run_here(small_config, runs / "other", client, f"data.test={others}", until="report")
    done = pairloom("compare", runs / "small", runs / "other")
    assert "The test samples differ, so the scores cannot be compared directly." in done.stdout
    assert "fingerprint of test samples" in done.stdout


def test_the_same_configuration_is_said_to_be(runs):
    shutil.copytree(runs / "small", runs / "copy")
    assert "The configurations are the same." in pairloom("compare", runs / "small", runs / "copy").stdout


@pytest.mark.long
def test_the_limit_that_ended_growth_is_named(small_config, runs):
    options = ("--set", "cluster.kind=threads", "--set", "graph.family=star", "--set", "growth.plateau=never")
    for name, limit, reason in (
        ("pairs", "growth.pairs=6", "the budget of 6 pairs is spent"),
        ("seconds", "growth.seconds=1e-9", "the budget of 1e-09 seconds is spent"),
        ("all", "growth.wave=9", "all pairs are trained"),
    ):
        done = pairloom("run", small_config, "--directory", runs / name, *options, "--set", limit)
        assert done.exit_code == 0, done.output
        assert f"pairs: {reason}" in " ".join(done.stdout.split())
        assert rows_of(runs)[name]["why"] == reason
        assert f"Growth stopped: {reason}." in (runs / name / "report" / "index.html").read_text()
        told = json.loads(pairloom("resume", runs / name, "--json").stdout) if name != "seconds" else None
        assert told is None or told["growth_ended"] == reason


def in_a_terminal(columns, *command_lines):
    """What commands print on a terminal of so many columns, one after the other in one process."""
    pty = pytest.importorskip("pty")
    leader, follower = pty.openpty()
    code = "import sys; from pairloom.cluster.commands.cli import main\n" + "".join(
        f"main({line.split()!r}, standalone_mode=False)\n" for line in command_lines
    )
    environment = os.environ | {"COLUMNS": str(columns)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=follower, env=environment) as child:
        os.close(follower)
        printed = b""
        with contextlib.suppress(OSError):  # a terminal that nobody writes to any more
            while part := os.read(leader, 4096):
                printed += part
    os.close(leader)
    assert child.returncode == 0
    return printed.decode().splitlines()


@pytest.mark.long
def test_on_a_terminal_lines_are_no_wider_than_it_and_paths_stay_whole(runs, monkeypatch):
    monkeypatch.chdir(runs.parent)
    long = "runs/a-run-with-a-name-of-more-than-forty-characters"
    shutil.copytree(runs / "small", long)
    lines = in_a_terminal(80, "ls", f"compare runs/small {long}")
    assert max(map(len, lines)) <= 80
    assert sum(long in line for line in lines) == 2, "each command names it once"
    assert sum(line.lstrip().startswith("state") for line in lines) == 2
