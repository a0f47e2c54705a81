"""Which training samples calibrate: so many of every class, and never more than were asked for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairloom.pipeline.calibration.held_out import draw_by_class, draws_by_class

SIZES = st.lists(st.integers(1, 30), min_size=2, max_size=60).map(np.array)


@given(sizes=SIZES, most=st.integers(1, 200), folds=st.integers(2, 5), whitened=st.booleans())
def test_no_more_are_drawn_than_wanted_and_alike_from_every_class(sizes, most, folds, whitened):
    quotas = draws_by_class(sizes, most, folds, whitened)
    assert quotas.sum() <= most
    assert not quotas[sizes < folds].any()
    able = quotas[(sizes >= folds) & (sizes // 2 >= quotas.max())]  # they have what is wanted of them
    assert len(able) == 0 or np.ptp(able) <= 1


@pytest.mark.parametrize(
    ("classes", "most", "counts"),
    [
        (100, 2000, {20: 100}),
        (150, 2000, {13: 150}),
        (999, 2000, {2: 999}),
        (1600, 2000, {1: 1200, 2: 400}),
        (5000, 2000, {0: 3000, 1: 2000}),
        (10, 7, {0: 3, 1: 7}),
    ],
)
def test_of_many_classes_as_many_samples_are_drawn_as_wanted(classes, most, counts):
    quotas = draws_by_class(np.full(classes, 40), most, folds=4, whitened=False)
    assert dict(zip(*np.unique(quotas, return_counts=True), strict=True)) == counts
    # spread evenly: the first and the second half of the classes give alike
    first, second = quotas[: classes // 2].sum(), quotas[classes - classes // 2 :].sum()
    assert abs(first - second) <= 2


def test_fewer_are_a_part_of_more():
    sizes = np.array([9, 3, 20, 6])
    few, many = (draw_by_class(sizes, most, folds=4, seed=0, whitened=False) for most in (5, 24))
    drawn = [set(zip(draw.classes.tolist(), draw.rows.tolist(), strict=True)) for draw in (few, many)]
    assert drawn[0] < drawn[1]
    assert len(drawn[0]) == 5
