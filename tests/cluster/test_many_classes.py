"""A run of more classes than are compared pair by pair: every stage, its report, and the estimator read from it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from small_runs import assert_same_bytes, bytes_of, run_here

from pairloom import PairwiseSVC
from pairloom.cluster.drive.driver import load_data
from pairloom.pipeline.run import tiles
from pairloom.pipeline.run.ledger import Ledger
from pairloom.pipeline.run.probability_store import read_lists

CLASSES, FEATURES = 2100, 12

pytestmark = pytest.mark.long


@pytest.fixture
def config_file(tmp_path):
    random = np.random.default_rng(0)
    means = random.normal(size=(CLASSES, FEATURES)).astype(np.float32)
    y, y_test = np.repeat(np.arange(CLASSES), 6), random.integers(0, CLASSES, 300)
    X, X_test = (
        (means[labels] + random.normal(0, 0.3, (len(labels), FEATURES))).astype(np.float32)
        for labels in (y, y_test)
    )
    np.savez(tmp_path / "data.npz", X_train=X, y_train=y, X_test=X_test, y_test=y_test)
    settings = "[graph]\nhubs = 1\nneighbours = 3\n[model]\nfolds = 2\ncalibration_samples = 200\n"
    (tmp_path / "run.toml").write_text(f'[data]\nfeatures = "data.npz"\n{settings}')
    return tmp_path / "run.toml"


def test_a_run_of_many_classes_is_whole_and_the_same_again(config_file, client, tmp_path, monkeypatch):
    monkeypatch.setattr(tiles, "_KEPT_BYTES", 0)  # maps of machines are stored
    monkeypatch.setattr(tiles, "_DRAWS_BYTES", 2**21)  # held-out samples are ranked in several slabs
    directory, settings = tmp_path / "run", ("model.C=1.0", "model.whiten=none", "model.kernel=linear")
    run = run_here(config_file, directory, client, *settings, until="report")
    assert run.shape.kept == 20
    assert run.shape.collapsed
    assert len(run.draw_slabs) > 1

    top, likelihood = read_lists(run, run.shape.couplings[0], slice(None))
    model = PairwiseSVC.from_run(directory)
    p = model.predict_proba(load_data(run.config).X_test.read(slice(None)))
    np.testing.assert_allclose(top.p, -np.sort(-p, axis=1)[:, :20], atol=2e-6)
    labels = load_data(run.config).y_test
    np.testing.assert_allclose(likelihood, p[np.arange(len(p)), labels], atol=2e-6)
    metrics = json.loads((directory / "report" / "metrics.json").read_text())
    assert metrics["methods"][run.shape.couplings[0]]["accuracy"] == np.mean(p.argmax(axis=1) == labels)
    assert "Map of the errors of 2100 classes" in (directory / "report" / "index.html").read_text()

    before, ledger = bytes_of(directory), Ledger(directory)
    for stage in ("held_out", "collapsed", "ranking", "probabilities"):
        for unit in range(run.units(stage)):
            ledger.forget(stage, unit)
    run_here(config_file, directory, client, *settings)
    assert_same_bytes(directory, before)
