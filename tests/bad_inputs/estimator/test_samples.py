"""Samples that cannot be fitted or predicted."""

from __future__ import annotations

import pytest

SAMPLES = [
    ("model.fit(X, y * 0)", ValueError, "y must hold at least 2 classes, got one class: 0"),
    ("model.fit(X[:, :2], y * 0)", ValueError, "y must hold at least 2 classes, got one class: 0"),
    ("model.fit(table, y * 0)", ValueError, "y must hold at least 2 classes, got one class: 0"),
    ("named.fit(X, y * 0)", ValueError, "y must hold at least 2 classes, got one class: 0"),
    ("model.fit(X[:0], y[:0])", ValueError, r"X must be a matrix .* 0 sample\(s\) \(shape=\(0, 3\)\)"),
    ("model.fit(X[:, :0], y)", ValueError, r"X must be a matrix .* 0 feature\(s\) \(shape=\(48, 0\)\)"),
    ("model.fit(X, y[:-1])", ValueError, r"y a label for each row.* \[48, 47\]"),
    ("model.fit(X, None)", ValueError, "y a label for each row.* y is None"),
    ("model.fit(X, 3)", ValueError, r"y a label for each row.* shape \(\)"),
    (
        "model.fit(X, np.where(y, y, nan))",
        ValueError,
        "y must have a label for each row, got 12 of 48 missing",
    ),
    ("model.fit(X, np.where(y, y, inf))", ValueError, "y a label .* contains infinity"),
    ("model.fit(X, np.where(y, dates, np.datetime64('NaT')))", ValueError, "y a label .* contains NaT"),
    ("model.fit(X, np.eye(4)[y])", ValueError, r"y a label .* shape \(48, 4\)"),
    ("model.fit(X, y + 0.5)", ValueError, "y must hold .*Unknown label type: continuous"),
    ("model.fit(X, y * 1j)", ValueError, "y a label .* Complex data not supported"),
    ("model.fit(X, np.array([0, 'a', 1, 'b'], object)[y])", TypeError, "y must have labels of one type"),
    ("model.fit(X, np.array(['a', None, 'b', 'c'], object)[y])", ValueError, "y must have a label .* None"),
    ("model.fit(X, words.astype('S'))", TypeError, "y a label .* bytes is not supported"),
    ("model.fit(X, sparse.csr_matrix(y))", TypeError, "y a label .* Sparse data was passed for y"),
    ("model.fit(X[:, 0], y)", ValueError, "X must be a matrix .* got 1D array"),
    ("model.fit(X[None], y)", ValueError, "X must be a matrix .* dim 3"),
    ("model.fit(None, y)", ValueError, "X must be a matrix .* got scalar array"),
    ("model.fit({}, y)", TypeError, "X must be a matrix .* not 'dict'"),
    ("model.fit([[1], [1, 2]] * 24, y)", ValueError, "X must be a matrix .* inhomogeneous"),
    ("model.fit(X * 1j, y)", ValueError, "X must be a matrix .* Complex data not supported"),
    ("model.fit(words[:, None], y)", ValueError, "X must be a matrix .*'a'"),
    ("model.fit(with_entry(X, (3, 1), nan), y)", ValueError, "X must be a matrix .* X contains NaN"),
    ("model.fit(with_entry(X, (3, 1), inf), y)", ValueError, "X must be a matrix .* X contains infinity"),
    ("model.fit(sparse.csr_matrix(with_entry(X, (3, 1), nan)), y)", ValueError, "X contains NaN"),
    ("model.set_params(kernel='precomputed').fit(X, y)", ValueError, r"X must be a square .* got \(48, 3\)"),
    (
        "model.set_params(kernel='precomputed').fit(sparse.csr_matrix(X @ X.T), y)",
        TypeError,
        "X must be a matrix .* Sparse data was passed for X",
    ),
    ("model.fit(X, y, np.ones(3))", ValueError, r"sample_weight must be .* \(3,\), expected \(48,\)"),
    ("model.fit(X, y, -np.ones(48))", ValueError, "sample_weight must be .* Negative values"),
    ("model.fit(X, y, np.zeros(48))", ValueError, "sample_weight must be .* at least one"),
    ("model.fit(X, y, np.full(48, nan))", ValueError, "sample_weight must be .* contains NaN"),
    ("model.fit(X, y, np.full(48, inf))", ValueError, "sample_weight must be .* contains infinity"),
    ("model.fit(X, y, ['a'] * 48)", ValueError, "sample_weight must be .* 'a'"),
    ("model.fit(X, y, np.ones((48, 1)))", ValueError, "sample_weight must be .* got 2D array"),
    ("model.fit(X, y, (y == 2) * 1.0)", ValueError, "y must hold at least 2 classes, got one class: 2"),
    (
        "model.set_params(estimator=LogisticRegression()).fit(X, y, np.ones(48))",
        ValueError,
        r"sample_weight and class_weight are for .* estimator=LogisticRegression\(\)",
    ),
    ("model.predict_proba(X[:, :2])", ValueError, "X has 2 features, but PairwiseSVC is expecting 3"),
    ("model.predict_proba(X[0])", ValueError, "Expected 2D array, got 1D array"),
    ("model.predict_proba(X[:0])", ValueError, r"0 sample\(s\) \(shape=\(0, 3\)\)"),
    ("model.predict_proba(X * nan)", ValueError, "X contains NaN"),
    ("model.predict_proba(X * 1j)", ValueError, "Complex data not supported"),
    ("model.predict_proba(words[:, None])", ValueError, "could not convert string to float"),
    ("model.predict_proba(X * 1e100)", ValueError, "X must have features of the size .* row 0"),
    ("named.predict_proba(table[['w', 'v', 'u']])", ValueError, "must be in the same order"),
    ("named.predict(table.rename(columns={'u': 'q'}))", ValueError, "unseen at fit time:\n- q"),
    ("model.set_params(coupling='x').predict(X)", ValueError, "coupling must be one of .* got 'x'"),
    ("model.set_params(priors=[1]).predict(X)", ValueError, r"priors must be 4 .* got \[1\]"),
    ("model.set_params(n_jobs=0).predict(X)", ValueError, "n_jobs must be .* got 0"),
    (
        "model.set_params(memory_limit='a').predict(X)",
        ValueError,
        "memory_limit must be a positive number, got 'a'",
    ),
    (
        "model.set_params(memory_limit=nan).predict(X)",
        ValueError,
        "memory_limit must be a positive number, got nan",
    ),
    (
        "model.set_params(memory_limit=None).predict(X)",
        ValueError,
        "memory_limit must be a positive number, got None",
    ),
    (
        "model.set_params(memory_limit=5).predict(X)",
        ValueError,
        "memory_limit must be at least 1,088 .* got 5",
    ),
]


@pytest.mark.parametrize(("row", "error", "message"), SAMPLES, ids=[row[0] for row in SAMPLES])
def test_a_call_that_cannot_be_done_changes_nothing(row, error, message, assert_refused):
    assert_refused(row, error, message)
