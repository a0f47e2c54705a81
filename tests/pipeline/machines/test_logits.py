import numpy as np
import pytest
from whitened import whitening_of

from pairloom.graphs import Pairs
from pairloom.pipeline.machines.linear_machines import collapse, train_tile
from pairloom.pipeline.machines.settings import MachineSettings

PAIRS = Pairs(np.array([(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)]), 4)


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(4), (9, 12, 15, 10))
    return (2 * rng.standard_normal((4, 5))[y] + rng.standard_normal((len(y), 5))).astype(np.float32), y


def rows_of(X, y):
    return {c: X[y == c] for c in range(y.max() + 1)}


@pytest.mark.parametrize("fit_on", ["rest", "fold", "all"])
def test_collapse_is_the_mean_of_calibrated_decision_values(samples, fit_on):
    X, y = samples
    settings = MachineSettings(folds=3, fit_on=fit_on, thresholds=True)
    machines, shares = train_tile(rows_of(X, y), PAIRS, settings), settings.scheme.shares
    f = np.einsum("emd,rd->emr", machines.coef.astype(np.float64), X) + machines.intercept[:, :, None]
    logits = -(machines.platt[:, :, :1] * f + machines.platt[:, :, 1:])
    expected = np.einsum("m,emr->er", shares, logits) - machines.threshold[:, None]
    np.testing.assert_allclose(collapse(machines, shares)(X), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shrinkage", ["none", 0.3])
def test_raw_samples_are_enough(samples, shrinkage):
    """The whitening is folded into the map: logits of raw rows are those of whitened ones."""
    X, y = samples
    whitening = whitening_of(X, y, shrinkage)
    machines = train_tile(rows_of(whitening(X).astype(np.float32), y), PAIRS, MachineSettings())
    shares = MachineSettings().scheme.shares
    on_raw = collapse(machines, shares, whitening)(X)
    np.testing.assert_allclose(on_raw, collapse(machines, shares)(whitening(X)), rtol=1e-4, atol=1e-4)
