"""A compact model predicts the same bits, keeps what is asked of a fitted model, and says what it cannot do."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from pairloom import PairwiseSVC
from pairloom.pipeline.model.summary import summary_rows


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(
        900, 12, n_informative=8, n_classes=6, n_clusters_per_class=1, flip_y=0.05, random_state=0
    )
    return train_test_split(X, np.array(list("abcdef"))[y], random_state=0)


def saved_compactly(model, path):
    model.save(path, compact=True)
    return PairwiseSVC.load(path)


def size_of(path):
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


@pytest.mark.parametrize(
    "parameters",
    [
        {"kernel": "linear"},
        {"kernel": "linear", "whiten": 0.8, "standardise": True, "shortlist": 3},
        {"kernel": "linear", "coupled_calibration": "edges", "graph": "star"},
        {"kernel": "linear", "thresholds": True, "calibration": "platt", "coupling": "bradley_terry"},
        {"learn": "coupled"},
        {"kernel": "rbf", "C": 10.0},
        {"graph": "one_vs_rest", "kernel": "linear"},
    ],
    ids=["defaults", "whitened", "edges", "thresholds", "learned", "kernel", "code"],
)
def test_it_predicts_the_same_bits(data, tmp_path, parameters):
    X, Z, y, _ = data
    model = PairwiseSVC(random_state=0, **parameters).fit(X, y)
    compact = saved_compactly(model, tmp_path / "model")
    np.testing.assert_array_equal(compact.predict_proba(Z), model.predict_proba(Z))
    for name in ("scale_", "C_", "calibration_", "list_mass_", "candidates_", "learned_"):
        assert getattr(compact, name) == getattr(model, name)
    if model.model_.held_out is not None:
        assert (compact.predict_set(Z) != model.predict_set(Z)).nnz == 0
    model.set_params(coupling="normal")
    compact.set_params(coupling="normal")
    if "graph" not in parameters or parameters["graph"] == "star":
        np.testing.assert_array_equal(compact.predict_proba(Z), model.predict_proba(Z))


def test_sparse_features_stay_sparse(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(300) % 5
    X = sparse.random_array((300, 400), density=0.03, rng=rng, format="csr") + sparse.csr_array(
        (np.full(300, 0.7), (np.arange(300), y)), (300, 400)
    )
    model = PairwiseSVC(random_state=0).fit(X, y)
    compact = saved_compactly(model, tmp_path / "model")
    np.testing.assert_array_equal(compact.predict_proba(X), model.predict_proba(X))
    assert sparse.issparse(compact.model_.predictor.logits.weights)


def test_it_is_a_fraction_of_the_size_and_can_be_saved_again(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(240) % 12
    X = (rng.normal(size=(240, 600)) + rng.normal(size=(12, 600))[y]).astype(np.float32)
    model = PairwiseSVC(kernel="linear", whiten="none", random_state=0).fit(X, y)
    model.save(tmp_path / "whole")
    compact = saved_compactly(model, tmp_path / "compact")
    assert not (tmp_path / "compact" / "arrays.zarr" / "machines").exists()
    assert size_of(tmp_path / "compact") < size_of(tmp_path / "whole") / 2
    compact.save(tmp_path / "again")  # compact as it is
    assert size_of(tmp_path / "again") == pytest.approx(size_of(tmp_path / "compact"), rel=0.02)
    again = PairwiseSVC.load(tmp_path / "again")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_explanations_and_pairs_are_those_of_the_whole_model(data, tmp_path, kernel):
    X, Z, y, _ = data
    model = PairwiseSVC(kernel=kernel, random_state=0).fit(X, y)
    compact = saved_compactly(model, tmp_path / "model")
    assert str(compact.explain(Z[0], "a", "b")) == str(model.explain(Z[0], "a", "b"))
    assert compact.pooled_classes(0.99) == model.pooled_classes(0.99)
    assert summary_rows(compact.model_) == summary_rows(model.model_)
    if kernel == "linear":
        np.testing.assert_array_equal(compact.pairs_["a", "b"].weights, model.pairs_["a", "b"].weights)


def test_what_needs_the_machines_is_refused_with_a_reason(data, tmp_path):
    X, Z, y, _ = data
    compact = saved_compactly(PairwiseSVC(kernel="linear", random_state=0).fit(X, y), tmp_path / "model")
    changes = {
        "add_class": lambda: compact.add_class("z", Z[:20], X, y),
        "remove_class": lambda: compact.remove_class("a"),
        "retrain_pairs": lambda: compact.retrain_pairs([("a", "b")], X, y),
        "grow": lambda: list(compact.grow(X, y, pairs=15)),
    }
    before = compact.predict_proba(Z)
    for name, change in changes.items():
        with pytest.raises(ValueError, match=rf"{name}: the model is compact: .*with compact=False"):
            change()
    with pytest.raises(ValueError, match="compact model cannot be asked for the votes"):
        compact.set_params(coupling="sign_vote").predict_proba(Z)
    np.testing.assert_array_equal(compact.set_params(coupling="auto").predict_proba(Z), before)


def test_classifiers_of_others_are_not_saved_compactly_either(data, tmp_path):
    X, _, y, _ = data
    model = PairwiseSVC(estimator=LogisticRegression(), random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="cannot be saved"):
        model.save(tmp_path / "model", compact=True)
    assert not (tmp_path / "model").exists()
