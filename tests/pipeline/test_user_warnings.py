"""Warnings of a fit name the line that called it."""

import warnings

import numpy as np
import pytest

from pairloom import PairwiseSVC, couple

RNG = np.random.default_rng(0)


def samples(n_classes=3, rows=20):
    y = np.repeat(np.arange(n_classes), rows)
    return RNG.standard_normal((len(y), 4)) + 3 * np.eye(n_classes, 4)[y], y


def single():
    X, y = samples()
    return PairwiseSVC(kernel="linear").fit(np.append(X, X[:1], axis=0), np.append(y, 9))


def in_other_units():
    X, y = samples()
    return PairwiseSVC(kernel="linear", standardise=False).fit(X * [1, 1, 1, 1e6], y)


def noise():
    X, y = samples()
    return PairwiseSVC(kernel="linear", random_state=0).fit(RNG.standard_normal(X.shape), y)


def not_converged():
    logits = RNG.standard_normal((60, 60, 25))  # no step reaches such a tolerance, because of rounding
    return couple(logits - logits.transpose(1, 0, 2), method="bradley_terry", tol=1e-40)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (single, "single sample"),
        (in_other_units, "differ in scale"),
        (noise, "lower bound"),
        (not_converged, "did not converge"),
    ],
)
def test_they_name_the_line_of_the_user(call, message):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    (warned,) = {(one.filename, one.lineno) for one in caught if message in str(one.message)}
    first = call.__code__.co_firstlineno
    assert warned[0] == __file__
    assert first < warned[1] <= first + 3
