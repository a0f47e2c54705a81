"""Whole runs, on a cluster of threads in this process."""

from __future__ import annotations

import json
import shutil
import warnings
from dataclasses import replace

import numpy as np
import pytest
import xarray
from distributed import Client, LocalCluster
from sklearn.neighbors import NearestCentroid
from small_runs import assert_same_bytes, bytes_of, run_here, times_begun, write_config, write_features
from threadpoolctl import threadpool_info, threadpool_limits

from pairloom import PairwiseSVC
from pairloom.cluster.config.config_file import load_config
from pairloom.cluster.drive import tasks as cluster_units
from pairloom.cluster.drive.driver import adopt_run, prepare_run, unfinished_units
from pairloom.cluster.drive.schedule import StageTasks, Stop, Stopped
from pairloom.pipeline.features.feature_set import load_features
from pairloom.pipeline.run.run import Stage
from pairloom.pipeline.stages import STAGE_NAMES
from pairloom.pipeline.stages.run_file import Mismatch, read_run

# A run that grows has a file of tests to itself, and so have the choice among candidates, runs of many classes and rows
# that workers read from their source.
NOT_HERE = ("order", "growth", "candidates", "slopes", "learning", "collapsed", "ranking")
STAGES_HERE = tuple(stage for stage in STAGE_NAMES if stage not in NOT_HERE)
REPORT = ["classes.csv", "errors.csv", "index.html", "methods.csv", "metrics.json", "pairs.csv"]


@pytest.fixture
def copied_run(small_run, tmp_path):
    shutil.copytree(small_run, tmp_path / "run")
    return tmp_path / "run"


def opened(directory, group):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return xarray.open_zarr(directory / group)


def test_xarray_reads_every_group(small_run, small_config):
    data = load_features(str(load_config(small_config).data.features))
    features = opened(small_run, "features.zarr")
    assert features["train"].dims == ("row", "feature")
    third = features["train"][features["train_class"].values == 2]
    np.testing.assert_array_equal(third, data.X_train[data.y_train == 2])
    np.testing.assert_array_equal(features["test"], data.X_test)
    np.testing.assert_array_equal(features["label"], data.y_test)
    machines = opened(small_run, "machines.zarr")
    assert machines["coef"].dims == ("edge", "machine", "feature")
    assert {"class_i", "class_j", "class"} <= set(machines.coords)
    assert not machines["coef"].isnull().any()
    logits = opened(small_run, "logits.zarr")
    assert logits["tensor"].dims == ("class", "other", "sample")
    probabilities = opened(small_run, "probabilities.zarr")
    for method in probabilities["coupling"].values:
        np.testing.assert_allclose(probabilities[method].sum("class"), 1, atol=1e-4)


def test_the_tensor_is_antisymmetric_and_holds_the_logits_of_the_edges(small_run):
    logits = opened(small_run, "logits.zarr").load()
    L = logits["tensor"].values
    np.testing.assert_allclose(L, -L.transpose(1, 0, 2), atol=1e-5)
    model = PairwiseSVC.from_run(small_run)
    X = opened(small_run, "features.zarr")["test"].values
    for (a, b), pair in model.pairs_.items():
        i, j = (model.classes_.tolist().index(label) for label in (a, b))
        np.testing.assert_allclose(model.scale_ * L[i, j], X @ pair.weights + pair.bias, atol=1e-4)


def test_chunks_are_tiles_and_slabs(small_run):
    logits = opened(small_run, "logits.zarr")
    assert logits["tensor"].encoding["chunks"] == (5, 5, 16)
    assert opened(small_run, "machines.zarr")["coef"].encoding["chunks"][0] == 3


def test_the_report_is_complete(small_run):
    folder = small_run / "report"
    metrics = json.loads((folder / "metrics.json").read_text())
    scores = {"accuracy", "log_loss", "expected_calibration_error", "top_5_accuracy", "macro_f1"}
    assert metrics["methods"]["stratified"].keys() == scores
    assert metrics["pairs"] == 10
    assert metrics["methods"]["stratified"]["accuracy"] > 0.4
    assert (
        (folder / "methods.csv")
        .read_text()
        .startswith("method,accuracy,log loss,calibration error,top 5,macro F1,pairs\n")
    )
    assert sorted(path.name for path in folder.iterdir()) == REPORT


def test_the_baselines_of_the_report_are_those_of_scikit_learn(small_run):
    baselines = json.loads((small_run / "report" / "metrics.json").read_text())["baselines"]
    features = opened(small_run, "features.zarr")
    X, y, X_new, y_new = (features[name].values for name in ("train", "train_class", "test", "label"))
    nearest = NearestCentroid().fit(X, y)
    assert baselines["nearest centroid"]["accuracy"] == nearest.score(X_new, y_new)
    assert "log_loss" not in baselines["nearest centroid"], "distances are no probabilities"
    shares = np.bincount(y) / len(y)
    assert baselines["class frequencies"]["log_loss"] == pytest.approx(-np.log(shares[y_new]).mean())


def test_every_unit_is_begun_once(small_run):
    for stage, units in (("machines", 4), ("logits", 3), ("probabilities", 3)):
        assert times_begun(small_run, stage) == dict.fromkeys(range(units), 1)


def test_a_finished_run_is_not_run_again(copied_run, small_config, client):
    before = (copied_run / "log.txt").read_text()
    run_here(small_config, copied_run, client, until="report")
    assert (copied_run / "log.txt").read_text() == before


@pytest.mark.parametrize("stage", STAGES_HERE)
def test_each_stage_is_resumed_by_itself(stage, copied_run, small_config, client):
    reference = bytes_of(copied_run)
    shutil.rmtree(copied_run / "ledger" / stage)
    plan = run_here(small_config, copied_run, client, until="report")
    assert not any(unfinished_units(plan).values())
    assert_same_bytes(copied_run, reference)
    for other in STAGES_HERE:
        assert set(times_begun(copied_run, other).values()) == {2 if other == stage else 1}


def test_a_change_is_refused_with_its_keys_and_what_an_update_would_do(copied_run, small_config, client):
    with pytest.raises(Mismatch) as caught:
        run_here(
            small_config,
            copied_run,
            client,
            "model.coupling=normal",
            "run.also_couple=[]",
            "model.random_state=5",
        )
    assert "model.coupling: was 'stratified', is 'normal'" in str(caught.value)
    assert "model.random_state: was 0, is 5" in str(caught.value)
    assert "--update to keep features, samples, ids and recompute draws, statistics, whitening" in str(
        caught.value
    )


def test_other_methods_are_coupled_without_training(copied_run, small_config, client):
    machines = bytes_of(copied_run, ("machines.zarr",))
    run_here(
        small_config, copied_run, client, "model.coupling=normal", "run.also_couple=['vote']", update=True
    )
    assert bytes_of(copied_run, ("machines.zarr",)) == machines
    assert set(times_begun(copied_run, "machines").values()) == {1}
    assert set(times_begun(copied_run, "probabilities").values()) == {2}
    found = opened(copied_run, "probabilities.zarr")
    assert set(found.data_vars) == {"normal", "vote", "scale", "list_mass", "held_out_scores", "novelty"}
    assert not (copied_run / "probabilities.zarr" / "wlw2").exists()


def test_other_test_samples_are_predicted_without_training(copied_run, small_config, client, tmp_path):
    other = write_features(tmp_path / "other.npz", classes=5, rows=20, features=6, samples=23, seed=3)
    run_here(small_config, copied_run, client, f"data.test='{other}'", update=True)
    assert set(times_begun(copied_run, "machines").values()) == {1}
    assert opened(copied_run, "probabilities.zarr")["normal"].shape == (23, 5)


def test_a_run_whose_data_are_gone_is_resumed_from_its_store(tmp_path, client):
    features = write_features(tmp_path / "data.npz", classes=3, rows=12, features=4, samples=9)
    config = write_config(tmp_path / "run.toml", features)
    directory = tmp_path / "run"
    run_here(config, directory, client, until="whitening")
    features.unlink()
    run_here(config, directory, client)
    assert opened(directory, "probabilities.zarr")["normal"].shape == (9, 3)
    shutil.rmtree(directory / "ledger" / "features")
    with pytest.raises(FileNotFoundError, match=r"data\.npz"):
        run_here(config, directory, client)


def test_samples_without_labels_get_probabilities_and_a_report_without_scores(tmp_path, client):
    features = write_features(tmp_path / "data.npz", classes=3, rows=12, features=4, samples=9)
    with np.load(features) as archive:
        kept = {name: archive[name] for name in archive.files if name != "y_test"}
    np.savez(features, **kept)
    run_here(write_config(tmp_path / "run.toml", features), tmp_path / "run", client, until="report")
    metrics = json.loads((tmp_path / "run" / "report" / "metrics.json").read_text())
    assert "methods" not in metrics
    page = (tmp_path / "run" / "report" / "index.html").read_text()
    assert "The test samples have no labels" in page
    assert '<section id="graph">' in page
    assert '<section id="methods">' not in page


def test_classes_of_different_sizes_and_a_virtual_tensor(tmp_path, client):
    random = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [1500, 30, 7])
    X = random.standard_normal((len(y), 4)) + 2 * np.eye(4)[y]
    np.savez(tmp_path / "data.npz", X_train=X, y_train=y, X_test=X[::10], y_test=y[::10])
    config = write_config(tmp_path / "run.toml", tmp_path / "data.npz")
    run_here(config, tmp_path / "run", client, "run.tensor=virtual")
    train = tmp_path / "run/features.zarr/train/c"
    files = sorted(path.relative_to(train).as_posix() for path in train.rglob("*") if path.is_file())
    assert files == ["0/0"], "classes lie side by side in one file"
    assert not (tmp_path / "run/logits.zarr/tensor").exists()


def test_nothing_in_a_run_directory_is_pickled(small_run):
    for path in small_run.rglob("*"):
        if path.is_file():
            assert path.suffix not in (".pkl", ".pickle", ".joblib", ".npy")
            assert not path.read_bytes().startswith((b"\x80\x04", b"\x80\x05")), path


def test_a_wrong_configuration_makes_nothing(small_config, tmp_path):
    directory = tmp_path / "run"
    with pytest.raises(ValueError, match="folds"):
        prepare_run(load_config(small_config, ["model.folds=500"]), directory)
    assert not directory.exists()


def test_an_unchanged_run_keeps_its_own_edges(copied_run, small_config):
    config = load_config(small_config)
    fresh, _ = prepare_run(config, copied_run)
    other = fresh.shape._replace(edges=fresh.shape.edges[::-1])
    kept = adopt_run(copied_run, config, replace(fresh, shape=other))
    np.testing.assert_array_equal(kept.shape.edges, fresh.shape.edges)


def test_a_unit_has_one_thread_of_blas_wherever_it_runs(small_run, tmp_path):
    class Looking(Stage):
        name = "whitening"

        def work(self, run, unit, data):
            seen.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
            return []

    seen = []
    shutil.copy(small_run / "run.json", tmp_path)  # nothing is written into a directory without it
    with threadpool_limits(2):
        cluster_units.run_unit(replace(read_run(small_run), directory=tmp_path), Looking(), 0)
    assert set(seen) == {1}, "how a product is split among threads decides the last bits of its sums"


def test_a_stop_that_was_asked_for_before_a_stage_is_felt_without_any_worker(tmp_path):
    stop = Stop()
    stop.request("enough")
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as nobody,
        pytest.raises(Stopped, match="enough"),
    ):
        list(StageTasks(nobody, tmp_path, "machines", {0: "key"}, 0, stop))
