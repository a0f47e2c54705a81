"""Codes in place of model graphs: every way to ask for one, and a class that goes."""

import networkx as nx
import numpy as np
import pytest

from pairloom import graphs
from pairloom.graphs.code_matrix import different_machines

LABELS = list("abcde")
CODES = {
    "one_vs_rest": graphs.one_vs_rest(5),
    "one_vs_one": graphs.one_vs_one(5),
    "dense": graphs.dense_code(5),
    "sparse": graphs.sparse_code(5),
}


def requested(asked, labels=LABELS):
    return graphs.requested_graph(asked, labels, lambda: None, "test")


def test_every_family_is_tried():
    assert {*CODES, "code"} == set(graphs.CODE_FAMILIES)


@pytest.mark.parametrize("family", CODES)
def test_a_code_can_be_asked_for_in_every_form(family):
    matrix = CODES[family]
    for asked in (
        family,
        {"family": family},
        {"family": "code", "matrix": matrix.tolist()},
        matrix,
        matrix.astype(float),
        graphs.code_graph(matrix),
        requested(family),
    ):
        assert graphs.asks_for_code(asked)
        found = requested(asked)
        np.testing.assert_array_equal(found.matrix, matrix)
        assert found.label["n"] == 5
    assert requested(family).label["family"] == family


@pytest.mark.parametrize("asked", ["star", {"family": "complete"}, nx.path_graph(5), None, 3, [(0, 1)]])
def test_pairs_are_not_a_code(asked):
    assert not graphs.asks_for_code(asked)


def test_the_seed_reaches_a_random_code():
    one, other = (requested({"family": "sparse", "seed": seed}, list(range(9))) for seed in (1, 2))
    np.testing.assert_array_equal(one.matrix, graphs.sparse_code(9, seed=1))
    assert not np.array_equal(one.matrix, other.matrix)
    assert one.label == {"family": "sparse", "n": 9, "seed": 1}


BAD = [
    (np.ones((4, 1)), "code must have one row for each of 5 classes, got 4 rows"),
    (np.eye(5), "every column of code must have a class at -1, got none in column 0, 1"),
    (np.full((5, 2), 2), r"code must be -1, 0 or \+1, got code\[0, 0\] = 2"),
    (np.array([list("abcde")]).T, "code must be a matrix of the numbers"),
    (np.ones(5), r"code must be a matrix \(N, m\) .* got shape \(5,\)"),
    (
        np.hstack([graphs.one_vs_rest(5), -graphs.one_vs_rest(5)[:, :1]]),
        "column 5 is column 0 with its sides exchanged",
    ),
    (np.array([[1], [-1], [0], [0], [0]]), "rows of zeros for class 'c', 'd', 'e'"),
    (
        np.array([[1, 1], [-1, 0], [0, -1], [0, -1], [-1, -1]]),
        "the rows of classes 'c' and 'd' are equal. Add a machine",
    ),
    (
        np.array([[1, 1, 0], [-1, 0, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]]),
        r"connect all classes, got 2 parts .*: \('a', 'b', 'c'\), \('d', 'e'\)",
    ),
    ({"family": "dense", "columns": 3}, "family 'dense' has no parameter 'columns', it has 'seed'"),
    ({"family": "dense", "seed": -1}, "dense_code: seed must be at least 0, got -1"),
    ({"family": "code"}, "matrix must be given for family 'code', got none"),
    ({"family": "one_vs_rest", "n": 4}, "n of graph must be 5"),
    ("one_vs_all", "got 'one_vs_all'. Did you mean 'one_vs_"),
]


@pytest.mark.parametrize(("asked", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_a_code_that_cannot_be_used_is_refused(asked, message):
    with pytest.raises((TypeError, ValueError), match=message):
        requested(asked)


@pytest.mark.parametrize(("family", "n"), [("dense", 5000), ("one_vs_rest", 5000), ("one_vs_one", 1000)])
def test_a_code_too_large_to_build_is_refused_before_it_is_built(family, n):
    with pytest.raises(ValueError, match=r"at most .*(got 5,000|entries)"):
        graphs.build_code(family, n)


def test_a_model_code_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        requested("dense").matrix[0, 0] = 0


def test_one_against_the_rest_loses_the_machine_of_the_class_that_goes():
    code, kept = requested("one_vs_rest").without(1)
    np.testing.assert_array_equal(code.matrix, graphs.one_vs_rest(4))
    assert kept.tolist() == [0, 2, 3, 4]


def test_of_machines_that_have_become_the_same_the_first_stays():
    code, kept = graphs.model_code([[1, 1, 0], [-1, -1, 1], [-1, 0, -1]], "code").without(2)
    assert kept.tolist() == [0]
    assert code.matrix.ravel().tolist() == [1, -1]


GOING = [
    ([[1, 0], [-1, 1], [0, -1]], 1, "none of 2 machines would have classes on both sides"),
    ([[1, 1], [1, 0], [-1, 0], [-1, -1]], 3, "rows of classes 'a' and 'b' are equal"),
    ([[1, 0, 1], [-1, 0, 0], [0, 1, -1], [0, -1, 0]], 2, "rows of zeros for class 'd'"),
    (
        [[1, 0, 1], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, -1], [0, 1, -1]],
        4,
        "",
    ),
    ([[1, 0, 1, 0], [-1, 0, 0, 0], [0, 1, 0, 1], [0, -1, 0, 0], [0, 0, -1, -1]], 4, "got 2 parts"),
]


@pytest.mark.parametrize(("matrix", "c", "message"), GOING)
def test_a_class_goes_if_the_others_stay_apart_and_joined(matrix, c, message):
    code, names = graphs.model_code(matrix, "code"), list("abcdef")[: len(matrix)]
    if not message:
        assert code.without(c, names)[0].n_classes == len(matrix) - 1
        return
    with pytest.raises(ValueError, match=message):
        code.without(c, names)


def test_words_are_a_code():
    for matrix in CODES.values():
        words = graphs.code_as_text(matrix)
        assert all(isinstance(word, str) and len(word) == 5 for word in words)
        np.testing.assert_array_equal(graphs.code_from_text(words), matrix)


def test_different_machines_are_all_different():
    matrix = CODES["sparse"]
    repeated = np.hstack([matrix, -matrix, matrix])
    assert different_machines(repeated).tolist() == list(range(matrix.shape[1]))


def test_a_machine_has_the_samples_of_its_classes():
    code = requested("one_vs_rest")
    assert code.samples_by_machine([1, 2, 3, 4, 5]).tolist() == [15] * 5
