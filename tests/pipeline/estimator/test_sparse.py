"""Sparse features: machines on CSR are those on the same numbers made dense, in all methods of the estimator."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from pairloom import PairwiseSVC
from pairloom.pipeline.estimator import fit
from pairloom.pipeline.features.sparse_features import canonical_csr
from pairloom.pipeline.machines.sparse_machines import SparseRows, SparseWeights, solve_support
from pairloom.pipeline.model import memory

WORDS = [f"word{k}" for k in range(120)]


def texts(n_classes=5, per_class=16, seed=0):
    """Made-up texts: every class prefers some of the words."""
    rng = np.random.default_rng(seed)
    likely = rng.dirichlet(np.full(len(WORDS), 0.15), n_classes)
    y = np.repeat(np.arange(n_classes), per_class)
    return [" ".join(rng.choice(WORDS, 12, p=likely[c])) for c in y], y


@pytest.fixture(scope="module")
def data():
    documents, y = texts()
    return TfidfVectorizer().fit_transform(documents), y


def fitted(X, y, **parameters):
    return PairwiseSVC(**{"random_state": 0, "C": 5.0, "whiten": "none"} | parameters).fit(X, y)


def test_machines_are_those_of_the_same_numbers_made_dense(data):
    X, y = data
    by_csr, by_array = (fitted(some, y, tol=1e-6) for some in (X, X.toarray()))
    assert isinstance(by_csr.machines_.coef, SparseWeights)
    np.testing.assert_array_equal(by_csr.edges_, by_array.edges_)
    for m in range(4):
        np.testing.assert_allclose(
            by_csr.machines_.coef.of_machine(m).toarray(), by_array.machines_.coef[:, m], atol=2e-3
        )
    np.testing.assert_allclose(by_csr.predict_proba(X), by_array.predict_proba(X.toarray()), atol=5e-3)


def test_objective_is_that_of_libsvm(data):
    X, y = data
    rows = canonical_csr(X[y < 2])
    sign = np.where(y[y < 2] == 0, 1.0, -1.0)
    solved = solve_support(SparseRows.of(rows), sign, np.full(len(sign), 3.0), 1e-5, 10**6)
    svc = SVC(kernel="linear", C=3.0, tol=1e-8).fit(rows, sign)
    margins = sign * svc.decision_function(rows)
    objective = 0.5 * float(np.square(svc.coef_.toarray()).sum()) + 3.0 * np.maximum(0, 1 - margins).sum()
    assert solved.solution.primal[0] == pytest.approx(objective, rel=1e-4)


@pytest.mark.parametrize(
    "form",
    [
        lambda X: X.tocsc(),
        lambda X: X.tocoo(),
        lambda X: X.astype(np.float32),
        lambda X: sparse.csr_matrix((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), X.shape),
        lambda X: X[:, ::-1][:, ::-1],
        lambda X: sparse.vstack([X, sparse.csr_matrix((0, X.shape[1]))]),
        lambda X: X + sparse.csr_matrix((np.zeros(3), ([0, 1, 2], [5, 6, 7])), X.shape),
        lambda X: sparse.coo_matrix(
            (np.tile(X.data / 2, 2), (np.tile(X.tocoo().row, 2), np.tile(X.tocoo().col, 2))), X.shape
        ),
    ],
    ids=["csc", "coo", "float32", "int64", "unsorted", "stacked", "zeros", "duplicates"],
)
def test_form_of_a_matrix_does_not_matter(data, form):
    X, y = data
    expected = fitted(X, y).predict_proba(X)
    np.testing.assert_allclose(fitted(form(X), y).predict_proba(form(X)), expected, atol=1e-4)


def test_order_of_columns_and_unit_of_features_do_not_matter(data):
    X, y = data
    order = np.random.default_rng(0).permutation(X.shape[1])
    expected = fitted(X, y, tol=1e-5).predict_proba(X)
    np.testing.assert_allclose(
        fitted(X[:, order], y, tol=1e-5).predict_proba(X[:, order]), expected, atol=1e-3
    )
    big = fitted(X * 1024.0, y, tol=1e-5, C=5.0 / 1024**2).predict_proba(X * 1024.0)
    np.testing.assert_array_equal(big, expected)


def test_pipeline_of_texts_chooses_C_and_knows_a_text_without_words():
    documents, y = texts(per_class=30)
    model = make_pipeline(TfidfVectorizer(), PairwiseSVC(random_state=0)).fit(documents, y)
    assert model.score(documents, y) > 0.8
    assert len({one["C"] for one in model[-1].candidates_}) == 5
    p = model.predict_proba(["nothing known", documents[0]])
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-6)


def test_dense_and_sparse_samples_are_predicted_alike(data):
    X, y = data
    for model in (fitted(X, y), fitted(X.toarray(), y)):
        np.testing.assert_allclose(model.predict_proba(X), model.predict_proba(X.toarray()), atol=1e-6)


@pytest.mark.parametrize("parameters", [{"shortlist": 3}, {"graph": "one_vs_rest"}, {"standardise": True}])
def test_lists_codes_and_standardised_columns(data, parameters):
    X, y = data
    assert (fitted(X, y, **parameters).predict(X) == y).mean() > 0.8


def test_saved_model_predicts_the_same_bits(data, tmp_path):
    X, y = data
    model = fitted(X, y)
    model.save(tmp_path / "model")
    loaded = PairwiseSVC.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    loaded.retrain_pairs([(0, 1)], X, y)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_classes_come_and_go_and_pairs_grow(data):
    X, y = data
    known = np.flatnonzero(y < 4)
    model = fitted(X[known], y[known])
    model.add_class(4, X[y == 4], X[known], y[known])
    assert (model.predict(X) == y).mean() > 0.8
    model.remove_class(0)
    assert 0 not in model.classes_
    star = fitted(X, y, graph="star")
    assert [wave.pairs for wave in star.grow(X, y, pairs=7, plateau="never")][-1] == 7
    assert (star.predict(X) == y).mean() > 0.8


def test_explanation_sums_to_the_logit_and_names_words_of_the_text(data):
    X, y = data
    model = fitted(X, y)
    explanation = model.explain(X[:1], 0, 1)
    pair = model.pairs_[0, 1]
    logit = float((X[:1] @ pair.weights)[0] + pair.bias)
    assert explanation.contributions.total == pytest.approx(logit, abs=1e-5)
    assert (explanation.contributions.values[X[:1].toarray()[0] == 0] == 0).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"whiten": 0.5}, "whiten must be 'auto' or 'none' for sparse X"),
        ({"learn": "coupled"}, "learn must be"),
    ],
)
def test_what_sparse_features_cannot_have_is_an_error(data, parameters, message):
    X, y = data
    with pytest.raises(ValueError, match=message):
        fitted(X, y, **parameters)


def test_fit_and_prediction_beyond_the_memory_are_errors_with_both_numbers(data, monkeypatch):
    X, y = data
    model = fitted(X, y)
    monkeypatch.setattr(memory, "_SMALL", 0)
    monkeypatch.setattr(memory, "available_bytes", lambda: 100)
    monkeypatch.setattr(fit, "choose_machines", None)  # nothing is tried before the check
    numbers = r"needs about [\d.]+ GiB, and [\d.]+ GiB are available"
    for attempt in (
        lambda: fitted(X, y),
        lambda: fitted(X, y, kernel="rbf"),
        lambda: fitted(X, y, estimator=LogisticRegression()),
        lambda: fitted(X.toarray(), y),
        lambda: fitted(X.toarray(), y, kernel="rbf"),
        lambda: fitted(X.toarray(), y, graph="one_vs_rest"),
        lambda: fitted((X @ X.T).toarray(), y, kernel="precomputed"),
        lambda: model.predict_proba(X),
        lambda: model.predict_proba(X, top_k=2),
        lambda: model.novelty(X),
    ):
        with pytest.raises(MemoryError, match=numbers):
            attempt()
    monkeypatch.undo()
    assert (model.predict(X) == y).mean() > 0.8


def test_rows_without_entries_can_be_trained_on(data):
    X, y = data
    emptied = sparse.diags_array((np.arange(len(y)) % 7 > 0).astype(float)) @ X
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(fitted(emptied, y).predict_proba(emptied)).all()
