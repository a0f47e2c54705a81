"""The generalised Bradley-Terry model: its minimum, its update, its barrier, and its several minima."""

import re
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize

from pairloom import couple, couple_code, graphs
from pairloom.pipeline.coupling.codes.code_kernels import (
    answers,
    gradient_and_hessian,
    minimise,
    normalise,
    side_sums,
    sweep,
)
from pairloom.pipeline.coupling.codes.couple_code import StoredCode

CLIP = 16
CODES = {
    "one_vs_rest": graphs.one_vs_rest(6),
    "one_vs_one": graphs.one_vs_one(6),
    "dense": graphs.dense_code(7),
    "sparse": graphs.sparse_code(7),
    "star": graphs.code_of_pairs(graphs.star(6)),
}
every_code = pytest.mark.parametrize("code", CODES.values(), ids=CODES)


def loss(p, logits, code, weights=None, barrier=0.0):
    """[HLW eq. 4 with 7 and 8] for one sample, from its definition."""
    r = 1 / (1 + np.exp(-np.clip(logits, -CLIP, CLIP)))
    n_q = np.ones(len(r)) if weights is None else weights
    plus, minus = p @ (code == 1), p @ (code == -1)
    terms = r * np.log(plus / (plus + minus)) + (1 - r) * np.log(minus / (plus + minus))
    return -(n_q * terms).sum() - barrier * np.log(p / p.sum()).sum()


def by_minimisation(logits, code, weights=None, barrier=0.0):
    """By scipy, over log p, without derivatives of ours; from several starts, the best."""

    def of_log(u):
        p = np.exp(u - u.max())
        return loss(p / p.sum(), logits, code, weights, barrier)

    starts = [np.zeros(len(code)), *np.random.default_rng(0).normal(0, 1, (4, len(code)))]
    found = [minimize(of_log, u, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000}) for u in starts]
    u = min(found, key=lambda one: one.fun).x
    p = np.exp(u - u.max())
    return p / p.sum()


def noisy(code, n_samples, noise, seed=0):
    rng = np.random.default_rng([seed, *code.shape])
    p = rng.dirichlet(np.full(len(code), 3.0), n_samples)
    return np.log((p @ (code == 1)) / (p @ (code == -1))).T + noise * rng.standard_normal(
        (code.shape[1], n_samples)
    )


@every_code
@pytest.mark.parametrize("weighted", ["no", "by machine", "by machine and sample"])
@pytest.mark.parametrize("barrier", [None, 0.01])
def test_against_minimisation(code, weighted, barrier):
    logits = noisy(code, 3, 0.3)
    rng = np.random.default_rng(1)
    weights = {
        "no": None,
        "by machine": rng.integers(1, 90, len(logits)).astype(float),
        "by machine and sample": rng.uniform(1, 90, logits.shape),
    }[weighted]
    mu = barrier if barrier is not None else (0 if graphs.code_is_connected(code) else 1e-3)
    p, diagnostics = couple_code(logits, code, weights=weights, barrier=mu, return_diagnostics=True)
    assert diagnostics.converged.all()
    for r in range(3):
        n_q = weights if weights is None or weights.ndim == 1 else weights[:, r]
        expected = by_minimisation(logits[:, r], code, n_q, mu)
        ours, theirs = (loss(x, logits[:, r], code, n_q, mu) for x in (p[r], expected))
        assert ours <= theirs + 1e-9 * abs(theirs)
        assert p[r] == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize("n_classes", [3, 5, 10, 30])
@pytest.mark.parametrize(("spread", "noise"), [(3, 1), (0, 3), (50, 20), (0, 1e4), (1e4, 1e4)])
@pytest.mark.parametrize("weighted", [False, True])
def test_machines_on_all_pairs_are_coupled_as_couple_does(n_classes, spread, noise, weighted, noisy_logits):
    logits = noisy_logits(n_classes, 20, spread, noise, np.float64)
    i, j = np.triu_indices(n_classes, 1)
    sizes = np.random.default_rng(0).integers(1, 9, n_classes)
    n_ij = np.add.outer(sizes, sizes).astype(float) if weighted else None
    expected = couple(logits, "bradley_terry", n_ij, tol=1e-9)
    ours = couple_code(
        logits[i, j], graphs.one_vs_one(n_classes), weights=None if n_ij is None else n_ij[i, j], tol=1e-8
    )
    assert ours == pytest.approx(expected, abs=1e-6)


def solved(code, logits, limit, barrier, p):
    """After `limit` updates of the kernel, from p."""
    stored, m, n = StoredCode.of(code), code.shape[1], len(code)
    r = np.empty((m, 2))
    answers(logits[:, None], 0, r)
    work = (np.empty(m), np.empty(m), np.empty((3, n)), np.empty((n, n)))
    x = p.copy()
    minimise(stored.by_machine, stored.by_class, r, np.ones(m), barrier, 0.0, limit, x, work)
    return x


@every_code
@pytest.mark.parametrize("noise", [0.3, 3, 1e4])
@pytest.mark.parametrize("barrier", [1e-6, 0.1])
def test_no_step_raises_the_loss_and_every_p_stays_positive(code, noise, barrier):
    """[HLW Lemma 1, Theorem 1] Sweeps and Newton's steps alike, from equal shares and from a corner."""
    logits = np.clip(noisy(code, 1, noise)[:, 0], -CLIP, CLIP)
    corner = np.full(len(code), 1e-9)
    corner[1] = 1
    for start in (np.full(len(code), 1 / len(code)), corner / corner.sum()):
        path = [start, *(solved(code, logits, limit, barrier, start) for limit in range(1, 25))]
        assert all((p > 0).all() for p in path)
        losses = [loss(p, logits, code, barrier=barrier) for p in path]
        assert all(after <= before + 1e-12 * abs(before) for before, after in pairwise(losses))
        assert losses[5] < losses[0]


@every_code
def test_a_sweep_is_equation_5_for_each_class_in_turn(code):
    """[HLW Algorithm 2] with every sum formed anew, and p normalised after each update."""
    logits, barrier = noisy(code, 1, 1.0)[:, 0], 0.02
    r = 1 / (1 + np.exp(-logits))
    n_q = np.random.default_rng(0).uniform(1, 5, len(r))
    expected = np.full(len(code), 1 / len(code))
    for s in range(len(code)):
        plus, minus = expected @ (code == 1), expected @ (code == -1)
        on_plus, on_minus = code[s] == 1, code[s] == -1
        pull = (n_q * r / plus)[on_plus].sum() + (n_q * (1 - r) / minus)[on_minus].sum()
        push = (n_q / (plus + minus))[on_plus | on_minus].sum()
        expected[s] = (expected[s] * pull + barrier) / (push + barrier * len(code))
        expected /= expected.sum()
    stored, p = StoredCode.of(code), np.full(len(code), 1 / len(code))
    positive, negative = np.empty(len(r)), np.empty(len(r))
    side_sums(stored.by_machine, p, positive, negative)
    sweep(stored.by_class, np.stack([r, 1 - r], axis=1), n_q, barrier, p, positive, negative)
    normalise(p)
    assert p == pytest.approx(expected, rel=1e-12)


@every_code
def test_derivatives_are_those_of_the_loss(code):
    logits, barrier = noisy(code, 1, 1.0)[:, 0], 0.02
    r = 1 / (1 + np.exp(-logits))
    n_q = np.random.default_rng(0).uniform(1, 5, len(r))
    n = len(code)
    u = np.random.default_rng(2).normal(0, 1, n)

    def derivatives(u, convex=False):
        p = np.exp(u) / np.exp(u).sum()
        gradient, H = np.empty(n), np.empty((n, n))
        both = np.stack([r, 1 - r], axis=1)
        sums = p @ (code == 1), p @ (code == -1)
        gradient_and_hessian(
            StoredCode.of(code).by_machine, both, n_q, barrier, convex, p, *sums, gradient, H
        )
        return gradient, np.tril(H) + np.tril(H, -1).T

    gradient, H = derivatives(u)
    h = 1e-5
    for s, step in enumerate(h * np.eye(n)):
        up, down = (
            loss(np.exp(v) / np.exp(v).sum(), logits, code, n_q, barrier) for v in (u + step, u - step)
        )
        assert gradient[s] == pytest.approx((up - down) / (2 * h), abs=1e-6)
        assert H[s] == pytest.approx(
            (derivatives(u + step)[0] - derivatives(u - step)[0]) / (2 * h), abs=1e-6
        )
    # Without its negative terms the matrix has no direction of ascent left, but the constants.
    assert np.linalg.eigvalsh(derivatives(u, convex=True)[1])[0] > -1e-12


class TestCodesThatAreNotConnected:
    def test_an_error_names_the_classes_whose_probabilities_may_vanish(self):
        code = [[1, 0], [-1, 0], [0, 1], [0, -1]]
        with pytest.raises(
            ValueError, match=re.escape("among the classes 0, 1, so their probabilities may vanish")
        ):
            couple_code(np.zeros((2, 1)), code, barrier=0)

    def test_the_barrier_is_what_keeps_the_probabilities_positive(self):
        """Three splits of four classes, which contradict each other: the likeliest p is at the boundary."""
        code = graphs.dense_code(4)
        logits = np.array([[-2.0], [-2.0], [-2.0]])  # {0, 1}, {0, 2} and {0, 3} are all unlikely
        smallest = [couple_code(logits, code, barrier=mu, tol=1e-12).min() for mu in (1e-2, 1e-4, 1e-6, 1e-8)]
        assert all(10 < a / b < 1000 for a, b in pairwise(smallest))
        assert couple_code(logits, code, tol=1e-12).min() == pytest.approx(smallest[2], rel=1e-3)

    def test_a_small_barrier_is_not_felt_where_the_machines_agree(self):
        code = graphs.dense_code(8)
        p = np.random.default_rng(0).dirichlet(np.full(8, 3.0), 10)
        logits = np.log((p @ (code == 1)) / (p @ (code == -1))).T
        assert couple_code(logits, code) == pytest.approx(p, abs=1e-5)

    def test_classes_that_no_machine_compares_share_equally(self):
        code = [[1, 0], [-1, 0], [0, 1], [0, -1]]
        p = couple_code([[1.0], [0.0]], code)[0]
        assert p[2] == pytest.approx(p[3])
        assert np.log(p[0] / p[1]) == pytest.approx(1, abs=1e-4)

    def test_a_connected_code_needs_no_barrier(self):
        code = graphs.one_vs_rest(5)
        logits = noisy(code, 5, 1)
        assert np.array_equal(couple_code(logits, code), couple_code(logits, code, barrier=0))


def test_a_connected_code_may_have_two_minima():
    """1 beats 0 and 1 beats 2, but 0 and 2 together beat 1: one of the two is as probable as 1, but which?

    The condition that keeps the minimum inside the simplex does not make it unique.
    """
    code = np.array([[1, 0, 1], [-1, -1, -1], [0, 1, 1]], np.int8)
    logits = np.array([-4.0, -4.0, 8.0])
    assert graphs.code_is_connected(code)
    one, other = (
        solved(code, logits, 200, 0.0, np.array(start)) for start in ([0.6, 0.3, 0.1], [0.1, 0.3, 0.6])
    )
    assert one[::-1] == pytest.approx(other, abs=1e-9)
    assert one[0] - one[2] > 0.3
    assert loss(one, logits, code) == pytest.approx(loss(other, logits, code))
    assert loss((one + other) / 2, logits, code) > loss(one, logits, code) + 0.01
    # Where machines contradict each other so, the answer is at least always the same.
    p = couple_code(logits[:, None], code)[0]
    assert min(abs(p - one).max(), abs(p - other).max()) < 1e-5


def test_many_classes():
    code = graphs.sparse_code(100)
    p = np.random.default_rng(0).dirichlet(np.ones(100), 2)
    logits = np.log((p @ (code == 1)) / (p @ (code == -1))).T
    found, diagnostics = couple_code(logits, code, barrier=1e-9, return_diagnostics=True)
    assert diagnostics.converged.all()
    assert code.shape[1] == 100
    assert found == pytest.approx(p, abs=1e-4)


def test_weights_count_samples():
    """A machine trained on many samples outweighs two that were trained on few."""
    code = graphs.one_vs_rest(3)
    r = np.array([0.7, 0.6, 0.4])
    p = couple_code(np.log(r / (1 - r))[:, None], code, weights=[1e6, 1, 1])[0]
    assert p[0] == pytest.approx(0.7, abs=1e-4)
    scaled = couple_code(np.log(r / (1 - r))[:, None], code, weights=[7, 7, 7])
    assert scaled == pytest.approx(couple_code(np.log(r / (1 - r))[:, None], code), abs=1e-6)
