"""Digits: accuracy, log loss and calibration against scikit-learn's classifiers with probabilities."""

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from pairloom import PairwiseSVC
from pairloom.pipeline.display.evaluation import scores


@pytest.fixture(scope="module")
def table():
    X, y = load_digits(return_X_y=True)
    X, X_new, y, y_new = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)
    models = {
        "hub_neighbours": PairwiseSVC(
            {"family": "hub_neighbours", "hubs": 2, "neighbours": 4}, random_state=0
        ),
        "complete": PairwiseSVC("complete", random_state=0),
        "svc": SVC(kernel="linear", probability=True, random_state=0),
        "calibrated": CalibratedClassifierCV(make_pipeline(StandardScaler(), LinearSVC(C=0.1))),
        "logistic": make_pipeline(StandardScaler(), LogisticRegression()),
    }
    return {
        name: scores(model.fit(X, y).predict_proba(X_new).astype(np.float64), y_new)
        for name, model in models.items()
    }


@pytest.mark.filterwarnings("ignore:.*probability:FutureWarning")
def test_on_digits_it_is_as_good_as_its_peers_or_better(table):
    for name in ("hub_neighbours", "complete"):
        ours = table[name]
        assert ours.accuracy > 0.975
        assert ours.log_loss < 0.08
        assert ours.expected_calibration_error < 0.025
        for peer in ("svc", "calibrated", "logistic"):
            assert ours.accuracy > table[peer].accuracy - 0.005
            assert ours.log_loss < table[peer].log_loss
