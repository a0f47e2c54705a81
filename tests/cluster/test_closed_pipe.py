"""Output that nobody reads: real processes with real pipes."""

import os
import shutil
import subprocess
import sys

import pytest


def with_closed_output(*arguments, stream="stdout", **options):
    """A command one of whose outputs is a pipe without a reader; its exit code and the other output."""
    reader, writer = os.pipe()
    os.close(reader)
    other = "stderr" if stream == "stdout" else "stdout"
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pairloom", *map(str, arguments)],
            check=False,
            text=True,
            timeout=120,
            **{stream: writer, other: subprocess.PIPE},
            **options,
        )
    finally:
        os.close(writer)
    return done.returncode, getattr(done, other)


@pytest.mark.parametrize(
    "command",
    [
        ["--help"],
        ["run", "--help"],
        ["config"],
        ["config", "--schema"],
        ["ls"],
        ["plan", "digits"],
        ["plan", "digits", "--json"],
    ],
    ids=" ".join,
)
def test_output_that_nobody_reads_is_no_error(command, tmp_path):
    code, errors = with_closed_output(*command, cwd=tmp_path)
    assert code == 0
    # On a slow start a line says so, where a person might wait.
    assert errors.removeprefix("Starting pairloom\n") == ""


def test_a_finished_run_is_done_even_if_nobody_reads_its_table(small_run, tmp_path):
    shutil.copytree(small_run, tmp_path / "run")
    code, errors = with_closed_output("resume", tmp_path / "run", "--set", "cluster.kind=threads")
    assert code == 0, errors
    assert "Traceback" not in errors


def test_an_error_is_still_an_error(tmp_path):
    code, errors = with_closed_output("run", "nowhere.toml", cwd=tmp_path)
    assert code == 2
    assert "CONFIG must be a TOML file" in errors


def test_the_first_line_of_a_list_is_enough(tmp_path):
    """As a shell does it, with an exit code for every part of the pipe."""
    command = f'"{sys.executable}" -m pairloom config | head -1; echo "${{PIPESTATUS[@]}}"'
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path
    )
    first, codes = done.stdout.splitlines()
    assert first.startswith("# Every key of a configuration")
    assert codes == "0 0"
    assert done.stderr == ""
