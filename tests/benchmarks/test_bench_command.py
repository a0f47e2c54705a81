"""What ``pairloom bench`` says before it measures anything."""

import pytest
from click.testing import CliRunner

from pairloom.cluster.commands.cli import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["peers", "--sets", "digits,nothing"], "must be among clinc150"),
        (["scaling", "--workers", "1,0"], "must be positive whole numbers separated by commas, such as 1,2, got '1,0'"),
        (["costs", "--sizes", "10,20"], "--sizes needs at least two sizes of one axis"),
        (["coupling", "--json", "no-such-folder/rows.json"], "the folder of no-such-folder/rows.json must exist"),
        (["resume", "no-such-configuration"], "no-such-configuration"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_what_is_expected(arguments, message):
    done = CliRunner().invoke(main, ["bench", *arguments])
    assert done.exit_code != 0
    assert message in " ".join(done.output.replace("│", " ").split())


def test_the_command_is_recorded_as_it_was_given(tmp_path):
    path = tmp_path / "rows.json"
    options = ["--small", "--rows", "3,4", "--json", str(path)]
    done = CliRunner().invoke(main, ["bench", "few-rows", *options])
    assert done.exit_code == 0, done.output
    assert done.output.startswith("$ pairloom bench few-rows --rows 3,4 --small\n")
