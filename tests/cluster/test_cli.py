from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
from dataclasses import replace

import numpy as np
import pytest
import xarray
from click.testing import CliRunner
from dask_processes import finish, pairloom_process, wait_until
from small_runs import assert_same_bytes, bytes_of, times_begun

from pairloom.cluster.commands.cli import main
from pairloom.cluster.watch.status import run_status
from pairloom.pipeline.run.lock import RunLock
from pairloom.pipeline.stages.run_file import read_run, write_run
from pairloom.pipeline.storage.location import looks_like_url


def pairloom(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.fixture
def copied_run(small_run, tmp_path):
    shutil.copytree(small_run, tmp_path / "run")
    return tmp_path / "run"


def test_help_names_every_command():
    found = pairloom("--help").output
    for command in ("run", "plan", "submit", "status", "attach", "cancel", "resume", "predict", "report"):
        assert f"\n  {command} " in found


def test_run_and_resume(small_config, small_run, tmp_path):
    directory = tmp_path / "run"
    options = ("--set", "cluster.kind=threads", "--workers", 2)
    done = pairloom("run", small_config, "--directory", directory, *options)
    assert done.exit_code == 0, done.output
    assert "stratified" in done.stdout
    assert "machines: 4 of 4" in done.stderr
    assert_same_bytes(directory, bytes_of(small_run))
    again = pairloom("resume", directory, "--json")
    assert again.exit_code == 0
    assert json.loads(again.stdout)["methods"].keys() >= {"stratified", "vote"}
    assert "Nothing was left to do: the run is finished." in again.stderr
    assert "Nothing was left" not in done.stderr
    assert set(times_begun(directory, "machines").values()) == {1}


def test_a_run_without_calibration_of_the_coupled_model_is_planned(small_config):
    found = pairloom("plan", small_config, "--set", "model.coupled_calibration=none", "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["seconds"][0] > 0


def test_plan_makes_nothing(small_config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    facts = json.loads(pairloom("plan", small_config, "--json").stdout)
    assert (facts["edges"], facts["tiles"], facts["slabs"]) == (10, 4, 3)
    low, high = facts["stages"]["machines"]["seconds"]
    assert 0 < low < high
    assert facts["files"] > 40
    assert "10 pairs (100% of all)" in pairloom("plan", small_config).stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["run", "digts"], 2, "Did you mean 'digits'"),
        (["run", "digits", "--set", "graph.hub=3"], 2, "graph.hub: unknown key. Did you mean 'hubs'?"),
        (["run", "digits", "--scheduler", "tcp://192.0.2.7:8786"], 3, "--insecure"),
        (["run", "digits", "--set", "data.features=nowhere.npz"], 2, "no such file or folder"),
        (["submit", "digits"], 2, "--scheduler"),
        (["resume", "."], 1, "run.json"),
        (["status", "."], 1, "run.json"),
        (["frobnicate"], 2, "No such command"),
    ],
)
def test_an_error_is_a_message_and_a_code(arguments, code, complaint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = pairloom(*arguments)
    assert done.exit_code == code, done.output
    assert complaint in done.stderr
    assert "Traceback" not in done.output


@pytest.mark.long
def test_a_run_of_a_cluster_that_is_gone_is_resumed_here(copied_run, monkeypatch):
    monkeypatch.setattr("pairloom.cluster.connect.connect.CONNECT_SECONDS", 0.5)
    shutil.rmtree(copied_run / "ledger" / "probabilities")
    gone = pairloom("resume", copied_run, "--scheduler", "tcp://127.0.0.1:9")
    assert gone.exit_code == 4
    assert "No Dask scheduler answers at tcp://127.0.0.1:9" in gone.stderr
    assert pairloom("resume", copied_run, "--local", "--workers", 1).exit_code == 0


def everything_in(directory):
    """Every file with its bytes, and every folder."""
    paths = sorted(directory.rglob("*"))
    return {path: path.read_bytes() if path.is_file() else None for path in paths}


NO_CLUSTER = [
    (["--scheduler", "tcp://127.0.0.1:9"], 4, "No Dask scheduler answers at tcp://127.0.0.1:9"),
    (["--scheduler-file", "nowhere.json"], 4, "--scheduler-file must be a scheduler file of Dask"),
    (["--scheduler", "tcp://192.0.2.7:8786"], 3, "--insecure"),
    (["--scheduler", "tls://127.0.0.1:9"], 2, "uses TLS"),
    (
        ["--scheduler", "tls://127.0.0.1:9", "--tls-ca-file=a", "--tls-cert=b", "--tls-key=c"],
        2,
        "cluster.tls_ca_file must be a certificate file (PEM), got 'a'",
    ),
]


@pytest.mark.parametrize(("options", "code", "complaint"), NO_CLUSTER, ids=[row[0][1] for row in NO_CLUSTER])
def test_a_cluster_that_will_not_do_is_found_before_anything_is_written(
    options, code, complaint, copied_run, small_config, tmp_path, monkeypatch
):
    monkeypatch.setattr("pairloom.cluster.connect.connect.CONNECT_SECONDS", 0.5)
    monkeypatch.chdir(tmp_path)
    for command in ("run", "submit"):
        refused = pairloom(command, small_config, "--directory", tmp_path / "new", *options)
        assert refused.exit_code == code, refused.output
        assert complaint in refused.stderr
        assert not (tmp_path / "new").exists()
    shutil.rmtree(copied_run / "ledger" / "probabilities")
    before = everything_in(copied_run)
    assert pairloom("resume", copied_run, *options).exit_code == code
    assert everything_in(copied_run) == before


URLS = ["s3://bucket/run", "gs://bucket/run", "http://host/run", "file:///run", "abfs+x://b/run"]


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize(
    "command",
    [
        "run {}",
        "plan {}",
        "predict . --features x.npz --out {}",
    ],
)
def test_a_url_is_refused_where_a_path_is_needed(command, url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = pairloom(*command.format(url).split())
    assert done.exit_code == 2, done.output
    assert "must be a path, not a URL" in done.stderr
    assert url in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url",
    [
        "http://host/x",
        "abfs+x://a@b/x",
        "s3://me:hunter2@b/x",
        "s3://me:hunter2/hunter2@b/x",
        "s3://b/x?sig=hunter2",
    ],
)
@pytest.mark.parametrize(
    "command",
    [
        "run digits --set data.features={}",
        "run digits --set data.test={}",
        "predict . --features {} --out p.csv",
        "init {}",
    ],
)
def test_a_url_that_is_no_place_of_data_is_refused(command, url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = pairloom(*command.format(url).split())
    assert done.exit_code == 2, done.output
    assert re.search("must be a (path or a )?URL|must be a path, or a URL", done.stderr.replace("\n", " "))
    assert "hunter2" not in done.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("http://host/run", "must be a path or a URL that begins with s3://"),
        ("s3://", "must be s3://BUCKET/PATH"),
        ("s3://bucket/../run", "must be s3://BUCKET/PATH"),
        ("file://host/run", "must be file:///PATH"),
        ("s3://user:hunter2@bucket/run", "must be a URL without user, password, query or fragment"),
        ("s3://user:hunter2/hunter2@bucket/run", "must be a URL without user, password, query or fragment"),
        ("s3://user:hunter2?hunter2@bucket/run", "must be a URL without user, password, query or fragment"),
        ("abfs+x://hunter2@b/run", "must be a URL without user, password, query or fragment"),
        ("az://container/run?sig=hunter2", "must be a URL without user, password, query or fragment"),
    ],
)
@pytest.mark.parametrize(
    "command",
    [
        "run digits --directory {}",
        "submit digits --scheduler tcp://127.0.0.1:9 --directory {}",
        "resume {}",
        "status {}",
        "attach {}",
        "cancel {}",
        "report {}",
        "audit {}",
        "predict {} --features x.npz --out p.csv",
        "compare {} {}",
        "ls {}",
    ],
)
def test_a_url_that_is_no_place_of_a_run_is_refused(command, url, complaint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = pairloom(*command.replace("{}", url).split())
    assert done.exit_code == 2, done.output
    assert complaint in done.stderr
    assert "hunter2" not in done.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["C:\\runs", "C:/runs", "a:b", "runs s3"])
def test_a_drive_letter_is_no_url(name):
    assert not looks_like_url(name)


def test_a_changed_configuration_is_refused(copied_run):
    done = pairloom("resume", copied_run, "--set", "model.folds=3")
    assert done.exit_code == 3
    assert "model.folds: was 'auto', is 3" in done.stderr


def test_a_directory_that_is_driven_is_refused(copied_run):
    with RunLock(copied_run):
        done = pairloom("resume", copied_run)
    assert done.exit_code == 3
    assert f"pid {os.getpid()}" in done.stderr


def test_status_reads_and_verifies(copied_run):
    found = json.loads(pairloom("status", copied_run, "--json").stdout)
    assert found["state"] == "finished"
    assert found["stages"]["machines"] == [4, 4]
    chunk = next((copied_run / "probabilities.zarr" / "normal" / "c").rglob("0"))
    if chunk.is_dir():
        chunk = chunk / "0"
    chunk.write_bytes(b"")
    found = pairloom("status", copied_run, "--verify").stdout
    assert "unfinished" in found
    assert "damaged: probabilities.zarr/normal/c/0/0" in found


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".zarr"])
def test_predict_gives_the_probabilities_of_the_run(suffix, small_run, tmp_path):
    with np.load(json.loads((small_run / "run.json").read_text())["config"]["data"]["features"]) as archive:
        np.savez(tmp_path / "new.npz", X=archive["X_test"])
    out = tmp_path / f"p{suffix}"
    done = pairloom(
        "predict", small_run, "--features", tmp_path / "new.npz", "--out", out, "--coupling", "wlw2"
    )
    assert done.exit_code == 0, done.output
    expected = xarray.open_zarr(small_run / "probabilities.zarr")["wlw2"].values
    if suffix == ".npz":
        with np.load(out) as archive:
            found = archive["probabilities"]
            assert archive["classes"].tolist() == [f"class {c}" for c in range(5)]
    elif suffix == ".zarr":
        found = xarray.open_zarr(out)["probabilities"].sel({"class": [f"class {c}" for c in range(5)]}).values
    else:
        with out.open() as file:
            header, *rows = csv.reader(file)
        assert header[:4] == ["id", "prediction", "confidence", "class 0"]
        found = np.array([row[3:] for row in rows], dtype=float)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("option", "value", "complaint"),
    [("--coupling", "norml", "coupling must be one of"), ("--out", "p.xls", "--out must end in one of")],
)
def test_predict_refuses_what_it_cannot_do(option, value, complaint, small_run, tmp_path):
    np.savez(tmp_path / "new.npz", X=np.zeros((2, 6)))
    options = {"--features": tmp_path / "new.npz", "--out": tmp_path / "p.npz"} | {option: value}
    done = pairloom("predict", small_run, *(part for pair in options.items() for part in pair))
    assert done.exit_code == 2
    assert complaint in done.stderr


def test_predict_does_not_believe_damaged_machines(copied_run, tmp_path):
    np.savez(tmp_path / "new.npz", X=np.zeros((2, 6)))
    (copied_run / "machines.zarr" / "coef" / "c" / "0" / "0" / "0").unlink()
    done = pairloom("predict", copied_run, "--features", tmp_path / "new.npz", "--out", tmp_path / "p.npz")
    assert done.exit_code == 1
    assert "pairloom resume" in done.stderr


def test_report_is_written_again(copied_run):
    shutil.rmtree(copied_run / "report")
    done = pairloom("report", copied_run)
    assert done.exit_code == 0, done.output
    assert (copied_run / "report" / "index.html").exists()


@pytest.mark.long
def test_ctrl_c_stops_cleanly_and_says_how_to_resume(small_config, tmp_path):
    directory = tmp_path / "run"
    # A terminal sends Ctrl-C to the whole group, workers included.
    driver = pairloom_process("run", small_config, "--directory", directory, start_new_session=True)
    wait_until(lambda: (directory / "ledger" / "samples").exists(), "the driver")
    os.killpg(driver.pid, signal.SIGINT)
    code, errors = finish(driver)
    assert code == 130, errors
    assert f"pairloom resume {directory}" in errors
    assert "Traceback" not in errors
    assert pairloom("resume", directory, "--set", "cluster.kind=threads").exit_code == 0


@pytest.mark.long
def test_a_submitted_run_is_followed_cancelled_and_submitted_again(
    small_config, dask_processes, small_run, tmp_path
):
    dask_processes.start_worker()
    dask_processes.start_worker()
    directory = tmp_path / "run"
    submit = (
        "submit",
        small_config,
        "--directory",
        directory,
        "--scheduler-file",
        dask_processes.scheduler_file,
    )
    assert pairloom(*submit).exit_code == 0
    cancelled = pairloom("cancel", directory)
    assert cancelled.stdout.startswith(("Stopped: host", "Cancelled: no driver is at work"))
    assert run_status(directory).state == "unfinished"
    assert pairloom("attach", directory).exit_code == 4
    assert pairloom(*submit).exit_code == 0
    done = pairloom("attach", directory)
    assert done.exit_code == 0, done.output
    assert run_status(directory, verify=True).state == "finished"
    assert_same_bytes(directory, bytes_of(small_run))
    assert "No driver is at work" in pairloom("cancel", directory).stdout


@pytest.mark.long
def test_a_run_grows_for_some_seconds_and_on_when_it_is_resumed(small_config, tmp_path):
    directory = tmp_path / "run"
    options = ("--set", "cluster.kind=threads", "--set", "graph.family=star", "--set", "growth.wave=2")
    seconds = ("--set", "growth.plateau=never", "--set", "growth.seconds=1e-9")
    done = pairloom("run", small_config, "--directory", directory, *options, *seconds)
    assert done.exit_code == 0, done.output
    assert "Grown to 6 pairs: the budget of 1e-09 seconds is spent." in done.stderr
    assert "wave 1: 6 pairs, out-of-fold log loss" in pairloom("status", directory).stdout
    # To write the report again is not to go on.
    assert pairloom("report", directory).exit_code == 0
    assert run_status(directory, verify=True).state == "finished"
    assert json.loads(pairloom("resume", directory, "--json").stdout)["pairs"] == 9


def test_growth_is_added_by_a_resume(copied_run, small_config):
    refused = pairloom("resume", copied_run, "--set", "growth.pairs=10")
    assert refused.exit_code == 3
    assert "growth.cost: was None, is 'confusion'" in refused.output
    settings = ("--set", "growth.pairs=10", "--set", "cluster.kind=threads")
    assert pairloom("resume", copied_run, *settings, "--update").exit_code == 0
    assert set(times_begun(copied_run, "machines").values()) == {1}


def test_a_larger_budget_that_no_driver_has_used_is_not_finished(small_config, tmp_path):
    directory = tmp_path / "run"
    options = ("--set", "cluster.kind=threads", "--set", "graph.family=star", "--set", "growth.pairs=6")
    pairloom("run", small_config, "--directory", directory, *options)
    assert run_status(directory).state == "finished"
    stored = read_run(directory)
    raised = stored.config.growth.model_copy(update={"pairs": 8})
    with RunLock(directory):  # a driver that ends before it has planned anything
        write_run(replace(stored, config=stored.config.model_copy(update={"growth": raised})))
    assert run_status(directory).state == "unfinished"
