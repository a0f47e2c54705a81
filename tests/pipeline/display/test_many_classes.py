"""Figures and scores of many classes: from counts and lists, as from whole matrices."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from pairloom.pipeline.display import class_layout
from pairloom.pipeline.display.class_layout import BLOCK, order_classes
from pairloom.pipeline.display.evaluation import Confusions, count_confusions
from pairloom.pipeline.display.top_probabilities import TopProbabilities


def labels_and_predictions(N=9, R=200, seed=0):
    random = np.random.default_rng(seed)
    label = random.integers(0, N, R)
    return label, np.where(random.random(R) < 0.5, label, random.integers(0, N, R)), N


def worst_pairs(confusion, most):
    """The pairs that are confused most often, in either direction, from a matrix of all classes."""
    i, j = np.nonzero(np.triu(confusion + confusion.T, 1))
    both = confusion[i, j] + confusion[j, i]
    order = np.lexsort([j, i, -both])[:most]
    return list(zip(i[order].tolist(), j[order].tolist(), both[order].tolist(), strict=True))


def test_counts_are_those_of_the_confusion_matrix():
    label, predicted, N = labels_and_predictions()
    found, matrix = Confusions.of(label, predicted, N), count_confusions(label, predicted, N)
    dense = np.zeros((N, N), np.int64)
    dense[found.true, found.predicted] = found.samples
    np.testing.assert_array_equal(dense, matrix)
    np.testing.assert_array_equal(found.by_true, matrix.sum(axis=1))
    np.testing.assert_array_equal(found.by_predicted, matrix.sum(axis=0))
    np.testing.assert_array_equal(found.right, matrix.diagonal())
    i, j = np.indices((N, N))
    np.testing.assert_array_equal(found.at(i, j), matrix)
    assert found.worst_pairs(7) == worst_pairs(matrix, 7)


def test_counts_without_errors():
    found = Confusions.of(np.array([1, 1]), np.array([1, 1]), 3)
    assert found.worst_pairs(5) == []
    assert found.errors.at(np.array([1]), np.array([2])).tolist() == [0]


@pytest.mark.parametrize("k", [1, 3, 8, 9])
def test_lists_are_the_first_of_a_stable_order(k):
    random = np.random.default_rng(1)
    p = random.integers(1, 5, (50, 9)).astype(np.float32)  # many ties
    p /= p.sum(axis=1, keepdims=True)
    top = TopProbabilities.of(p, k)
    expected = np.argsort(-p, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(top.classes, expected)
    np.testing.assert_array_equal(top.p, np.take_along_axis(p, expected, axis=1))
    np.testing.assert_allclose(top.rest + top.p.sum(axis=1), 1, atol=1e-6)
    dense = top.sparse(9).toarray()
    np.testing.assert_array_equal(np.take_along_axis(dense, expected, axis=1), top.p)
    assert np.count_nonzero(dense) == 50 * k


def test_many_classes_are_put_into_blocks_of_those_that_are_alike(monkeypatch):
    monkeypatch.setattr(class_layout, "FEW_CLASSES", 10)
    random, N = np.random.default_rng(2), 200
    family = random.permutation(np.arange(N) % 20)  # twenty families of ten
    alike = (family[:, None] == family) * random.uniform(0.5, 1, (N, N)) + random.uniform(0, 0.1, (N, N))
    order = order_classes(csr_array(alike * (random.random((N, N)) < 0.6)))
    assert sorted(order.classes.tolist()) == list(range(N))
    assert order.starts[0] == 0
    assert order.starts[-1] == N
    assert max(np.diff(order.starts)) <= BLOCK
    together = [len(set(family[order.classes[block]])) for block in order.blocks]
    assert max(together) <= 2


def test_classes_that_are_like_no_other_have_a_place_too(monkeypatch):
    monkeypatch.setattr(class_layout, "FEW_CLASSES", 10)
    order = order_classes(csr_array((60, 60)))
    assert order.classes.tolist() == list(range(60))
    assert max(np.diff(order.starts)) <= BLOCK
