"""The choices of the user guide can be measured again."""

import pytest
from sklearn.metrics import log_loss

from pairloom import PairwiseSVC
from pairloom.benchmarks import choices
from pairloom.benchmarks.datasets import load
from pairloom.benchmarks.record import Record


def record():
    return Record("choices", "command", {}, echo=lambda line: None)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:couple. method 'wlw2' did not converge")
def test_a_row_is_that_of_the_model_with_this_choice():
    (row,) = choices.compare(record(), ["digits"], ["coupling wlw2"])
    split = load("digits")
    model = PairwiseSVC(coupling="wlw2", random_state=0).fit(split.X, split.y)
    assert row.pairs == len(model.edges_)
    assert abs(row.log_loss - log_loss(split.y_new, model.predict_proba(split.X_new))) < 1e-6


def test_a_set_that_is_not_there_is_left_out(monkeypatch, tmp_path):
    monkeypatch.setenv("PAIRLOOM_DATA", str(tmp_path))
    kept = record()
    assert list(choices.compare(kept, ["letter"])) == []
    assert kept.notes[0].startswith("letter is left out")
