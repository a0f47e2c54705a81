"""What a fit says of samples that it cannot use, or that look like a mistake: which they are, and what to do."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.decomposition import PCA

from pairloom import PairwiseSVC
from pairloom.pipeline.features.moments import units_differ

N = 120


@pytest.fixture
def table():
    """Three classes, and columns a to d of one unit."""
    random = np.random.default_rng(0)
    y = np.arange(N) % 3
    X = random.standard_normal((N, 4))
    X[np.arange(N), y] += 3
    return pd.DataFrame(X, columns=list("abcd")), y


def fit(X, y, **parameters):
    return PairwiseSVC(C="scale", whiten="none", calibration="platt", random_state=0, **parameters).fit(X, y)


def findings(X, y, **parameters):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(X, y, **parameters)
    found = [one for one in caught if one.category is UserWarning]  # machines may also stop early
    assert {one.filename for one in found} <= {__file__}  # it points at the call of fit
    return [str(one.message) for one in found]


TEXTS = np.array(["x", "y", "z"])[np.arange(N) % 3]


@pytest.mark.parametrize(
    "cells",
    [
        TEXTS,
        TEXTS.astype(object),
        pd.Series(TEXTS, dtype="string"),
        pd.Categorical(TEXTS),
        pd.to_datetime(["2020-01-01"] * N),
        np.array([1.0, "n/a"] * (N // 2), dtype=object),
    ],
    ids=["str", "object", "string", "category", "date", "mixed"],
)
def test_columns_without_numbers_are_named(table, cells):
    X, y = table
    with pytest.raises(ValueError, match="got text, categories or dates in column 'odd': encode them"):
        fit(X.assign(odd=cells), y)
    with pytest.raises(ValueError, match="in the columns 'odd', 'odder':"):
        fit(X.assign(odd=cells, odder=cells), y)


@pytest.mark.parametrize(
    "cells",
    [
        np.arange(N) % 3 == 0,
        pd.Categorical(np.arange(N) % 4),
        pd.array(np.arange(N) % 5, dtype="Int64"),
        (np.arange(N) % 5).astype(object),
    ],
    ids=["bool", "category", "Int64", "object"],
)
def test_columns_that_hold_numbers_are_used(table, cells):
    X, y = table
    assert fit(X.assign(number=cells), y).n_features_in_ == 5


def test_missing_values_are_counted_where_they_are(table):
    X, y = table
    X.iloc[3, 1] = X.iloc[7, 1] = X.iloc[7, 2] = np.nan
    message = "Input X contains NaN in the columns 'b', 'c' and 2 of 120 rows: fill in missing values with an imputer"
    for given, said in ((X, message), (X.to_numpy(), message.replace("'b', 'c'", "1, 2"))):
        with pytest.raises(ValueError, match=f"{re.escape(said)}.*HistGradientBoostingClassifier"):
            fit(given, y)


def test_infinite_values_are_counted_where_they_are(table):
    X, y = table
    X.iloc[3, 1] = X.iloc[7, 1] = -np.inf
    X.iloc[8, 2] = np.nan
    with pytest.raises(ValueError, match=r"contains infinity .* It is in column 'b' and 2 of 119 rows\.$"):
        fit(X.drop(index=8), np.delete(y, 8))


def test_samples_to_predict_are_told_what_is_wrong_with_them(table):
    X, y = table
    model = fit(X, y)
    for call in (model.predict, model.predict_proba, model.novelty):
        with pytest.raises(ValueError, match="got text, categories or dates in column 'b': encode them"):
            call(X.assign(b="3 cm"))
        with pytest.raises(
            ValueError, match=r"NaN in column 'c' and 1 of 120 rows: fill in .* as in the samples of the fit"
        ):
            call(X.assign(c=X["c"].where(np.arange(N) != 7)))


def test_samples_that_are_no_rows_of_numbers_are_told_how_to_become_some(table):
    X, y = table
    texts = np.char.add("a sentence about ", TEXTS)
    for given in (texts, texts.tolist(), pd.Series(texts), texts[:, None]):
        with pytest.raises(ValueError, match=r"X holds text.* of sentences with TfidfVectorizer"):
            fit(given, y)
    with pytest.raises(ValueError, match=re.escape("X.reshape(len(X), -1)")):
        fit(np.zeros((N, 8, 8)), y)
    for indicators in (np.eye(3, dtype=int)[y], pd.get_dummies(y)):
        with pytest.raises(ValueError, match=re.escape("the label is y.argmax(axis=1)")):
            fit(X, indicators)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_missing_labels_are_counted(table, missing):
    X, y = table
    labels = np.array(["abc"[number] for number in y], dtype=object)
    labels[[5, 9]] = missing
    expected = re.escape(f"got 2 of 120 missing (the first, {missing!r}, in row 5): leave these rows out")
    with pytest.raises(ValueError, match=expected):
        fit(X, labels)


def test_missing_labels_among_numbers(table):
    X, y = table
    with pytest.raises(ValueError, match=re.escape("got 40 of 120 missing (the first, NaN, in row 1)")):
        fit(X, np.where(y == 1, np.nan, y))


def test_labels_of_two_types(table):
    X, y = table
    labels = np.array([int(number) if number else "none" for number in y], dtype=object)
    with pytest.raises(
        TypeError, match="y must have labels of one type, which sort, got 40 strings and 80 others"
    ):
        fit(X, labels)
    assert fit(X, [str(label) for label in labels]).classes_.tolist() == ["1", "2", "none"]


@pytest.mark.filterwarnings("ignore:The scale of the coupled model:UserWarning")
def test_continuous_labels_are_told_where_to_go(table):
    X, _ = table
    y = np.linspace(0, 1, N) ** 2
    with pytest.raises(
        ValueError, match=r"got 120 different numbers with fractions in 120 rows.*use a regressor"
    ):
        fit(X, y)
    assert len(fit(X, np.digitize(y, [0.1, 0.5])).classes_) == 3


def test_ordinary_tables_are_no_mistake(table):
    assert findings(*table) == []
    assert findings(*load_iris(return_X_y=True, as_frame=True)) == []
    X, y = load_digits(return_X_y=True, as_frame=True)  # with columns of zeros
    assert findings(X[:300], y[:300]) == []
    components = PCA().fit_transform(X[:300])  # the last of them tiny
    assert findings(components[:, :55], y[:300]) == []


def test_scales_that_differ_by_orders_of_magnitude(table):
    X, y = table
    X = X.assign(price=5000 * X["a"] ** 2)
    (finding,) = findings(X, y, standardise=False)
    assert "the standard deviation of column 'price' is" in finding
    assert finding.endswith("The largest decide alone: set standardise=True.")
    assert findings(X, y) == []  # trials decide
    (finding,) = findings(X.to_numpy(), y, standardise=False)
    assert "the standard deviation of column 4 is" in finding
    assert findings(X, y, standardise=True) == []
    (finding,) = findings(*load_wine(return_X_y=True, as_frame=True), kernel="rbf", standardise=False)
    assert "'proline' is 314" in finding


def test_units_of_a_table_are_told_apart_sooner_than_those_of_an_array():
    deviations = np.array([1.0, 1.0, 2.0, 11.0])
    assert units_differ(deviations, is_table=True)
    assert not units_differ(deviations, is_table=False)
    assert units_differ(10 * deviations**2, is_table=False)
    assert not units_differ(np.array([1e-9, 1.0, 1.0, 2.0]), is_table=False)  # one column is small
    assert not units_differ(np.array([3.0]), is_table=True)


def test_a_column_that_numbers_the_rows(table):
    X, y = table
    shuffled = np.random.default_rng(1).permutation(160)[
        :N
    ]  # three quarters of a table, as train_test_split leaves it
    for ids in (np.arange(N), np.arange(1, N + 1), shuffled, 7000 + shuffled):
        (finding,) = findings(X.assign(id=ids), y, standardise=True)
        assert finding.startswith("PairwiseSVC: X numbers its rows in column 'id': leave that out")
    for others in (shuffled // 2, shuffled / 2 + 0.5, 1000 * np.arange(N)):
        assert findings(X.assign(id=others), y, standardise=True) == []


def test_a_constant_column_of_a_table(table):
    X, y = table
    (finding,) = findings(X.assign(country=4, year=2020.0), y)
    assert finding.startswith("PairwiseSVC: X is constant in the columns 'country', 'year'")
    assert findings(X.assign(never=0.0), y) == []
    assert findings(X.assign(country=4).to_numpy(), y) == []


def test_columns_that_are_all_constant(table):
    X, y = table
    for given in (X * 0 + 4, X.to_numpy() * 0):
        assert "PairwiseSVC: X is constant in all of its columns, which tell nothing about the classes." in (
            findings(given, y)
        )
