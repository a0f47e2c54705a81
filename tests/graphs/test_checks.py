import numpy as np
import pytest

from pairloom import graphs


def line(n):
    return abs(np.subtract.outer(np.arange(n), np.arange(n))).astype(float)


def changed(i, j, value):
    distances = line(4)
    distances[i, j] = value
    return distances


@pytest.mark.parametrize(
    ("distances", "message"),
    [
        ([1, 2], "must be a square matrix over the classes, got shape (2,)."),
        (np.zeros((2, 3)), "must be a square matrix over the classes, got shape (2, 3)."),
        (np.zeros((0, 0)), "must be a square matrix over the classes, got shape (0, 0)."),
        (changed(1, 2, np.nan), "must be finite, got distances[1, 2] = nan."),
        (changed(3, 0, np.inf), "must be finite, got distances[3, 0] = inf."),
        (changed(2, 0, -1), "must be non-negative, got distances[2, 0] = -1.0."),
        (changed(2, 2, 0.5), "must be zero on the diagonal, got distances[2, 2] = 0.5."),
        (changed(3, 1, 2.5), "must be symmetric, got distances[1, 3] = 2.0 and distances[3, 1] = 2.5."),
    ],
)
def test_the_first_offending_pair_is_named(distances, message):
    with pytest.raises(ValueError, match="distances") as raised:
        graphs.spanning_tree(distances)
    assert str(raised.value) == f"spanning_tree: distances {message}"


@pytest.mark.parametrize(
    "builder", [graphs.spanning_tree, graphs.star_of_least_distance, graphs.hub_neighbours]
)
def test_every_builder_checks_in_its_own_name(builder):
    with pytest.raises(ValueError, match=rf"^{builder.__name__}: distances must be finite"):
        builder(changed(0, 1, np.nan))


def test_rounding_is_forgiven_and_removed():
    noisy = line(5) + np.random.default_rng(0).uniform(0, 1e-7, (5, 5))
    checked = graphs.check_distances(noisy)
    np.testing.assert_array_equal(checked, checked.T)
    np.testing.assert_array_equal(np.diag(checked), 0)
    np.testing.assert_allclose(checked, line(5), atol=1e-6)


def test_the_matrix_given_is_left_alone():
    distances = line(4) + 1e-8
    before = distances.copy()
    graphs.check_distances(distances)[0, 1] = 7
    np.testing.assert_array_equal(distances, before)


def test_distances_may_all_be_zero():
    np.testing.assert_array_equal(graphs.check_distances(np.zeros((3, 3), dtype=int)), np.zeros((3, 3)))


def test_number_of_classes():
    with pytest.raises(ValueError, match=r"must be of shape \(5, 5\), one row per class, got \(4, 4\)\.$"):
        graphs.check_distances(line(4), 5)
