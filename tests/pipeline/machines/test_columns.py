"""Machines on sets of classes: one class on either side is a pair, and folds stay those of the classes."""

import numpy as np
import pytest
from fitted_models import blobs
from sklearn.linear_model import LogisticRegression

from pairloom import graphs
from pairloom.pipeline.machines.estimator_machines import train_estimator_model
from pairloom.pipeline.machines.folds import class_folds
from pairloom.pipeline.machines.linear_machines import train_machines, train_tile
from pairloom.pipeline.machines.settings import MachineSettings
from pairloom.pipeline.machines.svm import fit_linear_svm

X, y = blobs()
ROWS = {c: X[y == c].astype(np.float32) for c in range(5)}
MEMBERS = [np.flatnonzero(y == c) for c in range(5)]


def train_columns(code, settings, **of_classes):
    return train_tile(ROWS, graphs.ModelCode(code, {}), settings, **of_classes)


def assert_same(ours, theirs):
    for name, values in ours._asdict().items():
        np.testing.assert_array_equal(values, getattr(theirs, name), err_msg=name)


@pytest.mark.parametrize("calibration", ["platt", "distance"])
@pytest.mark.parametrize("fit_on", ["rest", "fold", "all"])
@pytest.mark.parametrize("weighted", [False, True])
def test_machines_on_single_classes_are_those_of_the_pairs_to_the_bit(calibration, fit_on, weighted):
    settings = MachineSettings(C=0.3, fit_on=fit_on, calibration=calibration, thresholds=weighted)
    weight = {c: np.linspace(0.5, 2, len(rows)) for c, rows in ROWS.items()} if weighted else None
    of = {"sample_weight": weight, "keys": [4, 0, 7, 1, 2]}
    pairs = graphs.decomposition_of(graphs.complete(5))
    assert_same(train_columns(graphs.one_vs_one(5), settings, **of), train_tile(ROWS, pairs, settings, **of))


def test_a_machine_is_fitted_on_all_folds_but_one_of_every_class_of_both_sides():
    settings = MachineSettings(C=0.3, tol=1e-6)
    column = np.array([1, 0, -1, 1, -1], np.int8)
    machines = train_columns(column[:, None], settings)
    order = [0, 3, 2, 4]  # the positive side first
    rows = np.concatenate([ROWS[c] for c in order])
    folds = np.concatenate([class_folds(len(ROWS[c]), 4, 0, c) for c in order])
    signs = np.repeat(column[order], [len(ROWS[c]) for c in order])
    for k in range(4):
        seen = folds != k
        expected = fit_linear_svm(rows[seen], signs[seen], C=0.3, tol=1e-6)
        np.testing.assert_allclose(machines.coef[0, k], expected.coef, rtol=0.02, atol=1e-3)


def test_a_column_depends_on_no_other_and_on_no_thread():
    settings, code = MachineSettings(C=0.3), graphs.requested_graph("sparse", range(5), lambda: None)
    together = train_machines(ROWS, code, settings, n_threads=3)
    assert_same(together, train_columns(code.matrix, settings))
    assert_same(together.of_edges(slice(2, 3)), train_columns(code.matrix[:, 2:3], settings))


def test_exchanged_sides_exchange_the_sign():
    settings, code = MachineSettings(C=0.3, tol=1e-6), graphs.dense_code(5)[:, :3]
    one, other = (train_columns(sign * code, settings) for sign in (1, -1))
    np.testing.assert_allclose(one.coef, -other.coef, rtol=0.02, atol=1e-3)


@pytest.mark.parametrize("calibration", ["platt"])
def test_classifiers_on_single_classes_are_those_of_the_pairs(calibration):
    settings = MachineSettings(calibration=calibration)
    by_code, by_pairs = (
        train_estimator_model(LogisticRegression(), X, MEMBERS, sides, settings)
        for sides in (
            graphs.requested_graph("one_vs_one", range(5), lambda: None),
            graphs.decomposition_of(graphs.complete(5)),
        )
    )
    shares = settings.scheme.shares
    np.testing.assert_array_equal(by_code.collapsed(shares)(X), by_pairs.collapsed(shares)(X))


def test_classifiers_on_sets_are_fitted_on_both_sides():
    code = graphs.requested_graph("one_vs_rest", range(5), lambda: None)
    model = train_estimator_model(LogisticRegression(), X, MEMBERS, code, MachineSettings())
    assert model.n_edges == 5
    logits = model.collapsed(MachineSettings().scheme.shares)(X)
    assert (logits.argmax(axis=0) == y).mean() > 0.8
