"""Out-of-fold logits: no machine and no parameter that scores a training sample has seen it."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from whitened import whitening_of

from pairloom import graphs
from pairloom.pipeline.calibration.held_out import out_of_fold_edge_logits
from pairloom.pipeline.machines.estimator_machines import train_estimator_model
from pairloom.pipeline.machines.folds import NEVER_HELD_OUT, PARTS, class_folds, class_parts
from pairloom.pipeline.machines.linear_machines import train_linear_model
from pairloom.pipeline.machines.normalisation import centring
from pairloom.pipeline.machines.pair_calibration import fit_platt
from pairloom.pipeline.machines.settings import MachineSettings
from pairloom.pipeline.machines.svm import fit_linear_svm
from pairloom.pipeline.threads import one_blas_thread

EDGES = np.array([(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)])
PAIRS = graphs.Pairs(EDGES, 4)
SIZES = (9, 12, 15, 10)
FIT_ON = pytest.mark.parametrize("fit_on", ["rest", "fold", "all"])
ROWS = (0, 4, 11, 20, 30, 45)
CALIBRATION = pytest.mark.parametrize("calibration", ["platt", "distance"])


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(4), SIZES)
    return (2 * rng.standard_normal((4, 5))[y] + rng.standard_normal((len(y), 5))).astype(np.float32), y


def rows_of(X, y):
    return {c: X[y == c] for c in range(y.max() + 1)}


def dealt(deal, settings):
    """The folds or the parts of all samples, whose classes come one after the other."""
    return np.concatenate([deal(n, settings.folds, settings.seed, c) for c, n in enumerate(SIZES)])


def by_hand(X, y, settings):
    """(E, R) logits of all samples, each from machines and parameters that are fitted without it."""
    scheme, folds, parts = settings.scheme, dealt(class_folds, settings), dealt(class_parts, settings)
    logits = np.zeros((len(EDGES), len(y)))
    for e, (i, j) in enumerate(EDGES):
        pair = (y == i) | (y == j)
        rows, signs, of = X[pair], np.where(y[pair] == i, 1.0, -1.0), folds[pair]
        fits = [fit_linear_svm(rows[on[of]], signs[on[of]], settings.C, tol=1e-7) for on in scheme.fitted_on]
        f = np.array([rows @ fit.coef + fit.intercept for fit in fits])
        for r in range(len(y)):
            others = parts[pair] != parts[r]
            unseen = [m for m in range(len(fits)) if not scheme.fitted_on[m, folds[r]]]
            for m in unseen:
                if settings.calibration == "distance":
                    A, B = -1 / np.linalg.norm(fits[m].coef), 0.0
                elif scheme.pooled:
                    A, B, *_ = fit_platt(f[of, np.arange(len(of))][others], signs[others])
                else:
                    on = scheme.calibrated_on[m][of] & others
                    A, B, *_ = fit_platt(f[m][on], signs[on])
                logits[e, r] -= (A * (X[r] @ fits[m].coef + fits[m].intercept) + B) / len(unseen)
    return logits


@FIT_ON
@CALIBRATION
def test_against_refits_by_hand(samples, fit_on, calibration):
    """For every sample and edge, refit what did not see the sample, and compare."""
    X, y = samples
    settings = MachineSettings(C=0.2, folds=3, fit_on=fit_on, tol=1e-7, seed=2, calibration=calibration)
    model = train_linear_model(rows_of(X, y), PAIRS, settings, whitening := centring(X))
    folds, parts = dealt(class_folds, settings), dealt(class_parts, settings)
    found = out_of_fold_edge_logits(model, settings.scheme, X, folds, parts)
    np.testing.assert_allclose(found, by_hand(whitening(X), y, settings), rtol=0.02, atol=0.02)


@FIT_ON
@CALIBRATION
@pytest.mark.parametrize("thresholds", [False, True])
def test_against_a_loop_over_samples_and_edges(samples, fit_on, calibration, thresholds):
    X, y = samples
    settings = MachineSettings(folds=3, fit_on=fit_on, calibration=calibration, thresholds=thresholds)
    whitening = whitening_of(X, y, 0.3)
    model = train_linear_model(rows_of(X, y), PAIRS, settings, whitening)
    folds, parts = dealt(class_folds, settings), dealt(class_parts, settings)
    found = out_of_fold_edge_logits(model, settings.scheme, X, folds, parts)
    assert found.shape == (len(EDGES), len(y)) == (model.n_edges, len(y))
    machines, rows = model.machines, whitening(X).astype(np.float64)
    for e in range(len(EDGES)):
        for r in range(len(y)):
            shares, expected = settings.scheme.out_of_fold[folds[r]], 0.0
            for m, share in enumerate(shares):
                f = rows[r] @ machines.coef[e, m].astype(np.float64) + machines.intercept[e, m]
                A, B = machines.crossfit[e, m, parts[r]]
                expected -= share * (A * f + B)
            assert found[e, r] == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_samples_in_any_order_and_absent_folds(samples):
    X, y = samples
    settings = MachineSettings(folds=3)
    model = train_linear_model(rows_of(X, y), PAIRS, settings, centring(X))
    folds, parts = dealt(class_folds, settings), dealt(class_parts, settings)
    everything = out_of_fold_edge_logits(model, settings.scheme, X, folds, parts)
    some = np.flatnonzero(folds != 1)[::-1]
    part = out_of_fold_edge_logits(model, settings.scheme, X[some], folds[some], parts[some])
    np.testing.assert_allclose(part, everything[:, some], rtol=1e-5, atol=1e-5)


def test_samples_that_every_machine_was_fitted_on_have_no_logits(samples):
    """A class with fewer samples than folds is never held out."""
    X, y = samples
    settings = MachineSettings(folds=10)
    model = train_linear_model(rows_of(X, y), PAIRS, settings, centring(X))
    folds, parts = dealt(class_folds, settings), dealt(class_parts, settings)
    never = folds == NEVER_HELD_OUT
    assert never.sum() == SIZES[0]
    found = out_of_fold_edge_logits(model, settings.scheme, X, folds, parts)
    assert np.isnan(found[:, never]).all()
    held = out_of_fold_edge_logits(model, settings.scheme, X[~never], folds[~never], parts[~never])
    np.testing.assert_array_equal(found[:, ~never], held)
    assert np.isfinite(held).all()


def honest_logits(X, y, settings, r, original):
    """What sample r, as it was, gets out of fold from machines that are trained on X."""
    # The whitening is the same whatever X is: only the machines and their parameters are under test.
    model = train_linear_model(rows_of(X, y), PAIRS, settings, centring(np.zeros_like(X)))
    fold, part = dealt(class_folds, settings)[r], dealt(class_parts, settings)[r]
    return model.held_out_logits(settings.scheme.out_of_fold[fold], original[None], np.array([part]))


def in_its_place(X, r):
    """Copies of X in which row r is something else."""
    for other in (np.zeros(5), 3 * np.random.default_rng(r).standard_normal(5), -5 * X[r]):
        spoilt = X.copy()
        spoilt[r] = other
        yield spoilt


@pytest.mark.parametrize(
    ("fit_on", "calibration"),
    [
        ("rest", "distance"),
        ("fold", "distance"),
        ("all", "distance"),
        ("rest", "platt"),
        ("fold", "platt"),
    ],
)
@pytest.mark.parametrize("r", ROWS)
def test_a_sample_has_no_part_in_its_own_logits(samples, fit_on, calibration, r):
    """Put anything else in its place, train again, and score the sample as it was: not a bit changes.

    Not so with Platt's parameters of fit_on="all", which are found from values by all machines.
    """
    X, y = samples
    settings = MachineSettings(C=0.2, folds=3, fit_on=fit_on, calibration=calibration)
    expected = honest_logits(X, y, settings, r, X[r])
    for spoilt in in_its_place(X, r):
        np.testing.assert_array_equal(honest_logits(spoilt, y, settings, r, X[r]), expected)


@pytest.mark.parametrize("fit_on", ["rest", "fold"])
@pytest.mark.parametrize("r", ROWS)
def test_a_sample_has_no_part_in_its_own_logits_but_for_the_precision_of_platts_fit(samples, fit_on, r):
    """Parameters of all samples would change a hundred times as much."""
    X, y = samples
    settings = MachineSettings(C=0.2, folds=3, fit_on=fit_on)
    expected = honest_logits(X, y, settings, r, X[r])
    in_sample = prediction_logits(X, y, settings, r, X[r])
    changes = []
    for spoilt in in_its_place(X, r):
        np.testing.assert_allclose(honest_logits(spoilt, y, settings, r, X[r]), expected, atol=1e-3)
        changes.append(np.abs(prediction_logits(spoilt, y, settings, r, X[r]) - in_sample).max())
    assert max(changes) > 0.1


def prediction_logits(X, y, settings, r, original):
    """As `honest_logits`, with the parameters that all samples had a part in."""
    model = train_linear_model(rows_of(X, y), PAIRS, settings, centring(np.zeros_like(X)))
    return model.collapsed(settings.scheme.out_of_fold[dealt(class_folds, settings)[r]])(original[None])


@CALIBRATION
def test_another_sample_of_the_pair_has_a_part_in_them(samples, calibration):
    """The counterpart, so that the property above is not one of logits that nothing changes."""
    X, y = samples
    settings = MachineSettings(C=0.2, folds=3, calibration=calibration)
    expected = honest_logits(X, y, settings, 0, X[0])
    folds = dealt(class_folds, settings)
    other = next(s for s in range(1, SIZES[0]) if folds[s] != folds[0])
    spoilt = X.copy()
    spoilt[other] = -5 * X[other]
    touched = (EDGES == 0).any(axis=1)
    changed = (honest_logits(spoilt, y, settings, 0, X[0]) != expected)[:, 0]
    np.testing.assert_array_equal(changed, touched)


@FIT_ON
@CALIBRATION
def test_classifiers_of_scikit_learn_against_a_loop(samples, fit_on, calibration):
    X, y = samples
    settings = MachineSettings(folds=3, fit_on=fit_on, calibration=calibration, thresholds=True)
    members = [np.flatnonzero(y == c) for c in range(4)]
    with one_blas_thread():
        model = train_estimator_model(LogisticRegression(), X, members, PAIRS, settings)
    folds, parts = dealt(class_folds, settings), dealt(class_parts, settings)
    found = out_of_fold_edge_logits(model, settings.scheme, X, folds, parts)
    assert found.shape == (model.n_edges, len(y))
    for e, pair in enumerate(model.machines):
        assert pair.crossfit.shape == (settings.scheme.n_machines, PARTS, 2)
        for r in range(len(y)):
            expected = 0.0
            for m, share in enumerate(settings.scheme.out_of_fold[folds[r]]):
                A, B = pair.crossfit[m, parts[r]]
                expected -= share * (A * pair.estimators[m].decision_function(X[r : r + 1])[0] + B)
            assert found[e, r] == pytest.approx(expected, rel=1e-5, abs=1e-5)


@FIT_ON
def test_classifiers_by_distance_are_those_that_were_trained_so(samples, fit_on):
    X, y = samples
    platt = MachineSettings(folds=3, fit_on=fit_on)
    members = [np.flatnonzero(y == c) for c in range(4)]
    distance = replace(platt, calibration="distance")
    with one_blas_thread():
        derived = train_estimator_model(LogisticRegression(), X, members, PAIRS, platt).by_distance(
            platt.scheme
        )
        trained = train_estimator_model(LogisticRegression(), X, members, PAIRS, distance)
    for one, other in zip(derived.machines, trained.machines, strict=True):
        np.testing.assert_array_equal(one.platt, other.platt)
        np.testing.assert_array_equal(one.crossfit, other.crossfit)
        norms = [np.linalg.norm(machine.coef_) for machine in other.estimators]
        if fit_on == "all":  # the machine of all samples has the unit of those that calibrate it
            norms[-1] = np.mean(norms[:-1], dtype=np.float64)
        np.testing.assert_allclose(other.platt, np.transpose([-1 / np.array(norms), np.zeros(len(norms))]))
