"""A fitted PairwiseSVC on disk: it comes back to the bit, and any damage is noticed."""

import json
import shutil

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import zarr
from fitted_models import Samples
from numcodecs import Zstd
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel

from pairloom import PairwiseSVC
from pairloom.pipeline.model.saved_model import _write_arrays
from pairloom.pipeline.storage.zarr_metadata import OURS, stored_array


@pytest.fixture(scope="module")
def data():
    X, y = make_blobs([12] * 4, 3, cluster_std=3.0, random_state=0)
    return Samples(X + 50, np.array(["ant", "bee", "gar", "owl"])[y])


def fit(data, **parameters):
    return PairwiseSVC(**({"random_state": 0, "graph": "star"} | parameters)).fit(*data)


@pytest.fixture(scope="module")
def saved(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model"
    model = fit(data, whiten=0.8, coupled_calibration="edges")
    model.save(path)
    return model, path


def test_every_array_has_the_packing_that_suits_it(tmp_path):
    random = np.random.default_rng(0)
    of_edge = random.standard_normal((40, 1, 64))  # the machines of an edge are alike
    made = {
        "weights": (of_edge + 0.1 * random.standard_normal((40, 8, 64))).astype(np.float32),
        "pixels": random.choice([0.0, 0.1, 0.7], (400, 64)).repeat(2, axis=0),
        "none": np.empty((0, 5)),
        "numbers": np.arange(10),
    }
    _write_arrays(made, tmp_path / "arrays")
    group = zarr.open_group(tmp_path / "arrays", mode="r")
    size = {}
    for name, values in made.items():
        np.testing.assert_array_equal(group[name][...], values)
        stored_array(tmp_path / "arrays" / name, OURS).check_files()
        size[name] = sum(
            file.stat().st_size for file in (tmp_path / "arrays" / name / "c").rglob("*") if file.is_file()
        )
    assert size["weights"] < 0.86 * made["weights"].nbytes
    assert size["weights"] < len(Zstd(level=3).encode(made["weights"]))
    assert size["pixels"] < 1.01 * len(Zstd(level=3).encode(made["pixels"]))


@pytest.mark.filterwarnings("ignore:The scale of the coupled model:UserWarning")
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"whiten": 0.8, "coupled_calibration": "edges", "coupling": "normal"},
        {"whiten": "none", "fit_on": "all", "folds": 3, "thresholds": True, "coupled_calibration": "none"},
        {
            "C": [0.1, np.float32(1)],
            "graph": {"family": "bipartite", "hubs": [0, 2]},
            "priors": np.arange(1, 5),
        },
        {"priors": {"owl": 4, "ant": 1, "bee": 2, "gar": 3}, "C": "scale"},
        {"calibration": "distance", "shortlist": 2, "thresholds": True, "C": "scale"},
        {"shortlist": None, "calibration": "platt"},
        {"graph": nx.path_graph(4), "class_weight": {"ant": 3.0}, "fit_on": "fold"},
        {"graph": nx.Graph([("ant", "bee"), ("bee", "gar"), ("bee", "owl")])},
    ],
    ids=["defaults", "edges", "all", "priors", "named priors", "distance", "platt", "weights", "graph"],
)
def test_a_loaded_model_is_the_saved_one_to_the_bit(data, tmp_path, parameters):
    model = fit(data, **parameters)
    model.save(tmp_path / "deeper" / "model")
    loaded = PairwiseSVC.load(tmp_path / "deeper" / "model")
    np.testing.assert_array_equal(loaded.predict_proba(data.X), model.predict_proba(data.X))
    np.testing.assert_array_equal(loaded.predict(data.X), model.predict(data.X))
    assert loaded.list_mass_ == model.list_mass_
    assert (model.list_mass_ != (1, 0)) == (parameters.get("shortlist") is not None)
    for name in ("classes_", "edges_", "class_shares_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
        assert getattr(loaded, name).dtype == getattr(model, name).dtype
    for name in ("C_", "whiten_", "calibration_", "scale_", "candidates_", "n_features_in_"):
        assert getattr(loaded, name) == getattr(model, name)
    assert set(map(frozenset, loaded.graph_.edges)) == set(map(frozenset, model.graph_.edges))
    assert loaded.pairs_.keys() == model.pairs_.keys()
    refitted = loaded.fit(*data)  # the parameters came back as well
    np.testing.assert_array_equal(refitted.predict_proba(data.X), model.predict_proba(data.X))


@pytest.mark.parametrize(
    "labels", [[False, True], [3, 7], [1.0, 2.0], np.array(["a", "bc"], object)], ids=str
)
def test_labels_of_any_kind_come_back_as_they_were(data, tmp_path, labels):
    y = np.asarray(labels)[np.arange(48) % 2]
    with pytest.warns(UserWarning, match="does no better than guessing"):
        model = PairwiseSVC(class_weight={labels[0]: 2.0}, random_state=1).fit(data.X, y)
    model.save(tmp_path / "model")
    loaded = PairwiseSVC.load(tmp_path / "model")
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.classes_.tolist() == list(labels)
    assert loaded.class_weight == model.class_weight
    np.testing.assert_array_equal(loaded.predict(data.X), model.predict(data.X))


def test_feature_names_come_back_and_are_checked(data, tmp_path):
    X = pd.DataFrame(data.X, columns=["x", "y", "z"])
    model = PairwiseSVC().fit(X, data.y)
    model.save(tmp_path / "model")
    loaded = PairwiseSVC.load(tmp_path / "model")
    assert loaded.feature_names_in_.tolist() == ["x", "y", "z"]
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(X[["z", "x", "y"]])


def test_parameters_changed_after_the_fit_do_not_reach_the_machines(data, tmp_path):
    model = fit(data)
    p = model.predict_proba(data.X)
    model.set_params(folds=3, fit_on="fold").save(tmp_path / "model")
    np.testing.assert_array_equal(PairwiseSVC.load(tmp_path / "model").predict_proba(data.X), p)


def test_a_subclass_loads_as_itself(saved):
    _, path = saved

    class Mine(PairwiseSVC):
        pass

    assert type(Mine.load(path)) is Mine


def test_nothing_is_pickled(saved):
    _, path = saved
    for file in files_of(path):
        content = file.read_bytes()
        assert not content.startswith(b"\x80"), file
        assert b"pickle" not in content, file
        assert file.name == "model.json" or "arrays.zarr" in file.parts


def files_of(path):
    return sorted(file for file in path.rglob("*") if file.is_file())


def test_any_damage_is_noticed(saved, data, tmp_path):
    """Truncate every file, change a byte, or remove it: loading fails, or the probabilities are the same to the bit."""
    model, path = saved
    p = model.predict_proba(data.X)
    rng = np.random.default_rng(0)
    copy = shutil.copytree(path, tmp_path / "copy")
    names = [file.relative_to(path) for file in files_of(path)]
    assert len(names) > 20
    for name in names:
        content = (copy / name).read_bytes()
        places = rng.choice(len(content), min(3, len(content)), replace=False).tolist()
        flipped = [
            content[:at] + bytes([content[at] ^ (1 << rng.integers(7))]) + content[at + 1 :] for at in places
        ]
        for wrong in (content[: len(content) // 2], b"", *flipped):
            (copy / name).write_bytes(wrong)
            try:
                loaded = PairwiseSVC.load(copy)
            except ValueError as error:
                assert "PairwiseSVC.load: " in str(error)  # noqa: PT017
                assert "copy" in str(error)  # noqa: PT017
            else:
                assert name.name == "model.json"  # white space between its entries
                np.testing.assert_array_equal(loaded.predict_proba(data.X), p)
        (copy / name).unlink()
        with pytest.raises((ValueError, FileNotFoundError), match=f"has no {name.as_posix()}"):
            PairwiseSVC.load(copy)
        (copy / name).write_bytes(content)
    np.testing.assert_array_equal(PairwiseSVC.load(copy).predict_proba(data.X), p)


def test_a_changed_number_is_noticed(saved, tmp_path):
    """The file is still valid JSON."""
    _, path = saved
    copy = shutil.copytree(path, tmp_path / "copy")
    text = (copy / "model.json").read_text()
    (copy / "model.json").write_text(text.replace('"gar"', '"bar"'))
    with pytest.raises(ValueError, match=r"model\.json is damaged: .*does not match"):
        PairwiseSVC.load(copy)


def test_a_strange_file_is_noticed(saved, tmp_path):
    _, path = saved
    copy = shutil.copytree(path, tmp_path / "copy")
    (copy / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"must hold a saved model only, got also notes\.txt"):
        PairwiseSVC.load(copy)


def test_a_folder_that_is_no_saved_model_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"is not a saved model: it has no model\.json"):
        PairwiseSVC.load(tmp_path / "absent")
    (tmp_path / "file").write_text("text")
    with pytest.raises(ValueError, match="cannot be read"):
        PairwiseSVC.load(tmp_path / "file")
    for content, message in (
        ("[1]", "must be a pairloom-model of version 10, got None of version None"),
        (json.dumps({"format": "torch"}), "must be a pairloom-model of version 10, got 'torch'"),
        (
            json.dumps({"format": "pairloom-model", "format_version": 99}),
            "of version 10, got .* of version 99",
        ),
        (json.dumps({"format": "pairloom-model", "format_version": 10}), "is damaged"),
        ("{", "cannot be read"),
    ):
        (tmp_path / "model.json").write_text(content)
        with pytest.raises(ValueError, match=message):
            PairwiseSVC.load(tmp_path)
    (tmp_path / "model.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="cannot be read"):
        PairwiseSVC.load(tmp_path)


def test_an_existing_path_is_left_alone(saved):
    model, path = saved
    before = {file: file.read_bytes() for file in files_of(path)}
    with pytest.raises(FileExistsError, match=r"PairwiseSVC\.save: .*model exists already"):
        model.save(path)
    assert {file: file.read_bytes() for file in files_of(path)} == before


def test_classifiers_of_scikit_learn_cannot_be_saved(data, tmp_path):
    with pytest.raises(ValueError, match="cannot be saved without pickle, got estimator=LogisticRegression"):
        fit(data, estimator=LogisticRegression()).save(tmp_path / "model")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("kernel", ["rbf", "poly", "sigmoid", "precomputed"])
def test_machines_with_a_kernel_are_saved_to_the_bit(data, kernel, tmp_path):
    X, X_new = data.X - 50, data.X - 49
    if kernel == "precomputed":
        X, X_new = rbf_kernel(X, gamma=0.02), rbf_kernel(X_new, X, gamma=0.02)
    model = PairwiseSVC(kernel=kernel, gamma=0.02, coef0=0.1, random_state=0).fit(X, data.y)
    model.save(tmp_path / "model")
    loaded = PairwiseSVC.load(tmp_path / "model")
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.predict_proba(X_new), model.predict_proba(X_new))
    for ours, theirs in zip(model.machines_, loaded.machines_, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert loaded.model_.trained.kernel == model.model_.trained.kernel
    loaded.save(tmp_path / "again")
    assert [f.read_bytes() for f in files_of(tmp_path / "again")] == [
        f.read_bytes() for f in files_of(tmp_path / "model")
    ]


def test_a_save_that_fails_leaves_nothing(data, tmp_path):
    model = fit(data, random_state=np.random.RandomState(0))
    with pytest.raises(ValueError, match="values of type RandomState cannot be saved"):
        model.save(tmp_path / "model")
    assert not any(tmp_path.iterdir())


def test_a_model_that_was_not_fitted_cannot_be_saved(tmp_path):
    with pytest.raises(NotFittedError, match="not fitted"):
        PairwiseSVC().save(tmp_path / "model")
