"""Bad input to the estimator and to the functions: an error that names the parameter and the value, and no change.

A row is what a user writes, the type of the error, and a pattern of its message. To add one, write one: the names that
a row may use are those of `names`.
"""

from __future__ import annotations

import copy

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression  # noqa: F401
from sklearn.svm import SVC

from pairloom import PairwiseSVC, complete_logits, couple, graphs  # noqa: F401
from pairloom.pipeline.storage.digests import sealed

SMALL = {"whiten": "none", "folds": 2, "random_state": 0}
FITTED = ("model_", "candidates_", "n_features_in_", "feature_names_in_")

X, y = make_blobs([12] * 4, 3, cluster_std=2.0, random_state=0)
X_new = X[:6] + 1
words, dates = np.array(list("abcd"))[y], np.array("2026-01-01", "M8[D]") + y
table = pd.DataFrame(X, columns=list("uvw"))
u = np.log([[0.7, 0.2], [0.2, 0.5], [0.1, 0.3]])
L = u[:, None] - u[None]
distances = np.array([[0.0, 1, 4], [1, 0, 2], [4, 2, 0]])
names = dict(globals()) | {"nan": np.nan, "inf": np.inf}
for module in (nx, np, graphs, sparse):
    names[module.__name__.split(".")[-1]] = module


def with_entry(values, place, entry):
    """A copy of an array with one entry replaced."""
    changed = np.array(values)
    changed[place] = entry
    return changed


def failing(*arguments):
    """A cost that fails."""
    raise LookupError("no cost is known")


names |= {"with_entry": with_entry, "failing": failing}


@pytest.fixture(scope="module")
def models():
    """Fitted estimators. A row gets copies of them."""
    return {
        "model": PairwiseSVC(**SMALL).fit(X, y),
        "star": PairwiseSVC("star", **SMALL).fit(X, y),
        "path": PairwiseSVC("path", **SMALL).fit(X, y),
        "spoken": PairwiseSVC(**SMALL).fit(X, words),
        "dated": PairwiseSVC(**SMALL).fit(X, dates),
        "real": PairwiseSVC(**SMALL).fit(X, y / 1.0),
        "named": PairwiseSVC(**SMALL).fit(table, y),
        "weighted": PairwiseSVC(**SMALL).fit(X, y, np.ones(48)),
        "edged": PairwiseSVC(coupled_calibration="edges", **SMALL).fit(X, y),
        "curved": PairwiseSVC(kernel="rbf", **SMALL).fit(X, y),
        "foreign": PairwiseSVC(estimator=SVC(), **SMALL).fit(X, y),
    }


@pytest.fixture
def here(models, place, folder):
    """The names of a row: those of this module, fresh copies of the models, a folder, and a finished run."""
    fresh = {name: copy.copy(model) for name, model in models.items()}
    return names | fresh | {"folder": folder, "run": place / "run"}


def snapshot(folder):
    """The bytes of every file below a folder, and the names of the folders."""
    return {path: path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


def assert_refused(row, error, message, models, here):
    """The row fails as it says, and no model that it names has changed."""
    with pytest.raises(error, match=f"(?s){message}"):
        eval(row, here)
    for name, model in models.items():
        if name in row:
            after = copy.copy(model)
            for attribute in FITTED:
                found = vars(here[name]).get(attribute)
                assert found is vars(model).get(attribute), f"{name}.{attribute} has changed"
                vars(after)[attribute] = found
            if name != "named":
                np.testing.assert_array_equal(after.predict_proba(X), model.predict_proba(X))


PARAMETERS = [
    ("C=True", "C must be positive, .* got True"),
    ("C=[True]", r"C must be positive, .* got \[True\]"),
    ("C=inf", "C must be positive, .* got inf"),
    ("C=nan", "C must be positive, .* got nan"),
    ("C=-1", "C must be positive, .* got -1"),
    ("C=None", "C must be positive, .* got None"),
    ("C='Scale'", "C must be positive, .* got 'Scale'"),
    ("C=1j", "C must be positive, .* got 1j"),
    ("C=[]", r"C must be positive, .* got \[\]"),
    ("C=[1.0, [2.0]]", r"C must be positive, .* got \[1.0, \[2.0\]\]"),
    ("C=np.array(1.0)", r"C must be positive, .* got array\(1.\)"),
    ("C=10**400", "C must be positive, .* got 10000"),
    ("C=1e308", r"C must be a number that fits the size of the features, got 1e\+308"),
    ("folds=True", "folds must be an integer of at least 2, or 'auto', got True"),
    ("folds=1", "folds must be an integer of at least 2, or 'auto', got 1"),
    ("folds=2.0", "folds must be an integer of at least 2, or 'auto', got 2.0"),
    ("folds='2'", "folds must be an integer of at least 2, or 'auto', got '2'"),
    ("folds=None", "folds must be an integer of at least 2, or 'auto', got None"),
    ("folds=13", "folds must be at least 2 and at most the size of the largest class, 12, got 13"),
    ("folds=10**30", "folds must be at most 2147483647, got 1000"),
    ("fit_on=None", "fit_on must be one of .* got None"),
    ("fit_on=['rest']", r"fit_on must be one of .* got \['rest'\]"),
    (
        "calibration='distance', coupled_calibration='none'",
        "calibration='distance' needs coupled_calibration='scale' or 'edges'",
    ),
    ("calibration='distance', kernel='sigmoid'", "calibration='distance' needs .* got kernel='sigmoid'"),
    ("shortlist=1", "shortlist must be 'auto', 'none' or an integer of at least 2, got 1"),
    ("shortlist=2.5", "shortlist must be .*, got 2.5"),
    ("shortlist='all'", "shortlist must be .*, got 'all'"),
    (
        "calibration='isotonic'",
        "calibration must be one of 'auto', 'platt', 'distance', 'none', got 'isotonic'",
    ),
    ("coupled_calibration=None", "coupled_calibration must be one of .* got None"),
    ("coupled_calibration='edges', coupling='vote'", "coupled_calibration='edges' .* got coupling='vote'"),
    ("calibration_samples=0", "calibration_samples must be an integer of at least 1, got 0"),
    ("calibration_samples=1.5", "calibration_samples must be an integer of at least 1, got 1.5"),
    ("calibration_samples=True", "calibration_samples must be an integer of at least 1, got True"),
    ("calibration_samples=10**30", "calibration_samples must be at most 2147483647, got 1000"),
    ("whiten=-0.1", "whiten must be 'auto', 'none' or from 0 to 1, got -0.1"),
    ("whiten='Auto'", "whiten must be .* got 'Auto'"),
    ("whiten='0.5'", "whiten must be .* got '0.5'"),
    ("whiten=nan", "whiten must be .* got nan"),
    ("whiten=None", "whiten must be .* got None"),
    ("whiten=True", "whiten must be .* got True"),
    ("whiten=False", "whiten must be .* got False"),
    ("thresholds='yes'", "thresholds must be True or False, got 'yes'"),
    ("thresholds=None", "thresholds must be True or False, got None"),
    ("thresholds=0.5", "thresholds must be True or False, got 0.5"),
    ("verbose='no'", "verbose must be True or False, got 'no'"),
    ("priors=[1, 2]", r"priors must be 4 non-negative numbers, one per class, got \[1, 2\]"),
    ("priors=[1, 1, 1, -1]", r"priors must be 4 non-negative .* got \[1, 1, 1, -1\]"),
    ("priors=[nan] * 4", r"priors must be 4 non-negative .* got \[nan"),
    ("priors=[inf, 1, 1, 1]", r"priors must be 4 non-negative .* got \[inf"),
    ("priors=[0] * 4", r"priors must be 4 non-negative .* got \[0"),
    ("priors=list('abcd')", r"priors must be 4 non-negative .* got \['a'"),
    ("priors='abcd'", "priors must be 4 non-negative .* got 'abcd'"),
    ("priors=3", "priors must be 4 non-negative .* got 3"),
    ("priors=[1j] * 4", r"priors must be 4 non-negative .* got \[1j"),
    ("class_weight={9: 1.0}", "class_weight must name classes of y, got 9"),
    ("class_weight={0: 1, 1: 1, 2: 1, 3: 1, 9: 1}", "class_weight must name classes of y, got 9"),
    ("class_weight={'0': 2.0}", "class_weight must name classes of y, got '0'. Did you mean 0?"),
    ("class_weight={0: -1.0}", "class_weight must be positive, got -1 for class 0"),
    ("class_weight={0: 0.0}", "class_weight must be positive, got 0 for class 0"),
    ("class_weight={0: nan}", "class_weight must be positive, got nan for class 0"),
    ("class_weight={0: inf}", "class_weight must be positive, got inf for class 0"),
    ("class_weight={0: 'a'}", "class_weight must be positive, got 'a' for class 0"),
    ("class_weight={0: True}", "class_weight must be positive, got True for class 0"),
    ("class_weight='Balanced'", "class_weight must be a mapping .* got 'Balanced'"),
    ("class_weight=[1, 1, 1, 1]", r"class_weight must be a mapping .* got \[1, 1, 1, 1\]"),
    (
        "class_weight='balanced', estimator=SVC()",
        r"class_weight are for machines without .* got estimator=SVC\(\)",
    ),
    ("gamma=0", "gamma must be 'scale', 'auto' or a positive number, got 0"),
    ("gamma='Scale'", "gamma must be 'scale', 'auto' or a positive number, got 'Scale'"),
    ("gamma=nan", "gamma must be 'scale', 'auto' or a positive number, got nan"),
    ("gamma=True", "gamma must be 'scale', 'auto' or a positive number, got True"),
    ("degree=0", "degree must be an integer from 1 to 1000, got 0"),
    ("degree=2.0", "degree must be an integer from 1 to 1000, got 2.0"),
    ("degree=True", "degree must be an integer from 1 to 1000, got True"),
    ("degree=10**9", "degree must be an integer from 1 to 1000, got 1000000000"),
    ("coef0=inf", "coef0 must be a finite number, got inf"),
    ("coef0='0'", "coef0 must be a finite number, got '0'"),
    ("coef0=None", "coef0 must be a finite number, got None"),
    (
        "kernel='poly', gamma=1e300",
        "kernel='poly': kernel values must be finite numbers that float32 can hold",
    ),
    ("tol=0", "tol must be positive, got 0"),
    ("tol=-1", "tol must be positive, got -1"),
    ("tol=nan", "tol must be positive, got nan"),
    ("tol='1e-3'", "tol must be positive, got '1e-3'"),
    ("tol=True", "tol must be positive, got True"),
    ("tol=1.0", "tol must be below 1, got 1.0"),
    ("memory_limit=0", "memory_limit must be positive, got 0"),
    ("memory_limit='2GiB'", "memory_limit must be positive, got '2GiB'"),
    ("memory_limit=True", "memory_limit must be positive, got True"),
    ("memory_limit=1", "memory_limit must be at least 1,088 bytes for 4 classes, got 1"),
    ("n_jobs=0", "n_jobs must be None or an integer other than 0, got 0"),
    ("n_jobs='2'", "n_jobs must be None or an integer other than 0, got '2'"),
    ("n_jobs=1.5", "n_jobs must be None or an integer other than 0, got 1.5"),
    ("random_state=-1", "random_state must be an integer of at least 0, .* got -1"),
    ("random_state='a'", "random_state must be .* got 'a'"),
    ("random_state=1.5", "random_state must be .* got 1.5"),
    ("random_state=True", "random_state must be .* got True"),
    ("random_state=np.random.default_rng(0)", r"random_state must be .* got Generator\(PCG64\)"),
    ("kernel='RBF'", "kernel must be one of .* got 'RBF'"),
    ("kernel=None", "kernel must be one of .* got None"),
    ("coupling='Stratified'", "coupling must be one of .* got 'Stratified'. Did you mean 'stratified'?"),
    ("coupling=['vote']", r"coupling must be one of .* got \['vote'\]"),
    ("graph='starr'", "graph must be one of .* got 'starr'. Did you mean 'star'?"),
    ("graph={'family': None}", "graph must be one of .* got None"),
    ("graph={'family': ['star']}", r"graph must be one of .* got \['star'\]"),
    ("graph={'family': 'star', 3: 4}", "family 'star' has no parameter '3'"),
    ("graph={'family': 'star', 'n': 7}", "n of graph must be 4, the number of classes, got 7"),
    ("graph={'family': 'star', 'hubs': 2}", "family 'star' has no parameter 'hubs'"),
    ("graph={'family': 'star', 'centre': 4}", "centre must be .* at most n - 1 = 3, got 4"),
    ("graph={'family': 'hub_neighbours', 'hubs': 0}", "hubs must be at least 1 .* got 0"),
    ("graph={'family': 'hub_neighbours', 'hubs': []}", "number of hubs must be at least 1 .* got 0"),
    ("graph={'family': 'hub_neighbours', 'hubs': [9]}", "class of hubs must be .* got 9"),
    ("graph={'family': 'hub_neighbours', 'hubs': [1, 1]}", "hubs must be distinct .* got 1 more than once"),
    ("graph={'family': 'hub_neighbours', 'neighbours': -1}", "neighbours must be at least 0 .* got -1"),
    ("graph={'family': 'hub_neighbours', 'neighbours': 4}", "neighbours must be .* n - 1 = 3, got 4"),
    ("graph={'family': 'hub_neighbours', 'distances': 'a'}", "distances must be a matrix .* got 'a'"),
    ("graph={'family': 'bipartite'}", "hubs must be given for family 'bipartite', got none"),
    ("graph={'family': 'tree', 'parents': [-1, 0]}", "parents of family 'tree' must be for n = 4 .* got 2"),
    ("graph={'family': 'grown', 'edges': 2}", "edges must be at least 3 .* got 2"),
    ("graph={'family': 'grown', 'edges': 4, 'seed': -1}", "seed must be at least 0, got -1"),
    ("graph={'family': 'grown', 'edges': 4, 'cost': ['x']}", r"cost must be one of .* got \['x'\]"),
    ("graph={'family': 'grown', 'edges': 4, 'cost': 'dprime', 'matrix': 'a'}", "matrix must be .* got 'a'"),
    ("graph=nx.path_graph(3)", "every class must be a node, got a graph without 3"),
    ("graph=nx.path_graph(5)", "every node must be a class, got 4"),
    ("graph=nx.Graph([(0, 1), (1, 2), (2, 3), (2, 2)])", "must not join a class to itself, got 2"),
    ("graph=nx.Graph([(0, 1), (2, 3)])", "must be connected, got 2 components"),
    (
        "graph='dense', coupling='stratified'",
        "coupling must be 'auto' or one of 'bradley_terry', .* for machines on sets of classes, got 'stratified'",
    ),
    ("graph='star', coupling='linear'", "coupling must be .* for machines on pairs of classes, got 'linear'"),
    (
        "graph='dense', coupling='closed_form'",
        "coupling must be another than 'closed_form' unless .* a code of 3 machines on 4 classes",
    ),
    ("graph='dense', shortlist=3", "shortlist must be 'auto' or 'none' for machines on sets .* got 3"),
    (
        "graph='dense', coupling='zadrozny', coupled_calibration='edges'",
        "gradient, .* got coupling='zadrozny'",
    ),
    ("graph='dens'", "graph must be one of .* got 'dens'. Did you mean 'dense'?"),
    ("graph={'family': 'dense', 'columns': 9}", "family 'dense' has no parameter 'columns', it has 'seed'"),
    ("graph=np.eye(3)", "code must have one row for each of 4 classes, got 3 rows"),
    ("graph=np.eye(4)", "every column of code must have a class at -1, got none in column 0, 1"),
    ("graph=np.array([[1], [1], [-1], [-1]])", "the rows of classes 2 and 3 are equal"),
    ("graph=np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])", r"connect all classes, got 2 parts .*\(0, 1\)"),
    ("graph=graphs.code_graph(graphs.dense_code(5))", "code must have one row for each of 4 classes, got 5"),
    (
        "graph='dense', learn='coupled'",
        "learn='coupled' needs machines on pairs of classes, .* graph='dense'",
    ),
    ("machine_weight='count'", "machine_weight must be one of .* got 'count'. Did you mean 'counts'?"),
    ("machine_weight='counts'", "coupling must be one of 'normal', 'bradley_terry', .* got 'stratified'"),
    (
        "graph='dense', coupling='linear', machine_weight='counts'",
        "coupling must be one of 'bradley_terry', 'zadrozny', .* got 'linear'",
    ),
    (
        "coupling='bradley_terry', machine_weight='counts', coupled_calibration='edges'",
        "coupled_calibration='edges' with machine_weight='counts' is for machines on sets of classes only",
    ),
]


@pytest.mark.parametrize(("parameters", "message"), PARAMETERS, ids=[row[0] for row in PARAMETERS])
def test_a_parameter_that_a_fit_cannot_use_is_named(parameters, message, models, here):
    assert_refused(f"model.set_params({parameters}).fit(X, y)", ValueError, message, models, here)


OF_ANOTHER_TYPE = [
    ("estimator='SVC'", "estimator must be a classifier .* got 'SVC'"),
    ("estimator=LinearRegression()", r"estimator must be a classifier .* got LinearRegression\(\)"),
    ("graph=None", "graph must be a family's name, .* got None"),
    ("graph=[(0, 1)]", r"graph must be a family's name, .* got \[\(0, 1\)\]"),
    ("graph={'hubs': 3}", r"graph must be .* a mapping with the key 'family' .* got \{'hubs': 3\}"),
    ("graph={'family': 'hub_neighbours', 'hubs': '3'}", "hubs must be an integer, got '3'"),
    ("graph={'family': 'hub_neighbours', 'hubs': 2.0}", "hubs must be an integer, got 2.0"),
    ("graph={'family': 'hub_neighbours', 'hubs': True}", "hubs must be an integer, got True"),
    ("graph={'family': 'star', 'centre': 'a'}", "centre must be an integer, got 'a'"),
    ("graph={'family': 'tree', 'parents': 3}", "parents must be a list of classes, got 3"),
    ("graph=nx.DiGraph([(0, 1), (1, 2), (2, 3)])", "must be an undirected networkx.Graph, got DiGraph"),
    ("graph=nx.MultiGraph([(0, 1), (1, 2), (2, 3)])", "must be an undirected .* got MultiGraph"),
]


@pytest.mark.parametrize(("parameters", "message"), OF_ANOTHER_TYPE, ids=[row[0] for row in OF_ANOTHER_TYPE])
def test_a_parameter_of_another_type_is_named(parameters, message, models, here):
    assert_refused(f"model.set_params({parameters}).fit(X, y)", TypeError, message, models, here)


SAMPLES = [
    ("model.fit(X, y * 0)", ValueError, "y must hold at least 2 classes, got one class: 0"),
    ("model.fit(X[:, :2], y * 0)", ValueError, "y must hold at least 2 classes, got one class: 0"),
    ("model.fit(table, y * 0)", ValueError, "y must hold at least 2 classes, got one class: 0"),
    ("named.fit(X, y * 0)", ValueError, "y must hold at least 2 classes, got one class: 0"),
    ("model.fit(X[:0], y[:0])", ValueError, r"X must be a matrix .* 0 sample\(s\) \(shape=\(0, 3\)\)"),
    ("model.fit(X[:, :0], y)", ValueError, r"X must be a matrix .* 0 feature\(s\) \(shape=\(48, 0\)\)"),
    ("model.fit(X, y[:-1])", ValueError, r"y a label for each row.* \[48, 47\]"),
    ("model.fit(X, None)", ValueError, "y a label for each row.* y is None"),
    ("model.fit(X, 3)", ValueError, r"y a label for each row.* shape \(\)"),
    ("model.fit(X, np.where(y, y, nan))", ValueError, "y a label .* contains NaN"),
    ("model.fit(X, np.where(y, y, inf))", ValueError, "y a label .* contains infinity"),
    ("model.fit(X, np.where(y, dates, np.datetime64('NaT')))", ValueError, "y a label .* contains NaT"),
    ("model.fit(X, np.eye(4)[y])", ValueError, r"y a label .* shape \(48, 4\)"),
    ("model.fit(X, y + 0.5)", ValueError, "y a label .* Unknown label type: continuous"),
    ("model.fit(X, y * 1j)", ValueError, "y a label .* Complex data not supported"),
    ("model.fit(X, np.array([0, 'a', 1, 'b'], object)[y])", ValueError, "y a label .* Unknown label type"),
    ("model.fit(X, np.array(['a', None, 'b', 'c'], object)[y])", TypeError, "y a label .* 'NoneType'"),
    ("model.fit(X, words.astype('S'))", TypeError, "y a label .* bytes is not supported"),
    ("model.fit(X, sparse.csr_matrix(y))", TypeError, "y a label .* Sparse data was passed for y"),
    ("model.fit(X[:, 0], y)", ValueError, "X must be a matrix .* got 1D array"),
    ("model.fit(X[None], y)", ValueError, "X must be a matrix .* dim 3"),
    ("model.fit(None, y)", ValueError, "X must be a matrix .* got scalar array"),
    ("model.fit({}, y)", TypeError, "X must be a matrix .* not 'dict'"),
    ("model.fit([[1], [1, 2]] * 24, y)", ValueError, "X must be a matrix .* inhomogeneous"),
    ("model.fit(X * 1j, y)", ValueError, "X must be a matrix .* Complex data not supported"),
    ("model.fit(words[:, None], y)", ValueError, "X must be a matrix .*'a'"),
    ("model.fit(with_entry(X, (3, 1), nan), y)", ValueError, "X must be a matrix .* X contains NaN"),
    ("model.fit(with_entry(X, (3, 1), inf), y)", ValueError, "X must be a matrix .* X contains infinity"),
    ("model.fit(sparse.csr_matrix(with_entry(X, (3, 1), nan)), y)", ValueError, "X contains NaN"),
    ("model.set_params(kernel='precomputed').fit(X, y)", ValueError, r"X must be a square .* got \(48, 3\)"),
    (
        "model.set_params(kernel='precomputed').fit(sparse.csr_matrix(X @ X.T), y)",
        TypeError,
        "X must be a matrix .* Sparse data was passed for X",
    ),
    ("model.fit(X, y, np.ones(3))", ValueError, r"sample_weight must be .* \(3,\), expected \(48,\)"),
    ("model.fit(X, y, -np.ones(48))", ValueError, "sample_weight must be .* Negative values"),
    ("model.fit(X, y, np.zeros(48))", ValueError, "sample_weight must be .* at least one"),
    ("model.fit(X, y, np.full(48, nan))", ValueError, "sample_weight must be .* contains NaN"),
    ("model.fit(X, y, np.full(48, inf))", ValueError, "sample_weight must be .* contains infinity"),
    ("model.fit(X, y, ['a'] * 48)", ValueError, "sample_weight must be .* 'a'"),
    ("model.fit(X, y, np.ones((48, 1)))", ValueError, "sample_weight must be .* got 2D array"),
    ("model.fit(X, y, (y == 2) * 1.0)", ValueError, "y must hold at least 2 classes, got one class: 2"),
    (
        "model.set_params(estimator=LogisticRegression()).fit(X, y, np.ones(48))",
        ValueError,
        r"sample_weight and class_weight are for .* estimator=LogisticRegression\(\)",
    ),
    ("model.predict_proba(X[:, :2])", ValueError, "X has 2 features, but PairwiseSVC is expecting 3"),
    ("model.predict_proba(X[0])", ValueError, "Expected 2D array, got 1D array"),
    ("model.predict_proba(X[:0])", ValueError, r"0 sample\(s\) \(shape=\(0, 3\)\)"),
    ("model.predict_proba(X * nan)", ValueError, "X contains NaN"),
    ("model.predict_proba(X * 1j)", ValueError, "Complex data not supported"),
    ("model.predict_proba(words[:, None])", ValueError, "could not convert string to float"),
    ("model.predict_proba(X * 1e100)", ValueError, "X must have features of the size .* row 0"),
    ("named.predict_proba(table[['w', 'v', 'u']])", ValueError, "must be in the same order"),
    ("named.predict(table.rename(columns={'u': 'q'}))", ValueError, "unseen at fit time:\n- q"),
    ("model.set_params(coupling='x').predict(X)", ValueError, "coupling must be one of .* got 'x'"),
    ("model.set_params(priors=[1]).predict(X)", ValueError, r"priors must be 4 .* got \[1\]"),
    ("model.set_params(n_jobs=0).predict(X)", ValueError, "n_jobs must be .* got 0"),
    ("model.set_params(memory_limit='a').predict(X)", ValueError, "memory_limit must be positive, got 'a'"),
    ("model.set_params(memory_limit=nan).predict(X)", ValueError, "memory_limit must be positive, got nan"),
    ("model.set_params(memory_limit=None).predict(X)", ValueError, "memory_limit must be positive, got None"),
    (
        "model.set_params(memory_limit=5).predict(X)",
        ValueError,
        "memory_limit must be at least 1,088 .* got 5",
    ),
]

CHANGES = [
    (
        "model.add_class(9, X_new[:, :1], X, y)",
        ValueError,
        r"add_class: X_new must be \(n, 3\).* got \(6, 1\)",
    ),
    ("model.add_class(9, X_new[0], X, y)", ValueError, "add_class: X_new must be a matrix .* got 1D array"),
    ("model.add_class(9, X_new[None], X, y)", ValueError, "add_class: X_new must be a matrix .* dim 3"),
    ("model.add_class(9, X_new * 1j, X, y)", ValueError, "add_class: X_new must be a matrix .* Complex data"),
    ("model.add_class(9, words[:6, None], X, y)", ValueError, "add_class: X_new must be a matrix .*'a'"),
    ("model.add_class(9, X_new * nan, X, y)", ValueError, "add_class: X_new .* contains NaN"),
    ("model.add_class(9, X_new * inf, X, y)", ValueError, "add_class: X_new .* contains infinity"),
    ("model.add_class(9, X_new[:0], X, y)", ValueError, r"add_class: X_new .* 0 sample\(s\)"),
    ("model.add_class(9, None, X, y)", ValueError, "add_class: X_new must be a matrix"),
    ("model.add_class(9, {}, X, y)", TypeError, "add_class: X_new must be a matrix .* not 'dict'"),
    ("model.add_class(9, X_new * 1e30, X, y)", ValueError, r"X_new must have features .* up to \S+e\+3"),
    ("named.add_class(9, table[:6].rename(columns={'u': 'q'}), table, y)", ValueError, "X_new must .*- q"),
    ("named.add_class(9, table[:6][['w', 'v', 'u']], table, y)", ValueError, "X_new must .* same order"),
    (
        "named.add_class(9, table[:6], table[['w', 'v', 'u']], y)",
        ValueError,
        "add_class: X must hold the samples",
    ),
    ("model.add_class(9, X_new, X[::-1], y[::-1])", ValueError, "X must hold the samples .* same order"),
    ("model.add_class(9, X_new, X[:-1], y[:-1])", ValueError, "X must hold the samples .* got others of 0"),
    ("model.add_class(9, X_new, X, y[:-1])", ValueError, r"add_class: y must be \(48,\), .* got \(47,\)"),
    ("model.add_class(9, X_new, X, None)", ValueError, r"add_class: y must be \(48,\), .* got \(\)"),
    (
        "model.add_class(9, X_new, X, words)",
        ValueError,
        "X must hold the samples .* got others of 0, 1, 2, 3",
    ),
    ("model.add_class(9, X_new, X, np.where(y, y, nan))", ValueError, "X must hold .* got others of 0"),
    ("model.add_class(None, X_new, X, y)", TypeError, "label must be of the type .* got None"),
    ("model.add_class(nan, X_new, X, y)", TypeError, "label must be of the type .* got nan"),
    ("model.add_class([9], X_new, X, y)", TypeError, r"label must be of the type .* got \[9\]"),
    ("model.add_class({}, X_new, X, y)", TypeError, r"label must be of the type .* got \{\}"),
    ("model.add_class('a', X_new, X, y)", TypeError, "label must be of the type .* got 'a' of type str"),
    ("model.add_class(9.0, X_new, X, y)", TypeError, "label must be of the type .* got 9.0 of type float"),
    ("model.add_class(np.float64(9), X_new, X, y)", TypeError, "label must be .* got 9.0 of type float64"),
    ("model.add_class(True, X_new, X, y)", TypeError, "label must be of the type .* got True of type bool"),
    (
        "model.add_class(2**70, X_new, X, y)",
        TypeError,
        "label must be of the type .* got 1180591620717411303424",
    ),
    (
        "model.add_class(np.uint64(2**64 - 1), X_new, X, y)",
        TypeError,
        "label must be .* got 18446744073709551615",
    ),
    ("model.add_class(2, X_new, X, y)", ValueError, "label must be new, got 2"),
    ("model.add_class(np.int64(2), X_new, X, y)", ValueError, "label must be new, got 2"),
    (
        "spoken.add_class(9, X_new, X, words)",
        TypeError,
        "label must be of the type .* 'a', got 9 of type int",
    ),
    ("spoken.add_class(b'z', X_new, X, words)", TypeError, "label must be of the type .* got b'z'"),
    ("spoken.add_class('a', X_new, X, words)", ValueError, "label must be new, got 'a'"),
    (r"spoken.add_class('a\0', X_new, X, words)", TypeError, r"label must be of the type .* got 'a\\x00'"),
    ("real.add_class(nan, X_new, X, y)", TypeError, "label must be of the type .* got nan"),
    ("real.add_class(1, X_new, X, y)", ValueError, "label must be new, got 1"),
    (
        "dated.add_class(np.datetime64('NaT'), X_new, X, dates)",
        TypeError,
        "label must be of the type .* got None",
    ),
    ("dated.add_class(9, X_new, X, dates)", TypeError, "label must be of the type .* got 9 of type int"),
    ("model.add_class(9, X_new, X, y, neighbours=-1)", ValueError, "neighbours must be at least 0, got -1"),
    ("model.add_class(9, X_new, X, y, neighbours='2')", TypeError, "neighbours must be an integer, got '2'"),
    ("model.add_class(9, X_new, X, y, neighbours=1.5)", TypeError, "neighbours must be an integer, got 1.5"),
    (
        "model.add_class(9, X_new, X, y, neighbours=True)",
        TypeError,
        "neighbours must be an integer, got True",
    ),
    ("path.add_class(9, X_new, X, y, neighbours=0)", ValueError, "neighbours must be at least 1, got 0"),
    ("model.set_params(n_jobs='2').add_class(9, X_new, X, y)", ValueError, "n_jobs must be .* got '2'"),
    (
        "curved.add_class(9, X_new, X, y)",
        ValueError,
        "add_class: linear machines are needed, got .* another kernel",
    ),
    ("weighted.add_class(9, X_new, X, y)", ValueError, "add_class: sample_weight is not stored"),
    ("model.remove_class(9)", ValueError, "label must be one of 0, 1, 2, 3, got 9"),
    ("model.remove_class('0')", ValueError, "label must be one of .* got '0'. Did you mean 0?"),
    ("model.remove_class(True)", ValueError, "label must be one of .* got True"),
    ("model.remove_class(0.0)", ValueError, "label must be one of .* got 0.0"),
    ("model.remove_class(None)", ValueError, "label must be one of .* got None"),
    ("model.remove_class(nan)", ValueError, "label must be one of .* got nan"),
    ("model.remove_class([0])", ValueError, r"label must be one of .* got \[0\]"),
    ("model.remove_class([0, 1, 2])", ValueError, r"label must be one of .* got \[0, 1, 2\]"),
    ("spoken.remove_class('A')", ValueError, "label must be one of 'a', 'b', 'c', 'd', got 'A'"),
    ("star.remove_class(0)", ValueError, "label must leave the graph connected, got 0: .* 3 components"),
    ("curved.remove_class(0)", ValueError, "remove_class: linear machines are needed"),
    ("model.retrain_pairs([], X, y)", ValueError, "pairs must hold at least one pair of labels, got none"),
    ("model.retrain_pairs(None, X, y)", TypeError, "pairs must be a list of pairs of labels, got None"),
    ("model.retrain_pairs('ab', X, y)", TypeError, "pairs must be a list of pairs of labels, got 'ab'"),
    ("model.retrain_pairs((0, 1), X, y)", ValueError, "pairs must be pairs of two labels, got 0 among them"),
    (
        "model.retrain_pairs([(0, 1, 2)], X, y)",
        ValueError,
        r"pairs of two labels, got \(0, 1, 2\) among them",
    ),
    ("model.retrain_pairs(['ab'], X, y)", ValueError, "pairs of two labels, got 'ab' among them"),
    ("model.retrain_pairs([(0, 1), None], X, y)", ValueError, "pairs of two labels, got None among them"),
    ("model.retrain_pairs([(1, 1)], X, y)", ValueError, r"pairs must be edges of the graph, got \(1, 1\)"),
    ("star.retrain_pairs([(1, 2)], X, y)", ValueError, r"pairs must be edges of the graph, got \(1, 2\)"),
    ("model.retrain_pairs([(0, 9)], X, y)", ValueError, "label must be one of 0, 1, 2, 3, got 9"),
    ("model.retrain_pairs([(True, 2)], X, y)", ValueError, "label must be one of 0, 1, 2, 3, got True"),
    (
        "model.retrain_pairs([(0, 1)], X[:, :2], y)",
        ValueError,
        r"retrain_pairs: X must be \(n, 3\), .* \(48, 2\)",
    ),
    (
        "model.retrain_pairs([(0, 1)], X, y[:3])",
        ValueError,
        r"retrain_pairs: y must be \(48,\), .* got \(3,\)",
    ),
    (
        "model.retrain_pairs([(0, 1)], X, y, C='scale')",
        ValueError,
        "C must be a positive number, got 'scale'",
    ),
    ("model.retrain_pairs([(0, 1)], X, y, C=inf)", ValueError, "C must be a positive number, got inf"),
    ("model.retrain_pairs([(0, 1)], X, y, C=nan)", ValueError, "C must be a positive number, got nan"),
    ("model.retrain_pairs([(0, 1)], X, y, C=-1)", ValueError, "C must be a positive number, got -1"),
    ("model.retrain_pairs([(0, 1)], X, y, C=True)", ValueError, "C must be a positive number, got True"),
    ("model.retrain_pairs([(0, 1)], X, y, C=[1.0])", ValueError, r"C must be a positive number, got \[1.0\]"),
    (
        "model.retrain_pairs([(0, 1)], X, y, C=1e308)",
        ValueError,
        r"C must be a number that fits .* got 1e\+308",
    ),
    ("model.retrain_pairs([(0, 1)], X, y, tol=0)", ValueError, "tol must be a positive number, got 0"),
    ("model.retrain_pairs([(0, 1)], X, y, tol=-1)", ValueError, "tol must be a positive number, got -1"),
    ("model.retrain_pairs([(0, 1)], X, y, tol=5)", ValueError, "tol must be below 1, got 5"),
    ("curved.retrain_pairs([(0, 1)], X, y)", ValueError, "retrain_pairs: linear machines are needed"),
    ("list(star.grow(X, y, wave=0))", ValueError, "wave must be a positive integer, or None, got 0"),
    ("list(star.grow(X, y, wave=True))", ValueError, "wave must be a positive integer, or None, got True"),
    ("list(star.grow(X, y, wave=1.5))", ValueError, "wave must be a positive integer, or None, got 1.5"),
    ("list(star.grow(X, y, share=0))", ValueError, "share must be above 0 and at most 1, or None, got 0"),
    ("list(star.grow(X, y, share=nan))", ValueError, "share must be above 0 and at most 1, or None, got nan"),
    ("list(star.grow(X, y, pairs=-1))", ValueError, "pairs must be a positive integer, or None, got -1"),
    ("list(star.grow(X, y, pairs=1.5))", ValueError, "pairs must be a positive integer, or None, got 1.5"),
    ("list(star.grow(X, y, seconds=-1))", ValueError, "seconds must be a positive number, or None, got -1"),
    ("list(star.grow(X, y, plateau=2))", ValueError, "plateau must be from 0 to below 1, or 'never', got 2"),
    ("list(star.grow(X, y, plateau=None))", ValueError, "plateau must be from 0 to below 1, .* got None"),
    (
        "list(star.grow(X, y, plateau='Never'))",
        ValueError,
        "plateau must be from 0 to below 1, .* got 'Never'",
    ),
    ("list(star.grow(X, y, cost='x'))", ValueError, "cost must be one of .* got 'x'"),
    ("list(star.grow(X, y, cost=None))", ValueError, "cost must be one of .* got None"),
    ("list(star.grow(X, y, cost=['confusion']))", ValueError, r"cost must be one of .* got \['confusion'\]"),
    ("list(star.grow(X, y, cost=np.array(['a', 'b'])))", ValueError, r"cost must be one of .* got array\("),
    (
        "list(star.grow(X, y, cost=lambda a, b: nan))",
        ValueError,
        r"cost must be a number .* cost\(1, 2\) = nan",
    ),
    (
        "list(star.grow(X, y, cost=lambda a, b: 'x'))",
        ValueError,
        r"cost must be a number .* cost\(1, 2\) = 'x'",
    ),
    ("list(star.grow(X, y, cost=lambda a, b: None))", ValueError, "cost must be a number .* = None"),
    ("list(star.grow(X, y, cost=lambda a, b: [1]))", ValueError, r"cost must be a number .* = \[1\]"),
    ("list(star.grow(X, y, cost=failing))", LookupError, "no cost is known"),
    ("list(star.grow(X, y[:-1]))", ValueError, r"grow: y must be \(48,\), .* got \(47,\)"),
    ("list(star.grow(X[::-1], y[::-1]))", ValueError, "grow: X must hold the samples"),
    ("list(star.set_params(n_jobs=0).grow(X, y))", ValueError, "n_jobs must be .* got 0"),
    ("list(path.grow(X, y))", ValueError, "graph must have diameter at most 2 .* 0 and 3 are further apart"),
    ("list(edged.grow(X, y))", ValueError, "coupled_calibration must be 'scale' or 'none', got 'edges'"),
    ("list(curved.grow(X, y))", ValueError, "grow: linear machines are needed"),
    ("model.pairs_[0]", KeyError, "0"),
    ("model.pairs_[0, 1, 2]", KeyError, r"\(0, 1, 2\)"),
    ("model.pairs_[0, 9]", KeyError, r"\(0, 9\)"),
    ("curved.pairs_", AttributeError, "pairs_ is for linear machines"),
    ("PairwiseSVC().predict(X)", NotFittedError, "PairwiseSVC instance is not fitted"),
    ("PairwiseSVC().add_class(9, X_new, X, y)", NotFittedError, "PairwiseSVC instance is not fitted"),
    ("PairwiseSVC().save('x')", NotFittedError, "PairwiseSVC instance is not fitted"),
]


@pytest.mark.parametrize(
    ("row", "error", "message"), SAMPLES + CHANGES, ids=[r[0] for r in SAMPLES + CHANGES]
)
def test_a_call_that_cannot_be_done_changes_nothing(row, error, message, models, here):
    assert_refused(row, error, message, models, here)


def test_the_last_two_classes_stay(models):
    model = copy.copy(models["model"]).remove_class(0).remove_class(1)
    before = model.model_
    with pytest.raises(ValueError, match="at least 2 classes must remain, got 3 of 2"):
        model.remove_class(3)
    assert model.model_ is before


FOLDERS = [
    ("model.save(folder / 'saved')", FileExistsError, "saved exists already; overwrite=True replaces"),
    ("model.save(folder / 'file')", FileExistsError, "file exists already"),
    (
        "model.save(folder / 'file', overwrite=True)",
        FileExistsError,
        "a saved model and nothing else, got .*file",
    ),
    ("model.save(folder / 'empty', overwrite=True)", FileExistsError, "nothing else, got .*empty"),
    ("model.save(folder / 'unlisted', overwrite=True)", FileExistsError, "nothing else, got .*unlisted"),
    ("model.save(folder / 'file' / 'x')", NotADirectoryError, "path must be in a folder .* got .*file/x"),
    ("model.save('/proc/nowhere/model')", OSError, "path must be in a folder .* got /proc/nowhere/model"),
    ("model.save('')", ValueError, "save: path must be the path of a folder, got ''"),
    (r"model.save(folder / 'a\0b')", ValueError, r"save: path must be the path of a folder, got .*a\\x00b"),
    ("model.save(None)", TypeError, "save: path must be a str or a Path, got None"),
    ("model.save(3)", TypeError, "save: path must be a str or a Path, got 3"),
    ("foreign.save(folder / 'x')", ValueError, r"cannot be saved without pickle, got estimator=SVC\(\)"),
    (
        "model.set_params(random_state=np.random.RandomState(0)).save(folder / 'a' / 'b')",
        ValueError,
        r"save: random_state: values of type RandomState cannot be saved, got RandomState\(MT19937\)",
    ),
    (
        "model.set_params(priors=pd.Series([1] * 4)).save(folder / 'x')",
        ValueError,
        "save: priors: .* type Series",
    ),
    ("model.set_params(graph={'hubs': {1}}).save(folder / 'x')", ValueError, r"save: graph: .* got \{1\}"),
    (
        "PairwiseSVC(**SMALL).fit(X, y.astype(np.longdouble)).save(folder / 'a' / 'b')",
        ValueError,
        "save: labels must be strings, .* got dtype float128",
    ),
    ("PairwiseSVC.load(folder / 'missing')", FileNotFoundError, "missing is not a saved model: it has no"),
    (
        "PairwiseSVC.load(folder / 'empty')",
        FileNotFoundError,
        "empty is not a saved model: it has no model.json",
    ),
    ("PairwiseSVC.load(folder / 'file')", ValueError, "load: .*file/model.json cannot be read"),
    (
        "PairwiseSVC.load(folder / 'text')",
        ValueError,
        "load: .*text/model.json cannot be read: Expecting value",
    ),
    (
        "PairwiseSVC.load(folder / 'deep')",
        ValueError,
        "load: .*deep/model.json cannot be read: maximum recursion",
    ),
    (
        "PairwiseSVC.load(folder / 'other')",
        ValueError,
        "other must be a pairloom-model of version 4, got 'x'",
    ),
    ("PairwiseSVC.load(folder / 'list')", ValueError, "list must be a pairloom-model of version 4, got None"),
    ("PairwiseSVC.load(folder / 'unsealed')", ValueError, "load: .*unsealed/model.json is damaged"),
    ("PairwiseSVC.load(folder / 'unlisted')", ValueError, "unlisted is not a whole model: KeyError"),
    ("PairwiseSVC.load(folder / 'cut')", ValueError, "cut is not a whole model: it has no arrays.zarr"),
    ("PairwiseSVC.load(run)", ValueError, "is a run directory, not a saved model: use PairwiseSVC.from_run"),
    ("PairwiseSVC.load(None)", TypeError, "load: path must be a str or a Path, got None"),
    ("PairwiseSVC.from_run(folder / 'missing')", FileNotFoundError, "missing is not a run directory"),
    ("PairwiseSVC.from_run(folder / 'file')", FileNotFoundError, "file is not a run directory"),
    ("PairwiseSVC.from_run(folder / 'saved')", FileNotFoundError, "saved is not a run directory"),
    ("PairwiseSVC.from_run(None)", TypeError, "directory must be a str or a Path, got None"),
    ("PairwiseSVC.from_run('')", ValueError, "directory must be the path of a folder, got ''"),
    ("PairwiseSVC.from_run(run, coupling='x')", ValueError, "coupling must be one of stratified, .* got 'x'"),
    ("PairwiseSVC.from_run(run, coupling=3)", ValueError, "coupling must be one of stratified, .* got 3"),
]
MADE = {
    "other": b'{"format": "x"}',
    "text": b"hello",
    "list": b"[1]",
    "deep": b"[" * 100_000,
    "unsealed": b'{"format": "pairloom-model", "format_version": 4}',
    "unlisted": sealed({"format": "pairloom-model", "format_version": 4}),
}


@pytest.fixture(scope="module")
def folder(models, tmp_path_factory):
    """Things that are no model, and one that is. No row changes it."""
    made = tmp_path_factory.mktemp("folder")
    for name, content in MADE.items():
        (made / name).mkdir()
        (made / name / "model.json").write_bytes(content)
    (made / "empty").mkdir()
    (made / "file").write_text("theirs")
    models["model"].save(made / "saved")
    models["model"].save(made / "cut")
    (made / "cut" / "arrays.zarr" / "slope" / "zarr.json").unlink()
    return made


@pytest.mark.parametrize(("row", "error", "message"), FOLDERS, ids=[row[0] for row in FOLDERS])
def test_a_folder_that_cannot_be_used_stays_as_it_was(row, error, message, models, here):
    folder = here["folder"]
    before, run = snapshot(folder), snapshot(here["run"])
    assert_refused(row, error, message, models, here)
    assert snapshot(folder) == before
    assert snapshot(here["run"]) == run


FUNCTIONS = [
    ("couple(L[:, :, 0])", ValueError, r"couple: logits must be \(N, N, R\) .* got shape \(3, 3\)"),
    ("couple(L[:2])", ValueError, r"couple: logits must be \(N, N, R\) .* got shape \(2, 3, 2\)"),
    ("couple(None)", ValueError, r"couple: logits must be \(N, N, R\) .* got shape \(\)"),
    ("couple([[1], [1, 2]])", ValueError, r"couple: logits must be \(N, N, R\) numbers: .* inhomogeneous"),
    ("couple(with_entry(L, (0, 1, 0), nan))", ValueError, r"logits must be finite, got L\[0, 1, 0\] = nan"),
    ("couple(with_entry(L, (0, 1, 0), inf))", ValueError, r"logits must be finite, got L\[0, 1, 0\] = inf"),
    ("couple(with_entry(L, (0, 1, 1), 9))", ValueError, r"logits must be antisymmetric .* L\[0, 1, 1\] = 9"),
    ("couple(with_entry(L, (1, 1, 0), 1))", ValueError, r"logits must be antisymmetric .* L\[1, 1, 0\] = 1"),
    ("couple(L * 1j)", TypeError, "couple: logits must be real numbers, got dtype complex128"),
    ("couple(L.astype(str))", TypeError, "couple: logits must be real numbers, got dtype <U"),
    ("couple(L.astype(object))", TypeError, "couple: logits must be real numbers, got dtype object"),
    ("couple(L, 'x')", ValueError, "method must be one of .* got 'x'"),
    ("couple(L, None)", ValueError, "method must be one of .* got None"),
    ("couple(L, weights=distances)", ValueError, "weights must be None unless .* method 'stratified'"),
    ("couple(L, 'normal', np.ones((2, 2)))", ValueError, r"weights must have shape \(3, 3\), got \(2, 2\)"),
    (
        "couple(L, 'normal', -np.ones((3, 3)))",
        ValueError,
        r"weights must be positive, .* weights\[0, 1\] = -1",
    ),
    ("couple(L, 'normal', np.full((3, 3), nan))", ValueError, r"weights must be .* weights\[0, 1\] = nan"),
    ("couple(L, 'normal', np.ones((3, 3)) * 1j)", ValueError, r"weights must be real numbers, got array\("),
    ("couple(L, 'normal', 'abc')", ValueError, "weights must be real numbers, got 'abc'"),
    (
        "couple(L, 'normal', [[1], [1, 2]])",
        ValueError,
        r"weights must be real numbers, got \[\[1\], \[1, 2\]\]",
    ),
    ("couple(L, tol=-1)", ValueError, "tol must be a number of at least 0, got -1"),
    ("couple(L, tol=nan)", ValueError, "tol must be a number of at least 0, got nan"),
    ("couple(L, tol=True)", ValueError, "tol must be a number of at least 0, got True"),
    ("couple(L, tol='a')", ValueError, "tol must be a number of at least 0, got 'a'"),
    ("couple(L, n_jobs=0)", ValueError, "couple: n_jobs must be .* got 0"),
    ("couple(L, start=np.ones((3, 3)))", ValueError, r"start must be \(2, 3\) probabilities, .* \(3, 3\)"),
    ("couple(L, start=-np.ones((2, 3)))", ValueError, r"start must be probabilities, got start\[0, 0\] = -1"),
    ("couple(L, start=np.full((2, 3), inf))", ValueError, r"start must be .* got start\[0, 0\] = inf"),
    ("couple(L, start=np.ones((2, 3)) * 1j)", ValueError, r"start must be real numbers, got array\("),
    ("couple(L, start='abc')", ValueError, "start must be real numbers, got 'abc'"),
    ("complete_logits(L[0], graphs.star(3))", ValueError, r"complete_logits: logits must be .* \(3, 2\)"),
    ("complete_logits(L * 1j, graphs.star(3))", TypeError, "complete_logits: logits must be real numbers"),
    ("complete_logits([[1], [1, 2]], graphs.star(3))", ValueError, "complete_logits: logits must be"),
    (
        "complete_logits(with_entry(L, (0, 1, 0), nan), graphs.star(3))",
        ValueError,
        r"complete_logits: logits of trained pairs must be finite .* L\[0, 1, 0\] = nan",
    ),
    ("complete_logits(L, 'star')", TypeError, "must be an undirected networkx.Graph, got str"),
    ("complete_logits(L, nx.path_graph(4))", ValueError, r"nodes must be the classes 0..2, got also 3"),
    ("complete_logits(L, nx.path_graph(2))", ValueError, r"nodes must be .* got a graph without 2"),
    ("complete_logits(L, nx.DiGraph([(0, 1), (1, 2)]))", TypeError, "must be an undirected .* got DiGraph"),
    ("graphs.edge_array(None)", TypeError, "edge_array: must be an undirected .* got NoneType"),
    (
        "graphs.edge_array(nx.DiGraph([(0, 1)]))",
        TypeError,
        "edge_array: must be an undirected .* got DiGraph",
    ),
    ("graphs.edge_array(nx.MultiGraph([(0, 1)]))", TypeError, "edge_array: .* got MultiGraph"),
    ("graphs.edge_array(nx.Graph([(0, 1), (1, 1)]))", ValueError, "edge_array: must not join .* got 1"),
    ("graphs.star(0)", ValueError, "star: n must be at least 1, got 0"),
    ("graphs.star(True)", TypeError, "star: n must be an integer, got True"),
    ("graphs.star(3, 'a')", TypeError, "star: centre must be an integer, got 'a'"),
    ("graphs.star(3, -1)", ValueError, "star: centre must be at least 0 .* got -1"),
    ("graphs.path(1.5)", TypeError, "path: n must be an integer, got 1.5"),
    ("graphs.complete(None)", TypeError, "complete: n must be an integer, got None"),
    ("graphs.tree(3)", TypeError, "tree: parents must be a list of classes, got 3"),
    ("graphs.tree({0: -1})", TypeError, r"tree: parents must be a list of classes, got \{0: -1\}"),
    (
        "graphs.tree([0, 0])",
        ValueError,
        "tree: parents must have -1 for exactly one class, the root, got none",
    ),
    ("graphs.tree([-1, 0.0])", TypeError, r"tree: parents\[1\] must be an integer, got 0.0"),
    ("graphs.tree([-1, 2, 1])", ValueError, "tree: following parents .* got a cycle from 1, 2"),
    ("graphs.bipartite(3, True)", TypeError, "bipartite: hubs must be an integer, got True"),
    ("graphs.bipartite(3, 3)", ValueError, "bipartite: hubs must be .* n - 1 = 2, got 3"),
    ("graphs.spanning_tree('abc')", ValueError, "spanning_tree: distances must be a matrix .* got 'abc'"),
    ("graphs.spanning_tree({})", ValueError, r"spanning_tree: distances must be a matrix .* got \{\}"),
    ("graphs.spanning_tree(distances * 1j)", ValueError, r"spanning_tree: distances must be .* got array\("),
    ("graphs.spanning_tree(distances[:2])", ValueError, r"distances must be a square matrix .* \(2, 3\)"),
    ("graphs.spanning_tree(distances + 1)", ValueError, r"distances must be zero .* distances\[0, 0\] = 1"),
    (
        "graphs.spanning_tree(np.triu(distances))",
        ValueError,
        r"distances must be symmetric, .*\[0, 1\] = 1.0",
    ),
    ("graphs.hub_neighbours(distances * nan)", ValueError, r"distances must be finite, .*\[0, 0\] = nan"),
    ("graphs.hub_neighbours(-distances)", ValueError, r"distances must be non-negative, .*\[0, 1\] = -1"),
    ("graphs.hub_neighbours(distances, 1, True)", TypeError, "neighbours must be an integer, got True"),
    ("graphs.grown(4, 7)", ValueError, r"grown: edges must be .* got 7"),
    ("graphs.grown(4, 4, np.array(['a', 'b']))", ValueError, "grown: cost must be one of .* got"),
    ("graphs.grown(4, 4, 'dprime')", ValueError, "matrix must be given for the cost 'dprime', got None"),
    (
        "graphs.grown(4, 4, 'dprime', matrix=[[0, 1], [1]])",
        ValueError,
        r"matrix must be .* got \[\[0, 1\], \[1\]\]",
    ),
    ("graphs.grown(4, 4, matrix=distances)", ValueError, "matrix must be None for the cost 'uniform'"),
    (
        "graphs.grow(graphs.star(4), lambda i, j: 'a')",
        ValueError,
        r"cost must be a number .* cost\(1, 2\) = 'a'",
    ),
    (
        "graphs.grow(graphs.star(4), lambda i, j: [1])",
        ValueError,
        r"cost must be a number .* cost\(1, 2\) = \[1\]",
    ),
    ("graphs.grow('star')", TypeError, "must be an undirected networkx.Graph, got str"),
    ("graphs.build(['star'], 3)", ValueError, r"build: family must be one of .* got \['star'\]"),
    ("graphs.build('star', None)", TypeError, "build: n must be an integer, got None"),
    (
        "graphs.build('tree', 3, parents=[-1, 0])",
        ValueError,
        "parents of family 'tree' must be for n = 3 .* got 2",
    ),
    ("graphs.needs_distances(None)", ValueError, "needs_distances: family must be one of .* got None"),
    (
        "graphs.family_parameters(['a'])",
        ValueError,
        r"family_parameters: family must be one of .* got \['a'\]",
    ),
]


@pytest.mark.parametrize(("row", "error", "message"), FUNCTIONS, ids=[row[0] for row in FUNCTIONS])
def test_an_argument_of_a_function_is_named(row, error, message):
    with pytest.raises(error, match=f"(?s){message}"):
        eval(row, dict(names))


# What may look wrong and is right: each is true.
RIGHT = [
    "np.array_equal(PairwiseSVC(**SMALL).fit(read_only, y).predict_proba(read_only), model.predict_proba(X))",
    "np.array_equal(PairwiseSVC(**SMALL).fit(mapped, y).predict_proba(mapped), model.predict_proba(X))",
    "len(model.add_class(9, mapped[:6], mapped, y).classes_) == 5",
    "model.retrain_pairs([(0, 1)], read_only, y, C=np.float32(2)).C_ == star.C_",
    "[wave.pairs for wave in star.grow(mapped, y)] == [3, 6]",
    "model.add_class(np.int64(9), X_new, X, y).classes_.tolist() == [0, 1, 2, 3, 9]",
    "model.add_class(np.uint8(9), X_new, X, y).classes_.dtype == np.int64",
    "spoken.add_class(np.str_('longer'), X_new, X, words).classes_[-1] == 'longer'",
    "real.remove_class(0).classes_.tolist() == [1.0, 2.0, 3.0]",
    "model.set_params(C=(0.1, 1.0)).fit(X, y).C_ in (0.1, 1.0)",
    "model.set_params(random_state=2**70).fit(X, y).score(X, y) > 0.5",
    "saved(model.set_params(whiten=np.float32(0.5)).fit(X, y)).whiten_ == 0.5",
    "saved(model.set_params(C=np.array([0.1, 1.0])).fit(X, y)).C == [0.1, 1.0]",
    "saved(model.set_params(class_weight={np.int64(0): np.float32(2)}).fit(X, y)).class_weight == {0: 2.0}",
    "saved(model.set_params(thresholds=np.bool_(True)).fit(X, y)).thresholds is True",
    "saved(dated).remove_class(dates[0]).classes_.dtype == dates.dtype",
    "saved(PairwiseSVC(**SMALL).fit(X, dates.astype('M8[ns]'))).classes_.dtype == 'M8[ns]'",
    "saved(PairwiseSVC(**SMALL).fit(X, y.astype('m8[s]'))).remove_class(np.timedelta64(1, 's')).C_ > 0",
    "saved(PairwiseSVC(**SMALL).fit(X, words.astype(object))).predict(X[:1])[0] in 'abcd'",
    "saved(PairwiseSVC(**SMALL).fit(X, y > 1)).classes_.tolist() == [False, True]",
    "saved(named).feature_names_in_.tolist() == ['u', 'v', 'w']",
    "PairwiseSVC.from_run(run).predict_proba(X).shape == (48, 4)",
    "couple(L[:, :, :0]).shape == (0, 3)",
    "couple(read_only_L).shape == (2, 3)",
]


@pytest.mark.parametrize("row", RIGHT)
def test_what_is_unusual_but_right_works(row, here, tmp_path):
    def saved(model):
        model.save(tmp_path / "model")
        loaded = PairwiseSVC.load(tmp_path / "model")
        np.testing.assert_array_equal(loaded.classes_, model.classes_)
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
        return loaded

    read_only, read_only_L = X.copy(), L.copy()
    read_only.flags.writeable = read_only_L.flags.writeable = False
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    given = {"saved": saved, "read_only": read_only, "mapped": mapped, "read_only_L": read_only_L}
    assert eval(row, here | given)
