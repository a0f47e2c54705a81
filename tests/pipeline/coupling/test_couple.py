"""Properties of every coupling method, and of `couple` itself: checks, diagnostics, threads."""

import re
import warnings

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.exceptions import ConvergenceWarning

from pairloom import complete_logits, couple, graphs
from pairloom.pipeline.coupling.pairs.couple import METHODS, WEIGHTED

PROBABILISTIC = [method for method in METHODS if method != "vote"]
#: `couple` estimates its error and stops at 1e-6 per probability; the tests leave some room.
CLOSE = 5e-6

every_method = pytest.mark.parametrize("method", METHODS)
every_probabilistic_method = pytest.mark.parametrize("method", PROBABILISTIC)
every_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def softmax(u):
    odds = np.exp(u - u.max(axis=0))
    return (odds / odds.sum(axis=0)).T


def consistent(u, dtype=np.float64):
    return (u[:, None] - u[None, :]).astype(dtype)


def antisymmetric(upper):
    upper = np.triu(np.ones(upper.shape[:2]), 1)[:, :, None] * upper
    return upper - upper.transpose(1, 0, 2)


@st.composite
def potentials(draw, max_classes=9, within=7.0):
    """Potentials within 7 of zero, so that no method clips their differences."""
    n, n_samples = draw(st.integers(2, max_classes)), draw(st.integers(1, 3))
    return draw(hnp.arrays(np.float64, (n, n_samples), elements=st.floats(-within, within)))


@st.composite
def any_logits(draw, max_classes=7, within=12.0):
    n, n_samples = draw(st.integers(2, max_classes)), draw(st.integers(1, 3))
    elements = st.floats(-within, within, width=32)
    return antisymmetric(draw(hnp.arrays(np.float32, (n, n, n_samples), elements=elements)))


@st.composite
def model_graphs(draw, n):
    """Connected graphs on 0..n-1: those of the families, and arbitrary ones."""
    family = draw(
        st.sampled_from(["tree", "path", "star", "bipartite", "hub_neighbours", "connected", "complete"])
    )
    if family == "tree":
        parents = [None, *(draw(st.integers(0, i - 1)) for i in range(1, n))]
        graph = nx.empty_graph(n)
        graph.add_edges_from((i, parent) for i, parent in enumerate(parents) if parent is not None)
    elif family == "path":
        graph = graphs.path(n)
    elif family == "star":
        graph = graphs.star(n, centre=draw(st.integers(0, n - 1)))
    elif family == "bipartite":
        graph = graphs.bipartite(n, draw(st.integers(1, n - 1)))
    elif family == "hub_neighbours":
        place = np.arange(n, dtype=float)
        graph = graphs.hub_neighbours(
            abs(place[:, None] - place), draw(st.integers(1, n - 1)), draw(st.integers(0, n - 1))
        )
    elif family == "complete":
        graph = graphs.complete(n)
    else:
        graph = nx.empty_graph(n)
        graph.add_edges_from((i, draw(st.integers(0, i - 1))) for i in range(1, n))
        pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(
            lambda pair: pair[0] != pair[1]
        )
        graph.add_edges_from(draw(st.lists(pairs, max_size=2 * n)))
    return nx.relabel_nodes(graph, dict(enumerate(draw(st.permutations(range(n))))))


@every_probabilistic_method
@every_dtype
@given(data=st.data(), u=potentials())
def test_consistent_logits_give_back_the_softmax_on_every_connected_graph(method, dtype, data, u):
    graph = data.draw(model_graphs(len(u)))
    logits = np.full((len(u), *u.shape), np.nan, dtype)
    for i, j in graph.edges():
        logits[i, j], logits[j, i] = u[i] - u[j], u[j] - u[i]
    completed = complete_logits(logits, graph)
    assert completed == pytest.approx(consistent(u), abs=2e-5 if dtype == np.float32 else 1e-10)
    p = couple(completed, method)
    assert p.dtype == dtype
    assert p == pytest.approx(softmax(u), abs=2e-5 if dtype == np.float32 else CLOSE)


@given(u=potentials())
def test_consistent_logits_give_the_vote_to_the_best_class(u):
    """Votes are ranks, not probabilities: the best class wins all of its pairs."""
    n = len(u)
    p = couple(consistent(u), "vote")
    wins = (u[:, None] > u[None, :]).sum(axis=1) + 0.5 * ((u[:, None] == u[None, :]).sum(axis=1) - 1)
    assert p == pytest.approx(wins.T * 2 / (n * (n - 1)), abs=1e-6)


@every_method
@given(data=st.data(), logits=any_logits())
def test_permuting_the_classes_permutes_the_probabilities(method, data, logits):
    order = data.draw(st.permutations(range(len(logits))))
    permuted = couple(logits[order][:, order], method)
    assert permuted == pytest.approx(couple(logits, method)[:, order], abs=CLOSE)


@every_method
@given(logits=any_logits(within=300.0))
def test_rows_are_distributions(method, logits):
    p = couple(logits, method)
    assert p.sum(axis=1) == pytest.approx(1, abs=1e-6)
    assert (p >= 0 if method == "vote" else p > 0).all()


@every_probabilistic_method
@every_dtype
@given(logits=hnp.arrays(np.float64, st.integers(0, 5), elements=st.floats(-30, 30)))
def test_two_classes(method, dtype, logits):
    logits = logits.astype(dtype)
    r = 1 / (1 + np.exp(-logits.astype(np.float64)))
    p = couple(np.array([[0 * logits, logits], [-logits, 0 * logits]]), method)
    assert p == pytest.approx(np.stack([r, 1 - r], axis=1), abs=1e-6)


@every_method
@every_dtype
def test_no_samples(method, dtype):
    p, diagnostics = couple(np.zeros((4, 4, 0), dtype), method, return_diagnostics=True)
    assert p.shape == (0, 4)
    assert p.dtype == dtype
    assert diagnostics.iterations.shape == diagnostics.residual.shape == diagnostics.converged.shape == (0,)


@every_method
@pytest.mark.parametrize("n_classes", [3, 13, 50])
def test_one_sample_is_as_among_many(method, n_classes, noisy_logits):
    logits = noisy_logits(n_classes, 37)
    alone = np.concatenate([couple(logits[:, :, [r]], method) for r in range(37)])
    assert np.array_equal(alone, couple(logits, method))


@every_probabilistic_method
def test_a_thousand_classes(method):
    u = np.random.default_rng(0).normal(0, 2, (1000, 2))
    p = couple(consistent(u, np.float32), method)
    assert p == pytest.approx(softmax(u), abs=CLOSE)
    assert p.sum(axis=1) == pytest.approx(1, abs=1e-6)


@every_method
@every_dtype
@pytest.mark.parametrize("n_classes", [3, 20])
def test_extreme_consistent_logits(method, dtype, n_classes):
    u = np.linspace(1e4, 0, n_classes)[:, None]
    p = couple(consistent(u, dtype), method)
    assert (np.diff(p) <= 1e-30).all()  # float32 cannot resolve smaller differences
    if method != "vote":
        # Some methods clip r at 1e-7, so the winner can lose that much to each other class.
        assert p[0, 0] == pytest.approx(1, abs=n_classes * 2e-6)
        assert (p > 0).all()


@every_method
@every_dtype
@pytest.mark.parametrize("n_classes", [3, 5, 21])
@pytest.mark.parametrize("size", [30.0, 1e4])
def test_extreme_cycles_are_ties(method, dtype, n_classes, size):
    """Each class beats the half of the classes after it: by symmetry all are equal, however large the logits."""
    ahead = (np.arange(n_classes)[None, :] - np.arange(n_classes)[:, None]) % n_classes
    logits = np.where(ahead == 0, 0, np.where(ahead <= n_classes // 2, size, -size)).astype(dtype)[:, :, None]
    assert couple(logits, method) == pytest.approx(1 / n_classes, abs=CLOSE)


@every_method
@every_dtype
@pytest.mark.parametrize("n_classes", [4, 30])
def test_extreme_noise(method, dtype, n_classes, noisy_logits):
    p = couple(noisy_logits(n_classes, 9, spread=0, noise=1e4, dtype=dtype), method)
    assert (p >= 0).all()
    assert p.sum(axis=1) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("n_jobs", [1, 2, 3, -1])
@pytest.mark.parametrize(
    ("method", "weighted"),
    [*((method, False) for method in METHODS), *((method, True) for method in WEIGHTED)],
)
def test_threads_do_not_change_a_bit(method, n_jobs, weighted, noisy_logits):
    logits = noisy_logits(21, 203)
    n_ij = np.random.default_rng(0).uniform(1, 9, (21, 21))
    weights = n_ij + n_ij.T if weighted else None
    one, what_one_did = couple(logits, method, weights, return_diagnostics=True)
    many, what_many_did = couple(logits, method, weights, n_jobs=n_jobs, return_diagnostics=True)
    assert one.tobytes() == many.tobytes()
    for a, b in zip(what_one_did, what_many_did, strict=True):
        assert np.array_equal(a, b)


@pytest.mark.long
@every_method
def test_logits_are_left_alone_and_need_not_be_contiguous(method, noisy_logits):
    logits = noisy_logits(5, 8)
    before = logits.copy()
    p = couple(logits, method)
    assert np.array_equal(logits, before)
    samples_first = np.ascontiguousarray(logits.transpose(2, 0, 1))
    assert np.array_equal(couple(samples_first.transpose(1, 2, 0), method), p)
    logits.setflags(write=False)
    assert np.array_equal(couple(logits, method), p)


@every_method
def test_integers_are_numbers(method):
    whole = np.array([[0, 1, 2], [-1, 0, 1], [-2, -1, 0]])[:, :, None]
    assert np.array_equal(couple(whole, method), couple(whole.astype(float), method))


class TestDiagnostics:
    @every_method
    def test_they_report_convergence_and_leave_the_probabilities_alone(self, method, noisy_logits):
        p, diagnostics = couple(noisy_logits(20, 33), method, return_diagnostics=True)
        assert np.array_equal(p, couple(noisy_logits(20, 33), method))
        assert diagnostics.converged.all()
        assert (diagnostics.residual <= 1e-6).all()
        assert (diagnostics.residual >= 0).all()
        if method in ("normal", "vote"):
            assert (diagnostics.iterations == 1).all()
        else:
            assert (diagnostics.iterations > 1).all()

    def test_not_converging_is_a_warning_with_counts(self, noisy_logits):
        """Because of rounding, no step reaches a tolerance of 1e-40."""
        logits, method = noisy_logits(60, 25), "bradley_terry"
        with pytest.warns(ConvergenceWarning) as caught:
            p, diagnostics = couple(logits, method, tol=1e-40, return_diagnostics=True)
        left = (~diagnostics.converged).sum()
        assert left > 0
        assert f"method '{method}' did not converge for {left} of 25 samples" in str(caught[0].message)
        assert f"after {diagnostics.iterations.max()} iterations" in str(caught[0].message)
        assert caught[0].filename == __file__
        assert np.array_equal(diagnostics.converged, diagnostics.residual <= 1e-40)
        # The probabilities are still good.
        assert p == pytest.approx(couple(logits, method), abs=CLOSE)

    @pytest.mark.parametrize("method", ["stratified", "wlw2"])
    def test_others_are_solved_directly_instead(self, method, noisy_logits):
        logits = noisy_logits(20, 25)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            p, diagnostics = couple(logits, method, tol=0, return_diagnostics=True)
        assert diagnostics.converged.all()
        assert (diagnostics.iterations == 0).any()
        assert p == pytest.approx(couple(logits, method), abs=CLOSE)

    @every_method
    def test_a_looser_tolerance_costs_less(self, method, noisy_logits):
        logits = noisy_logits(40, 10)
        loose, tight = (couple(logits, method, tol=tol, return_diagnostics=True) for tol in (1e-3, 1e-6))
        assert (loose[1].iterations <= tight[1].iterations).all()
        if method not in ("normal", "vote"):
            assert loose[1].iterations.sum() < tight[1].iterations.sum()
        assert loose[0] == pytest.approx(tight[0], abs=5e-3)


class TestChecks:
    @every_method
    @every_dtype
    @pytest.mark.parametrize(
        ("forward", "backward", "must"),
        [
            (np.nan, 0, "finite"),
            (0, np.nan, "finite"),
            (np.inf, -np.inf, "finite"),
            (-np.inf, np.inf, "finite"),
            (np.inf, np.inf, "finite"),
            (np.inf, 5, "finite"),
            (5, -np.inf, "finite"),
            (1, 1, "antisymmetric"),
            (2, -1.9, "antisymmetric"),
            (3e38, 3e38, "antisymmetric"),
        ],
    )
    def test_the_first_offence_is_named(self, method, dtype, forward, backward, must, noisy_logits):
        logits = noisy_logits(6, 70, dtype=dtype)
        logits[1, 4, 65], logits[4, 1, 65] = forward, backward
        logits[2, 3, 1], logits[3, 2, 1] = forward, backward  # later in the order (i, j, r)
        with pytest.raises(ValueError, match=rf"couple: logits must be {must}.*L\[1, 4, 65\]"):
            couple(logits, method, n_jobs=2)

    @every_method
    @pytest.mark.parametrize("value", [1.0, np.nan, np.inf])
    def test_the_diagonal_is_zero(self, method, value, noisy_logits):
        logits = noisy_logits(4, 5)
        logits[2, 2, 3] = value
        with pytest.raises(ValueError, match=re.escape("L[2, 2, 3]")):
            couple(logits, method)

    @every_method
    def test_rounding_is_not_an_offence(self, method, noisy_logits):
        logits = noisy_logits(5, 20)
        bent = logits + np.float32(1e-5) * np.abs(logits) + np.float32(1e-6)
        p = couple(bent, method)
        assert p.sum(axis=1) == pytest.approx(1, abs=1e-6)
        if method != "vote":
            assert p == pytest.approx(couple(logits, method), abs=1e-3)

    @every_method
    def test_two_classes_are_checked_too(self, method):
        with pytest.raises(ValueError, match=re.escape("L[0, 1, 0]")):
            couple(np.array([[[0.0], [np.nan]], [[1.0], [0.0]]]), method)

    @every_method
    def test_logits_whose_sums_overflow(self, method):
        logits = np.zeros((5, 5, 2), np.float32)
        logits[1, 2:, 1], logits[2:, 1, 1] = 3e38, -3e38
        with pytest.raises(ValueError, match=r"within the range of float32, got inf for L\[1, :, 1\]\.$"):
            couple(logits, method)

    @pytest.mark.parametrize("shape", [(3, 3), (3, 4, 2), (1, 1, 5), (0, 0, 0), (2, 2, 2, 2)])
    def test_shape(self, shape):
        with pytest.raises(
            ValueError, match=re.escape(f"(N, N, R) with N at least 2 classes, got shape {shape}")
        ):
            couple(np.zeros(shape))

    @pytest.mark.parametrize("dtype", [complex, object, "U1"])
    def test_dtype(self, dtype):
        with pytest.raises(TypeError, match="logits must be real numbers, got dtype"):
            couple(np.zeros((2, 2, 1), dtype))

    def test_method(self):
        with pytest.raises(ValueError, match=r"got 'stratifed'\. Did you mean 'stratified'"):
            couple(np.zeros((2, 2, 1)), "stratifed")

    @pytest.mark.parametrize("method", [None, 3, ["normal"]])
    def test_method_is_a_name(self, method):
        with pytest.raises(ValueError, match="couple: method must be one of normal, wlw2"):
            couple(np.zeros((2, 2, 1)), method)

    @pytest.mark.parametrize("tol", [-1e-6, np.nan, np.inf, "tight", None])
    def test_tolerance(self, tol):
        with pytest.raises(ValueError, match="tol must be a number of at least 0, got"):
            couple(np.zeros((2, 2, 1)), tol=tol)

    @pytest.mark.parametrize("n_jobs", [0, 1.5, "2"])
    def test_n_jobs(self, n_jobs):
        with pytest.raises(ValueError, match="n_jobs must be None or an integer other than 0, got"):
            couple(np.zeros((2, 2, 1)), n_jobs=n_jobs)

    @pytest.mark.parametrize("method", ["wlw2", "stratified", "vote"])
    def test_weights_of_a_method_that_has_none(self, method):
        with pytest.raises(
            ValueError,
            match=f"weights must be None unless method is normal or bradley_terry, got weights for method '{method}'",
        ):
            couple(np.zeros((2, 2, 1)), method, np.ones((2, 2)))

    @pytest.mark.parametrize("method", ["normal", "bradley_terry"])
    @pytest.mark.parametrize("value", [0, -1, np.nan, np.inf, 2])
    def test_weights(self, method, value):
        weights = np.ones((4, 4))
        weights[1, 3] = value
        with pytest.raises(ValueError, match=r"positive, finite and symmetric, got weights\[1, 3\]"):
            couple(np.zeros((4, 4, 1)), method, weights)

    @pytest.mark.parametrize("method", ["normal", "bradley_terry"])
    def test_the_diagonal_of_the_weights_is_not_read(self, method, noisy_logits):
        weights = np.ones((4, 4))
        np.fill_diagonal(weights, np.nan)
        logits = noisy_logits(4, 3)
        assert np.array_equal(couple(logits, method, weights), couple(logits, method, np.ones((4, 4))))

    def test_shape_of_the_weights(self):
        with pytest.raises(ValueError, match=re.escape("weights must have shape (3, 3), got (3,)")):
            couple(np.zeros((3, 3, 1)), "normal", np.ones(3))


@pytest.mark.parametrize("method", ["normal", "bradley_terry"])
@settings(max_examples=30)
@given(logits=any_logits(), scale=st.floats(0.01, 100))
def test_equal_weights_are_no_weights(method, logits, scale):
    weights = np.full(logits.shape[:2], scale)
    assert couple(logits, method, weights) == pytest.approx(couple(logits, method), abs=CLOSE)


def noisy_tensor(n, n_samples, seed):
    rng = np.random.default_rng(seed)
    u = rng.normal(0, 2, (n, 1, n_samples))
    noise = np.triu(rng.normal(0, 1, (n_samples, n, n)), 1).transpose(1, 2, 0)
    return (u - u.transpose(1, 0, 2) + noise - noise.transpose(1, 0, 2)).astype(np.float32)


@pytest.mark.parametrize("method", ["stratified", "wlw2", "bradley_terry"])
def test_a_warm_start_from_a_similar_model_reaches_the_same_probabilities(method):
    """As where a model grows: the start is the coupling of the model before a pair was added."""
    L, grown, start = noisy_tensor(8, 40, 1), graphs.star(8), None
    for pair in graphs.grow(graphs.star(8)):
        grown.add_edge(*pair)
        tensor = complete_logits(L, grown)
        p = couple(tensor, method, start=start)
        np.testing.assert_allclose(p, couple(tensor, method), atol=2e-5)
        start = p


@pytest.mark.parametrize("method", ["stratified", "wlw2", "bradley_terry"])
def test_a_warm_start_saves_iterations(method):
    L = noisy_tensor(40, 60, 2)
    cold, at_first = couple(L, method, return_diagnostics=True)
    warm, again = couple(L, method, start=cold, return_diagnostics=True)
    np.testing.assert_allclose(warm, cold, atol=1e-5)
    assert again.iterations.sum() < at_first.iterations.sum()


def test_a_start_of_another_shape_is_refused():
    with pytest.raises(
        ValueError, match=r"start must be \(3, 4\) probabilities, got an array of shape \(4, 3\)"
    ):
        couple(noisy_tensor(4, 3, 0), "wlw2", start=np.ones((4, 3)))
