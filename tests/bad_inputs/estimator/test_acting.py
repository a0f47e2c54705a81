"""Sets, rejections, possible classes, groups and doubts that cannot be had."""

from __future__ import annotations

import pytest
from sklearn.exceptions import NotFittedError

_BETWEEN = "must be a number above 0 and below 1, got"
_UNCALIBRATED = "PairwiseSVC(coupled_calibration='none', **SMALL).fit(X, y)"
_NONE = "the model has no held-out samples: coupled_calibration='none' scores none"

CALLS = [
    ("model.predict_set(X, 0)", ValueError, f"predict_set: coverage {_BETWEEN} 0"),
    ("model.predict_set(X, 1.2)", ValueError, f"predict_set: coverage {_BETWEEN} 1.2"),
    (
        "model.predict_at(X, {0: 'a', 1: 'a', 2: 'b', 3: 'b'}, 0)",
        ValueError,
        f"predict_at: coverage {_BETWEEN} 0",
    ),
    ("model.predict(X, reject=0)", ValueError, f"predict: reject {_BETWEEN} 0"),
    ("model.predict(X, reject=1.2)", ValueError, f"predict: reject {_BETWEEN} 1.2"),
    ("model.predict(X, reject=nan)", ValueError, f"predict: reject {_BETWEEN} nan"),
    ("model.predict(X, reject=0.1, reject_label=2)", ValueError, "reject_label must not be a class, got 2"),
    ("dated.predict(X, reject=0.1)", ValueError, "reject_label must be given for labels such as"),
    ("model.predict_proba(X, classes=[0, 9])", ValueError, "classes: label must be one of 0, 1, 2, 3, got 9"),
    ("model.predict_proba(X, classes=['0', 1])", ValueError, "classes: label must be one of .* got '0'"),
    ("spoken.predict(X, classes=['a', 'A'])", ValueError, "classes: label must be one of .* got 'A'"),
    ("model.predict_set(X, classes=[1])", ValueError, "classes must name at least 2 classes, got 1"),
    ("model.predict_proba(X, classes=X > 0)", ValueError, r"got a mask of shape \(48, 3\)"),
    ("model.explain(X[0], 0, 1, classes=[1, 2])", ValueError, "classes must hold a and b, 0 and 1"),
    ("model.predict_at(X, {0: 'a', 1: 'a', 2: 'b'})", ValueError, "every class of the model, got none of 3"),
    ("model.group_proba(X, [0, 1])", TypeError, "groups must be mappings from class to group, got 0"),
    ("model.predict_at(X, [])", TypeError, r"groups must be a mapping .* got \[\]"),
    ("model.label_doubts(y[:-1])", ValueError, "label_doubts: y must be the labels of the fit, row by row"),
    (
        "model.label_doubts(words)",
        ValueError,
        "label_doubts: y must hold the labels of the fit, got others: ",
    ),
    ("model.label_doubts(y, X[::-1])", ValueError, "label_doubts: X must hold the samples .* same order"),
    ("weighted.label_doubts(y)", ValueError, "label_doubts: sample_weight is not stored with the model"),
    (f"{_UNCALIBRATED}.predict_set(X)", ValueError, f"predict_set: {_NONE}"),
    (f"{_UNCALIBRATED}.novelty(X)", ValueError, f"novelty: {_NONE}"),
    (f"{_UNCALIBRATED}.predict(X, reject=0.1)", ValueError, f"predict: {_NONE}"),
    (f"{_UNCALIBRATED}.label_doubts(y)", ValueError, f"label_doubts: {_NONE}"),
    (f"{_UNCALIBRATED}.predict_at(X, dict.fromkeys(range(4), 'a'))", ValueError, f"predict_at: {_NONE}"),
    ("PairwiseSVC().novelty(X)", NotFittedError, "PairwiseSVC instance is not fitted"),
    ("PairwiseSVC().label_doubts(y)", NotFittedError, "PairwiseSVC instance is not fitted"),
    ("PairwiseSVC().predict_at(X, {})", NotFittedError, "PairwiseSVC instance is not fitted"),
]


@pytest.mark.parametrize(("row", "error", "message"), CALLS, ids=[row[0] for row in CALLS])
def test_a_call_that_cannot_be_done_changes_nothing(row, error, message, assert_refused):
    assert_refused(row, error, message)
