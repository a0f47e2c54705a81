import re
import warnings

import numpy as np
import pytest

from pairloom import couple_code, graphs
from pairloom.pipeline.coupling.codes.gradient import CODE_GRADIENTS, gradient_of_code_log_probability

R = 4
CODES = {
    "one_vs_rest": graphs.one_vs_rest(5),
    "one_vs_one": graphs.one_vs_one(5),
    "dense": graphs.dense_code(5),
    "sparse": graphs.sparse_code(5),
    "pairs of a path and a team": np.array(
        [[1, 0, 0, 1], [-1, 1, 0, 1], [0, -1, 1, -1], [0, 0, -1, -1]], np.int8
    ),
    "two classes": graphs.one_vs_rest(2),
}
CASES = [
    *(("bradley_terry", name, barrier) for name in CODES for barrier in (None, 0.05)),
    *(("linear", name, None) for name in CODES),
    *(("closed_form", name, None) for name in ("one_vs_rest", "two classes")),
]


def mean_log_p(L, y, code, method, weights, barrier, share):
    p = couple_code(L, code, method, weights, barrier, tol=1e-13)
    return share @ np.log(p[np.arange(len(y)), y]) / share.sum()


def by_finite_differences(L, *rest):
    h, gradient = 1e-5, np.empty_like(L)
    for where in np.ndindex(*L.shape):
        step = np.zeros_like(L)
        step[where] = h
        gradient[where] = (mean_log_p(L + step, *rest) - mean_log_p(L - step, *rest)) / (2 * h)
    return gradient


def consistent(code, rng, noise):
    """Logits of machines that know some p, and err."""
    p = rng.dirichlet(np.full(len(code), 3.0), R)
    plus, minus = p @ (code == 1), p @ (code == -1)
    return (np.log(plus / minus) + noise * rng.standard_normal(plus.shape)).T


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("method", "name", "barrier"), CASES)
def test_against_finite_differences(method, name, barrier, weighted):
    rng = np.random.default_rng(0)
    code = CODES[name]
    L, y = consistent(code, rng, 0.3), rng.integers(0, len(code), R)
    share = rng.uniform(0.5, 3, R) if weighted else np.ones(R)
    weights = rng.uniform(1, 9, L.shape) if weighted and method == "bradley_terry" else None
    value, gradient = gradient_of_code_log_probability(
        L, y, code, method, weights, barrier, sample_weight=share
    )
    rest = (y, code, method, weights, barrier, share)
    assert value == pytest.approx(mean_log_p(L, *rest), abs=1e-9)
    np.testing.assert_allclose(gradient, by_finite_differences(L, *rest), atol=1e-5)


def test_the_closed_form_has_the_gradient_of_bradley_terry():
    code = graphs.one_vs_rest(6)[:, [3, 1, 0, 2, 5, 4]] * np.array([1, -1, 1, -1, 1, 1], np.int8)
    L, y = np.random.default_rng(0).normal(0, 2, (6, 30)), np.arange(30) % 6
    ours, theirs = (
        gradient_of_code_log_probability(L, y, code, method) for method in ("closed_form", "bradley_terry")
    )
    assert ours[0] == pytest.approx(theirs[0], abs=1e-10)
    np.testing.assert_allclose(ours[1], theirs[1], atol=1e-10)


def test_machines_on_pairs_have_the_gradient_of_the_coupling_of_pairs(noisy_logits):
    from pairloom.pipeline.completion.complete import plan_completion
    from pairloom.pipeline.completion.slab import gradient_of_log_probability

    completion = plan_completion(graphs.complete(6))
    L, y = noisy_logits(6, 20)[tuple(completion.edges.T)], np.arange(20) % 6
    pairs = gradient_of_log_probability(L, y, completion, "bradley_terry")
    code = gradient_of_code_log_probability(L, y, graphs.one_vs_one(6))
    assert code[0] == pytest.approx(pairs[0], abs=1e-5)
    np.testing.assert_allclose(code[1], pairs[1], atol=1e-5)


@pytest.mark.parametrize("method", CODE_GRADIENTS)
def test_extreme_logits_have_a_finite_gradient_without_a_warning(method):
    L = np.array([[1e4, -1e4, 0, 1e4], [1e4, 30, 0, -1e4], [-1e4, 30, 0, -1e4]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value, gradient = gradient_of_code_log_probability(
            L, np.array([2, 1, 0, 0]), graphs.one_vs_rest(3), method
        )
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    if method != "linear":
        assert (gradient[np.abs(L) > 16] == 0).all()


def test_zadrozny_has_none():
    with pytest.raises(
        ValueError, match=re.escape("one of bradley_terry, linear, closed_form, got 'zadrozny'")
    ):
        gradient_of_code_log_probability(
            np.zeros((3, 1)), np.zeros(1, int), graphs.one_vs_rest(3), "zadrozny"
        )


def test_two_classes_have_the_gradient_of_their_unclipped_coupling():
    """Clipped logits would not move r; the coupling of two classes does not clip."""
    L, code = np.array([[-20.0, 20.0, 3.0]]), [[1], [-1]]
    p = couple_code(L, code)
    _, gradient = gradient_of_code_log_probability(L, np.array([0, 0, 1]), code)
    np.testing.assert_allclose(3 * gradient[0], [1 - p[0, 0], 1 - p[1, 0], -p[2, 0]], rtol=1e-6)
