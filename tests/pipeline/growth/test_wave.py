"""A wave of growth: its scores, and the pairs that it proposes."""

import networkx as nx
import numpy as np
import pytest

from pairloom import complete_logits, graphs
from pairloom.pipeline.calibration.held_out import HeldOutSamples
from pairloom.pipeline.completion.complete import plan_completion
from pairloom.pipeline.completion.couplers import coupler_of
from pairloom.pipeline.growth.waves import completed_dprime, judge_wave, mean_probabilities, usual_wave

N, EACH = 7, 12
ALIKE = (4, 5)


@pytest.fixture
def model():
    """A star over classes of which two are alike: graph, (E, R) logits, classes of the samples."""
    rng = np.random.default_rng(0)
    centres = 4.0 * np.eye(N)
    centres[ALIKE[1]] = centres[ALIKE[0]] + 0.5 * np.eye(N)[ALIKE[1]]
    y = np.repeat(np.arange(N), EACH)
    X = centres[y] + rng.normal(0, 0.7, (len(y), N))
    potentials = -((X[None] - centres[:, None]) ** 2).sum(axis=2) / 2
    graph = graphs.star(N)
    i, j = graphs.edge_array(graph).T
    noise = rng.normal(0, 0.3, (len(i), len(y)))
    return graph, (potentials[i] - potentials[j] + noise).astype(np.float32), y


def held_out(logits, y, graph):
    return HeldOutSamples.of_edges(logits, y, coupler_of(graph))


@pytest.mark.parametrize("cost", ["confusion", "dprime"])
def test_classes_that_are_alike_come_first(cost, model):
    graph, logits, y = model
    wave = judge_wave(held_out(logits, y, graph), graph, "stratified", cost, most=3)
    assert wave.proposed[0] == ALIKE
    assert len(wave.proposed) == 3
    assert wave.pairs == N - 1


@pytest.mark.parametrize("cost", ["confusion", "dprime", "uniform", lambda i, j: i - j])
def test_only_missing_pairs_are_proposed_each_once(cost, model):
    graph, logits, y = model
    proposed = judge_wave(held_out(logits, y, graph), graph, "normal", cost, most=1000).proposed
    assert sorted(proposed) == sorted(nx.complement(graph).edges)


def test_samples_that_are_asked_do_not_judge(model):
    graph, logits, y = model
    honest = judge_wave(held_out(logits, y, graph), graph, "stratified", "confusion", most=4)
    spoilt = logits.copy()
    spoilt[:, ::2] = np.random.default_rng(1).normal(0, 5, spoilt[:, ::2].shape)
    found = judge_wave(held_out(spoilt, y, graph), graph, "stratified", "confusion", most=4)
    assert (found.log_loss, found.accuracy, found.scale) == (honest.log_loss, honest.accuracy, honest.scale)
    assert found.proposed != honest.proposed


def test_mean_probabilities_are_a_soft_confusion_matrix():
    p = np.random.default_rng(0).dirichlet(np.ones(4), 30)
    y = np.arange(30) % 3  # no sample is of class 3
    found = mean_probabilities(p, y)
    expected = [p[y == c].mean(axis=0) for c in range(3)]
    np.testing.assert_allclose(found, [*expected, np.zeros(4)], rtol=1e-12)


def test_dprime_is_that_of_the_completed_logits(model):
    graph, logits, y = model
    tensor = np.zeros((N, N, len(y)), np.float32)
    for (i, j), row in zip(graphs.edge_array(graph).tolist(), logits, strict=True):
        tensor[i, j], tensor[j, i] = row, -row
    L = complete_logits(tensor, graph).astype(np.float64)
    found = completed_dprime(logits, y, plan_completion(graph))
    for i in range(N):
        for j in range(i + 1, N):
            of_i, of_j = L[i, j, y == i], L[i, j, y == j]
            expected = abs(of_i.mean() - of_j.mean()) / np.sqrt((of_i.var() + of_j.var()) / 2)
            assert found[i, j] == pytest.approx(expected, rel=1e-3)
            assert found[j, i] == found[i, j]


def test_waves_grow_with_the_model():
    assert [usual_wave(pairs, 50) for pairs in (49, 250, 400, 1000)] == [50, 50, 80, 200]
