import networkx as nx
import numpy as np
import pytest
from exact_couplings import REFERENCES, bradley_terry, softmax
from scipy.optimize import minimize

from pairloom import graphs
from pairloom.pipeline.completion.complete import complete_logits, plan_completion
from pairloom.pipeline.completion.slab import gradient_of_log_probability
from pairloom.pipeline.coupling.pairs.gradient import GRADIENTS, gradient_of_true_class

N, R = 5, 4


MODEL_GRAPHS = {
    "complete": graphs.complete(N),
    "bipartite": graphs.bipartite(N, 2),
    "path": graphs.path(N),  # has pairs at distance three, which are completed by potentials
    "mixed": nx.Graph([(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)]),
}


def mean_log_p(edge_logits, y, graph, reference, weight):
    L = np.zeros((N, N, R))
    for e, (i, j) in enumerate(graphs.edge_array(graph)):
        L[i, j], L[j, i] = edge_logits[e], -edge_logits[e]
    L = complete_logits(L, graph)
    return weight @ np.log([reference(L[:, :, r].copy())[y[r]] for r in range(R)]) / weight.sum()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("graph", MODEL_GRAPHS.values(), ids=MODEL_GRAPHS)
@pytest.mark.parametrize("method", GRADIENTS)
def test_against_finite_differences(method, graph, weighted):
    rng = np.random.default_rng(0)
    completion = plan_completion(graph)
    E = len(completion.edges)
    logits, y = 1.5 * rng.standard_normal((E, R)), rng.integers(0, N, R)
    weight = rng.uniform(0.5, 3, R) if weighted else np.ones(R)
    value, gradient = gradient_of_log_probability(
        logits.astype(np.float32), y, completion, method, weight if weighted else None
    )
    logits = logits.astype(np.float32).astype(np.float64)
    assert value == pytest.approx(mean_log_p(logits, y, graph, REFERENCES[method], weight), abs=1e-5)
    h = 1e-5
    for e in range(E):
        for r in range(R):
            step = np.zeros((E, R))
            step[e, r] = h
            up, down = (mean_log_p(logits + s * step, y, graph, REFERENCES[method], weight) for s in (1, -1))
            assert gradient[e, r] == pytest.approx((up - down) / (2 * h), abs=1e-5)


@pytest.mark.parametrize("method", GRADIENTS)
def test_with_exact_probabilities_the_gradient_is_exact(method):
    """The formulas alone, in double precision, with respect to every pair and its mirror image."""
    rng = np.random.default_rng(1)
    upper = np.triu(1.5 * rng.standard_normal((N, N)), 1)
    L, y, h = upper - upper.T, 2, 1e-5
    G = gradient_of_true_class(L[None], REFERENCES[method](L)[None], np.array([y]), method)[0]
    np.testing.assert_allclose(G, -G.T, atol=1e-12)
    for i, j in zip(*np.triu_indices(N, 1), strict=True):
        step = np.zeros((N, N))
        step[i, j], step[j, i] = h, -h
        up, down = (np.log(REFERENCES[method](L + s * step)[y]) for s in (1, -1))
        assert G[i, j] == pytest.approx((up - down) / (2 * h), abs=1e-7)


@pytest.mark.parametrize("method", GRADIENTS)
def test_slabs_do_not_change_the_gradient(method, noisy_logits):
    completion = plan_completion(graphs.complete(N))
    L = noisy_logits(N, 300)
    logits, y = L[tuple(completion.edges.T)], np.arange(300) % N
    value, gradient = gradient_of_log_probability(logits, y, completion, method)
    small = gradient_of_log_probability(logits, y, completion, method, memory_limit=8 * N * N * 200)
    assert small[0] == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(small[1], gradient, rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("method", GRADIENTS)
def test_extreme_logits_stay_finite(method):
    completion = plan_completion(graphs.complete(3))
    logits = np.array([[1e4, -1e4, 0], [1e4, 30, 0], [-1e4, 30, 0]], np.float32)
    value, gradient = gradient_of_log_probability(logits, np.array([2, 1, 0]), completion, method)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_voting_has_none():
    completion = plan_completion(graphs.complete(3))
    with pytest.raises(
        ValueError, match=r"coupled_calibration='edges' needs a coupling with a gradient, .* got 'vote'"
    ):
        gradient_of_log_probability(np.zeros((3, 1), np.float32), np.zeros(1, int), completion, "vote")


def test_the_reference_of_bradley_terry_is_a_minimum():
    L = np.array([[0, 1.0, -0.5], [-1.0, 0, 2.0], [0.5, -2.0, 0]])
    r = 1 / (1 + np.exp(-L))
    i, j = np.triu_indices(3, 1)

    def loss(u):
        return (r[i, j] * np.logaddexp(0, u[j] - u[i]) + r[j, i] * np.logaddexp(0, u[i] - u[j])).sum()

    np.testing.assert_allclose(softmax(minimize(loss, np.zeros(3), tol=1e-10).x), bradley_terry(L), atol=1e-5)
