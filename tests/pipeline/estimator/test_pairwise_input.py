"""PairwiseSVC and bad input: every error names the parameter and its value."""

import copy
import re

import networkx as nx
import numpy as np
import pytest
from fitted_models import fitted
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression

from pairloom import PairwiseSVC, graphs


def _identifier(value):
    """A name for a parameter that is the same in every process: graphs print their address."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))


@pytest.mark.parametrize(("bad", "message"), [(np.nan, "contains NaN"), (np.inf, "contains infinity")])
def test_features_that_are_not_finite_are_refused(data, bad, message):
    X = data.X.copy()
    X[3, 1] = bad
    with pytest.raises(ValueError, match=message):
        PairwiseSVC().fit(X, data.y)
    with pytest.raises(ValueError, match=message):
        fitted(data).predict_proba(X)


def test_one_class_is_too_few(data):
    with pytest.raises(ValueError, match="y must hold at least 2 classes, got one class: 'gar'"):
        PairwiseSVC().fit(data.X, ["gar"] * 80)


def test_one_sample_of_each_class_is_too_few(data):
    with pytest.raises(
        ValueError, match="PairwiseSVC: a class must have at least 2 samples, to hold one out"
    ):
        PairwiseSVC().fit(data.X[:5], list("abcde"))


def test_weights_that_cannot_be_used_are_refused(data):
    X, y = data.X, data.y
    with pytest.raises(ValueError, match="at least 2 classes, got one class: 2"):
        PairwiseSVC().fit(X, y, sample_weight=(y == 2) * 1.0)
    with pytest.raises(ValueError, match="class_weight must be positive, got 0 for class 1"):
        PairwiseSVC(class_weight={1: 0.0}).fit(X, y)
    with pytest.raises(
        ValueError, match="sample_weight must be positive for kernel='precomputed', got 1 zeros"
    ):
        PairwiseSVC(kernel="precomputed").fit(X @ X.T, y, sample_weight=np.arange(80))
    with pytest.raises(
        ValueError, match="sample_weight and class_weight are for machines without an estimator"
    ):
        PairwiseSVC(estimator=LogisticRegression(), class_weight="balanced").fit(X, y)


@pytest.mark.parametrize("whiten", ["none", 0.0, 0.8, "auto"])
def test_a_constant_column_changes_nothing(data, whiten):
    X, X_new = (np.column_stack([Z, np.full(len(Z), 7.0)]) for Z in (data.X, data.X_new))
    parameters = {"whiten": whiten, "C": "scale", "calibration": "platt", "random_state": 0}
    model = PairwiseSVC(**parameters).fit(X, data.y)
    expected = fitted(data, **parameters).predict_proba(data.X_new)
    # A shrunk covariance depends a little on the number of columns.
    np.testing.assert_allclose(model.predict_proba(X_new), expected, atol=2e-3)


@pytest.mark.filterwarnings("ignore:PairwiseSVC. X is constant in all of its columns:UserWarning")
@pytest.mark.parametrize("whiten", ["none", 0.0, 0.8, "auto"])
def test_constant_features_predict_the_shares_of_the_classes(whiten):
    """By Platt's sigmoids, which know the shares: of distances there is nothing but zero."""
    y, X = np.repeat(np.arange(5), [120, 80, 56, 40, 24]), np.ones((320, 3))
    parameters = {"whiten": whiten, "random_state": 0}
    p = PairwiseSVC(calibration="platt", **parameters).fit(X, y).predict_proba(X[:1])
    np.testing.assert_allclose(p[0], np.bincount(y) / 320, atol=0.005)
    p = PairwiseSVC(calibration="distance", **parameters).fit(X, y).predict_proba(X[:1])
    np.testing.assert_allclose(p[0], 0.2, rtol=1e-6)


def test_the_same_rows_under_both_labels_leave_the_model_unsure(data):
    X, y = np.repeat(data.X[:20], 2, axis=0), np.tile([0, 1], 20)
    with pytest.warns(UserWarning, match="does no better than guessing"):
        model = PairwiseSVC(random_state=0).fit(X, y)
    p = model.predict_proba(X)
    assert np.abs(p - 0.5).max() < 0.2


def test_another_number_of_features_is_refused(data):
    with pytest.raises(ValueError, match="X has 3 features, but PairwiseSVC is expecting 4 features"):
        fitted(data).predict(data.X_new[:, :3])


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_features_whose_range_overflows_are_refused(data):
    X = data.X.astype(np.float32)
    X[0, 0], X[1:, 0] = 3e38, -3e38
    with pytest.raises(ValueError, match="X must have columns whose range float32 can hold"):
        PairwiseSVC().fit(X, data.y)


def test_a_model_that_was_not_fitted_does_not_predict(data):
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        with pytest.raises(NotFittedError, match="PairwiseSVC instance is not fitted"):
            getattr(PairwiseSVC(), method)(data.X)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"graph": "hub_neighbors"},
            "graph must be one of .*got 'hub_neighbors'. Did you mean 'hub_neighbours'?",
        ),
        ({"graph": {"family": "bipartit"}}, "got 'bipartit'. Did you mean 'bipartite'?"),
        ({"graph": {"family": "bipartite", "hub": 2}}, "has no parameter 'hub'.* Did you mean 'hubs'?"),
        ({"graph": nx.path_graph(4)}, "every class must be a node, got a graph without 4"),
        ({"graph": nx.Graph([(0, 1), (2, 3), (3, 4)])}, "must be connected, got 2 components"),
        ({"coupling": "stratifed"}, "PairwiseSVC: coupling must be one of .*Did you mean 'stratified'?"),
        ({"kernel": "liner"}, "PairwiseSVC: kernel must be one of .*got 'liner'. Did you mean 'linear'?"),
        (
            {"fit_on": "folds"},
            "PairwiseSVC: fit_on must be one of 'rest', 'fold', 'all', 'fold_alone', got 'folds'.",
        ),
        (
            {"calibration": "mean"},
            "PairwiseSVC: calibration must be one of 'auto', 'distance', 'slopes', 'platt', 'none', got 'mean'",
        ),
        (
            {"coupled_calibration": "edge"},
            "PairwiseSVC: coupled_calibration must be one of .*Did you mean 'edges'?",
        ),
        ({"coupled_calibration": None}, "coupled_calibration must be one of .*'none', got None"),
        (
            {"coupled_calibration": "edges", "coupling": "vote"},
            "coupled_calibration='edges' needs a coupling with a gradient",
        ),
        ({"C": 0}, "C must be a positive number, 'scale', 'auto' or a list of these, got 0"),
        ({"C": -1.0}, "C must be a positive number.*got -1.0"),
        ({"C": np.nan}, "C must be a positive number.*got nan"),
        ({"C": np.inf}, "C must be a positive number.*got inf"),
        ({"C": "scal"}, "C must be a positive number.*got 'scal'"),
        ({"C": []}, r"C must be a positive number.*got \[\]"),
        ({"C": [1.0, 0.0]}, r"C must be a positive number.*got \[1.0, 0.0\]"),
        ({"whiten": 1.5}, "whiten must be a number from 0 to 1, 'none' or 'auto', got 1.5"),
        ({"whiten": "yes"}, "whiten must be a number from 0 to 1, 'none' or 'auto', got 'yes'"),
        ({"whiten": [0.5]}, r"whiten must be a number from 0 to 1, 'none' or 'auto', got \[0.5\]"),
        ({"folds": 1}, "folds must be an integer from 2 to 2147483647 or 'auto', got 1"),
        ({"folds": 2.5}, "folds must be an integer from 2 to 2147483647 or 'auto', got 2.5"),
        ({"whiten": None}, "whiten must be a number from 0 to 1, 'none' or 'auto', got None"),
        ({"tol": 0}, "tol must be a number above 0 and below 1, got 0"),
        ({"calibration_samples": 0}, "calibration_samples must be an integer from 1 to 2147483647, got 0"),
        ({"memory_limit": -1}, "memory_limit must be a positive number, got -1"),
        ({"priors": [1, 2]}, r"priors must be 5 non-negative numbers, one per class, got \[1, 2\]"),
        ({"priors": [1, 1, 1, 1, -1]}, "priors must be 5 non-negative numbers"),
        ({"priors": [0] * 5}, "priors must be 5 non-negative numbers"),
        ({"priors": [np.nan] * 5}, "priors must be 5 non-negative numbers"),
        ({"priors": {"a": 1}}, "priors must name the classes of the model, got 'a'"),
        ({"priors": dict.fromkeys(range(4), 1)}, "priors must have a share for every class, got none for 4"),
        ({"priors": "many"}, "priors must be 5 non-negative numbers"),
        (
            {"kernel": "precomputed"},
            r"X must be a square kernel matrix for kernel='precomputed', got \(80, 4\)",
        ),
    ],
    ids=_identifier,
)
def test_an_error_names_the_parameter_and_its_value(data, parameters, message):
    with pytest.raises(ValueError, match=message):
        fitted(data, **parameters)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"graph": 3},
            "graph must be a family's name, a mapping with the key 'family' and its parameters, a networkx.Graph or an",
        ),
        ({"graph": {"hubs": 3}}, "a mapping with the key 'family'"),
        ({"graph": nx.DiGraph([(0, 1)])}, "must be an undirected networkx.Graph, got DiGraph"),
        ({"estimator": LinearRegression()}, "estimator must be a classifier with decision_function or"),
    ],
    ids=_identifier,
)
def test_a_parameter_of_another_type_is_refused(data, parameters, message):
    with pytest.raises(TypeError, match=message):
        fitted(data, **parameters)


def test_a_bad_coupling_or_prior_set_after_the_fit_is_refused(data):
    model = fitted(data)
    with pytest.raises(ValueError, match="PairwiseSVC: coupling must be one of"):
        clone_state(model, coupling="norml").predict(data.X_new)
    with pytest.raises(ValueError, match="priors must be 5"):
        clone_state(model, priors=[1.0]).predict(data.X_new)


def clone_state(model, **parameters):
    return copy.copy(model).set_params(**parameters)


def test_settings_changed_after_the_fit_do_not_change_the_machines(data):
    model = fitted(data, kernel="rbf")
    p = model.predict_proba(data.X_new)
    np.testing.assert_array_equal(clone_state(model, folds=7).predict_proba(data.X_new), p)
    linear = fitted(data)
    p = linear.predict_proba(data.X_new)
    np.testing.assert_array_equal(clone_state(linear, folds=7, kernel="poly").predict_proba(data.X_new), p)


@pytest.mark.parametrize("family", sorted(set(graphs.FAMILIES) - {"grown"}))  # needs an order of pairs
def test_a_graph_can_be_any_family_by_its_name(data, family):
    needed = {"bipartite": {"hubs": 2}, "tree": {"parents": [-1, 0, 0, 1, 1]}}.get(family, {})
    model = fitted(data, graph={"family": family} | needed, whiten="none")
    assert model.graph_.graph["family"] == family
    # A path over classes in the order of their labels, not of their distances, is the weakest: 0.475. Chance is 0.2.
    assert model.score(data.X_new, data.y_new) > 0.4
