"""Boundaries before and after learning through the coupling, beside the findings of [I]."""

import numpy as np
import pytest

from pairloom.pipeline.experiments import curved


def regions_of(boundary):
    """Classes 0 and 1 on either side of a curve y = boundary(x)."""
    along = np.linspace(-curved.REACH, curved.REACH, curved.GRID)
    x, y = np.meshgrid(along, along)
    return (y > boundary(x)).astype(int)


def test_a_straight_boundary_has_no_bend_and_a_parabola_has():
    step = 2 * curved.REACH / (curved.GRID - 1)
    assert curved.bend(regions_of(lambda x: 0.37 * x + 0.2)) < step / 2
    assert curved.bend(regions_of(lambda x: 0.3 * x**2 - 2)) > 10 * step
    assert curved.bend(np.zeros((curved.GRID, curved.GRID), int)) == 0


@pytest.mark.parametrize("name", curved.CODES)
def test_learning_raises_the_likelihood_of_its_own_samples(name):
    X, y = curved.samples(60, np.random.default_rng(0))
    start = curved.machines(X, y, curved.CODES[name])
    after = curved.learned(X, y, name, start)
    p, q = (curved.probabilities(name, w @ X.T)[np.arange(len(y)), y] for w in (start, after))
    assert np.log(q).mean() > np.log(p).mean()


@pytest.mark.long
def test_what_the_paper_found_is_found_here(digits):
    outcomes = curved.measure(digits, 4, seed=1)
    assert [(row.code, row.weights) for row in curved.rows(outcomes)][:2] == [
        ("one_vs_one", "machines"),
        ("one_vs_one", "coupled"),
    ]
    assert all(finding.holds for finding in curved.findings(outcomes)), curved.findings(outcomes)


def test_draws_that_disagree_decide_nothing():
    (same,) = curved.rows(curved.Draws(0, np.ones((3, 4, 3))))[:1]
    assert (same.accuracy, same.accuracy_error, same.bend) == (1, 0, 1)
    either_way = np.random.default_rng(0).normal(size=(10, 4, 3))
    _, _, likelihood, accuracy, _ = curved.findings(curved.Draws(0, either_way))
    assert (likelihood.verdict, accuracy.verdict) == ("undecided", "undecided")


@pytest.mark.long
def test_the_figure_is_of_the_seed_that_was_measured(digits, monkeypatch):
    monkeypatch.setattr(curved, "TRAINING", 50)

    def centre(seed):
        """Where the samples of the first panel lie on average."""
        rows = [row._replace(seed=seed) for row in curved.rows(curved.Draws(seed, np.ones((3, 4, 3))))]
        (panel, *_) = curved.draw(digits, rows, "curved: simulated").axes
        return np.concatenate([dots.get_offsets() for dots in panel.collections[-3:]]).mean(axis=0)

    drawn = curved.samples(curved.TRAINING, np.random.default_rng([5, 0, 0]))[0][:, :2]
    np.testing.assert_allclose(centre(5), drawn.mean(axis=0), atol=1e-9)
    assert np.abs(centre(5) - centre(0)).max() > 1e-3
