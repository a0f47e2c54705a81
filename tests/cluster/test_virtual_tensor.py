"""Runs whose tensor is virtual: predicted from the machines, calibrated and grown by shortlists."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import xarray
import zarr
from small_runs import assert_same_bytes, bytes_of, run_here, times_begun, write_config, write_features

from pairloom import PairwiseSVC
from pairloom.cluster.drive.driver import load_data
from pairloom.pipeline.coupling.pairs.couple import METHODS
from pairloom.pipeline.run import held_out_store, tiles
from pairloom.pipeline.run.growing_run import judged_waves
from pairloom.pipeline.run.ledger import Ledger
from pairloom.pipeline.run.machine_store import coupler_of_run
from pairloom.pipeline.run.needs import file_count
from pairloom.pipeline.run.probability_store import read_lists
from pairloom.pipeline.run.results import read_mass_check
from pairloom.pipeline.run.run_directory import open_group
from pairloom.pipeline.stages import planning
from pairloom.pipeline.stages.run_file import read_run

CLASSES = 9
VIRTUAL = "run.tensor=virtual"
GROWING = ("graph.family=star", "growth.wave=4", "growth.plateau=never", "growth.pairs=16")


@pytest.fixture(scope="module")
def config_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("virtual")
    features = write_features(folder / "data.npz", classes=CLASSES, rows=24, features=5, samples=70)
    return write_config(folder / "run.toml", features, edges_per_tile=4, samples_per_slab=32)


@pytest.fixture(scope="module")
def grown_run(config_file, client, tmp_path_factory):
    """Grown by shortlists of four. Copy it before you change it."""
    directory = tmp_path_factory.mktemp("runs") / "grown"
    run_here(config_file, directory, client, VIRTUAL, "model.shortlist=4", *GROWING, until="report")
    return directory


def probabilities_of(directory, coupling):
    return open_group(directory, "probabilities.zarr")[coupling][:]


@pytest.mark.quick("model.shortlist=none", "model.shortlist=4 graph.family=path")
@pytest.mark.parametrize(
    "settings",
    [
        ("model.shortlist=none",),
        ("model.shortlist=4",),
        ("model.shortlist=4", "model.coupled_calibration=edges", "model.coupling=normal"),
        ("model.shortlist=3", "model.priors=[9, 8, 7, 6, 5, 4, 3, 2, 1]", "model.calibration=distance"),
        ("model.shortlist=4", "graph.family=hub_neighbours", "graph.hubs=1", "graph.neighbours=2"),
        ("model.shortlist=4", "graph.family=path"),
    ],
    ids=lambda settings: " ".join(settings),
)
def test_a_virtual_tensor_gives_the_probabilities_of_a_stored_one(settings, config_file, client, tmp_path):
    couplings = [method for method in METHODS if f"model.coupling={method}" not in settings]
    also = f"run.also_couple={[method for method in couplings if method != 'stratified'] or couplings}"
    if "model.coupled_calibration=edges" in settings:
        also = "run.also_couple=[]"
    for tensor in ("stored", "virtual"):
        plan = run_here(config_file, tmp_path / tensor, client, *settings, also, f"run.tensor={tensor}")
    data = load_data(plan.config).load()
    for coupling in plan.shape.couplings:
        found = probabilities_of(tmp_path / "virtual", coupling)
        np.testing.assert_allclose(found, probabilities_of(tmp_path / "stored", coupling), atol=1e-6)
        if plan.config.model.priors is None:
            read = PairwiseSVC.from_run(tmp_path / "virtual", coupling=coupling)
            np.testing.assert_allclose(found, read.predict_proba(data.X_test), atol=1e-6)


@pytest.mark.parametrize("calibration", ["auto", "platt"])
def test_a_run_that_stores_its_maps_is_read_from_them(
    calibration, config_file, client, tmp_path, monkeypatch
):
    monkeypatch.setattr(tiles, "_KEPT_BYTES", 0)
    settings = ("model.shortlist=4", f"model.calibration={calibration}", "run.also_couple=['normal']")
    run = run_here(config_file, tmp_path / "run", client, VIRTUAL, *settings)
    assert run.shape.collapsed
    X = load_data(run.config).load().X_test
    for coupling in run.shape.couplings:
        stored = probabilities_of(tmp_path / "run", coupling)
        for compact in (None, False, True):
            model = PairwiseSVC.from_run(tmp_path / "run", coupling=coupling, compact=compact)
            assert model.model_.is_compact == (compact is not False)
            np.testing.assert_allclose(model.predict_proba(X), stored, atol=2e-6)
    model = PairwiseSVC.from_run(tmp_path / "run")
    model.save(tmp_path / "saved")
    again = PairwiseSVC.load(tmp_path / "saved").predict_proba(X)
    np.testing.assert_array_equal(again, model.predict_proba(X))
    with pytest.raises(ValueError, match=r"the model is compact.*compact=False"):
        model.remove_class(model.classes_[0])
    # The machines of single folds are not read, nor needed.
    shutil.rmtree(tmp_path / "run" / "machines.zarr" / "coef" / "c")
    np.testing.assert_array_equal(PairwiseSVC.from_run(tmp_path / "run").predict_proba(X), again)
    with pytest.raises(ValueError, match="coef"):
        PairwiseSVC.from_run(tmp_path / "run", compact=False)


def test_nothing_is_stored_between_machines_and_probabilities(grown_run):
    group = zarr.open_group(grown_run / "logits.zarr", mode="r")
    assert {"tensor", "held_out"}.isdisjoint(group.array_keys())
    assert group["blocks"].shape[:3] == (1, 4, 4)
    assert not (grown_run / "ledger" / "logits").exists()


@pytest.mark.parametrize("tensor", ["stored", "virtual"])
def test_a_plan_counts_the_files_of_the_run(tensor, config_file, client, tmp_path):
    settings = ("model.shortlist=4", f"run.tensor={tensor}", "model.C=auto")
    plan = run_here(config_file, tmp_path / "run", client, *settings, until="report")
    files = sum(path.is_file() for path in (tmp_path / "run").rglob("*"))
    assert files <= file_count(plan) <= files + 10


def test_a_run_grown_by_shortlists_is_the_grown_estimator(grown_run):
    plan = read_run(grown_run)
    data, waves = load_data(plan.config).load(), judged_waves(plan)
    y = np.array(data.classes)[data.y_train]
    model = PairwiseSVC(**plan.estimator_parameters).fit(data.X_train, y)
    grown = list(model.grow(data.X_train, y, wave=4, pairs=16, plateau="never"))
    assert [wave.pairs for wave in waves] == [wave.pairs for wave in grown] == [8, 12, 16]
    assert [wave.log_loss for wave in waves] == pytest.approx([wave.log_loss for wave in grown], rel=1e-5)
    assert waves[0].proposed == grown[0].proposed


def test_the_report_compares_the_mass_of_the_lists_with_how_often_they_hold_the_true_class(grown_run):
    check = read_mass_check(grown_run, 0)
    assert check.size == 4
    assert check.said == pytest.approx(check.found, abs=0.02)
    page = (grown_run / "report" / "index.html").read_text()
    assert (
        f"holds the class of {check.found:.1%} of the held-out samples; the model says {check.said:.1%}"
        in page
    )


def test_a_lost_judgement_of_an_earlier_wave_is_found_again(grown_run, config_file, client, tmp_path):
    """The shortlists of its smaller graph are not stored any more."""
    directory = tmp_path / "run"
    shutil.copytree(grown_run, directory)
    reference, judged = bytes_of(directory), (directory / "growth" / "000001.json").read_text()
    (directory / "growth" / "000001.json").unlink()
    run_here(config_file, directory, client, VIRTUAL, "model.shortlist=4", *GROWING, until="report")
    assert json.loads((directory / "growth" / "000001.json").read_text()) == json.loads(judged)
    assert_same_bytes(directory, reference)
    assert set(times_begun(directory, "machines").values()) == {1}


@pytest.mark.long
def test_a_run_grown_by_shortlists_later_is_grown_at_once(grown_run, config_file, client, tmp_path):
    settings = (VIRTUAL, "model.shortlist=4", *GROWING[:-1])
    for pairs in (10, 16):
        run_here(config_file, tmp_path / "later", client, *settings, f"growth.pairs={pairs}", until="report")
    assert_same_bytes(tmp_path / "later", bytes_of(grown_run))


@pytest.mark.parametrize("stage", ["held_out", "probabilities", "calibration", "model"])
def test_each_stage_of_a_virtual_run_is_resumed_by_itself(stage, grown_run, config_file, client, tmp_path):
    directory = tmp_path / "run"
    shutil.copytree(grown_run, directory)
    before = times_begun(directory, stage)
    shutil.rmtree(directory / "ledger" / stage)
    run_here(config_file, directory, client, VIRTUAL, "model.shortlist=4", *GROWING, until="report")
    assert_same_bytes(directory, bytes_of(grown_run))
    assert {times - before[unit] for unit, times in times_begun(directory, stage).items()} == {1}


@pytest.mark.parametrize("whole", [True, False], ids=["all edges", "the first edges"])
def test_lists_of_held_out_samples_are_those_from_the_logits_of_all_edges(whole, grown_run):
    run = read_run(grown_run)
    assert_lists_are_those_of_all_edges(run, run.shape.n_edges if whole else run.waves[0])


@pytest.mark.long
@pytest.mark.parametrize("fit_on", ["rest", "all"])
def test_lists_of_held_out_samples_with_each_calibration(fit_on, config_file, client, tmp_path):
    settings = ("model.shortlist=4", "model.calibration=auto", f"model.fit_on={fit_on}")
    run = run_here(config_file, tmp_path / "run", client, VIRTUAL, *settings)
    assert run.shape.calibrations == ("distance", "slopes", "platt")
    assert_lists_are_those_of_all_edges(run, run.shape.n_edges)


def assert_lists_are_those_of_all_edges(run, pairs):
    slab = held_out_store._Slab(run, run.draw_slabs[0], pairs)
    found = held_out_store._listed(run, slab, pairs)
    completion, order = coupler_of_run(run, pairs).completion, held_out_store._order(run, pairs)
    reference = held_out_store._listed_by_all_edges(slab, completion, order, run.shape.listed)
    assert list(found) == list(reference) == list(run.shape.calibrations)
    for calibration, (lists, sizes) in reference.items():
        own = found[calibration]
        np.testing.assert_array_equal(own.lists.classes, lists.classes)
        np.testing.assert_allclose(own.lists.tensor, lists.tensor, atol=1e-5)
        np.testing.assert_allclose(own.lists.potentials, lists.potentials, atol=1e-5)
        np.testing.assert_allclose(own.sizes, sizes, rtol=1e-5)


@pytest.mark.parametrize("tensor", ["stored", "virtual"])
def test_lists_have_the_likeliest_classes_of_the_dense_probabilities(
    tensor, config_file, client, tmp_path, monkeypatch
):
    monkeypatch.setattr(planning, "USUAL_SIZE", 5)
    settings = ("model.shortlist=4", "run.also_couple=['normal']", f"run.tensor={tensor}")
    for kind in ("dense", "lists"):
        run_here(config_file, tmp_path / kind, client, *settings, f"run.probabilities={kind}", until="report")
    run = read_run(tmp_path / "lists")
    labels = open_group(tmp_path / "lists", "features.zarr")["label"][:]
    for coupling in run.shape.couplings:
        p = probabilities_of(tmp_path / "dense", coupling)
        top, likelihood = read_lists(run, coupling, slice(None))
        order = np.argsort(-p, axis=1, kind="stable")[:, :5]
        np.testing.assert_array_equal(top.classes, order)
        np.testing.assert_array_equal(top.p, np.take_along_axis(p, order, axis=1))
        np.testing.assert_allclose(top.p.sum(axis=1) + top.rest, 1, atol=1e-6)
        np.testing.assert_array_equal(likelihood, p[np.arange(len(p)), labels])
    opened = xarray.open_zarr(tmp_path / "lists" / "probabilities.zarr")
    first = run.shape.couplings[0]
    assert opened[first].dims == opened[f"{first}_class"].dims == ("sample", "place")
    scores = [
        json.loads((tmp_path / kind / "report" / "metrics.json").read_text()) for kind in ("dense", "lists")
    ]
    assert scores[0]["methods"] == scores[1]["methods"]
    assert scores[0]["worst_pairs"] == scores[1]["worst_pairs"]
    for table in ("classes.csv", "pairs.csv", "errors.csv"):
        assert (tmp_path / "dense" / "report" / table).read_text() == (
            tmp_path / "lists" / "report" / table
        ).read_text()


@pytest.mark.quick("model.shortlist=4 model.calibration=distance graph.family=path model.whiten=0.5")
@pytest.mark.parametrize(
    "settings",
    [
        ("model.shortlist=4", "run.also_couple=['normal']"),
        ("model.shortlist=4", "model.calibration=platt", "run.also_couple=['normal', 'wlw2']"),
        ("model.shortlist=4", "model.calibration=distance", "graph.family=path", "model.whiten=0.5"),
        ("model.shortlist=4", *GROWING),
    ],
    ids=lambda settings: " ".join(settings),
)
def test_stored_maps_of_machines_predict_as_those_in_memory(
    settings, config_file, client, tmp_path, monkeypatch
):
    run_here(config_file, tmp_path / "kept", client, VIRTUAL, *settings)
    monkeypatch.setattr(tiles, "_KEPT_BYTES", 0)
    run = run_here(config_file, tmp_path / "stored", client, VIRTUAL, *settings)
    assert run.units("collapsed") == len(run.tiles)
    assert run.units("ranking") == (len(run.shape.couplings) if run.shape.edges_calibrated else 1)
    for coupling in run.shape.couplings:
        found, expected = (probabilities_of(tmp_path / name, coupling) for name in ("stored", "kept"))
        np.testing.assert_allclose(found, expected, atol=2e-6)
    model = PairwiseSVC.from_run(tmp_path / "stored")
    p = model.predict_proba(load_data(run.config).X_test.read(slice(None)))
    np.testing.assert_allclose(p, probabilities_of(tmp_path / "stored", model.coupling), atol=2e-6)


def test_stored_maps_are_the_same_bytes_again(config_file, client, tmp_path, monkeypatch):
    monkeypatch.setattr(tiles, "_KEPT_BYTES", 0)
    settings = (VIRTUAL, "model.shortlist=4", "run.probabilities=lists")
    run = run_here(config_file, tmp_path / "run", client, *settings)
    before = bytes_of(tmp_path / "run")
    ledger = Ledger(tmp_path / "run")
    for stage in ("collapsed", "ranking", "probabilities"):
        for unit in range(run.units(stage)):
            ledger.forget(stage, unit)
    run_here(config_file, tmp_path / "run", client, *settings)
    assert_same_bytes(tmp_path / "run", before)
