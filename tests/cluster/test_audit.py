"""``pairloom audit``: the doubtful rows of a run are those of its model, with their ids; its section of the report."""

import csv
import io
import re

import numpy as np
import pytest
from click.testing import CliRunner
from small_runs import run_here, write_config

from pairloom import PairwiseSVC
from pairloom.cluster.commands.cli import main


def pairloom(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Classes in no order, with wrong labels, and names of rows."""
    random = np.random.default_rng(0)
    true = random.integers(5, size=200)
    X = (3 * random.standard_normal((5, 6))[true] + random.standard_normal((200, 6))).astype(np.float32)
    wrong = random.random(200) < 0.06
    y = np.where(wrong, (true + 1) % 5, true)
    path = tmp_path_factory.mktemp("audit") / "data.npz"
    names = np.array([f"kind {c}" for c in range(5)])
    np.savez(path, X_train=X, y_train=y, X_test=X[:20], y_test=true[:20], classes=names)
    return path, X, y, wrong


@pytest.fixture(scope="module")
def run(data, client, tmp_path_factory):
    folder = tmp_path_factory.mktemp("audited")
    config = write_config(folder / "run.toml", data[0])
    run_here(config, folder / "run", client, until="report")
    return folder / "run"


def test_the_rows_are_those_of_the_model(run, data):
    _, X, y, wrong = data
    done = pairloom("audit", run)
    assert done.exit_code == 0, done.output
    found = list(csv.DictReader(io.StringIO(done.stdout)))
    labels = PairwiseSVC.from_run(run).classes_[y]
    doubts = PairwiseSVC.from_run(run).label_doubts(labels, X)
    expected = doubts.row[doubts.doubted]
    assert [int(row["id"]) for row in found] == expected.tolist()
    assert [row["label"] for row in found] == doubts.label[doubts.doubted].tolist()
    assert wrong[expected[: wrong.sum()]].mean() > 0.8
    np.testing.assert_allclose(
        [float(row["p_label"]) for row in found], doubts.p_label[doubts.doubted], rtol=1e-4, atol=1e-6
    )


def test_so_many_rows_are_written_as_are_asked_for(run, tmp_path):
    done = pairloom("audit", run, "--top", 7, "--out", tmp_path / "doubts.csv")
    assert done.exit_code == 0
    assert "Judged 200 training rows: another class fits" in done.stdout
    assert len((tmp_path / "doubts.csv").read_text().splitlines()) == 8
    again = pairloom("audit", run, "--out", tmp_path / "doubts.csv")
    assert again.exit_code == 3
    assert "Pass --force" in again.stderr
    other = pairloom("audit", run, "--out", tmp_path / "doubts.txt")
    assert other.exit_code == 2
    assert "--out must end in .csv" in other.stderr


def test_the_report_has_the_held_out_rows(run, data):
    page = (run / "report" / "index.html").read_text()
    section = page[page.index('id="table-doubts"') :]
    ids = [
        int(number)
        for number in re.findall(r"<tr[^>]*>\s*<td[^>]*>(\d+)</td>", section[: section.index("</table>")])
    ]
    y = PairwiseSVC.from_run(run).classes_[data[2]]
    doubts = PairwiseSVC.from_run(run).label_doubts(y)
    assert ids == doubts.row[doubts.doubted][:50].tolist()
    assert data[3][ids].mean() > 0.5
