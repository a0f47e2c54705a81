"""The model of a run explains its predictions."""

from __future__ import annotations

import numpy as np
import pytest

from pairloom import PairwiseSVC
from pairloom.cluster.config.config_file import load_config
from pairloom.pipeline.features.feature_set import load_features
from pairloom.pipeline.run.run_directory import open_group


def test_the_odds_are_those_that_the_run_stored(small_run, small_config):
    model = PairwiseSVC.from_run(small_run)
    X = load_features(str(load_config(small_config).data.features)).X_test
    p = open_group(small_run, "probabilities.zarr")[model.coupling][:]
    for r in range(5):
        best, second = np.argsort(-p[r])[:2]
        a, b = model.classes_[[best, second]].tolist()
        explained = model.explain(X[r], a, b)
        assert explained.odds == pytest.approx(np.log(p[r, best] / p[r, second]), abs=1e-3)
        assert explained.pairs.total == pytest.approx(explained.odds, abs=1e-6)
        assert explained.contributions.total == explained.logit
