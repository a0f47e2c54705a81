"""Codes by name: their shapes, their distances, and the few classes for which there are fewer machines."""

from itertools import combinations, product

import numpy as np
import pytest

from pairloom import graphs
from pairloom.graphs.codes import DRAWS, smallest_distances

BUILDERS = {
    "one_vs_rest": graphs.one_vs_rest,
    "one_vs_one": graphs.one_vs_one,
    "dense_code": graphs.dense_code,
    "sparse_code": graphs.sparse_code,
}
every_builder = pytest.mark.parametrize("builder", BUILDERS.values(), ids=BUILDERS)


@every_builder
@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7, 8, 16, 33])
def test_every_code_can_be_used_and_identifies_the_probabilities(builder, n):
    code = builder(n)
    assert code.dtype == np.int8
    np.testing.assert_array_equal(graphs.check_code(code, n), code)
    assert graphs.code_identifies(code)


@every_builder
def test_two_classes_have_one_machine(builder):
    np.testing.assert_array_equal(builder(2), [[1], [-1]])


@pytest.mark.parametrize(("n", "dense", "sparse"), [(8, 30, 45), (26, 47, 71), (64, 60, 90)])
def test_numbers_of_machines(n, dense, sparse):
    assert graphs.dense_code(n).shape == (n, dense)
    assert graphs.sparse_code(n).shape == (n, sparse)


@pytest.mark.parametrize(("n", "machines"), [(2, 1), (3, 3), (4, 3), (5, 10), (6, 10)])
def test_a_dense_code_of_few_classes_has_every_equal_split_once(n, machines):
    code = graphs.dense_code(n)
    splits = {
        frozenset([frozenset(side), frozenset(range(n)).difference(side)])
        for side in combinations(range(n), n // 2)
    }
    ours = {
        frozenset([frozenset(np.flatnonzero(column == sign).tolist()) for sign in (1, -1)])
        for column in code.T
    }
    assert ours == splits
    assert code.shape[1] == machines


@pytest.mark.parametrize(("n", "machines"), [(2, 1), (3, 6), (4, 25)])
def test_a_sparse_code_of_few_classes_has_every_machine_once(n, machines):
    code = graphs.sparse_code(n)
    every = {column for column in product((-1, 0, 1), repeat=n) if {-1, 1} <= set(column)}
    ours = {tuple(column) for column in code.T.tolist()}
    assert {*ours, *(tuple(-entry for entry in column) for column in ours)} == every
    assert code.shape[1] == machines


@pytest.mark.parametrize("n", [7, 8, 21])
def test_dense_splits_are_equal(n):
    code = graphs.dense_code(n, seed=3)
    assert (np.abs(code.sum(axis=0, dtype=int)) == n % 2).all()
    if n % 2:
        assert len(np.unique(code.sum(axis=0, dtype=int))) == 2  # either side may be the larger one


def test_half_of_a_sparse_code_are_zeros():
    code = graphs.sparse_code(64)
    assert (code == 0).mean() == pytest.approx(0.5, abs=0.03)
    assert (code == 1).mean() == pytest.approx(0.25, abs=0.03)


def distances_by_definition(code):
    """Different signs count one, a zero on either side one half."""

    def distance(a, b):
        return sum(0.5 if not (x and y) else float(x != y) for x, y in zip(a, b, strict=True))

    rows = min(distance(a, b) for a, b in combinations(code.tolist(), 2))
    columns = code.T.tolist()
    return rows, min(min(distance(a, b), distance(a, [-x for x in b])) for a, b in combinations(columns, 2))


@pytest.mark.parametrize("builder", [graphs.dense_code, graphs.sparse_code, graphs.one_vs_one])
def test_distances(builder):
    assert smallest_distances(builder(7)) == distances_by_definition(builder(7))


@pytest.mark.parametrize("builder", [graphs.dense_code, graphs.sparse_code])
def test_the_draw_that_is_kept_has_the_largest_smallest_distance(builder, monkeypatch):
    """Of the first draw alone and of ten, a hundred are at least as good; and here better."""
    best = smallest_distances(builder(20))
    assert DRAWS == 100
    monkeypatch.setattr("pairloom.graphs.codes.DRAWS", 1)
    assert all(smallest_distances(builder(20, seed=seed))[0] <= best[0] for seed in range(5))
    assert smallest_distances(builder(20))[0] < best[0]


@pytest.mark.parametrize("builder", [graphs.dense_code, graphs.sparse_code])
def test_the_seed_makes_the_code(builder):
    np.testing.assert_array_equal(builder(12, seed=5), builder(12, seed=5))
    assert not np.array_equal(builder(12, seed=5), builder(12, seed=6))


@every_builder
def test_errors(builder):
    with pytest.raises(ValueError, match=rf"^{builder.__name__}: n must be at least 2, got 1\.$"):
        builder(1)
    with pytest.raises(TypeError, match=rf"^{builder.__name__}: n must be an integer, got 3\.0\.$"):
        builder(3.0)


@pytest.mark.parametrize("builder", [graphs.dense_code, graphs.sparse_code])
def test_seeds_are_checked(builder):
    with pytest.raises(ValueError, match=rf"^{builder.__name__}: seed must be at least 0, got -1\.$"):
        builder(9, seed=-1)
