"""A run lengthens its shortlists where held-out samples gain, as the estimator does."""

from __future__ import annotations

import json

import numpy as np
import pytest
from small_runs import assert_same_bytes, bytes_of, run_here, write_config

from pairloom import PairwiseSVC
from pairloom.cluster.drive.driver import load_data
from pairloom.pipeline.calibration import list_length
from pairloom.pipeline.calibration.list_length import LONGEST
from pairloom.pipeline.run import held_out_store, needs, tiles
from pairloom.pipeline.run.ledger import Ledger
from pairloom.pipeline.run.machine_store import coupler_of_run
from pairloom.pipeline.run.results import chosen_shortlist
from pairloom.pipeline.run.run_directory import open_group

CLASSES = 90
SPARSE_GRAPH = (
    "graph.family=hub_neighbours",
    "graph.hubs=2",
    "graph.neighbours=6",
    "run.also_couple=['normal']",
)


@pytest.fixture(scope="module")
def config_file(tmp_path_factory):
    """Classes around points of a plane, of which a sample may belong to many."""
    folder, random = tmp_path_factory.mktemp("blurred"), np.random.default_rng(0)
    centres, y = random.uniform(0, 10, (CLASSES, 2)), np.repeat(np.arange(CLASSES), 16)
    X = (centres[y] + 2.5 * random.standard_normal((len(y), 2))).astype(np.float32)
    names = np.array([f"class {c:02}" for c in range(CLASSES)])
    samples = {"X_train": X[::2], "y_train": y[::2], "X_test": X[1::10], "y_test": y[1::10]}
    np.savez(folder / "data.npz", **samples, classes=names)
    return write_config(folder / "run.toml", folder / "data.npz")


@pytest.fixture
def every_step(monkeypatch):
    """Whatever a longer list gains, it is taken."""
    monkeypatch.setattr(list_length, "_STANDARD_ERRORS", -np.inf)


@pytest.mark.long
@pytest.mark.parametrize(
    "settings",
    [
        ("run.tensor=virtual", "model.calibration=auto"),
        (
            "run.tensor=stored",
            "model.coupled_calibration=edges",
            "model.calibration=distance",
            "run.also_couple=[]",
        ),
        ("run.tensor=virtual", "model.kernel=rbf", "model.calibration=distance"),
    ],
    ids=lambda settings: " ".join(settings),
)
@pytest.mark.usefixtures("every_step")
def test_it_has_the_lists_and_the_probabilities_of_the_estimator(settings, config_file, client, tmp_path):
    run = run_here(config_file, tmp_path / "run", client, *SPARSE_GRAPH, *settings, until="report")
    assert run.shortlist == 20
    assert chosen_shortlist(run) == run.longest_list == LONGEST
    data = load_data(run.config).load()
    model = PairwiseSVC(**run.estimator_parameters).fit(data.X_train, np.array(data.classes)[data.y_train])
    read = PairwiseSVC.from_run(tmp_path / "run")
    assert read.shortlist_ == model.shortlist_ == LONGEST
    assert (read.calibration_, read.scale_) == (model.calibration_, pytest.approx(model.scale_, rel=1e-4))
    expected = model.predict_proba(data.X_test)
    np.testing.assert_allclose(read.predict_proba(data.X_test), expected, atol=1e-5)
    for coupling in run.shape.couplings:
        stored = open_group(tmp_path / "run", "probabilities.zarr")[coupling][:]
        p = PairwiseSVC.from_run(tmp_path / "run", coupling=coupling).predict_proba(data.X_test)
        np.testing.assert_allclose(stored, p, atol=1e-5)
    page = (tmp_path / "run" / "report" / "index.html").read_text()
    assert f"of the {LONGEST} likeliest classes" in page


@pytest.mark.long
@pytest.mark.usefixtures("every_step")
def test_stored_maps_predict_by_the_longer_lists_and_are_the_same_again(
    config_file, client, tmp_path, monkeypatch
):
    monkeypatch.setattr(tiles, "_KEPT_BYTES", 0)
    monkeypatch.setattr(needs, "_NEEDED_BYTES", 2**22)  # lists are completed in several passes
    run = run_here(config_file, tmp_path / "run", client, *SPARSE_GRAPH, "run.tensor=virtual")
    assert run.shape.collapsed
    assert needs.listed_at_once(run, LONGEST) < run.shape.draws
    X = load_data(run.config).load().X_test
    stored = open_group(tmp_path / "run", "probabilities.zarr")[run.shape.couplings[0]][:]
    for compact in (None, False):
        read = PairwiseSVC.from_run(tmp_path / "run", compact=compact)
        assert read.shortlist_ == LONGEST
        np.testing.assert_allclose(read.predict_proba(X), stored, atol=1e-5)
    before, ledger = bytes_of(tmp_path / "run"), Ledger(tmp_path / "run")
    for stage in ("calibration", "probabilities"):
        for unit in range(run.units(stage)):
            ledger.forget(stage, unit)
    run_here(config_file, tmp_path / "run", client, *SPARSE_GRAPH, "run.tensor=virtual")
    assert_same_bytes(tmp_path / "run", before)


@pytest.mark.parametrize("settings", [(), ("model.kernel=rbf",)], ids=["linear", "rbf"])
def test_lists_of_any_length_are_those_from_the_logits_of_all_edges(settings, config_file, client, tmp_path):
    run = run_here(
        config_file,
        tmp_path / "run",
        client,
        *SPARSE_GRAPH,
        "run.tensor=virtual",
        *settings,
        until="held_out",
    )
    potentials = open_group(tmp_path / "run", "logits.zarr")["ranking"][0]
    found = held_out_store._lists_of_length(run, 0, potentials, 40)
    slab = held_out_store._Slab(run, slice(0, run.shape.draws), run.shape.n_edges)
    completion, order = coupler_of_run(run).completion, run.shape.order
    (reference,) = held_out_store._listed_by_all_edges(slab, completion, order, 40).values()
    np.testing.assert_array_equal(found.classes, reference.lists.classes)
    np.testing.assert_allclose(found.tensor, reference.lists.tensor, atol=2e-5)


def test_a_list_is_lengthened_as_far_as_held_out_samples_gain(config_file, client, tmp_path, monkeypatch):
    settings = (*SPARSE_GRAPH, "run.also_couple=[]")
    run = run_here(config_file, tmp_path / "run", client, *settings, until="calibration")
    data = load_data(run.config).load()
    model = PairwiseSVC(**run.estimator_parameters).fit(data.X_train, np.array(data.classes)[data.y_train])
    assert 20 < chosen_shortlist(run) == model.shortlist_ < LONGEST
    monkeypatch.setattr(list_length, "_STANDARD_ERRORS", np.inf)
    Ledger(tmp_path / "run").forget("calibration", 0)
    run_here(config_file, tmp_path / "run", client, *settings, until="calibration")
    assert chosen_shortlist(run) == 20
    content = json.loads((tmp_path / "run" / "calibration" / "000000.json").read_text())
    assert content["lists"]["size"] == 20
    assert content["lists"]["found"] < 0.99


@pytest.mark.parametrize(
    ("settings", "longest"),
    [((), LONGEST), (("model.shortlist=30",), 30), (("model.coupled_calibration=none",), 20)],
    ids=lambda value: str(value),
)
def test_a_plan_reckons_with_the_longest_list(settings, longest, config_file, client, tmp_path):
    run = run_here(config_file, tmp_path / "run", client, *SPARSE_GRAPH, *settings, until="features")
    assert run.longest_list == longest
