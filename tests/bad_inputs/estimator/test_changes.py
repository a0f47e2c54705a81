"""Changes that a fitted model cannot undergo: classes that come and go, other machines, growth."""

from __future__ import annotations

import copy

import pytest
from sklearn.exceptions import NotFittedError

CHANGES = [
    (
        "model.add_class(9, X_new[:, :1], X, y)",
        ValueError,
        r"add_class: X_new must be \(n, 3\).* got \(6, 1\)",
    ),
    ("model.add_class(9, X_new[0], X, y)", ValueError, "add_class: X_new must be a matrix .* got 1D array"),
    ("model.add_class(9, X_new[None], X, y)", ValueError, "add_class: X_new must be a matrix .* dim 3"),
    ("model.add_class(9, X_new * 1j, X, y)", ValueError, "add_class: X_new must be a matrix .* Complex data"),
    ("model.add_class(9, words[:6, None], X, y)", ValueError, "add_class: X_new must be a matrix .*'a'"),
    ("model.add_class(9, X_new * nan, X, y)", ValueError, "add_class: X_new .* contains NaN"),
    ("model.add_class(9, X_new * inf, X, y)", ValueError, "add_class: X_new .* contains infinity"),
    ("model.add_class(9, X_new[:0], X, y)", ValueError, r"add_class: X_new .* 0 sample\(s\)"),
    ("model.add_class(9, None, X, y)", ValueError, "add_class: X_new must be a matrix"),
    ("model.add_class(9, {}, X, y)", TypeError, "add_class: X_new must be a matrix .* not 'dict'"),
    ("model.add_class(9, X_new * 1e30, X, y)", ValueError, r"X_new must have features .* up to \S+e\+3"),
    ("named.add_class(9, table[:6].rename(columns={'u': 'q'}), table, y)", ValueError, "X_new must .*- q"),
    ("named.add_class(9, table[:6][['w', 'v', 'u']], table, y)", ValueError, "X_new must .* same order"),
    (
        "named.add_class(9, table[:6], table[['w', 'v', 'u']], y)",
        ValueError,
        "add_class: X must hold the samples",
    ),
    ("model.add_class(9, X_new, X[::-1], y[::-1])", ValueError, "X must hold the samples .* same order"),
    ("model.add_class(9, X_new, X[:-1], y[:-1])", ValueError, "X must hold the samples .* got others of 0"),
    ("model.add_class(9, X_new, X, y[:-1])", ValueError, r"add_class: y must be \(48,\), .* got \(47,\)"),
    ("model.add_class(9, X_new, X, None)", ValueError, r"add_class: y must be \(48,\), .* got \(\)"),
    (
        "model.add_class(9, X_new, X, words)",
        ValueError,
        "X must hold the samples .* got others of 0, 1, 2, 3",
    ),
    ("model.add_class(9, X_new, X, np.where(y, y, nan))", ValueError, "X must hold .* got others of 0"),
    ("model.add_class(None, X_new, X, y)", TypeError, "label must be of the type .* got None"),
    ("model.add_class(nan, X_new, X, y)", TypeError, "label must be of the type .* got nan"),
    ("model.add_class([9], X_new, X, y)", TypeError, r"label must be of the type .* got \[9\]"),
    ("model.add_class({}, X_new, X, y)", TypeError, r"label must be of the type .* got \{\}"),
    ("model.add_class('a', X_new, X, y)", TypeError, "label must be of the type .* got 'a' of type str"),
    ("model.add_class(9.0, X_new, X, y)", TypeError, "label must be of the type .* got 9.0 of type float"),
    ("model.add_class(np.float64(9), X_new, X, y)", TypeError, "label must be .* got 9.0 of type float64"),
    ("model.add_class(True, X_new, X, y)", TypeError, "label must be of the type .* got True of type bool"),
    (
        "model.add_class(2**70, X_new, X, y)",
        TypeError,
        "label must be of the type .* got 1180591620717411303424",
    ),
    (
        "model.add_class(np.uint64(2**64 - 1), X_new, X, y)",
        TypeError,
        "label must be .* got 18446744073709551615",
    ),
    ("model.add_class(2, X_new, X, y)", ValueError, "label must be new, got 2"),
    ("model.add_class(np.int64(2), X_new, X, y)", ValueError, "label must be new, got 2"),
    (
        "spoken.add_class(9, X_new, X, words)",
        TypeError,
        "label must be of the type .* 'a', got 9 of type int",
    ),
    ("spoken.add_class(b'z', X_new, X, words)", TypeError, "label must be of the type .* got b'z'"),
    ("spoken.add_class('a', X_new, X, words)", ValueError, "label must be new, got 'a'"),
    (r"spoken.add_class('a\0', X_new, X, words)", TypeError, r"label must be of the type .* got 'a\\x00'"),
    ("real.add_class(nan, X_new, X, y)", TypeError, "label must be of the type .* got nan"),
    ("real.add_class(1, X_new, X, y)", ValueError, "label must be new, got 1"),
    (
        "dated.add_class(np.datetime64('NaT'), X_new, X, dates)",
        TypeError,
        "label must be of the type .* got None",
    ),
    ("dated.add_class(9, X_new, X, dates)", TypeError, "label must be of the type .* got 9 of type int"),
    ("model.add_class(9, X_new, X, y, neighbours=-1)", ValueError, "neighbours must be at least 0, got -1"),
    ("model.add_class(9, X_new, X, y, neighbours='2')", TypeError, "neighbours must be an integer, got '2'"),
    ("model.add_class(9, X_new, X, y, neighbours=1.5)", TypeError, "neighbours must be an integer, got 1.5"),
    (
        "model.add_class(9, X_new, X, y, neighbours=True)",
        TypeError,
        "neighbours must be an integer, got True",
    ),
    ("path.add_class(9, X_new, X, y, neighbours=0)", ValueError, "neighbours must be at least 1, got 0"),
    ("model.set_params(n_jobs='2').add_class(9, X_new, X, y)", ValueError, "n_jobs must be .* got '2'"),
    (
        "curved.add_class(9, X_new, X, y)",
        ValueError,
        "add_class: linear machines are needed, got .* another kernel",
    ),
    ("weighted.add_class(9, X_new, X, y)", ValueError, "add_class: sample_weight is not stored"),
    ("model.remove_class(9)", ValueError, "label must be one of 0, 1, 2, 3, got 9"),
    ("model.remove_class('0')", ValueError, "label must be one of .* got '0'. Did you mean 0?"),
    ("model.remove_class(True)", ValueError, "label must be one of .* got True"),
    ("model.remove_class(0.0)", ValueError, "label must be one of .* got 0.0"),
    ("model.remove_class(None)", ValueError, "label must be one of .* got None"),
    ("model.remove_class(nan)", ValueError, "label must be one of .* got nan"),
    ("model.remove_class([0])", ValueError, r"label must be one of .* got \[0\]"),
    ("model.remove_class([0, 1, 2])", ValueError, r"label must be one of .* got \[0, 1, 2\]"),
    ("spoken.remove_class('A')", ValueError, "label must be one of 'a', 'b', 'c', 'd', got 'A'"),
    ("star.remove_class(0)", ValueError, "label must leave the graph connected, got 0: .* 3 components"),
    ("curved.remove_class(0)", ValueError, "remove_class: linear machines are needed"),
    ("model.retrain_pairs([], X, y)", ValueError, "pairs must hold at least one pair of labels, got none"),
    ("model.retrain_pairs(None, X, y)", TypeError, "pairs must be a list of pairs of labels, got None"),
    ("model.retrain_pairs('ab', X, y)", TypeError, "pairs must be a list of pairs of labels, got 'ab'"),
    ("model.retrain_pairs((0, 1), X, y)", ValueError, "pairs must be pairs of two labels, got 0 among them"),
    (
        "model.retrain_pairs([(0, 1, 2)], X, y)",
        ValueError,
        r"pairs of two labels, got \(0, 1, 2\) among them",
    ),
    ("model.retrain_pairs(['ab'], X, y)", ValueError, "pairs of two labels, got 'ab' among them"),
    ("model.retrain_pairs([(0, 1), None], X, y)", ValueError, "pairs of two labels, got None among them"),
    ("model.retrain_pairs([(1, 1)], X, y)", ValueError, r"pairs must be edges of the graph, got \(1, 1\)"),
    ("star.retrain_pairs([(1, 2)], X, y)", ValueError, r"pairs must be edges of the graph, got \(1, 2\)"),
    ("model.retrain_pairs([(0, 9)], X, y)", ValueError, "label must be one of 0, 1, 2, 3, got 9"),
    ("model.retrain_pairs([(True, 2)], X, y)", ValueError, "label must be one of 0, 1, 2, 3, got True"),
    (
        "model.retrain_pairs([(0, 1)], X[:, :2], y)",
        ValueError,
        r"retrain_pairs: X must be \(n, 3\), .* \(48, 2\)",
    ),
    (
        "model.retrain_pairs([(0, 1)], X, y[:3])",
        ValueError,
        r"retrain_pairs: y must be \(48,\), .* got \(3,\)",
    ),
    (
        "model.retrain_pairs([(0, 1)], X, y, C='scale')",
        ValueError,
        "C must be a positive number, got 'scale'",
    ),
    ("model.retrain_pairs([(0, 1)], X, y, C=inf)", ValueError, "C must be a positive number, got inf"),
    ("model.retrain_pairs([(0, 1)], X, y, C=nan)", ValueError, "C must be a positive number, got nan"),
    ("model.retrain_pairs([(0, 1)], X, y, C=-1)", ValueError, "C must be a positive number, got -1"),
    ("model.retrain_pairs([(0, 1)], X, y, C=True)", ValueError, "C must be a positive number, got True"),
    ("model.retrain_pairs([(0, 1)], X, y, C=[1.0])", ValueError, r"C must be a positive number, got \[1.0\]"),
    (
        "model.retrain_pairs([(0, 1)], X, y, C=1e308)",
        ValueError,
        r"C must be a number that fits .* got 1e\+308",
    ),
    ("model.retrain_pairs([(0, 1)], X, y, tol=0)", ValueError, "tol must be a positive number, got 0"),
    ("model.retrain_pairs([(0, 1)], X, y, tol=-1)", ValueError, "tol must be a positive number, got -1"),
    ("model.retrain_pairs([(0, 1)], X, y, tol=5)", ValueError, "tol must be below 1, got 5"),
    ("curved.retrain_pairs([(0, 1)], X, y)", ValueError, "retrain_pairs: linear machines are needed"),
    ("list(star.grow(X, y, wave=0))", ValueError, "wave must be a positive integer, or None, got 0"),
    ("list(star.grow(X, y, wave=True))", ValueError, "wave must be a positive integer, or None, got True"),
    ("list(star.grow(X, y, wave=1.5))", ValueError, "wave must be a positive integer, or None, got 1.5"),
    ("list(star.grow(X, y, share=0))", ValueError, "share must be above 0 and at most 1, or None, got 0"),
    ("list(star.grow(X, y, share=nan))", ValueError, "share must be above 0 and at most 1, or None, got nan"),
    ("list(star.grow(X, y, pairs=-1))", ValueError, "pairs must be a positive integer, or None, got -1"),
    ("list(star.grow(X, y, pairs=1.5))", ValueError, "pairs must be a positive integer, or None, got 1.5"),
    ("list(star.grow(X, y, seconds=-1))", ValueError, "seconds must be a positive number, or None, got -1"),
    ("list(star.grow(X, y, plateau=2))", ValueError, "plateau must be from 0 to below 1, or 'never', got 2"),
    ("list(star.grow(X, y, plateau=None))", ValueError, "plateau must be from 0 to below 1, .* got None"),
    (
        "list(star.grow(X, y, plateau='Never'))",
        ValueError,
        "plateau must be from 0 to below 1, .* got 'Never'",
    ),
    ("list(star.grow(X, y, cost='x'))", ValueError, "cost must be one of .* got 'x'"),
    ("list(star.grow(X, y, cost=None))", ValueError, "cost must be one of .* got None"),
    ("list(star.grow(X, y, cost=['confusion']))", ValueError, r"cost must be one of .* got \['confusion'\]"),
    ("list(star.grow(X, y, cost=np.array(['a', 'b'])))", ValueError, r"cost must be one of .* got array\("),
    (
        "list(star.grow(X, y, cost=lambda a, b: nan))",
        ValueError,
        r"cost must be a number .* cost\(1, 2\) = nan",
    ),
    (
        "list(star.grow(X, y, cost=lambda a, b: 'x'))",
        ValueError,
        r"cost must be a number .* cost\(1, 2\) = 'x'",
    ),
    ("list(star.grow(X, y, cost=lambda a, b: None))", ValueError, "cost must be a number .* = None"),
    ("list(star.grow(X, y, cost=lambda a, b: [1]))", ValueError, r"cost must be a number .* = \[1\]"),
    ("list(star.grow(X, y, cost=failing))", LookupError, "no cost is known"),
    ("list(star.grow(X, y[:-1]))", ValueError, r"grow: y must be \(48,\), .* got \(47,\)"),
    ("list(star.grow(X[::-1], y[::-1]))", ValueError, "grow: X must hold the samples"),
    ("list(star.set_params(n_jobs=0).grow(X, y))", ValueError, "n_jobs must be .* got 0"),
    ("list(path.grow(X, y))", ValueError, "graph must have diameter at most 2 .* 0 and 3 are further apart"),
    ("list(edged.grow(X, y))", ValueError, "coupled_calibration must be 'scale' or 'none', got 'edges'"),
    ("list(curved.grow(X, y))", ValueError, "grow: linear machines are needed"),
    ("model.pairs_[0]", KeyError, "0"),
    ("model.pairs_[0, 1, 2]", KeyError, r"\(0, 1, 2\)"),
    ("model.pairs_[0, 9]", KeyError, r"\(0, 9\)"),
    ("curved.pairs_", AttributeError, "pairs_ is for linear machines"),
    ("PairwiseSVC().predict(X)", NotFittedError, "PairwiseSVC instance is not fitted"),
    ("PairwiseSVC().add_class(9, X_new, X, y)", NotFittedError, "PairwiseSVC instance is not fitted"),
    ("PairwiseSVC().save('x')", NotFittedError, "PairwiseSVC instance is not fitted"),
]


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of scikit-learn's own check
@pytest.mark.parametrize(("row", "error", "message"), CHANGES, ids=[row[0] for row in CHANGES])
def test_a_call_that_cannot_be_done_changes_nothing(row, error, message, assert_refused):
    assert_refused(row, error, message)


def test_the_last_two_classes_stay(models):
    model = copy.copy(models["model"]).remove_class(0).remove_class(1)
    before = model.model_
    with pytest.raises(ValueError, match="at least 2 classes must remain, got 3 of 2"):
        model.remove_class(3)
    assert model.model_ is before
