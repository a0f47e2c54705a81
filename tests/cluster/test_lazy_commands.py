"""A command is imported when it is called, and not before: what a user waits for is its own imports."""

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from pairloom.cluster.cli import COMMANDS, main


def modules_after(arguments, *names):
    """Those of some modules that a fresh process has imported once it is ready to call a command."""
    code = (
        "import sys; from pairloom.cluster.cli import COMMANDS; "
        f"COMMANDS.load({arguments!r}); print(*(set({names!r}) & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("command", ["run", "resume", "plan", "ls"])
def test_a_command_imports_no_figures_benchmarks_experiments_or_pictures(command):
    others = (
        "matplotlib",
        "pairloom.benchmarks",
        "pairloom.pipeline.experiments",
        "pairloom.pipeline.images.picture",
        "PIL",
        "onnx",
    )
    assert modules_after([command, "digits"], "distributed", *others) == {"distributed"}


@pytest.mark.parametrize("arguments", [["--version"], ["rum"]])
def test_a_command_line_without_a_command_imports_none(arguments):
    assert modules_after(arguments, "distributed", "numpy") == set()


def test_help_is_ready_when_all_commands_are_imported():
    assert modules_after(["--help"], "pairloom.benchmarks", "pairloom.cluster.commands.run") == {
        "pairloom.benchmarks",
        "pairloom.cluster.commands.run",
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_leads_to_the_command_of_that_name(name):
    assert COMMANDS[name].name == name


def test_an_unknown_command_is_a_wrong_argument():
    done = CliRunner().invoke(main, ["rum"])
    assert done.exit_code == 2
    assert "No such command 'rum'" in done.output


@pytest.mark.parametrize(
    ("words", "expected"),
    [("pairloom res", {"resume"}), ("pairloom run --upd", {"--update"}), ("pairloom bench sc", {"scaling"})],
)
def test_a_shell_completes_commands_and_options(words, expected):
    asked = {
        "_PAIRLOOM_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "pairloom"],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert {line.partition(",")[2] for line in done.stdout.split()} == expected
    assert done.stderr == ""
