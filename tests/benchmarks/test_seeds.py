"""How far probabilities move between seeds can be measured again."""

import pytest

from pairloom.benchmarks import seeds
from pairloom.benchmarks.datasets import load
from pairloom.benchmarks.record import Record


@pytest.mark.long
def test_seeds_move_probabilities_and_the_same_seed_does_not():
    split = load("digits")
    few = split._replace(X=split.X[:200], y=split.y[:200])
    record = Record("seeds", "command", {}, echo=lambda line: None)
    record.begin("seeds", seeds.COLUMNS)
    (row,) = seeds.compare_seeds(record, "digits", few, ["sparse"], 2)
    assert 0 < row.mean < row.quantile <= row.largest <= 1
    assert row.least_loss < row.most_loss
    same = [few.X @ few.X[0]] * 2
    assert seeds._changes([probabilities[:, None] for probabilities in same]) == (0, 0, 0)
