import networkx as nx
import numpy as np
import pytest
from exact_couplings import REFERENCES

from pairloom import complete_logits, graphs
from pairloom.pipeline.calibration.shortlist_gradient import (
    gradient_through_shortlists,
    log_probabilities_of_lists,
)
from pairloom.pipeline.completion.complete import plan_completion
from pairloom.pipeline.completion.shortlist import ONE_SCALE, ListMass, shortlists
from pairloom.pipeline.completion.slab import gradient_of_log_probability
from pairloom.pipeline.coupling.pairs.gradient import GRADIENTS

N, R = 6, 5
MODEL_GRAPHS = {
    "complete": graphs.complete(N),
    "star": graphs.star(N, centre=0),
    "path": graphs.path(N),  # has pairs at distance three, which are completed by potentials
    "mixed": nx.Graph([(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (1, 5)]),
}


def potentials(edge_logits, edges):
    """(N,) least-squares potentials of the trained pairs of one sample."""
    incidence = np.zeros((len(edges), N))
    incidence[np.arange(len(edges)), edges[:, 0]] = 1
    incidence[np.arange(len(edges)), edges[:, 1]] = -1
    return np.linalg.lstsq(incidence, edge_logits, rcond=None)[0]


def log_p(edge_logits, y, graph, method, listed, mass=ONE_SCALE):
    """log p_y of one sample in double precision, from the definition, with a list that is given."""
    edges = graphs.edge_array(graph)
    L = np.zeros((N, N, 1))
    for (i, j), logit in zip(edges, edge_logits, strict=True):
        L[i, j], L[j, i] = logit, -logit
    L = complete_logits(L, graph)
    u = mass.ranking * potentials(edge_logits, edges)
    u[listed] += mass.offset
    p = np.exp(u - u.max()) / np.exp(u - u.max()).sum()
    p[listed] = p[listed].sum() * REFERENCES[method](L[np.ix_(listed, listed)][:, :, 0].copy())
    return np.log(p[y])


@pytest.mark.parametrize("k", [2, 3, N])
@pytest.mark.parametrize("graph", MODEL_GRAPHS.values(), ids=MODEL_GRAPHS)
@pytest.mark.parametrize("method", GRADIENTS)
def test_against_finite_differences(method, graph, k):
    compare_with_differences(method, graph, k, ONE_SCALE)


@pytest.mark.parametrize("graph", MODEL_GRAPHS.values(), ids=MODEL_GRAPHS)
@pytest.mark.parametrize("method", GRADIENTS)
def test_a_list_with_a_mass_of_its_own_against_finite_differences(method, graph):
    compare_with_differences(method, graph, 3, ListMass(0.7, 1.2))


def compare_with_differences(method, graph, k, mass):
    rng = np.random.default_rng(k)
    completion = plan_completion(graph)
    E = len(completion.edges)
    logits = (1.5 * rng.standard_normal((R, E))).astype(np.float32)
    y = np.arange(R) % N
    value, gradient = gradient_through_shortlists(logits, y, completion, method, k, mass)
    lists = shortlists(logits, completion.ranking.of_samples(logits), completion, k).classes
    exact, h = logits.astype(np.float64), 1e-5
    for r in range(R):
        rest = (y[r], graph, method, lists[r], mass)
        assert value[r] == pytest.approx(log_p(exact[r], *rest), abs=1e-5)
        for e in range(E):
            up, down = (log_p(exact[r] + s * h * np.eye(E)[e], *rest) for s in (1, -1))
            assert gradient[r, e] == pytest.approx((up - down) / (2 * h), abs=1e-5)


@pytest.mark.parametrize("method", GRADIENTS)
def test_the_list_of_all_classes_has_the_gradient_of_all_pairs(method):
    completion = plan_completion(MODEL_GRAPHS["mixed"])
    logits = np.random.default_rng(0).normal(0, 2, (R, len(completion.edges))).astype(np.float32)
    y = np.arange(R) % N
    value, gradient = gradient_through_shortlists(logits, y, completion, method, N)
    mean, of_all = gradient_of_log_probability(np.ascontiguousarray(logits.T), y, completion, method)
    assert value.mean() == pytest.approx(mean, abs=1e-6)
    np.testing.assert_allclose(gradient.T / R, of_all, atol=1e-6)


@pytest.mark.parametrize("method", GRADIENTS)
def test_log_probabilities_are_those_of_the_coupled_lists(method):
    completion = plan_completion(MODEL_GRAPHS["mixed"])
    logits = np.random.default_rng(0).normal(0, 2, (R, len(completion.edges))).astype(np.float32)
    y = np.arange(R) % N
    mass = ListMass(0.7, 1.2)
    lists = shortlists(logits, completion.ranking.of_samples(logits), completion, 3)
    p = lists._replace(mass=mass).couple(method)
    found = log_probabilities_of_lists(logits, y, completion, method, 3, mass)
    np.testing.assert_allclose(found, np.log(p[np.arange(R), y]), rtol=1e-4)
