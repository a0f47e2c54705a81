"""The budget of a growing model: when growth ends."""

import pytest

from pairloom.pipeline.growth.waves import GrowthBudget


@pytest.mark.parametrize(
    ("budget", "most"),
    [
        (GrowthBudget(), 45),
        (GrowthBudget(pairs=20), 20),
        (GrowthBudget(pairs=100), 45),
        (GrowthBudget(share=0.5), 22),
        (GrowthBudget(pairs=20, share=0.3), 13),
    ],
)
def test_the_least_budget_counts(budget, most):
    assert budget.most_pairs(10) == most


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        (GrowthBudget(), None),
        (GrowthBudget(pairs=20), "the budget of 20 pairs is spent"),
        (GrowthBudget(pairs=21), None),
        (GrowthBudget(seconds=3), "the budget of 3 seconds is spent"),
        (GrowthBudget(seconds=3.1), None),
        (GrowthBudget(plateau=0.1), "2 waves in a row improved the log loss by less than 10.00%"),
        (GrowthBudget(plateau=0.01), None),
    ],
)
def test_whatever_is_reached_ends_it(budget, reason):
    assert budget.spent(10, 20, seconds=3.0, losses=[1.0, 0.5, 0.48, 0.45]) == reason


def test_all_pairs_end_it_whatever_the_budget():
    assert GrowthBudget().spent(10, 45, 0.0, [1.0]) == "all pairs are trained"


@pytest.mark.parametrize(
    ("losses", "flat"),
    [
        ([1.0], False),
        ([1.0, 1.0], False),
        ([1.0, 1.0, 1.0], True),
        ([1.0, 1.1, 1.2], True),
        ([1.0, 0.5, 0.5, 0.5], True),
        ([1.0, 0.5, 0.5, 0.4], False),
        ([1.0, 1.0, 0.5, 0.5], False),
        ([0.0, 0.0, 0.0], True),
    ],
)
def test_one_flat_wave_is_no_plateau(losses, flat):
    assert (GrowthBudget(plateau=0.01).spent(10, 20, 0.0, losses) is not None) == flat


def test_a_share_that_stands_for_a_number_of_pairs_is_that_number():
    for n in (7, 76, 100):
        every = n * (n - 1) // 2
        for pairs in range(1, every + 1):
            assert GrowthBudget(share=pairs / every).most_pairs(n) == pairs


@pytest.mark.parametrize(
    "wrong",
    [
        {"pairs": 0},
        {"pairs": 2.5},
        {"pairs": "20"},
        {"share": 0},
        {"share": 1.5},
        {"share": "x"},
        {"seconds": -1},
        {"seconds": float("nan")},
        {"plateau": -0.1},
        {"plateau": 1},
        {"plateau": "nevr"},
        {"plateau": None},
    ],
    ids=str,
)
def test_a_wrong_budget_is_refused(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(ValueError, match=rf"GrowthBudget: {name} must be .*, got {value!r}\."):
        GrowthBudget(**wrong)
