from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from pairloom.pipeline.display.class_layout import BLOCK, order_classes


def likeness_of_groups(groups: np.ndarray) -> np.ndarray:
    """Classes of one group are taken for each other, others hardly ever."""
    random = np.random.default_rng(0)
    alike = np.where(groups[:, None] == groups, 0.1, 0.0001)
    return alike * random.uniform(0.5, 1.0, alike.shape)


@pytest.mark.parametrize("N", [3, 60, 300])
def test_classes_that_are_alike_stand_side_by_side(N):
    groups = np.random.default_rng(1).permutation(np.arange(N) % max(N // 10, 1))
    order = order_classes(likeness_of_groups(groups))
    assert sorted(order.classes.tolist()) == list(range(N))
    changes = np.count_nonzero(np.diff(groups[order.classes]))
    assert changes == len(np.unique(groups)) - 1
    np.testing.assert_array_equal(order.classes[order.places], np.arange(N))


@pytest.mark.parametrize("N", [1, 2, 24, 25, 300])
def test_blocks_are_small_and_have_every_class(N):
    order = order_classes(np.random.default_rng(2).uniform(size=(N, N)))
    sizes = [block.stop - block.start for block in order.blocks]
    assert sum(sizes) == N
    assert 0 < min(sizes) <= max(sizes) <= BLOCK
    assert all(a + b > BLOCK for a, b in pairwise(sizes)), "small neighbours are joined"


def test_classes_that_nobody_confuses_are_ordered_too():
    order = order_classes(np.zeros((5, 5)))
    assert sorted(order.classes.tolist()) == [0, 1, 2, 3, 4]
