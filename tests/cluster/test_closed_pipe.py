"""Output that nobody reads: real processes with real pipes."""

import json
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


def complaints(errors):
    """The lines of standard error, without those that say what a person waits for."""
    waits = ("Starting pairloom", "Compiling kernels", "Waiting for another process that compiles kernels")
    return [line for line in errors.splitlines() if not line.startswith(waits)]


# Imports the commands once. Every command is then a process of its own, which ends as `python -m pairloom` ends.
FORKS = """
import json, os, sys
from pairloom.__main__ import main
from pairloom.cluster.commands.cli import COMMANDS

COMMANDS.load([])
for line in sys.stdin:
    arguments, errors = json.loads(line)
    child = os.fork()
    if child == 0:
        reader, writer = os.pipe()
        os.close(reader)
        os.dup2(writer, 1)
        os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT), 2)
        sys.argv[1:] = arguments
        main()
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def forks(tmp_path_factory):
    """The exit code of a command whose standard output is a pipe without a reader, and its standard error."""
    folder = tmp_path_factory.mktemp("forks")
    with subprocess.Popen(
        [sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder
    ) as process:

        def forks(*arguments):
            errors = folder / "-".join(arguments)
            process.stdin.write(json.dumps([arguments, str(errors)]) + "\n")
            process.stdin.flush()
            return int(process.stdout.readline()), errors.read_text()

        yield forks


@pytest.mark.quick("--help", "config")
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
def test_output_that_nobody_reads_is_no_error(command, forks):
    code, errors = forks(*command)
    assert code == 0
    assert complaints(errors) == []


@pytest.mark.long
def test_nor_is_that_of_a_command_that_was_just_started(tmp_path):
    code, errors = with_closed_output("config", cwd=tmp_path)
    assert code == 0
    assert complaints(errors) == []


@pytest.mark.long
def test_a_finished_run_is_done_even_if_nobody_reads_its_table(small_run, tmp_path):
    shutil.copytree(small_run, tmp_path / "run")
    code, errors = with_closed_output("resume", tmp_path / "run", "--set", "cluster.kind=threads")
    assert code == 0, errors
    assert "Traceback" not in errors


@pytest.mark.long
def test_an_error_is_still_an_error(tmp_path):
    code, errors = with_closed_output("run", "nowhere.toml", cwd=tmp_path)
    assert code == 2
    assert "CONFIG must be a TOML file" in errors


@pytest.mark.long
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
