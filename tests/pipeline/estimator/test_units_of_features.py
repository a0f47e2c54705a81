"""The unit of the features changes no bit of a prediction, and where they lie changes little."""

import numpy as np
import pytest
from fitted_models import fitted

from pairloom import PairwiseSVC


@pytest.fixture(scope="module", params=[np.float32, np.float64], ids=["float32", "float64"])
def problem(request, data):
    return data._replace(X=data.X.astype(request.param), X_new=data.X_new.astype(request.param))


@pytest.fixture(scope="module")
def reference(problem):
    model = fitted(problem, graph="complete")
    return model, model.predict_proba(problem.X_new)


@pytest.mark.quick(*(f"{dtype}-{k}" for dtype in ("float32", "float64") for k in (-40, -13, -1, 1, 7, 40)))
@pytest.mark.parametrize("k", range(-40, 41))
def test_a_power_of_two_changes_no_bit(problem, reference, k):
    factor = problem.X.dtype.type(2.0**k)
    model = PairwiseSVC("complete", random_state=0).fit(problem.X * factor, problem.y)
    np.testing.assert_array_equal(model.predict_proba(problem.X_new * factor), reference[1])
    assert reference[0].C_ * 4.0**-k == model.C_
    assert model.whiten_ == reference[0].whiten_


@pytest.mark.parametrize("factor", [1e-25, 1e-10, 1e10, 1e20])
def test_another_unit_changes_next_to_nothing(problem, reference, factor):
    factor = problem.X.dtype.type(factor)
    model = PairwiseSVC("complete", random_state=0).fit(problem.X * factor, problem.y)
    np.testing.assert_allclose(model.predict_proba(problem.X_new * factor), reference[1], atol=2e-3)


def test_a_given_C_is_of_the_features_as_they_come(problem):
    one = PairwiseSVC(C=0.01, whiten="none", random_state=0).fit(problem.X, problem.y)
    factor = problem.X.dtype.type(1024)
    other = PairwiseSVC(C=0.01 / 1024**2, whiten="none", random_state=0).fit(problem.X * factor, problem.y)
    np.testing.assert_array_equal(
        one.predict_proba(problem.X_new), other.predict_proba(problem.X_new * factor)
    )
    assert one.C_ == 0.01
    other.retrain_pairs([(0, 1)], problem.X * factor, problem.y, C=0.02 / 1024**2)
    one.retrain_pairs([(0, 1)], problem.X, problem.y, C=0.02)
    np.testing.assert_array_equal(
        one.predict_proba(problem.X_new), other.predict_proba(problem.X_new * factor)
    )


def test_the_weights_of_pairs_are_of_the_features_as_they_come(problem, reference):
    pairs, far = reference[0].pairs_, fitted(problem._replace(X=problem.X * 64), graph="complete").pairs_
    for pair, machine in pairs.items():
        np.testing.assert_array_equal(far[pair].weights * 64, machine.weights)


def test_features_a_billion_from_zero(data):
    near, far = fitted(data), fitted(data._replace(X=data.X + 1e9))
    np.testing.assert_allclose(far.predict_proba(data.X_new + 1e9), near.predict_proba(data.X_new), atol=2e-3)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of scikit-learn's own check
def test_what_float32_cannot_hold_is_refused(data):
    far_apart = np.where(data.X > 0, 3e38, -3e38).astype(np.float32)
    with pytest.raises(ValueError, match="PairwiseSVC: X must have columns whose range float32 can hold"):
        PairwiseSVC().fit(far_apart, data.y)
