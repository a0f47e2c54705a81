"""Secrets in a configuration, such as a token that a job's prologue exports, reach no report, log, status or error."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
from click.testing import CliRunner

from pairloom import run
from pairloom.cluster.commands.cli import main
from pairloom.cluster.config.config_file import configured, with_cluster
from pairloom.cluster.connect.job_queue import JobsFailed, job_cluster
from pairloom.pipeline.config.cluster_config import JobQueueConfig
from pairloom.pipeline.config.config import ConfigError
from pairloom.pipeline.stages.run_file import read_run, write_run

TOKEN = "s3cr3t-t0ken"
SECTION = {
    "queue": "gpu",
    "interface": "lo",
    "job_script_prologue": [f"export WANDB_API_KEY={TOKEN}", f"module load x\nexport OTHER={TOKEN}-2"],
    "job_extra_directives": [f"--comment={TOKEN}"],
    "worker_extra_args": ["--preload", f"https://user:{TOKEN}@host/x.py"],
    "env_extra": [f"export TOKEN={TOKEN}"],
    "scheduler_options": {"password": TOKEN},
}


def pairloom(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.fixture
def secret_run(small_run, tmp_path):
    """A finished run whose workers were jobs with a token."""
    shutil.copytree(small_run, tmp_path / "run")
    plan = read_run(tmp_path / "run")
    write_run(replace(plan, config=with_cluster(plan.config, {"kind": "slurm", "slurm": SECTION})))
    return tmp_path / "run"


def test_the_report_names_the_keys_and_hides_their_values(secret_run):
    done = pairloom("report", secret_run)
    assert done.exit_code == 0, done.output
    page = (secret_run / "report" / "index.html").read_text()
    for key in SECTION.keys() - {"queue", "interface"}:
        assert f"cluster.slurm.{key}" in page
    assert "(not shown)" in page
    assert "gpu" in page, "the queue is no secret"
    written = [path for path in secret_run.rglob("*") if path.is_file() and path.name != "run.json"]
    assert [path for path in written if TOKEN.encode() in path.read_bytes()] == []


def test_commands_do_not_print_them(secret_run, small_run):
    for arguments in (
        ("status", secret_run),
        ("status", secret_run, "--json"),
        ("compare", secret_run, small_run),
        ("compare", secret_run, small_run, "--json"),
        ("ls", secret_run.parent, "--json"),
        ("report", secret_run, "--json"),
    ):
        done = pairloom(*arguments)
        assert done.exit_code == 0, done.output
        assert TOKEN not in done.output
    assert "cluster.slurm.job_script_prologue" in pairloom("compare", secret_run, small_run).output


def everything_told(error):
    """The text of an error and of all that it comes from, as a traceback shows it."""
    told = []
    while error is not None:
        told.append(str(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n".join(told)


@pytest.mark.parametrize(
    "wrong",
    [
        {"job_script_prologue": f"export TOKEN={TOKEN}"},
        {"job_script_prologue": [{"export": TOKEN}]},
        {"job_extra_directives": TOKEN},
        {"worker_extra_args": {"password": TOKEN}},
        {"cores": 0, "env_extra": [TOKEN]},
    ],
)
def test_a_value_of_the_wrong_type_is_not_repeated(wrong, tmp_path):
    tables = {"data": {"features": "digits"}, "cluster": {"kind": "slurm", "slurm": wrong}}
    for call in (configured, lambda tables: run(tables, directory=tmp_path / "run")):
        with pytest.raises(ConfigError, match=r"cluster\.slurm\.") as caught:
            call(tables)
        assert TOKEN not in everything_told(caught.value)


def test_what_a_batch_system_repeats_of_the_script_is_not_told(tmp_path, monkeypatch):
    pytest.importorskip("dask_jobqueue")
    sbatch = tmp_path / "sbatch"
    sbatch.write_text('#!/bin/sh\ncat "$1" >&2\nexit 1\n')
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    section = {key: value for key, value in SECTION.items() if key not in ("env_extra", "scheduler_options")}
    with pytest.raises(JobsFailed, match=r"SLURMCluster could not submit a job: .*not shown") as caught:
        job_cluster("slurm", JobQueueConfig(**section))
    assert TOKEN not in everything_told(caught.value)
