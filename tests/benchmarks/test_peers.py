import json
import subprocess
import sys
from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest

from pairloom.benchmarks import peers


@pytest.fixture(scope="module")
def on_digits(tmp_path_factory):
    """What two peers print on digits, and the files they write."""
    folder = tmp_path_factory.mktemp("peers")
    command = [sys.executable, "-m", "pairloom.benchmarks.peers", "--sets", "digits"]
    command += ["--peers", "NearestCentroid", "PairwiseSVC", "--threads", "1"]
    command += ["--json", str(folder / "rows.json"), "--plot", str(folder / "rows.png")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, folder


def test_the_table_has_every_column_and_the_ratio(on_digits):
    """Speed is not asserted: a machine that runs tests does other work too."""
    lines = on_digits[0].splitlines()
    head = next(line for line in lines if "accuracy" in line)
    for title in ("log loss", "against ours", "Brier", "calibration", "fit s", "predict s", "row ms"):
        assert title in head
    assert head.split()[-5:] == ["model", "MB", "peak", "MB", "threads"]
    ours, nearest = (next(line for line in lines if line.startswith(name + " ")) for name in peers_of(lines))
    assert float(ours.split()[1]) > 0.95
    assert " ± " in nearest
    assert " ± " not in ours
    ratio = next(line for line in lines if line.startswith("  NearestCentroid"))
    assert ratio.count(" s ") == 2


def peers_of(lines):
    """The first words of the rows: ours comes first, in whatever order the peers were asked for."""
    names = [line.split()[0] for line in lines if line.startswith(("PairwiseSVC", "NearestCentroid"))]
    assert names == ["PairwiseSVC", "NearestCentroid"]
    return names


def test_json_has_all_rows_and_the_figure_is_drawn(on_digits):
    folder = on_digits[1]
    ours, nearest = json.loads((folder / "rows.json").read_text())
    assert (ours["peer"], nearest["peer"]) == ("PairwiseSVC", "NearestCentroid")
    assert all(value is not None for value in nearest.values())
    assert nearest["against_ours"] == pytest.approx(nearest["log_loss"] - ours["log_loss"])
    assert nearest["standard_error"] > 0
    assert 0 < nearest["model_bytes"] < nearest["peak_bytes"]
    assert (folder / "rows.png").read_bytes().startswith(b"\x89PNG")


def test_a_peer_that_takes_too_long_is_stopped(tmp_path, capsys):
    rows = list(peers.compare("digits", peers.load("digits"), ["SVC(probability)"], [1], limit=0.0))
    assert [row.note for row in rows] == ["not ended in 0 s"]
    assert not rows[0].ended
    peers.print_row("SVC", rows[0], peers.COLUMNS, 8)
    assert capsys.readouterr().out == "SVC       not ended in 0 s\n"
    peers.write_json(rows, tmp_path / "rows.json")
    assert json.loads((tmp_path / "rows.json").read_text())[0]["log_loss"] is None


def test_a_peer_says_which_data_it_cannot_be_given():
    rare, many = np.array([0, 0, 0, 0, 1]), np.arange(peers.MOST_COMPLETE + 1)
    assert peers.PEERS["LinearSVC(sigmoid)"].refusal(rare) == "needs 4 rows a class"
    assert peers.PEERS["LogisticRegression(tuned)"].refusal(rare) == ""
    assert peers.PEERS["PairwiseSVC(complete)"].refusal(many) == "skipped above 300 classes"


def test_rows_of_rare_classes_are_never_held_out():
    y = np.array([0] * 9 + [1] * 3 + [2] * 4)
    held = np.concatenate(list(peers.held_out(y)))
    assert sorted(held) == [*range(9), *range(12, 16)]


def test_the_temperature_is_that_of_the_labels():
    rng = np.random.default_rng(0)
    values = rng.normal(0, 2, (20_000, 3))
    y = (values + rng.gumbel(size=values.shape)).argmax(axis=1)  # drawn from the softmax of the values
    assert peers.temperature(5 * values, y)[0] == pytest.approx(5, rel=0.05)


def test_brier_score_and_calibration_error_by_definition():
    rng = np.random.default_rng(0)
    p, y = rng.dirichlet(np.ones(4), 60), rng.integers(4, size=60)
    assert peers.brier_score(p, y) == pytest.approx(((p - np.eye(4)[y]) ** 2).sum(axis=1).mean())
    order = p.max(axis=1).argsort().reshape(15, 4)
    gaps = [abs(p[bin].max(axis=1).mean() - (p[bin].argmax(axis=1) == y[bin]).mean()) for bin in order]
    assert peers.calibration_error(p, y) == pytest.approx(np.mean(gaps))


def test_every_array_is_counted_once_wherever_it_is():
    @dataclass(slots=True)
    class Slots:
        array: np.ndarray

    class Holder:
        pass

    shared, holder = np.zeros(10), Holder()
    holder.parts = [shared, (shared[2:], {"of": Slots(np.zeros(3))})]
    holder.named = namedtuple("Named", "array")(np.zeros(2))
    holder.itself = holder
    assert peers.array_bytes(holder) == 8 * (10 + 3 + 2)


def test_growth_is_the_power_in_the_number_of_classes():
    rows = [
        peers.Row("", n, "", fit_s=2.0 * n**1.5, predict_s=0.1 * n, row_ms=1.0, peak_bytes=1e9)
        for n in (10, 20, 40)
    ]
    powers = {what: power for what, (power, _) in peers.growth([*rows, peers.Row("", 80, "")]).items()}
    assert powers["fit"] == pytest.approx(1.5)
    assert powers["predict"] == pytest.approx(1)
    assert powers["peak memory"] == pytest.approx(0)
