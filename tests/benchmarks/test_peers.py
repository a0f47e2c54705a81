import json
from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
from bench_command import bench
from sklearn.neighbors import KNeighborsClassifier

from pairloom.benchmarks import peers
from pairloom.benchmarks.classifiers import MOST_COMPLETE, PEERS, Tuned, held_out, temperature
from pairloom.benchmarks.datasets import load
from pairloom.benchmarks.fit_process import few_rows
from pairloom.benchmarks.memory import array_bytes
from pairloom.benchmarks.peers import Row, brier_score, calibration_error, loss_ratios
from pairloom.benchmarks.record import Record
from pairloom.pipeline.calibration.held_out import log_losses


@pytest.fixture(scope="module")
def on_digits(tmp_path_factory):
    """What two peers print on digits, and the files they write."""
    folder = tmp_path_factory.mktemp("peers")
    options = ("--sets", "digits", "--peers", "NearestCentroid,PairwiseSVC", "--threads", "1")
    return bench("peers", *options, "--plot", folder / "rows.png", json_file=folder / "rows.json"), folder


@pytest.mark.long
def test_the_table_has_every_column_and_the_ratio(on_digits):
    """Speed is not asserted: a machine that runs tests does other work too."""
    lines = on_digits[0].printed.splitlines()
    head = next(line for line in lines if "accuracy" in line)
    for title in ("log loss", "against ours", "Brier", "calibration", "fit s", "predict s", "row ms"):
        assert title in head
    assert head.split()[-5:] == ["model", "MB", "peak", "MB", "threads"]
    ours, nearest = [line for line in lines if line.startswith(("PairwiseSVC ", "NearestCentroid "))][:2]
    assert ours.startswith("PairwiseSVC "), "ours comes first, in whatever order the peers were asked for"
    assert float(ours.split()[1]) > 0.95
    assert " ± " in nearest
    assert " ± " not in ours


@pytest.mark.long
def test_json_has_all_rows_and_both_times_of_the_ratio(on_digits):
    ours, nearest, ratio, losses = on_digits[0].record["rows"]
    assert (ours["peer"], nearest["peer"]) == ("PairwiseSVC", "NearestCentroid")
    assert all(value is not None for value in nearest.values())
    assert nearest["against_ours"] == pytest.approx(nearest["log_loss"] - ours["log_loss"])
    assert nearest["standard_error"] > 0
    assert 0 < nearest["model_bytes"] < nearest["peak_bytes"]
    assert ratio["ours_s"] == pytest.approx(ours["fit_s"] + ours["predict_s"])
    assert ratio["ratio"] == pytest.approx(ratio["ours_s"] / ratio["peer_s"])
    assert losses["ratio"] == pytest.approx(ours["log_loss"] / nearest["log_loss"])


@pytest.mark.long
def test_the_figure_is_drawn(on_digits):
    assert (on_digits[1] / "rows.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
def test_a_peer_that_takes_too_long_is_stopped(tmp_path, capsys):
    record = Record("peers", "", {})
    rows = peers.compare_set(record, "digits", load("digits"), ["SVC(probability)"], [1], limit=0.0)
    assert [row.note for row in rows] == ["not ended in 0 s"]
    assert not rows[0].ended
    assert capsys.readouterr().out.endswith("SVC(probability)           not ended in 0 s\n")
    record.write(tmp_path / "rows.json")
    assert json.loads((tmp_path / "rows.json").read_text())["rows"][0]["log_loss"] is None


def test_a_peer_says_which_data_it_cannot_be_given():
    rare, many = np.array([0, 0, 0, 0, 1]), np.arange(MOST_COMPLETE + 1)
    assert PEERS["LinearSVC(sigmoid)"].refusal(rare) == "needs 4 rows per class"
    assert PEERS["LogisticRegression(tuned)"].refusal(rare) == ""
    assert PEERS["PairwiseSVC(complete)"].refusal(many) == "skipped above 300 classes"


def test_rows_of_rare_classes_are_never_held_out():
    y = np.array([0] * 9 + [1] * 3 + [2] * 4)
    held = np.concatenate(list(held_out(y)))
    assert sorted(held) == [*range(9), *range(12, 16)]


def test_the_temperature_is_that_of_the_labels():
    rng = np.random.default_rng(0)
    values = rng.normal(0, 2, (20_000, 3))
    y = (values + rng.gumbel(size=values.shape)).argmax(axis=1)  # drawn from the softmax of the values
    assert temperature(5 * values, y)[0] == pytest.approx(5, rel=0.05)


def test_brier_score_and_calibration_error_by_definition():
    rng = np.random.default_rng(0)
    p, y = rng.dirichlet(np.ones(4), 60), rng.integers(4, size=60)
    assert brier_score(p, y) == pytest.approx(((p - np.eye(4)[y]) ** 2).sum(axis=1).mean())
    order = p.max(axis=1).argsort().reshape(15, 4)
    gaps = [abs(p[bin].max(axis=1).mean() - (p[bin].argmax(axis=1) == y[bin]).mean()) for bin in order]
    assert calibration_error(p, y) == pytest.approx(np.mean(gaps))


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
    assert array_bytes(holder) == 8 * (10 + 3 + 2)


def test_a_tuned_peer_has_the_parameters_with_the_least_held_out_log_loss():
    """The second is chosen given the first, on the same folds, and the choice is fitted on all rows."""
    X, _, y, _ = load("digits")
    grid = {"n_neighbors": [2, 60, 10], "weights": ["uniform", "distance"]}

    def loss(**parameters):
        p = np.empty((len(y), 10))
        for rows in held_out(y):
            rest = np.delete(np.arange(len(y)), rows)
            p[rows] = KNeighborsClassifier(**parameters).fit(X[rest], y[rest]).predict_proba(X[rows])
        return log_losses(p, y).mean()

    n = min(grid["n_neighbors"], key=lambda n: loss(n_neighbors=n))
    weights = min(grid["weights"], key=lambda weights: loss(n_neighbors=n, weights=weights))
    model = Tuned(KNeighborsClassifier(), grid).fit(X, y)
    assert model.model_.get_params() == KNeighborsClassifier(n, weights=weights).get_params()
    assert model.model_.n_samples_fit_ == len(y)
    by_one_fold = Tuned(KNeighborsClassifier(), {"n_neighbors": [2, 60]}, folds=1).fit(X, y)
    assert by_one_fold.model_.n_samples_fit_ == len(y)


def test_every_tuned_peer_can_be_given_the_rows_of_the_warm_up():
    """Three classes at least, so that folds, neighbours and early stopping have enough of each."""
    split = load("digits")
    few = few_rows(split._replace(X=split.X[split.y < 3], y=split.y[split.y < 3]))
    assert np.bincount(few.y).tolist() == [min(160, count) for count in np.bincount(split.y)[:3]]
    model = PEERS["kNN(tuned)"].make(1.0).fit(few.X, few.y)
    assert model.predict_proba(few.X_new).shape == (len(few.y_new), 3)


def test_the_best_peer_of_a_set_is_no_setting_of_ours_and_was_measured():
    rows = [
        Row("one", 3, "PairwiseSVC", log_loss=0.3),
        Row("one", 3, "PairwiseSVC(rbf)", log_loss=0.1),
        Row("one", 3, "SVC(rbf tuned)", log_loss=0.2),
        Row("one", 3, "RandomForest", log_loss=0.4),
        Row("one", 3, "kNN(tuned)", note="not ended in 1 s"),
        Row("two", 3, "RandomForest", log_loss=0.4),
    ]
    (ratio,) = loss_ratios(rows)
    assert (ratio.data, ratio.peer, ratio.ours, ratio.best) == ("one", "SVC(rbf tuned)", 0.3, 0.2)
    assert ratio.ratio == pytest.approx(1.5)
