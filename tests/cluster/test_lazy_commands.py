"""A command is imported when it is called, and not before: what a user waits for is its own imports."""

import os
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from pairloom.cluster.commands.cli import COMMANDS, GROUPS, main


def modules_after(command_lines, *names):
    """Those of some modules that a fresh process has imported once it is ready to call these commands."""
    code = (
        "import sys; from pairloom.cluster.commands.cli import COMMANDS; "
        f"[COMMANDS.load(line.split()) for line in {command_lines!r}]; print(*(set({names!r}) & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    return set(done.stdout.split())


def test_commands_of_runs_import_no_figures_benchmarks_experiments_or_pictures():
    others = (
        "matplotlib",
        "pairloom.benchmarks",
        "pairloom.pipeline.experiments",
        "pairloom.pipeline.images.picture",
        "PIL",
        "onnx",
    )
    lines = ["run digits", "resume digits", "plan digits", "ls digits"]
    assert modules_after(lines, "distributed", *others) == {"distributed"}


def test_a_command_line_without_a_command_imports_none():
    assert modules_after(["--version", "rum"], "distributed", "numpy") == set()


def test_help_imports_no_command():
    assert modules_after(["--help", ""], "distributed", "numpy") == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_leads_to_the_command_of_that_name(name):
    assert COMMANDS[name].name == name


def test_help_lists_every_command_in_its_group_with_what_it_says_of_itself():
    text = CliRunner().invoke(main, ["--help"]).output
    assert "pairloom init DATA" in text
    places = [text.index(f"\n{title}:\n") for title in GROUPS]
    assert places == sorted(places)
    for name, (_, summary) in (command for group in GROUPS.values() for command in group.items()):
        assert re.search(rf"^  {name} +{re.escape(summary)}$", text, re.MULTILINE)
        own = COMMANDS[name].help.split("\n\n")[0].replace("\n", " ")
        assert own.startswith(summary.rstrip(".").partition(":")[0].split()[0]), (
            "the verb of the command's own help"
        )


def test_an_unknown_command_is_a_wrong_argument():
    done = CliRunner().invoke(main, ["rum"])
    assert done.exit_code == 2
    assert "No such command 'rum'" in done.output


def asked(words):
    """The environment in which a shell asks for completions."""
    place = str(len(words.split()) - 1)
    return {"_PAIRLOOM_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": place}


def completions(answer):
    return {line.partition(",")[2] for line in answer.split()}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("pairloom res", {"resume"}),
        ("pairloom run --upd", {"--update"}),
        ("pairloom bench sc", {"scaling"}),
        ("pairloom run dig", {"dig", "digits"}),
    ],
)
def test_commands_and_options_are_completed(words, expected):
    done = CliRunner().invoke(main, prog_name="pairloom", env=asked(words))
    assert completions(done.stdout) == expected
    assert done.stderr == ""


@pytest.mark.long
def test_a_shell_completes_them():
    done = subprocess.run(
        [sys.executable, "-m", "pairloom"],
        env={**os.environ, **asked("pairloom run --upd")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert completions(done.stdout) == {"--update"}
    assert done.stderr == ""
