import re

import numpy as np
import pytest

from pairloom import couple, couple_code, graphs
from pairloom.pipeline.coupling.codes.standard_errors import standard_errors

CODES = {
    "one_vs_rest": graphs.one_vs_rest(5),
    "one_vs_one": graphs.one_vs_one(5),
    "dense": graphs.dense_code(5),
    "sparse": graphs.sparse_code(5),
    "path": graphs.code_of_pairs(graphs.path(4)),
}


@pytest.mark.parametrize("code", CODES.values(), ids=CODES)
def test_within_a_tenth_of_a_simulation(code):
    """[HLW Theorem 2] Every machine counts outcomes of its own, and the estimates spread as predicted."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(len(code), 4.0))
    counts = rng.integers(5_000, 20_000, code.shape[1])
    rho = (p @ (code == 1)) / (p @ (code != 0))
    shares = rng.binomial(counts[:, None], rho[:, None], (code.shape[1], 3000)) / counts[:, None]
    estimates = couple_code(np.log(shares / (1 - shares)), code, weights=counts, n_jobs=2)
    assert standard_errors(p, code, counts) == pytest.approx(estimates.std(axis=0), rel=0.1)


def test_samples_have_errors_of_their_own():
    code = graphs.sparse_code(5)
    p = np.random.default_rng(0).dirichlet(np.ones(5), 3)
    counts = np.random.default_rng(1).integers(10, 99, (code.shape[1], 3))
    together = standard_errors(p, code, counts)
    assert together.shape == (3, 5)
    for r in range(3):
        np.testing.assert_allclose(together[r], standard_errors(p[r], code, counts[:, r]), rtol=1e-9)
    np.testing.assert_allclose(standard_errors(p, code, 4 * counts), together / 2, rtol=1e-9)


def test_two_classes_are_a_share():
    p = np.array([0.03, 0.97])
    expected = np.sqrt(0.03 * 0.97 / 70)
    np.testing.assert_allclose(standard_errors(p, [[-1], [1]], [70]), [expected, expected], rtol=1e-9)


def test_very_uneven_probabilities():
    p = np.array([1 - 3e-9, 1e-9, 2e-9])
    errors = standard_errors(p, graphs.one_vs_rest(3), [100, 100, 100])
    assert np.isfinite(errors).all()
    # A rare class is known from its own machine, and from nothing else.
    assert errors[1] == pytest.approx(np.sqrt(1e-9 / 100), rel=0.5)


@pytest.mark.parametrize(
    ("p", "code", "counts", "message"),
    [
        (
            [0.5, 0.5, 0],
            graphs.one_vs_rest(3),
            [1, 1, 1],
            "p must be positive, got 0.0 for class 2 of sample 0",
        ),
        ([0.5, 0.2, 0.2], graphs.one_vs_rest(3), [1, 1, 1], "p must sum to one, got 0.8999999999999999"),
        ([0.5, 0.5], graphs.one_vs_rest(3), [1, 1, 1], "p must be (3,) or (R, 3) probabilities"),
        (["a", "b"], [[1], [-1]], [1], "p must be probabilities, got ['a', 'b']"),
        (
            [0.5, 0.3, 0.2],
            graphs.one_vs_rest(3),
            [9, 0, 9],
            "counts must be positive and finite, got counts[1] = 0.0",
        ),
        ([0.5, 0.3, 0.2], graphs.one_vs_rest(3), [9, 9], "counts must have shape (3,) or (3, 1), got (2,)"),
        ([0.25] * 4, [[1, 0], [-1, 0], [0, 1], [0, -1]], [9, 9], "code must identify the probabilities"),
        ([0.5, 0.5], [[1, 1], [-1, -1]], [9, 9], "code must not repeat a machine"),
    ],
)
def test_errors(p, code, counts, message):
    with pytest.raises(ValueError, match=re.escape(f"standard_errors: {message}")):
        standard_errors(p, code, counts)


def test_pairs_of_many_samples_are_known_well(noisy_logits):
    """Ten times the samples, about a third of the error: an estimate can be used where p is wanted."""
    p = couple(noisy_logits(4, 5, dtype=np.float64), "bradley_terry")
    few, many = (standard_errors(p, graphs.one_vs_one(4), np.full(6, n)) for n in (100, 1000))
    np.testing.assert_allclose(few / many, np.sqrt(10))
