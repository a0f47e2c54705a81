import numpy as np
import pytest

from pairloom.pipeline.calibration.out_of_fold import out_of_fold_edge_logits
from pairloom.pipeline.machines.folds import class_folds
from pairloom.pipeline.machines.linear_machines import train_edges
from pairloom.pipeline.machines.linear_model import train_linear_model
from pairloom.pipeline.machines.logits import collapse
from pairloom.pipeline.machines.platt import fit_platt
from pairloom.pipeline.machines.settings import MachineSettings
from pairloom.pipeline.machines.svm import fit_linear_svm
from pairloom.pipeline.machines.whitening import centring, fit_whitening

EDGES = np.array([(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)])


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(4), (9, 12, 15, 10))
    return (2 * rng.standard_normal((4, 5))[y] + rng.standard_normal((len(y), 5))).astype(np.float32), y


def rows_of(X, y):
    return {c: X[y == c] for c in range(y.max() + 1)}


@pytest.mark.parametrize("fit_on", ["rest", "fold", "all"])
def test_collapse_is_the_mean_of_calibrated_decision_values(samples, fit_on):
    X, y = samples
    settings = MachineSettings(folds=3, fit_on=fit_on, thresholds=True)
    machines, shares = train_edges(rows_of(X, y), EDGES, settings), settings.scheme.shares
    f = np.einsum("emd,rd->emr", machines.coef.astype(np.float64), X) + machines.intercept[:, :, None]
    logits = -(machines.platt[:, :, :1] * f + machines.platt[:, :, 1:])
    expected = np.einsum("m,emr->er", shares, logits) - machines.threshold[:, None]
    np.testing.assert_allclose(collapse(machines, shares)(X), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shrinkage", ["none", 0.3])
def test_raw_samples_are_enough(samples, shrinkage):
    """The whitening is folded into the map: logits of raw rows are those of whitened ones."""
    X, y = samples
    whitening = fit_whitening(X, y, shrinkage)
    machines = train_edges(rows_of(whitening(X).astype(np.float32), y), EDGES, MachineSettings())
    shares = MachineSettings().scheme.shares
    on_raw = collapse(machines, shares, whitening)(X)
    np.testing.assert_allclose(on_raw, collapse(machines, shares)(whitening(X)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("fit_on", ["rest", "fold", "all"])
def test_out_of_fold_against_refits_by_hand(samples, fit_on):
    """For every sample and edge, refit the machines that did not see the sample, and compare."""
    X, y = samples
    settings = MachineSettings(C=0.2, folds=3, fit_on=fit_on, tol=1e-7, seed=2)
    scheme, whitening = settings.scheme, centring(X)
    model = train_linear_model(rows_of(X, y), EDGES, settings, whitening)
    folds = np.empty(len(y), int)
    for c in range(4):
        folds[y == c] = class_folds((y == c).sum(), 3, 2, c)
    found = out_of_fold_edge_logits(model.logits, EDGES, scheme, X, y, folds)
    centred = whitening(X)
    for e, (i, j) in enumerate(EDGES):
        pair = (y == i) | (y == j)
        rows, signs, of = centred[pair], np.where(y[pair] == i, 1.0, -1.0), folds[pair]
        fits = [fit_linear_svm(rows[on[of]], signs[on[of]], 0.2, tol=1e-7) for on in scheme.fitted_on]
        f = [rows @ fit.coef + fit.intercept for fit in fits]
        if scheme.pooled:
            union = np.array([f[k][r] for r, k in enumerate(of)])
            platt = [fit_platt(union, signs)[:2]] * len(fits)
        else:
            platt = [fit_platt(f[m][on[of]], signs[on[of]])[:2] for m, on in enumerate(scheme.calibrated_on)]
        logits = np.array(
            [-(A * (centred @ fit.coef + fit.intercept) + B) for fit, (A, B) in zip(fits, platt, strict=True)]
        )
        for r in range(len(y)):
            if y[r] in (i, j):
                allowed = [m for m in range(len(fits)) if not scheme.fitted_on[m, folds[r]]]
                expected = logits[allowed, r].mean()
            else:
                expected = scheme.shares @ logits[:, r]
            assert found[e, r] == pytest.approx(expected, rel=0.02, abs=0.02)


def test_samples_in_any_order_and_absent_folds(samples):
    X, y = samples
    settings = MachineSettings(folds=3)
    model = train_linear_model(rows_of(X, y), EDGES, settings, centring(X))
    folds = np.concatenate([class_folds((y == c).sum(), 3, 0, c) for c in range(4)])
    everything = out_of_fold_edge_logits(model.logits, EDGES, settings.scheme, X, y, folds)
    some = np.flatnonzero(folds != 1)[::-1]
    part = out_of_fold_edge_logits(model.logits, EDGES, settings.scheme, X[some], y[some], folds[some])
    np.testing.assert_allclose(part, everything[:, some], rtol=1e-5, atol=1e-5)
