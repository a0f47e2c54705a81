import numpy as np
import pytest

from pairloom import graphs
from pairloom.pipeline.calibration import coupled_learning
from pairloom.pipeline.calibration.coupled_learning import (
    CoupledLoss,
    LearningSamples,
    learn_changes,
    sample_limit,
)
from pairloom.pipeline.completion.complete import plan_completion
from pairloom.pipeline.coupling.pairs.gradient import GRADIENTS

N, D = 5, 4


def loss_of(n_samples, seed=0, useful=True, weight=None, **settings):
    """Machines that know nothing, of samples whose features tell the classes apart or do not."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % N
    X = rng.standard_normal((n_samples, D)) + 2 * useful * np.eye(N)[y][:, :D]
    rows = np.column_stack([X, np.ones(n_samples)]).astype(np.float32)
    completion = plan_completion(graphs.star(N, centre=1))
    logits = np.zeros((n_samples, len(completion.edges)), np.float32)
    settings = {"coupling": "stratified"} | settings
    return CoupledLoss(LearningSamples(rows, logits, y, weight), completion, **settings)


@pytest.mark.parametrize("shortlist", [None, 3])
@pytest.mark.parametrize("method", GRADIENTS)
def test_the_gradient_is_that_of_the_loss(method, shortlist):
    weight = np.random.default_rng(1).uniform(0.5, 2, 300)
    loss = loss_of(300, coupling=method, shortlist=shortlist, weight=weight)
    rng = np.random.default_rng(0)
    at = 0.3 * rng.standard_normal((N - 1) * (D + 1))
    value, gradient = loss.value_and_gradient(at)
    assert value == pytest.approx(loss.mean(loss.losses(at)), abs=1e-6)
    for _ in range(5):
        along, h = rng.standard_normal(at.shape) / np.sqrt(at.size), 1e-2
        up, down = (loss.mean(loss.losses(at + s * h * along)) for s in (1, -1))
        # Where a step changes the list of a sample, the loss has a kink.
        assert gradient.ravel() @ along == pytest.approx(
            (up - down) / (2 * h), abs=2e-4 if shortlist is None else 0.02
        )


def test_the_bits_do_not_depend_on_the_threads():
    at = np.random.default_rng(0).standard_normal((N - 1) * (D + 1))
    (one, gradient), (three, again) = (loss_of(700, n_threads=n).value_and_gradient(at) for n in (1, 3))
    assert one == three
    assert (gradient == again).all()


def test_what_helps_new_samples_is_learned():
    seen, held_out, new = (loss_of(n, seed) for n, seed in ((600, 0), (200, 1), (2000, 2)))
    change, record = learn_changes(seen, held_out, lambda: seen)
    assert record.iterations > 0
    assert record.held_out_after < record.held_out_before == pytest.approx(np.log(N), abs=1e-6)
    assert record.log_loss_after < record.log_loss_before
    assert new.losses(change.ravel()).mean() < 0.7 * np.log(N)


def test_noise_is_not_learned():
    seen, held_out = loss_of(600, 0, useful=False), loss_of(200, 1, useful=False)
    change, record = learn_changes(seen, held_out, lambda: seen)
    new = loss_of(2000, 2, useful=False).losses(change.ravel()).mean()
    assert new <= np.log(N) + 0.01
    assert record.held_out_after <= record.held_out_before


def test_few_held_out_samples_decide_nothing():
    seen, held_out = loss_of(600, 0), loss_of(coupled_learning.FEW_SAMPLES - 1, 1)
    change, record = learn_changes(seen, held_out, lambda: seen)
    assert record.iterations == 0
    assert not change.any()


def test_more_edges_leave_fewer_samples():
    assert sample_limit(100) == coupled_learning.MOST_SAMPLES
    assert sample_limit(2**20) == 64
