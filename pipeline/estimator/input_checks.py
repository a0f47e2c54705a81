"""Errors and warnings about unusable or suspicious samples, with advice.

scikit-learn checks the shapes and the numbers, but its errors do not name columns and do not explain labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pairloom.graphs.text import listed, quoted
from pairloom.pipeline.features.moments import Moments, units_differ
from pairloom.pipeline.user_warnings import warn_user

__all__ = ["check_columns", "check_labels", "samples_explained", "warn_of_columns"]

#: With fewer rows a column could number them by chance.
_FEWEST_NUMBERED = 30
#: Row numbers span less than this multiple of the number of rows; they may have gaps where rows were left out.
_MOST_LEFT_OUT = 2
_SHOWN = 5


def check_columns(X: Any, owner: str) -> None:
    """Raise if a data frame has columns without numbers, and name them."""
    strange = [name for name in getattr(X, "columns", ()) if not _holds_numbers(X[name])]
    if strange:
        raise ValueError(
            f"{owner}: X must have columns of numbers, got text, categories or dates in {_columns(strange)}: encode"
            " them as numbers, for example with make_column_transformer and OneHotEncoder, or leave them out."
        )


def _holds_numbers(column: Any) -> bool:
    dtype = getattr(column, "dtype", None)
    kind = getattr(dtype, "kind", "O")
    if kind != "O":
        return kind in "biuf"
    if str(dtype) in ("str", "string", "String"):
        return False
    try:  # categories of numbers, and objects that are numbers or missing
        np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True


def _columns(names: list[Any]) -> str:
    return f"column {listed(names, _SHOWN)}" if len(names) == 1 else f"the columns {listed(names, _SHOWN)}"


def check_labels(y: Any, owner: str) -> None:
    """Raise if labels are missing, or have types that do not sort together."""
    labels = np.asarray(y)
    if labels.ndim != 1 or labels.dtype.kind not in "Of":
        return  # scikit-learn checks the shape
    missing = np.flatnonzero(
        np.isnan(labels) if labels.dtype.kind == "f" else [_is_missing(label) for label in labels.tolist()]
    )
    if len(missing):
        what = "NaN" if labels.dtype.kind == "f" else repr(labels[missing[0]])
        raise ValueError(
            f"{owner}: y must have a label for each row, got {len(missing)} of {len(labels)} missing (the first,"
            f" {what}, in row {missing[0]}): leave these rows out of X and y."
        )
    kinds = Counter("str" if isinstance(label, str) else "number" for label in labels.tolist())
    if labels.dtype.kind == "O" and len(kinds) > 1 and _all_scalars(labels):
        raise TypeError(
            f"{owner}: y must have labels of one type, which sort, got {kinds['str']} strings and"
            f" {kinds['number']} others: give all of them as strings, np.array([str(label) for label in y])."
        )


def _is_missing(label: Any) -> bool:
    return label is None or type(label).__name__ in ("NAType", "NaTType") or bool(_is_nan(label))


def _is_nan(label: Any) -> bool:
    return isinstance(label, float | np.floating) and bool(np.isnan(label))


def _all_scalars(labels: NDArray[Any]) -> bool:
    return all(np.ndim(label) == 0 for label in labels.tolist())


@contextmanager
def samples_explained(X: Any, owner: str, y: Any = None) -> Iterator[None]:
    """Extend scikit-learn's errors about samples and labels: what is wrong where, and what to do.

    Without ``y``, the samples are to be predicted.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        message = _explanation(str(error), X, y, owner)
        if message is None:
            raise
        raise type(error)(message) from None


def _explanation(message: str, X: Any, y: Any, owner: str) -> str | None:
    """The extended message; None if there is nothing to add."""
    if "Input X contains NaN" in message:
        return _missing_values(X, owner, fitting=y is not None)
    if "Unknown label type: continuous" in message:
        return _continuous(y, owner)
    if "Input X contains infinity" in message:
        return f"{message} It is{_place_of(X, _is_infinite)}."
    if "could not convert string to float" in message and hasattr(X, "columns"):
        check_columns(X, owner)
    return next((message + advice for cause, advice in _ADVICE.items() if cause in message), None)


#: What to do about some of scikit-learn's errors.
_ADVICE = {
    "could not convert string to float": (
        ": X holds text. Make numbers of it in a pipeline, of sentences with TfidfVectorizer, of categories with"
        " OneHotEncoder."
    ),
    "Found array with dim": (
        " X must have a row of numbers for each sample: X.reshape(len(X), -1) makes rows of pictures, but features that"
        " a network makes of them are better."
    ),
    "y should be a 1d array, got an array of shape": (
        " Of a row of zeros and a one for each sample, the label is y.argmax(axis=1). Every sample has one class."
    ),
}


def _missing_values(X: Any, owner: str, *, fitting: bool) -> str:
    found = f"{owner}: X must be a matrix of finite numbers. Input X contains NaN{_place_of(X, _is_missing_cell)}:"
    if not fitting:
        return f"{found} fill in missing values as in the samples of the fit, or leave these rows out."
    return (
        f"{found} fill in missing values with an imputer, make_pipeline(SimpleImputer(), PairwiseSVC()), or leave these"
        " rows out. HistGradientBoostingClassifier takes missing values as they are."
    )


def _is_missing_cell(cells: NDArray[Any]) -> NDArray[np.bool_]:
    if cells.dtype.kind == "f":
        return np.asarray(np.isnan(cells))
    return np.asarray(np.vectorize(_is_missing, otypes=[bool])(cells))


def _is_infinite(cells: NDArray[Any]) -> NDArray[np.bool_]:
    numbers = cells.astype(np.float64)
    return np.asarray(~np.isfinite(numbers) & ~np.isnan(numbers))


def _place_of(X: Any, is_wrong: Callable[[NDArray[Any]], NDArray[np.bool_]]) -> str:
    """The columns with wrong cells, and how many rows have some."""
    if sparse.issparse(X):
        return " among the entries of X"
    wrong = is_wrong(np.asarray(X))
    names = [X.columns[at] if hasattr(X, "columns") else int(at) for at in np.flatnonzero(wrong.any(axis=0))]
    return f" in {_columns(names)} and {int(wrong.any(axis=1).sum())} of {len(wrong)} rows"


def _continuous(y: Any, owner: str) -> str:
    labels = np.asarray(y)
    return (
        f"{owner}: y must hold the labels of classes, got {len(np.unique(labels))} different numbers with fractions in"
        f" {len(labels)} rows (Unknown label type: continuous): use a regressor to predict numbers, or make classes of"
        " them, for example with np.digitize."
    )


def warn_of_columns(X: NDArray[np.floating], moments: Moments, names: Any, *, standardised: bool) -> None:
    """Warn of suspicious columns: different units, row numbers, constants.

    Parameters
    ----------
    X : (n, D) array
    moments : Moments
        The moments of X.
    names : (D,) array or None
        The names of the columns, if X is a table.
    standardised : bool
        Whether columns are divided by their standard deviations.
    """
    called = names if names is not None else np.arange(X.shape[1])
    for finding in _findings(X, moments, called, names is not None, standardised):
        warn_user(f"PairwiseSVC: {finding}", UserWarning)


def _findings(
    X: NDArray[np.floating], moments: Moments, called: Any, is_table: bool, standardised: bool
) -> Iterator[str]:
    deviations = moments.deviations
    if not standardised and units_differ(deviations[moments.varied], is_table=False):
        largest, least = int(deviations.argmax()), int(np.where(moments.varied, deviations, np.inf).argmin())
        yield (
            f"columns differ in scale by orders of magnitude: the standard deviation of column"
            f" {quoted(called[largest])} is {deviations[largest]:.3g}, that of {quoted(called[least])}"
            f" {deviations[least]:.3g}. The largest decide alone: set standardise=True."
        )
    numbering = [called[at] for at in np.flatnonzero(_may_number_rows(moments)) if _numbers_rows(X[:, at])]
    if numbering:
        yield f"X numbers its rows in {_columns(numbering)}: leave that out, since new rows have other numbers."
    # Constant zeros mean absence and are no mistake: a pixel that is never set, a category that does not occur.
    constant = [called[at] for at in np.flatnonzero(~moments.varied & (moments.lowest != 0))]
    if not moments.varied.any():
        yield "X is constant in all of its columns, which tell nothing about the classes."
    elif constant and is_table:
        yield f"X is constant in {_columns(constant)}, which tells nothing about the classes: leave that out."


def _may_number_rows(moments: Moments) -> NDArray[np.bool_]:
    n = int(moments.counts.sum())
    width = moments.highest.astype(np.float64) - moments.lowest.astype(np.float64)
    return np.asarray((n >= _FEWEST_NUMBERED) & (width >= n - 1) & (width < _MOST_LEFT_OUT * n))


def _numbers_rows(column: NDArray[np.floating]) -> bool:
    whole = bool((column == np.floor(column)).all())
    return whole and len(np.unique(column)) == len(column)
