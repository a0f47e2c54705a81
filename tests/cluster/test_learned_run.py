"""A run that learns weights through the coupling: what it gains, stores, resumes, shows and refuses."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import xarray
from click.testing import CliRunner
from small_runs import assert_same_bytes, bytes_of, run_here, times_begun, write_config, write_regions

from pairloom import PairwiseSVC
from pairloom.cluster.commands.cli import main
from pairloom.cluster.config.config_file import load_config
from pairloom.cluster.drive.driver import load_data, unfinished_units
from pairloom.cluster.simulator.forecast import forecast_seconds
from pairloom.pipeline.calibration import coupled_learning
from pairloom.pipeline.calibration.held_out import mean_log_loss
from pairloom.pipeline.report.critical_machine import critical_machines
from pairloom.pipeline.report.errors import explanations
from pairloom.pipeline.report.run_results import read_trained_pairs
from pairloom.pipeline.run.needs import disk_bytes, file_count, task_bytes
from pairloom.pipeline.run.run_directory import open_group
from pairloom.pipeline.stages.planning import plan_run
from pairloom.pipeline.stages.run_file import read_run

pytestmark = pytest.mark.long

LEARNED = ("run.also_couple=[]", "model.learn=coupled")
WEIGHTS = ("learned_coef", "learned_intercept")


@pytest.fixture(scope="module")
def config_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("learned")
    features = write_regions(folder / "regions.npz")
    return write_config(folder / "learned.toml", features, edges_per_tile=3, samples_per_slab=64)


@pytest.fixture(scope="module")
def learned_run(config_file, client, tmp_path_factory):
    """A finished run with weights that were learned. Copy it before you change it."""
    directory = tmp_path_factory.mktemp("runs") / "learned"
    run_here(config_file, directory, client, *LEARNED, until="report")
    return directory


@pytest.fixture(scope="module")
def data(config_file):
    return load_data(load_config(config_file)).load()


def record_of(directory):
    return (directory / "learning" / "record.json").read_bytes()


def log_loss(directory, data):
    p = open_group(directory, "probabilities.zarr")["stratified"][:]
    return mean_log_loss(p, data.y_test)


def test_it_tells_classes_apart_better_than_its_machines(learned_run, config_file, data, client, tmp_path):
    run_here(config_file, tmp_path / "machines", client, "run.also_couple=[]")
    assert log_loss(learned_run, data) < log_loss(tmp_path / "machines", data) - 0.01
    record = PairwiseSVC.from_run(learned_run).learned_
    assert record.iterations > 0
    assert record.held_out_after < record.held_out_before
    assert PairwiseSVC.from_run(tmp_path / "machines").learned_ is None


def test_where_nothing_is_gained_only_the_record_is_written(config_file, data, client, tmp_path, monkeypatch):
    monkeypatch.setattr(coupled_learning, "FEW_SAMPLES", 10**6)
    run_here(config_file, tmp_path / "kept", client, *LEARNED)
    run_here(config_file, tmp_path / "machines", client, "run.also_couple=[]")
    for name in WEIGHTS:
        assert [path.name for path in (tmp_path / "kept" / "machines.zarr" / name).iterdir()] == ["zarr.json"]
    kept, machines = (PairwiseSVC.from_run(tmp_path / name) for name in ("kept", "machines"))
    assert kept.learned_.iterations == 0
    np.testing.assert_array_equal(kept.predict_proba(data.X_test), machines.predict_proba(data.X_test))
    assert bytes_of(tmp_path / "kept", ("probabilities.zarr",)) == bytes_of(
        tmp_path / "machines", ("probabilities.zarr",)
    )
    kept.remove_class("class 3")  # as nothing was learned, nothing forbids it


@pytest.mark.parametrize("tensor", ["stored", "virtual"])
@pytest.mark.parametrize("lost", ["ledger entry", "weights", "record"])
def test_a_run_that_stopped_while_learning_resumes_to_the_same_bytes(
    lost, tensor, config_file, client, tmp_path
):
    settings = (*LEARNED, f"run.tensor={tensor}")
    run_here(config_file, tmp_path / "whole", client, *settings)
    halted = tmp_path / "halted"
    run_here(config_file, halted, client, *settings, until="learning")
    path = {
        "ledger entry": next((halted / "ledger" / "learning").iterdir()),
        "weights": halted / "machines.zarr" / "learned_coef" / "c" / "0" / "0",
        "record": halted / "learning" / "record.json",
    }[lost]
    path.write_bytes(path.read_bytes()[:-3])
    run_here(config_file, halted, client, *settings)
    assert times_begun(halted, "learning") == {0: 2}
    assert set(times_begun(halted, "machines").values()) == {1}
    assert_same_bytes(halted, bytes_of(tmp_path / "whole"))
    assert record_of(halted) == record_of(tmp_path / "whole")


def test_a_run_can_begin_to_learn_and_stop_it_again(config_file, client, tmp_path, monkeypatch):
    directory, machines = tmp_path / "run", "run.also_couple=[]"
    run_here(config_file, directory, client, machines)
    as_it_was = bytes_of(directory)
    run_here(config_file, directory, client, *LEARNED, update=True)
    assert times_begun(directory, "machines") == dict.fromkeys(range(4), 1)
    run_here(config_file, tmp_path / "fresh", client, *LEARNED)
    assert_same_bytes(directory, bytes_of(tmp_path / "fresh"))
    run_here(config_file, directory, client, machines, update=True)
    assert_same_bytes(directory, as_it_was)


def test_weights_that_are_no_longer_learned_are_removed(config_file, client, tmp_path, monkeypatch):
    directory = tmp_path / "run"
    run_here(config_file, directory, client, *LEARNED)
    assert (directory / "machines.zarr" / "learned_coef" / "c" / "0" / "0").exists()
    monkeypatch.setattr(coupled_learning, "FEW_SAMPLES", 10**6)
    other = (*LEARNED, "model.coupling=normal")
    run_here(config_file, directory, client, *other, update=True)
    run_here(config_file, tmp_path / "fresh", client, *other)
    assert_same_bytes(directory, bytes_of(tmp_path / "fresh"))


def test_the_stored_weights_are_those_of_the_pairs_beside_them(learned_run, data):
    stored = xarray.open_zarr(learned_run / "machines.zarr").load()
    model = PairwiseSVC.from_run(learned_run)
    weights, bias = model.model_.learned.logits
    for edge in range(stored.sizes["edge"]):
        place = model.edges_.tolist().index([int(stored[f"class_{end}"][edge]) for end in "ij"])
        np.testing.assert_array_equal(stored["learned_coef"][edge], weights[place])
        assert stored["learned_intercept"][edge] == bias[place]


def test_pairloom_predict_and_a_saved_model_predict_the_same_bits(learned_run, data, tmp_path):
    np.savez(tmp_path / "new.npz", X=data.X_test)
    arguments = ["predict", learned_run, "--features", tmp_path / "new.npz", "--out", tmp_path / "p.npz"]
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    model = PairwiseSVC.from_run(learned_run)
    expected = model.predict_proba(data.X_test)
    with np.load(tmp_path / "p.npz") as archive:
        np.testing.assert_array_equal(archive["probabilities"], expected)
    model.save(tmp_path / "model")
    again = PairwiseSVC.load(tmp_path / "model")
    assert again.learned_ == model.learned_
    np.testing.assert_array_equal(again.predict_proba(data.X_test), expected)


def test_damaged_weights_are_noticed(learned_run, tmp_path):
    shutil.copytree(learned_run, tmp_path / "run")
    path = tmp_path / "run" / "machines.zarr" / "learned_intercept" / "c" / "0"
    path.write_bytes(path.read_bytes()[::-1])
    with pytest.raises(ValueError, match=r"learned_intercept/c/0 is missing or damaged"):
        PairwiseSVC.from_run(tmp_path / "run")
    assert len(unfinished_units(read_run(tmp_path / "run"))["learning"]) == 1


def test_no_pair_of_it_can_be_changed_alone(learned_run, data):
    model, labels = PairwiseSVC.from_run(learned_run), np.array(data.classes)[data.y_train]
    changes = {
        "remove_class": lambda: model.remove_class("class 3"),
        "add_class": lambda: model.add_class("new", data.X_train[:20] + 5, data.X_train, labels),
        "retrain_pairs": lambda: model.retrain_pairs([("class 0", "class 1")], data.X_train, labels, C=1.0),
        "grow": lambda: list(model.grow(data.X_train, labels)),
    }
    for name, change in changes.items():
        with pytest.raises(ValueError, match=rf"^{name}: the weights of all pairs were learned together"):
            change()


def test_the_report_says_what_was_learned(learned_run):
    record = json.loads(record_of(learned_run))
    page = (learned_run / "report" / "index.html").read_text()
    assert f"<dd>{record['iterations']} steps through the coupling; log loss of" in page
    metrics = json.loads((learned_run / "report" / "metrics.json").read_text())
    assert metrics["seconds_of_work"]["learning"] > 0


def test_the_report_explains_errors_by_the_learned_weights(learned_run, data):
    run, model = read_run(learned_run), PairwiseSVC.from_run(learned_run)
    predicted = model.predict_proba(data.X_test).argmax(axis=1)
    (errors,) = np.nonzero(predicted != data.y_test)
    of_errors = (errors, predicted[errors], data.y_test[errors])
    critical = critical_machines(run, read_trained_pairs(run), *of_errors)
    explained = explanations(run, *of_errors)
    assert len(errors) > 5
    for machine, why, sample in zip(critical, explained, errors, strict=True):
        pair = (predicted[sample], data.y_test[sample])
        weights, bias = (
            values[model.edges_.tolist().index(sorted(pair))] for values in model.model_.predictor.logits
        )
        logit = weights @ model.model_.normalisation(data.X_test[[sample]])[0] + bias
        assert machine.logit == pytest.approx(logit if pair[0] < pair[1] else -logit, rel=1e-4)
        assert why.logit == pytest.approx(machine.logit, rel=1e-4)


def test_its_plan_counts_what_learning_needs(learned_run, config_file, data):
    config = load_config(config_file, LEARNED)
    plan = plan_run(config, load_data(config))
    without = plan_run(load_config(config_file, LEARNED[:1]), load_data(config))
    assert task_bytes(plan)["learning"] > 24 * 8 * 3 * plan.shape.n_edges
    assert "learning" not in task_bytes(without)
    added = disk_bytes(plan)["machines.zarr"] - disk_bytes(without)["machines.zarr"]
    assert added == sum(open_group(learned_run, "machines.zarr")[name][:].nbytes for name in WEIGHTS)
    files = [path for path in learned_run.rglob("*") if path.is_file()]
    assert len(files) <= file_count(plan)
    ranges = forecast_seconds(plan, load_data(config))
    assert ranges.keys() == {stage for stage in plan.keys if plan.units(stage)}
