import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.svm import SVC

from pairloom import couple

#: [LW] LIBSVM clips r to [1e-7, 1 - 1e-7], a logit of 16.1; here it is 16.
CLIP = 16


def by_a_linear_system(logits):
    """[LW] Q p + b e = 0, e'p = 1, solved in float64, sample by sample."""
    n, _, n_samples = logits.shape
    p = np.empty((n_samples, n))
    for k in range(n_samples):
        r = 1 / (1 + np.exp(-np.clip(logits[:, :, k].astype(np.float64), -CLIP, CLIP)))
        np.fill_diagonal(r, 0)
        Q = -r.T * r
        np.fill_diagonal(Q, (r**2).sum(axis=0))
        system = np.ones((n + 1, n + 1))
        system[:n, :n], system[n, n] = Q, 0
        p[k] = np.linalg.solve(system, np.eye(n + 1)[n])[:n]
    return p


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 3, 4, 5, 10, 33, 64])
@pytest.mark.parametrize(("spread", "noise"), [(3, 1), (3, 0.01), (0, 1), (10, 5), (0, 30), (50, 20)])
def test_against_a_linear_system(n_classes, spread, noise, dtype, noisy_logits):
    logits = noisy_logits(n_classes, 40, spread, noise, dtype)
    if n_classes == 2:  # exactly (r, 1 - r), so not clipped
        logits = np.clip(logits, -CLIP, CLIP)
    p, diagnostics = couple(logits, "wlw2", return_diagnostics=True)
    assert p == pytest.approx(by_a_linear_system(logits), abs=1e-5)
    assert diagnostics.converged.all()


def test_a_class_that_wins_everything_converges():
    """Its Q_tt is 1e-14, so p_t is all rounding error until p is normalised."""
    logits = np.full((3, 3, 1), 0.0, np.float32)
    logits[0, 1:], logits[1:, 0] = 40, -40
    logits[1, 2], logits[2, 1] = 3, -3
    p, diagnostics = couple(logits, "wlw2", return_diagnostics=True)
    assert diagnostics.converged.all()
    assert p == pytest.approx(by_a_linear_system(logits), abs=1e-5)


def pairwise_logits_of_libsvm(svc, X):
    """The logits that LIBSVM couples: -(A f + B) of each pair, class i of a pair i < j being its positive one.

    sklearn turns the sign of the decision values (and of the coefficients) for two classes only; the ovo order of pairs
    is (0, 1), (0, 2), ..., (1, 2), ...
    """
    decision_values = svc.decision_function(X)
    n = len(svc.classes_)
    logits = np.zeros((n, n, len(X)))
    for k, (i, j) in enumerate(zip(*np.triu_indices(n, 1), strict=True)):
        logits[i, j] = -(svc.probA_[k] * decision_values[:, k] + svc.probB_[k])
        logits[j, i] = -logits[i, j]
    return logits


@pytest.mark.parametrize(("load", "C"), [(load_iris, 1.0), (load_digits, 0.01)])
def test_libsvm_agrees(load, C):
    X, y = load(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # scikit-learn is about to remove `probability`
        svc = SVC(C=C, kernel="linear", probability=True, decision_function_shape="ovo", random_state=0)
        theirs = svc.fit(X[::2], y[::2]).predict_proba(X[1::2])
        logits = pairwise_logits_of_libsvm(svc, X[1::2])
    ours = couple(logits, "wlw2")
    # LIBSVM stops where (Qp)_t is within 0.005 / N of p'Qp.
    assert ours == pytest.approx(theirs, abs=0.005)
    assert abs(ours - theirs).mean() < 0.0005
    # The wrong sign of the decision values would be a large difference.
    assert abs(couple(-logits, "wlw2") - theirs).max() > 0.5
