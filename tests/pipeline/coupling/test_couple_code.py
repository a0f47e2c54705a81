"""Properties of every coupling by a code, and of `couple_code` itself: checks, diagnostics, threads."""

import re
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.exceptions import ConvergenceWarning

from pairloom import couple, couple_code, graphs
from pairloom.pipeline.coupling.codes.couple_code import CODE_METHODS

CODES = {
    "one_vs_rest": graphs.one_vs_rest,
    "one_vs_one": graphs.one_vs_one,
    "dense": graphs.dense_code,
    "sparse": graphs.sparse_code,
}
#: `couple_code` stops at an estimated error of 1e-6 per probability; the tests leave some room.
CLOSE = 5e-6
CASES = [
    *((method, code) for method in ("bradley_terry", "linear") for code in CODES),
    ("zadrozny", "one_vs_one"),
    ("closed_form", "one_vs_rest"),
]
every_case = pytest.mark.parametrize(("method", "name"), CASES)
every_method = pytest.mark.parametrize("method", CODE_METHODS)
every_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def logits_of(p, code):
    """Logits of machines that know p (R, N)."""
    return np.log((p @ (code == 1)) / (p @ (code == -1))).T


def noisy(code, n_samples, noise=1.0, seed=0):
    rng = np.random.default_rng([seed, *code.shape])
    p = rng.dirichlet(np.ones(len(code)), n_samples)
    return logits_of(p, code) + noise * rng.standard_normal((code.shape[1], n_samples))


@pytest.mark.parametrize("n_classes", [2, 3, 5, 8, 21])
@pytest.mark.parametrize("name", CODES)
def test_machines_that_know_the_probabilities_give_them_back(name, n_classes):
    code = CODES[name](n_classes)
    p = np.random.default_rng(0).dirichlet(np.full(n_classes, 2.0), 20)
    barrier = None if graphs.code_is_connected(code) else 1e-10
    assert couple_code(logits_of(p, code), code, barrier=barrier) == pytest.approx(p, abs=1e-5)
    if name == "one_vs_rest":
        assert couple_code(logits_of(p, code), code, "closed_form") == pytest.approx(p, abs=1e-10)
    if name == "one_vs_one":
        assert couple_code(logits_of(p, code), code, "zadrozny") == pytest.approx(p, abs=1e-5)


@every_case
def test_permuting_the_classes_permutes_the_probabilities(method, name):
    code = CODES[name](6)
    order = np.random.default_rng(1).permutation(6)
    L = noisy(code, 15, 0.3)
    assert couple_code(L, code[order], method) == pytest.approx(
        couple_code(L, code, method)[:, order], abs=CLOSE
    )


@every_case
def test_permuting_or_reversing_the_machines_changes_nothing(method, name):
    code = CODES[name](6)
    rng = np.random.default_rng(1)
    order, sign = rng.permutation(code.shape[1]), rng.choice([-1, 1], code.shape[1])
    L = noisy(code, 15, 0.3)
    other = couple_code(sign[:, None] * L[order], (sign * code[:, order]).astype(np.int8), method)
    assert other == pytest.approx(couple_code(L, code, method), abs=CLOSE)


@every_case
@every_dtype
@pytest.mark.parametrize("size", [1.0, 30.0, 1e4])
@pytest.mark.parametrize("n_classes", [3, 8])
def test_rows_are_positive_distributions_however_loud_the_machines(method, name, dtype, size, n_classes):
    code = CODES[name](n_classes)
    L = (size * np.random.default_rng(0).standard_normal((code.shape[1], 30))).astype(dtype)
    with warnings.catch_warnings():
        # Zadrozny's rule is the only one that may give up.
        warnings.simplefilter("ignore" if method == "zadrozny" else "error", ConvergenceWarning)
        p = couple_code(L, code, method)
    assert p.dtype == dtype
    assert p.sum(axis=1) == pytest.approx(1, abs=1e-5 if dtype == np.float32 else 1e-9)
    assert (p > 0).all()


@every_method
@every_dtype
@given(logits=hnp.arrays(np.float64, st.integers(0, 5), elements=st.floats(-30, 30)))
@settings(max_examples=25)
def test_two_classes(method, dtype, logits):
    logits = logits.astype(dtype)
    r = 1 / (1 + np.exp(-logits.astype(np.float64)))
    p = couple_code(logits[None], [[1], [-1]], method)
    assert p == pytest.approx(np.stack([r, 1 - r], axis=1), abs=1e-6)
    assert couple_code(-logits[None], [[-1], [1]], method) == pytest.approx(p, abs=1e-6)


@every_method
@every_dtype
def test_no_samples(method, dtype):
    p, diagnostics = couple_code(
        np.zeros((4, 0), dtype), graphs.one_vs_rest(4), method, return_diagnostics=True
    )
    assert p.shape == (0, 4)
    assert p.dtype == dtype
    assert diagnostics.iterations.shape == diagnostics.residual.shape == diagnostics.converged.shape == (0,)


@every_case
def test_one_sample_is_as_among_many_and_threads_do_not_change_a_bit(method, name):
    code = CODES[name](7)
    L = noisy(code, 150)
    one, what_one_did = couple_code(L, code, method, return_diagnostics=True)
    many, what_many_did = couple_code(L, code, method, n_jobs=3, return_diagnostics=True)
    assert one.tobytes() == many.tobytes()
    for a, b in zip(what_one_did, what_many_did, strict=True):
        assert np.array_equal(a, b)
    alone = np.concatenate([couple_code(L[:, [r]], code, method) for r in range(0, 150, 10)])
    assert np.array_equal(alone, one[::10])


@pytest.mark.long
@every_case
def test_logits_are_left_alone_and_need_not_be_contiguous(method, name):
    code = CODES[name](5)
    L = noisy(code, 8)
    before = L.copy()
    p = couple_code(L, code, method)
    assert np.array_equal(L, before)
    assert np.array_equal(couple_code(np.asfortranarray(L), code, method), p)
    L.setflags(write=False)
    assert np.array_equal(couple_code(L, code.tolist(), method), p)


def test_linear_decoding_is_the_softmax_of_agreement():
    code = graphs.sparse_code(6)
    L = noisy(code, 9)
    agreement = code.T.astype(float)[None] * L.T[:, :, None] / 2
    u = agreement.sum(axis=1)
    assert couple_code(L, code, "linear") == pytest.approx(
        np.exp(u) / np.exp(u).sum(axis=1, keepdims=True), abs=1e-12
    )


def test_linear_decoding_of_pairs_is_normal_at_another_scale(noisy_logits):
    logits = noisy_logits(7, 20, dtype=np.float64)
    L = logits[np.triu_indices(7, 1)]
    assert couple_code(2 / 7 * L, graphs.one_vs_one(7), "linear") == pytest.approx(
        couple(logits, "normal"), abs=1e-9
    )


class TestZadrozny:
    def test_machines_on_pairs_make_it_bradley_terry(self):
        code = graphs.one_vs_one(6)
        L = noisy(code, 20)
        assert couple_code(L, code, "zadrozny") == pytest.approx(couple_code(L, code), abs=1e-4)

    def test_one_class_against_the_rest_has_no_limit_if_the_machines_disagree(self):
        """2 (r_s - p_s) = sum r - 1 for every class s: added up, 2 (sum r - 1) = 3 (sum r - 1)."""
        code = graphs.one_vs_rest(3)
        r = np.array([[0.6], [0.5], [0.4]])
        with pytest.warns(
            ConvergenceWarning, match="'zadrozny' did not converge for 1 of 1 samples"
        ) as caught:
            p, diagnostics = couple_code(np.log(r / (1 - r)), code, "zadrozny", return_diagnostics=True)
        assert caught[0].filename == __file__
        assert not diagnostics.converged[0]
        assert diagnostics.residual[0] > 0.01
        assert p.sum() == pytest.approx(1)
        # Where the machines agree there is a limit, and it is what they say.
        r = np.array([[0.5], [0.3], [0.2]])
        assert couple_code(np.log(r / (1 - r)), code, "zadrozny") == pytest.approx(r.T, abs=1e-4)


class TestClosedForm:
    @given(
        r=hnp.arrays(
            np.float64, st.tuples(st.integers(3, 9), st.integers(1, 4)), elements=st.floats(1e-6, 1 - 1e-6)
        )
    )
    def test_it_is_the_minimum_of_bradley_terry_in_the_order_of_the_machines(self, r):
        code = graphs.one_vs_rest(len(r))
        L = np.log(r / (1 - r))
        p = couple_code(L, code, "closed_form")
        assert p == pytest.approx(couple_code(L, code), abs=CLOSE)
        assert p.sum(axis=1) == pytest.approx(1, abs=1e-12)
        for values, probabilities in zip(r.T, p, strict=True):
            assert (np.diff(probabilities[np.argsort(values, kind="stable")]) >= -1e-12).all()

    @pytest.mark.parametrize("n_classes", [3, 4, 10, 100])
    @pytest.mark.parametrize("spread", [1, 5, 20, 1000])
    def test_it_converges_whatever_the_machines_say(self, n_classes, spread):
        """Newton's steps alone crept where a few machines were nearly certain."""
        L = spread * np.random.default_rng(0).normal(size=(n_classes, 4000))
        code = graphs.one_vs_rest(n_classes)
        p, diagnostics = couple_code(L, code, "closed_form", return_diagnostics=True)
        assert p.sum(axis=1) == pytest.approx(1, abs=1e-12)
        assert diagnostics.iterations.max() < 40

    @pytest.mark.parametrize("excess", [0, 1e-16, 1e-12, -1e-12, 1e-8, -1e-8, 1e-3, -1e-3])
    def test_machines_that_nearly_agree_are_taken_at_their_word(self, excess):
        """d is about `excess`, and the formula as it is printed would divide by it."""
        r = np.array([0.5, 0.3, 0.15, 0.05])
        r[0] += excess
        p = couple_code(np.log(r / (1 - r))[:, None], graphs.one_vs_rest(4), "closed_form")[0]
        v = r * (1 - r)
        first_order = r - excess * v / v.sum()
        assert p == pytest.approx(first_order, abs=1e-13 + 3 * excess**2)

    @pytest.mark.parametrize("n_classes", [3, 10, 200])
    @pytest.mark.parametrize("logit", [1e4, -1e4, 0])
    def test_machines_that_all_say_the_same_say_nothing(self, n_classes, logit):
        L = np.full((n_classes, 1), float(logit))
        assert couple_code(L, graphs.one_vs_rest(n_classes), "closed_form") == pytest.approx(
            1 / n_classes, abs=1e-9
        )

    def test_the_order_and_the_signs_of_the_machines_may_be_any(self):
        code = graphs.one_vs_rest(4)
        L = noisy(code, 10)
        sign, order = np.array([1, -1, -1, 1]), [2, 0, 3, 1]
        other = couple_code(sign[:, None] * L[order], sign * code[:, order], "closed_form")
        assert other == pytest.approx(couple_code(L, code, "closed_form"), abs=1e-12)

    @pytest.mark.parametrize(
        "code",
        [graphs.one_vs_one(4), graphs.dense_code(4), graphs.sparse_code(4), graphs.one_vs_rest(4)[:, :3]],
    )
    def test_other_codes_have_none(self, code):
        with pytest.raises(
            ValueError, match=r"code must be one class against the rest.*Use method='bradley_terry'"
        ):
            couple_code(np.zeros((code.shape[1], 1)), code, "closed_form")


class TestDiagnostics:
    @every_case
    def test_they_report_convergence_and_leave_the_probabilities_alone(self, method, name):
        code = CODES[name](9)
        L = noisy(code, 33, 0.3)
        p, diagnostics = couple_code(L, code, method, return_diagnostics=True)
        assert np.array_equal(p, couple_code(L, code, method))
        assert diagnostics.converged.all()
        assert (diagnostics.residual >= 0).all()
        assert (
            (diagnostics.iterations == 1).all() if method == "linear" else (diagnostics.iterations > 1).all()
        )

    def test_a_looser_tolerance_costs_less(self):
        code = graphs.sparse_code(9)
        L = noisy(code, 30)
        loose, tight = (couple_code(L, code, tol=tol, return_diagnostics=True) for tol in (1e-3, 1e-8))
        assert loose[1].iterations.sum() < tight[1].iterations.sum()
        assert loose[0] == pytest.approx(tight[0], abs=5e-3)

    def test_not_converging_is_a_warning_with_counts(self):
        """Because of rounding, no step reaches a tolerance of 1e-40."""
        code = graphs.sparse_code(9)
        L = noisy(code, 4)
        with pytest.warns(ConvergenceWarning, match="'bradley_terry' did not converge for") as caught:
            p, diagnostics = couple_code(L, code, tol=1e-40, return_diagnostics=True)
        assert caught[0].filename == __file__
        assert f"{(~diagnostics.converged).sum()} of 4 samples" in str(caught[0].message)
        assert p == pytest.approx(couple_code(L, code), abs=CLOSE)


class TestChecks:
    @every_method
    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_logits_are_finite(self, method, value):
        L = np.zeros((4, 9))
        L[2, 5] = value
        with pytest.raises(
            ValueError, match=re.escape(f"logits must be finite, got logits[2, 5] = {value}.")
        ):
            couple_code(L, graphs.one_vs_rest(4), method)

    @pytest.mark.parametrize("shape", [(3,), (3, 2), (4, 2, 1), (0, 3)])
    def test_shape(self, shape):
        with pytest.raises(
            ValueError, match=re.escape(f"(m, R) with m = 4, the columns of code, got shape {shape}")
        ):
            couple_code(np.zeros(shape), graphs.one_vs_rest(4))

    @pytest.mark.parametrize("dtype", [complex, object, "U1"])
    def test_dtype(self, dtype):
        with pytest.raises(TypeError, match="logits must be real numbers, got dtype"):
            couple_code(np.zeros((3, 1), dtype), graphs.one_vs_rest(3))

    def test_a_bad_code_is_refused_in_the_name_of_the_function(self):
        with pytest.raises(
            ValueError, match=r"^couple_code: code must not repeat a machine, but column 1 is"
        ):
            couple_code(np.zeros((2, 1)), [[1, -1], [-1, 1]])

    @pytest.mark.parametrize("method", ["bradley_tery", None, 3])
    def test_method(self, method):
        with pytest.raises(ValueError, match="couple_code: method must be one of bradley_terry, linear"):
            couple_code(np.zeros((3, 1)), graphs.one_vs_rest(3), method)

    @pytest.mark.parametrize("tol", [-1e-6, np.nan, np.inf, "tight", None, True])
    def test_tolerance(self, tol):
        with pytest.raises(ValueError, match="couple_code: tol must be a number of at least 0, got"):
            couple_code(np.zeros((3, 1)), graphs.one_vs_rest(3), tol=tol)

    @pytest.mark.parametrize("n_jobs", [0, 1.5, "2"])
    def test_n_jobs(self, n_jobs):
        with pytest.raises(ValueError, match="couple_code: n_jobs must be None or an integer other than 0"):
            couple_code(np.zeros((3, 1)), graphs.one_vs_rest(3), n_jobs=n_jobs)

    @pytest.mark.parametrize("barrier", [-1e-6, np.nan, np.inf, "high", True])
    def test_barrier(self, barrier):
        with pytest.raises(ValueError, match="couple_code: barrier must be a number of at least 0, got"):
            couple_code(np.zeros((3, 1)), graphs.one_vs_rest(3), barrier=barrier)

    @pytest.mark.parametrize("method", ["linear", "zadrozny", "closed_form"])
    def test_a_barrier_of_a_method_that_has_none(self, method):
        with pytest.raises(
            ValueError, match=r"barrier must be None unless method is bradley_terry, got 0\.1"
        ):
            couple_code(np.zeros((3, 1)), graphs.one_vs_rest(3), method, barrier=0.1)

    @pytest.mark.parametrize("method", ["linear", "closed_form"])
    def test_weights_of_a_method_that_has_none(self, method):
        with pytest.raises(
            ValueError, match="weights must be None unless method is bradley_terry or zadrozny"
        ):
            couple_code(np.zeros((3, 1)), graphs.one_vs_rest(3), method, np.ones(3))

    @pytest.mark.parametrize("value", [0, -1, np.nan, np.inf])
    def test_weights_are_positive(self, value):
        weights = np.ones(3)
        weights[1] = value
        with pytest.raises(
            ValueError, match=r"weights must be positive and finite, got weights\[1\].*Leave a machine"
        ):
            couple_code(np.zeros((3, 2)), graphs.one_vs_rest(3), weights=weights)
        with pytest.raises(ValueError, match=r"weights must be positive and finite, got weights\[1, 0\]"):
            couple_code(np.zeros((3, 2)), graphs.one_vs_rest(3), weights=np.stack([weights, weights], axis=1))

    @pytest.mark.parametrize("weights", [np.ones(2), np.ones((3, 1)), np.ones((2, 3))])
    def test_shape_of_the_weights(self, weights):
        with pytest.raises(ValueError, match=re.escape("weights must have shape (3,) or (3, 2), got")):
            couple_code(np.zeros((3, 2)), graphs.one_vs_rest(3), weights=weights)

    def test_weights_that_are_no_numbers(self):
        with pytest.raises(ValueError, match="couple_code: weights must be real numbers, got"):
            couple_code(np.zeros((3, 2)), graphs.one_vs_rest(3), weights=["a", "b", "c"])
