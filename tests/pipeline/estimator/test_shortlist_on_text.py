"""The shortlist beside exact coupling, on 150 classes of real text; skipped where the data are absent."""

import numpy as np
import pytest

from pairloom import PairwiseSVC
from pairloom.benchmarks.datasets import DataNotFound, split_of


@pytest.fixture(scope="module")
def text():
    try:
        return split_of("clinc150-minilm")
    except DataNotFound as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module", params=["hub_neighbours", pytest.param("complete", marks=pytest.mark.long)])
def model(request, text):
    settings = {"C": "scale", "whiten": "none", "calibration": "distance", "tol": 1e-2}
    return PairwiseSVC(request.param, random_state=0, n_jobs=2, **settings).fit(text.X, text.y)


@pytest.mark.parametrize("coupling", ["stratified", "wlw2", "bradley_terry"])
def test_twenty_classes_say_what_all_say(model, text, coupling):
    X = text.X_new[::3]
    listed = model.set_params(coupling=coupling, shortlist="auto").predict_proba(X)
    exact = model.set_params(shortlist="none").predict_proba(X)
    assert (listed.argmax(axis=1) == exact.argmax(axis=1)).mean() >= 0.999
    # A coupling that differed by 1% of a sample's probability would differ by 0.02 in sum.
    assert np.abs(listed - exact).sum(axis=1).mean() < 0.02
    assert not np.array_equal(listed, exact)


def test_the_list_holds_the_true_class(model, text):
    """Where it does not, the class keeps the probability of the ranking only."""
    X, y = text.X_new[::3], text.y_new[::3]
    ranked = model.model_.predictor.ranking.by_sample(model.model_.normalisation(X))
    top = np.argsort(-ranked, axis=1)[:, :20]
    assert (top == y[:, None]).any(axis=1).mean() > 0.99
