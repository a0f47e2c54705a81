"""The Python of README.md runs as it is written, and runs again: a reader will try it twice."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def run_all():
    names = {}
    for snippet in SNIPPETS:
        exec(compile(snippet, "README.md", "exec"), names)
    return names


@pytest.mark.filterwarnings("error")
def test_the_snippets_run_twice(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        names = run_all()
    assert (tmp_path / "digits-model" / "model.json").is_file()
    assert names["model"].classes_.tolist() == list(range(1, 10)), "nine was added, zero removed"
    score = float(capsys.readouterr().out.split()[0])
    assert score > 0.96


@pytest.mark.long
def test_the_snippet_of_a_run_reads_one(tmp_path, monkeypatch):
    from click.testing import CliRunner

    from pairloom.cluster.commands.cli import main

    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["run", "digits", "--set", "cluster.kind=threads"])
    assert done.exit_code == 0, done.output
    (snippet,) = [snippet for snippet in SNIPPETS if "from_run" in snippet]
    names = {}
    exec(compile(snippet, "README.md", "exec"), names)
    assert names["model"].classes_.tolist() == list(range(10))
