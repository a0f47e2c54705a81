from fractions import Fraction

import numpy as np
import pytest

from pairloom import couple


def markov_chain(logits):
    """Column j: the softmax over i of L[:, j], for one sample, in float64."""
    M = np.exp(logits.astype(np.float64) - logits.max(axis=0))
    return M / M.sum(axis=0)


def stationary_vector(M):
    """p = M p, sum p = 1, with the last of the equations replaced by the sum."""
    n = len(M)
    system = M - np.eye(n)
    system[-1] = 1
    return np.linalg.solve(system, np.eye(n)[-1])


def exact_stationary_vector(M):
    """The same in rational numbers, by eliminating one class after the other: no rounding."""
    n = len(M)
    chain = [[Fraction(float(M[i, j])) for j in range(n)] for i in range(n)]
    for last in range(n - 1, 0, -1):
        leaving = sum(chain[i][last] for i in range(last))
        for i in range(last):
            for j in range(last):
                chain[i][j] += chain[i][last] * chain[last][j] / leaving
            # For the back substitution: the expected visits of `last` per visit of each other class.
        chain[last] = [chain[last][j] / leaving for j in range(last)]
    p = [Fraction(1)]
    for i in range(1, n):
        p.append(sum(p[j] * chain[i][j] for j in range(i)))
    total = sum(p)
    return np.array([float(share / total) for share in p])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 3, 10, 13, 33, 64])
@pytest.mark.parametrize(("spread", "noise"), [(3, 1), (3, 0.01), (0, 1), (3, 3), (10, 1)])
def test_against_a_linear_system(n_classes, spread, noise, dtype, noisy_logits):
    logits = noisy_logits(n_classes, 40, spread, noise, dtype)
    p, diagnostics = couple(logits, "stratified", return_diagnostics=True)
    expected = [stationary_vector(markov_chain(logits[:, :, r])) for r in range(40)]
    assert p == pytest.approx(np.array(expected), abs=1e-5)
    assert diagnostics.converged.all()


@pytest.mark.parametrize("n_classes", [3, 6, 14])
@pytest.mark.parametrize("noise", [5, 20, 40])
def test_machines_that_contradict_each_other_in_exact_arithmetic(n_classes, noise, noisy_logits):
    logits = noisy_logits(n_classes, 10, 0, noise)
    p = couple(logits, "stratified")
    expected = [exact_stationary_vector(markov_chain(logits[:, :, r])) for r in range(10)]
    assert p == pytest.approx(np.array(expected), abs=1e-5)


def two_worlds(n_classes, loudness, seed):
    """Two halves of the classes: within each, a cycle of large logits; between them, small logits.

    The chain leaves a half about once in exp(loudness) steps, so the change by one sweep says nothing about the error
    in the shares of the halves.
    """
    half = n_classes // 2
    logits = np.zeros((n_classes, n_classes))
    for low, size in ((0, half), (half, n_classes - half)):
        for k in range(size):
            logits[low + (k + 1) % size, low + k] = loudness
    logits[half:, :half] = np.random.default_rng(seed).normal(0, 1, (n_classes - half, half))
    return (logits - logits.T).astype(np.float32)


@pytest.mark.parametrize("n_classes", [6, 16, 30])
@pytest.mark.parametrize("loudness", [5, 8, 10, 12, 15, 18, 25])
def test_classes_that_hardly_communicate(n_classes, loudness):
    samples = [two_worlds(n_classes, loudness, seed) for seed in range(3)]
    p, diagnostics = couple(np.stack(samples, axis=2), "stratified", return_diagnostics=True)
    expected = [exact_stationary_vector(markov_chain(sample)) for sample in samples[:1]]
    assert p[:1] == pytest.approx(np.array(expected), abs=2e-5)
    assert diagnostics.converged.all()


def test_only_the_machines_of_the_true_class_matter():
    """Where class 0 is certain, the logits between the other classes change nothing."""
    logits = np.zeros((4, 4, 2))
    logits[0, 1:], logits[1:, 0] = 30, -30
    logits[1, 2], logits[2, 1] = [0, 9], [0, -9]
    p = couple(logits, "stratified")
    assert p[0] == pytest.approx(p[1], abs=1e-9)
