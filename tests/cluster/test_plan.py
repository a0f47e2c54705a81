from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from small_runs import write_config, write_features

from pairloom.cluster.config.config_file import load_config
from pairloom.cluster.drive.driver import prepare_run
from pairloom.pipeline.features.feature_set import open_features
from pairloom.pipeline.model import learning
from pairloom.pipeline.run.needs import disk_bytes
from pairloom.pipeline.run.run import FORMAT
from pairloom.pipeline.stages import STAGE_NAMES
from pairloom.pipeline.stages.planning import plan_run
from pairloom.pipeline.stages.run_file import DamagedPlan, Mismatch, read_run, write_run
from pairloom.pipeline.storage.digests import sealed, unsealed


@pytest.fixture(scope="module")
def digits():
    return open_features("digits")


TRAINED = {"machines", "slopes", "held_out", "calibration", "model", "logits", "probabilities", "report"}


#: Without a choice that is made when the run is planned.
LINEAR = ("model.kernel=linear", "model.standardise=false")


def planned(digits, *overrides):
    return plan_run(load_config("digits", (*LINEAR, *overrides)), digits)


def test_samples_are_drawn_again_for_another_number_of_folds(digits):
    """With folds = "auto" it depends on the kind of the machines, which no setting of the folds tells."""
    linear, radial = planned(digits), planned(digits, "model.kernel=rbf")
    assert (linear.settings.folds, radial.settings.folds) == (4, 8)
    assert linear.keys["draws"] != radial.keys["draws"]
    assert radial.keys["draws"] == planned(digits, "model.kernel=rbf", "model.folds=8").keys["draws"]


def test_a_plan_survives_its_file(digits, tmp_path):
    plan = planned(digits, "graph.family=bipartite", "graph.hubs=2")
    write_run(replace(plan, directory=tmp_path))
    again = read_run(tmp_path)
    np.testing.assert_array_equal(again.shape.edges, plan.shape.edges)
    np.testing.assert_array_equal(again.shape.labels, plan.shape.labels)
    assert again.shape._replace(edges=0, labels=0) == plan.shape._replace(edges=0, labels=0)
    assert (again.config, again.keys, again.versions) == (plan.config, plan.keys, plan.versions)


def test_a_plan_holds_no_pickle_and_says_what_made_it(digits, tmp_path):
    write_run(replace(planned(digits), directory=tmp_path))
    content = json.loads((tmp_path / "run.json").read_text())
    assert content["format"] == FORMAT
    assert content["versions"].keys() >= {"pairloom", "numpy", "numba", "zarr", "dask", "python"}
    assert content["config"]["graph"]["family"] == "complete"


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-2], lambda b: b.replace(b'"folds": "auto"', b'"folds": "otto"'), lambda b: b""]
)
def test_a_damaged_plan_is_not_believed(damage, digits, tmp_path):
    write_run(replace(planned(digits), directory=tmp_path))
    path = tmp_path / "run.json"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DamagedPlan, match="damaged"):
        read_run(tmp_path)


def test_a_directory_without_a_plan_is_no_run(tmp_path):
    with pytest.raises(DamagedPlan, match="not a run directory"):
        read_run(tmp_path)


def test_another_format_is_refused(digits, tmp_path):
    write_run(replace(planned(digits), directory=tmp_path))
    path = tmp_path / "run.json"
    content = unsealed(path.read_bytes())
    path.write_bytes(sealed({**content, "format": 2}))
    with pytest.raises(
        Mismatch, match=f"format must be {FORMAT}, got 2: the run was made by another version"
    ):
        read_run(tmp_path)


@pytest.mark.parametrize(
    ("override", "changed"),
    [
        ("run.also_couple=['normal']", {"calibration", "model", "probabilities", "report"}),
        ("model.coupling=normal", {"candidates", *TRAINED}),
        # Slopes that are learned with the weights start from one for all.
        ("model.learn=coupled", TRAINED | {"candidates", "learning"}),
        # Without a coupled calibration nothing is drawn, and distances are no candidates.
        ("model.coupled_calibration=none", TRAINED | {"draws", "candidates"}),
        ("model.shortlist=5", {"candidates", *TRAINED}),
        ("model.calibration=platt", {"candidates", *TRAINED}),
        ("model.priors=[1, 1, 1, 1, 1, 1, 1, 1, 1, 2]", {"model", "probabilities", "report"}),
        ("model.class_weight=balanced", {"candidates", *TRAINED}),
        ("graph.family=path", {"candidates", *TRAINED}),
        ("model.folds=5", TRAINED | {"draws", "statistics", "whitening", "candidates"}),
        ("model.whiten=0.3", TRAINED | {"draws", "whitening", "candidates"}),
        ("model.C=0.5", {"candidates", *TRAINED}),
        ("run.tensor=virtual", {"samples", "logits", "probabilities", "report"}),
        ("cluster.kind=threads", set()),
    ],
)
def test_a_change_is_felt_only_where_it_matters(override, changed, digits):
    old, new = planned(digits), planned(digits, override)
    assert {stage for stage in STAGE_NAMES if old.keys[stage] != new.keys[stage]} == changed


@pytest.mark.parametrize("override", ["model.C=0.5", "model.coupling=normal", "model.class_weight=balanced"])
@pytest.mark.parametrize("level", ["scale", "none"])
def test_weights_are_learned_again_from_other_machines(level, override, digits):
    learns = ["model.learn=coupled", f"model.coupled_calibration={level}"]
    old, new = planned(digits, *learns), planned(digits, *learns, override)
    assert old.units("learning") == 1
    assert planned(digits).units("learning") == 0
    assert old.keys["learning"] != new.keys["learning"]


def test_more_weights_than_can_be_learned_are_refused_in_the_plan(digits, monkeypatch):
    monkeypatch.setattr(learning, "MOST_WEIGHTS", 65 * 45 - 1)
    assert planned(digits).units("learning") == 0
    message = 'model.learn = "coupled" needs at most 2,924 weights, (features + 1) x pairs, got 65 x 45: use a sparser'
    with pytest.raises(ValueError, match=re.escape(message)):
        planned(digits, "model.learn=coupled")


def test_other_test_samples_keep_the_machines(digits):
    other = replace(digits, fingerprints=digits.fingerprints | {"test": "other"})
    old, new = planned(digits), plan_run(load_config("digits", LINEAR), other)
    changed = {stage for stage in STAGE_NAMES if old.keys[stage] != new.keys[stage]}
    assert changed == {"samples", "logits", "probabilities", "report"}


def test_more_folds_than_any_class_has_samples_are_refused(digits):
    with pytest.raises(ValueError, match=r"folds must be .* the size of the largest class, 137, got 200"):
        planned(digits, "model.folds=200")


def test_what_cannot_fit_is_refused_before_it_is_begun(digits):
    with pytest.raises(ValueError, match=r"run\.memory_limit must be at least .*, got 100KB"):
        planned(digits, "run.memory_limit=100KB")


def test_graphs_of_neighbours_are_built_from_the_class_means(digits):
    plan = planned(digits, "graph.family=hub_neighbours", "graph.hubs=1", "graph.neighbours=2")
    degrees = np.bincount(plan.shape.edges.ravel())
    assert degrees.max() == 9
    assert len(plan.shape.edges) < 45


def test_a_large_tensor_is_virtual_unless_asked_for(digits):
    assert planned(digits).shape.tensor_stored
    assert not planned(digits, "run.tensor=virtual").shape.tensor_stored
    without_draws = planned(digits, "model.coupled_calibration=none", "model.whiten=0.5")
    assert disk_bytes(without_draws)["logits.zarr"] == 4 * 450 * 100


def test_a_run_tries_whitening_where_an_estimator_does(tmp_path):
    """Not unasked where there are more columns than rows, and never where their covariance would be too large."""
    sizes = {"classes": 3, "rows": 8, "samples": 3}
    for features, tried in ((21, {"none", 0.8}), (22, {"none"})):
        write_features(tmp_path / "data.npz", features=features, **sizes)
        config = write_config(tmp_path / "run.toml", tmp_path / "data.npz")
        plan, _ = prepare_run(load_config(config, ["model.whiten=auto"]), tmp_path / "run")
        assert {candidate.whiten for candidate in plan.candidates} == tried
    write_features(tmp_path / "data.npz", features=16_385, **sizes)
    with pytest.raises(ValueError, match=r"model\.whiten must be \"none\" or \"auto\""):
        prepare_run(load_config(config), tmp_path / "run")
