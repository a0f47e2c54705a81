"""Predictions after every pair are those of completing and coupling each model from scratch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairloom import complete_logits, couple, graphs
from pairloom.pipeline.experiments.trained_tensor import COUPLINGS
from pairloom.pipeline.growth.growing_block import COUPLED, grow_blocks, sample_blocks
from pairloom.pipeline.growth.growing_block_kernels import LANES


def noisy_samples(n, n_samples, seed, signal=2.0, noise=1.0):
    """Logits of machines that are wrong now and then, and true classes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(n, size=n_samples)
    u = rng.normal(0, 1, (n, 1, n_samples))
    u[labels, 0, np.arange(n_samples)] += signal
    errors = np.triu(rng.normal(0, noise, (n_samples, n, n)), 1).transpose(1, 2, 0)
    return (u - u.transpose(1, 0, 2) + errors - errors.transpose(1, 0, 2)).astype(np.float32), labels


def reference(logits, labels, start, order, coupling):
    """(sizes, R) whether each sample is predicted right, and by how much the likeliest class leads."""
    grown, right, leads = start.copy(), [], []
    for pair in [None, *order]:
        if pair is not None:
            grown.add_edge(*pair)
        p = couple(complete_logits(logits, grown), coupling)
        right.append(p.argmax(axis=1) == labels)
        second, first = np.sort(p, axis=1)[:, -2:].T
        leads.append(first - second)
    return np.array(right), np.array(leads)


def outcomes(logits, labels, start, order, **options):
    """(couplings, sizes, R) whether each sample is predicted right."""
    sizes = options.get("sizes", range(len(order) + 1))
    every = [slice(s, s + 1) for s in range(len(sizes))]
    grown = grow_blocks(sample_blocks(logits, labels), start, order, stages=every, **options)
    assert grown.unsettled == 0
    np.testing.assert_allclose(grown.accuracies, grown.stages.mean(axis=2), atol=1e-6)
    return grown.stages == 1


@pytest.mark.long
@settings(max_examples=20, deadline=None)
@given(
    n=st.integers(3, 10),
    n_samples=st.sampled_from([1, LANES, LANES + 5, 3 * LANES]),
    hubs=st.integers(1, 2),
    noise=st.sampled_from([0.1, 0.5, 2.0]),
    seed=st.integers(0, 1000),
)
def test_every_step_predicts_as_a_model_that_is_coupled_from_scratch(n, n_samples, hubs, noise, seed):
    logits, labels = noisy_samples(n, n_samples, seed, noise=noise)
    start = graphs.bipartite(n, hubs)
    order = list(graphs.grow(start, seed=seed))
    found = outcomes(logits, labels, start, order)
    for coupling, right in zip(COUPLED, found, strict=True):
        expected, leads = reference(logits, labels, start, order, coupling)
        assert (right == expected)[leads > 1e-4].all()


@pytest.mark.long
@pytest.mark.parametrize("noise", [0.5, 2.0])
def test_many_pairs_do_not_add_up_errors(noise):
    logits, labels = noisy_samples(40, 200, 1, signal=3.0, noise=noise)
    start = graphs.star(40, 7)
    order = list(graphs.grow(start, seed=3))
    sizes = [*range(0, len(order), 37), len(order)]
    found = outcomes(logits, labels, start, order)[:, sizes]
    for coupling, right in zip(COUPLED, found, strict=True):
        for s, size in enumerate(sizes):
            grown = graphs.grown(40, 39 + size, centre=7, seed=3)
            p = couple(complete_logits(logits, grown), coupling)
            second, first = np.sort(p, axis=1)[:, -2:].T
            sure = first - second > 1e-4
            np.testing.assert_array_equal(right[s][sure], (p.argmax(axis=1) == labels)[sure])


@pytest.mark.long
def test_the_first_size_is_the_start_and_all_couplings_agree_on_a_star():
    logits, labels = noisy_samples(12, 100, 0)
    start = graphs.star(12, 3)
    first = outcomes(logits, labels, start, list(graphs.grow(start)))[:, 0]
    expected = couple(complete_logits(logits, start), "normal").argmax(axis=1) == labels
    for right in first:
        np.testing.assert_array_equal(right, expected)


@pytest.mark.long
def test_some_sizes_are_those_of_all():
    logits, labels = noisy_samples(15, 90, 2)
    start = graphs.star(15)
    order = list(graphs.grow(start, seed=1))
    some = [0, 4, 40, 91]
    found = outcomes(logits, labels, start, order, sizes=some)
    everywhere = outcomes(logits, labels, start, order)[:, some]
    assert (found != everywhere).mean() < 1e-3


@pytest.mark.long
def test_stages_are_means_over_their_sizes_and_threads_change_nothing():
    logits, labels = noisy_samples(9, 3 * LANES + 1, 5)
    start = graphs.star(9)
    order = list(graphs.grow(start, seed=2))
    blocks = sample_blocks(logits, labels)
    stages = [slice(0, 1), slice(3, 20), slice(0, len(order) + 1)]
    one, two = (grow_blocks(blocks, start, order, stages=stages, n_jobs=n_jobs) for n_jobs in (1, 2))
    right = outcomes(logits, labels, start, order)
    for s, stage in enumerate(stages):
        np.testing.assert_allclose(one.stages[:, s], right[:, stage].mean(axis=1), atol=1e-6)
    np.testing.assert_array_equal(one.stages, two.stages)
    np.testing.assert_array_equal(one.accuracies, two.accuracies)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:grow_blocks. .* did not converge:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("size", [5.0, 50.0, 1e4])
def test_logits_of_any_size_are_predicted(size):
    logits, labels = noisy_samples(8, 50, 4, signal=4.0)
    logits *= size
    start = graphs.star(8)
    order = list(graphs.grow(start, seed=0))
    found = grow_blocks(sample_blocks(logits, labels), start, order)
    # Where all machines are certain, couplings that hold the odds see ties; `normal` holds nothing.
    expected = reference(logits, labels, start, order, "normal")[0].mean(axis=1)
    np.testing.assert_allclose(found.accuracies[COUPLED.index("normal")], expected, atol=1e-9)
    assert np.isfinite(found.accuracies).all()


def test_experiments_have_the_couplings_of_the_kernel():
    assert COUPLED == COUPLINGS


def test_a_start_that_is_too_wide_is_refused():
    logits, labels = noisy_samples(5, 3, 0)
    with pytest.raises(ValueError, match=r"grow_blocks: start must have diameter at most 2"):
        grow_blocks(sample_blocks(logits, labels), graphs.path(5))
