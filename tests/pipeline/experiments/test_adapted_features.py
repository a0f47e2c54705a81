"""Features of a network that was trained on the classes."""

import numpy as np
import pytest
from click.testing import CliRunner

from pairloom.cluster.commands.cli import main
from pairloom.pipeline.experiments import network_answers
from pairloom.pipeline.experiments.network_answers import adapted_set


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(network_answers, "UNITS", 16)
    monkeypatch.setattr(network_answers, "EPOCHS", 30)


@pytest.mark.long
def test_the_network_that_made_the_features_is_the_network_of_the_tables(digits_features, small, tmp_path):
    seen, answers = adapted_set(digits_features, tmp_path / "set" / "adapted.npz")
    assert seen.X_train.shape == (len(digits_features.X_train), 16)
    assert seen.X_train.min() == 0, "units are rectified"
    assert seen.fingerprints != digits_features.fingerprints
    assert not answers.stand_in
    assert (answers.probabilities.argmax(axis=1) == digits_features.y_test).mean() > 0.85
    assert answers.confusion.sum() == len(digits_features.X_train)


def test_it_is_trained_once(digits_features, small, tmp_path, monkeypatch):
    first, _ = adapted_set(digits_features, tmp_path / "adapted.npz")
    calls = []
    monkeypatch.setattr(network_answers, "_trained_on", lambda *a: calls.append(a))
    again, _ = adapted_set(digits_features, tmp_path / "adapted.npz")
    np.testing.assert_array_equal(first.X_test, again.X_test)
    assert not calls
    with pytest.raises(TypeError):  # of another seed it would have to be trained
        adapted_set(digits_features, tmp_path / "adapted.npz", seed=1)
    assert len(calls) == 1


@pytest.mark.parametrize("name", ["mixtures", "elementwise", "encodings"])
def test_experiments_with_machines_of_their_own_have_no_others(name):
    done = CliRunner().invoke(main, ["experiment", name, "--machines", "paper"])
    assert done.exit_code == 2
    assert f"--machines must be ours with {name}, got paper." in done.stderr
