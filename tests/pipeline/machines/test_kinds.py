"""The kinds of machines: what they have in common, and what each of them needs."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from pairloom import graphs
from pairloom.pipeline.features.moments import moments_of
from pairloom.pipeline.machines.kernel_function import KernelFunction
from pairloom.pipeline.machines.kinds import EstimatorKind, KernelKind, LinearKind, svm_kind
from pairloom.pipeline.machines.normalisation import normalised_moments
from pairloom.pipeline.machines.settings import MachineSettings
from pairloom.pipeline.model.training_set import TrainingSet

KINDS = {
    "linear": LinearKind(),
    "rbf": KernelKind(KernelFunction("rbf", 0.1)),
    "estimator": EstimatorKind(LogisticRegression()),
}
PAIRS = graphs.Pairs(np.array([(0, 1), (0, 2), (1, 2)]), 3)
SETTINGS = MachineSettings(folds=2)


@pytest.fixture(scope="module")
def samples():
    y = np.repeat(np.arange(3), 12)
    return np.random.default_rng(0).standard_normal((36, 4)) + y[:, None], y


@pytest.fixture(params=KINDS)
def trained(request, samples):
    training = TrainingSet(*samples, 3, None)
    kind = KINDS[request.param]
    return kind.train(training, PAIRS, SETTINGS, lambda: training.whitening("none", None))


def test_every_kind_has_one_map_of_samples_to_logits(trained, samples):
    X, y = samples
    logits = trained.collapsed(SETTINGS.scheme.shares)
    values = logits(X)
    assert values.shape == (trained.n_edges, len(y)) == (3, 36)
    for pair, row in zip(PAIRS.edges, values, strict=True):
        assert row[y == pair[0]].mean() > 0 > row[y == pair[1]].mean()
    slope, shift = np.array([2.0, 1.0, 0.5]), np.array([0.0, 1.0, -1.0])
    calibrated = logits.calibrated(slope, shift)(X)
    np.testing.assert_allclose(calibrated, values * slope[:, None] + shift[:, None], rtol=1e-4, atol=1e-4)


def test_the_evidence_of_a_sample_is_its_logits(trained, samples):
    X, _ = samples
    normalisation = EstimatorKind(None).normalisation(normalised_moments(moments_of(X), "X").normalisation)
    logits = trained.collapsed(SETTINGS.scheme.shares)
    names = trained.names_of_inputs(None, PAIRS.edges, np.array(["a", "b", "c"]))
    evidence = logits.evidence(X[:1], normalisation, names)
    np.testing.assert_allclose(evidence.logits, logits(X[:1])[:, 0], rtol=1e-4, atol=1e-5)
    contributions = evidence.contributions(np.array([1.0, 0.0, 0.0]))
    if contributions is not None:
        assert contributions.total == pytest.approx(evidence.logits[0], abs=1e-6)
        assert len(contributions.names) == len(contributions.values)


def test_svms_come_back_from_their_arrays_and_classifiers_have_none(trained, samples):
    if trained.kernel is None and isinstance(trained.machines, list):
        with pytest.raises(
            ValueError, match=r"cannot be saved without pickle, got estimator=LogisticRegression"
        ):
            trained.arrays()
        return
    loaded = svm_kind(trained.kernel).from_arrays(trained.arrays())
    shares = SETTINGS.scheme.shares
    np.testing.assert_array_equal(loaded.collapsed(shares)(samples[0]), trained.collapsed(shares)(samples[0]))


@pytest.mark.parametrize(
    ("kind", "whiten", "C", "count"), [("linear", 2, 3, 6), ("rbf", 1, 3, 3), ("estimator", 1, 1, 1)]
)
def test_auto_is_a_choice_of_C_for_svms_and_of_whitening_for_linear_ones(kind, whiten, C, count, samples):
    moments = normalised_moments(moments_of(samples[0]), "X")
    assert len(KINDS[kind].shrinkages("auto", moments)) == whiten
    assert len(KINDS[kind].Cs("auto", moments)) == C
    assert whiten * C == count
