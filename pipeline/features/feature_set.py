"""Open or load, check and fingerprint features and labels.

A source is the name of an embedded set, or a ``.npz`` file, a zarr group or a folder of ``.npy`` files with
``X_train, y_train, X_test, y_test`` (or ``X, y``, one pool to be split), dense or CSR, and optionally ``classes``,
``feature_names`` and ``ids_train, ids_test`` (or ``ids``), the names of the samples; or a table, a CSV or Parquet file,
which is one pool. Labels may be of any sortable type. Pickled arrays are not read.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from pairloom.graphs.text import plain_line
from pairloom.pipeline.features.embedded_sets import EMBEDDED, RECIPES
from pairloom.pipeline.features.moments import Moments, class_totals, find_moments
from pairloom.pipeline.features.row_sources import (
    Arrays,
    CheckedRows,
    ChosenColumns,
    GeneratedRows,
    Origin,
    PlacedRows,
    Rows,
    SelectedRows,
    in_order,
    row_checksums,
)
from pairloom.pipeline.features.source_files import (
    MissingChunks,
    open_arrays,
    open_rows,
    read_new_rows,
    shown,
)
from pairloom.pipeline.features.sparse_rows import csr_in_order
from pairloom.pipeline.features.tables import TableColumns, numbered_rows
from pairloom.pipeline.threads import pieces

__all__ = [
    "FeatureSet",
    "NewSamples",
    "OpenFeatures",
    "load_features",
    "load_samples",
    "names_of",
    "open_features",
    "reopened_rows",
    "rows_for_test",
]

#: Share of every class of a pool to use as test samples.
TEST_FRACTION = 0.25

_SPLIT = ("X_train", "y_train", "X_test")
_POOL = ("X", "y")
# Labels that are looked up at once: each step of the lookup makes a copy of them.
_LABELS_AT_ONCE = 2**20


class FeatureSet(NamedTuple):
    """Training and test samples of one data set, in memory.

    Parameters
    ----------
    X_train, X_test : (n, D) float32 or float64 arrays
        Features, finite; float32 unless the source has a wider type.
    y_train, y_test : (n,) int64 arrays
        Labels as indices into ``classes``. ``y_test`` is None if the test samples have no labels.
    classes : tuple of str
        Class names, in the order of the sorted labels.
    fingerprints : dict
        ``{"train": ..., "test": ..., "ids": ...}``: equal if and only if that part has the same numbers and names, or
        the samples have the same ids.
    synthetic : bool
        Whether the features are generated rather than measured. Reports say so.
    """

    X_train: NDArray[np.floating]
    y_train: NDArray[np.int64]
    X_test: NDArray[np.floating]
    y_test: NDArray[np.int64] | None
    classes: tuple[str, ...]
    fingerprints: dict[str, str]
    synthetic: bool = False


@dataclass(frozen=True)
class OpenFeatures:
    """A data set whose samples have been checked but are not in memory: they are read when they are needed.

    It differs from `FeatureSet` in having `Rows` in place of arrays and the labels of the classes in place of their
    names. It adds the moments of the training samples, the ids of all samples, and the names of the features, if any.
    If the rows are sparse, ``columns`` (N, D) is true where the training rows of a class have an entry in a column.
    Labels are sorted and have the type of the source: whole numbers stay numbers. Ids are text or int64, taken from the
    source, or else the row numbers, from 0.
    """

    X_train: Rows
    y_train: NDArray[np.int64]
    X_test: Rows
    y_test: NDArray[np.int64] | None
    labels: NDArray[Any]
    fingerprints: dict[str, str]
    moments: Moments
    ids_train: NDArray[Any]
    ids_test: NDArray[Any]
    synthetic: bool = False
    feature_names: tuple[str, ...] = ()
    columns: sparse.csr_array | None = None
    _kept: dict[str, Rows] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes: their labels as text."""
        return names_of(self.labels)

    def load(self) -> FeatureSet:
        """All samples, in memory."""
        X_train, X_test = (rows.read(slice(None)) for rows in (self.X_train, self.X_test))
        return FeatureSet(
            X_train, self.y_train, X_test, self.y_test, self.classes, self.fingerprints, self.synthetic
        )

    def of_class(self, c: int) -> NDArray[np.int64]:
        """The training rows of class c, ascending."""
        return np.flatnonzero(self.y_train == c)

    def by_class(self, folder: Path) -> Rows:
        """The training rows sorted by class, to be read from the first to the last; see `row_sources.in_order`."""
        if "by class" not in self._kept:
            order, reordered = (
                np.argsort(self.y_train, kind="stable"),
                in_order if self.columns is None else csr_in_order,
            )
            self._kept["by class"] = reordered(self.X_train, order, folder)
        return self._kept["by class"]

    @property
    def ids_by_class(self) -> NDArray[Any]:
        """The ids of the training rows, sorted by class."""
        return self.ids_train[np.argsort(self.y_train, kind="stable")]

    def placed(self, part: Literal["train", "test"]) -> PlacedRows | None:
        """The training rows, sorted by class, or the test samples by their places in their source.

        None if only this process can read them, or if they are sparse.
        """
        rows = self.X_train if part == "train" else self.X_test
        placed = None if rows.entries is not None else rows.placed()
        if placed is None or placed.checksums is None or part == "test":
            return placed
        return placed.chosen(np.argsort(self.y_train, kind="stable"))

    def close(self) -> None:
        """Forget the order of the rows, and remove the copy that `by_class` may have made."""
        self._kept.clear()


def load_features(
    source: str,
    *,
    test: str | None = None,
    test_fraction: float = TEST_FRACTION,
    seed: int = 0,
    columns: TableColumns | None = None,
    missing_chunks: MissingChunks = "refuse",
) -> FeatureSet:
    """Load, check and fingerprint a data set. The parameters are those of `open_features`.

    Examples
    --------
    >>> data = load_features("digits")
    >>> data.X_train.shape, data.X_test.shape, data.classes[:3]
    ((1347, 64), (450, 64), ('0', '1', '2'))
    """
    opened = open_features(
        source,
        test=test,
        test_fraction=test_fraction,
        seed=seed,
        columns=columns,
        missing_chunks=missing_chunks,
    )
    return opened.load()


def open_features(
    source: str,
    *,
    test: str | None = None,
    test_fraction: float = TEST_FRACTION,
    seed: int = 0,
    columns: TableColumns | None = None,
    missing_chunks: MissingChunks = "refuse",
    given: Arrays | None = None,
) -> OpenFeatures:
    """Check and fingerprint a data set, which may be larger than memory.

    All samples are read once, in pieces; labels stay in memory.

    Parameters
    ----------
    source : str
        A name in `EMBEDDED`, or the path of a ``.npz`` file, a zarr group, a folder of ``.npy`` files, or a table.
    test : str, optional
        Another such path, whose ``X_test, y_test`` (or ``X, y``) replace the test samples of ``source``.
    test_fraction : float
        Share of every class to use as test samples, if ``source`` is one pool ``X, y``.
    seed : int
        Seed of that split.
    columns : TableColumns, optional
        How the columns of a table are used.
    missing_chunks : {"refuse", "fill"}
        Whether the features of a zarr group may lack chunks, which then hold the fill value of their array. Labels may
        not.
    given : dict, optional
        The arrays of ``source``, if the caller has them in memory.
    """
    arrays = given if given is not None else _arrays_of(source, columns, missing_chunks)
    names = _feature_names(arrays, shown(source))
    arrays = _split_pool(arrays, shown(source), test_fraction, seed)
    if test is not None:
        tested = open_arrays(test, "data.test", (), columns, names or None, missing_chunks)
        arrays = {**arrays, **_test_part(tested, shown(test), names, arrays)}
    # All samples are read here, once: nothing is stored or trained before every number has been checked.
    data = replace(_checked(arrays, shown(source), shown(test or source), names), feature_names=names)
    if source in RECIPES:
        prints = {
            **data.fingerprints,
            "train": RECIPES[source],
            "test": RECIPES[source] if test is None else data.fingerprints["test"],
        }
        data = replace(data, fingerprints=prints, synthetic=True)
    return data


def _arrays_of(source: str, columns: TableColumns | None, missing_chunks: MissingChunks) -> Arrays:
    """The arrays of an embedded set, or of a file."""
    embedded = EMBEDDED.get(source)
    if not embedded:
        return open_arrays(source, "data.features", EMBEDDED, columns, missing_chunks=missing_chunks)
    arrays = embedded()
    for name, rows in arrays.items():
        if isinstance(rows, GeneratedRows):
            rows.origin = Origin("data.features", name)
    return arrays


def reopened_rows(
    source: str, origin: Origin, features: Sequence[str], missing_chunks: MissingChunks
) -> Rows:
    """The rows that `open_features` has opened, opened again by another process; ``features`` are their names."""
    if source in EMBEDDED:
        return _rows(EMBEDDED[source]()[origin.array])
    return open_rows(source, origin, features, missing_chunks)


class NewSamples(NamedTuple):
    """Samples to predict.

    Attributes
    ----------
    X : (n, D) array, or CSR
        The features. Samples with problems have the values that could be read.
    ids : (n,) array
        The names of the samples from the source, or else the row numbers, from 0.
    problems : dict
        What is wrong with each sample that cannot be predicted, by its number.
    """

    X: Any
    ids: NDArray[Any]
    problems: Mapping[int, str]

    @property
    def whole(self) -> NDArray[np.bool_]:
        """(n,) which samples can be predicted."""
        whole = np.ones(self.X.shape[0], bool)
        whole[list(self.problems)] = False
        return whole


def load_samples(
    source: str,
    features: int,
    names: Sequence[str] | None = None,
    missing_chunks: MissingChunks = "refuse",
    ids: str | None = None,
) -> NewSamples:
    """Load the samples to predict: ``X`` (or ``X_test``) of a source, with ``features`` columns, and their ids.

    If the model and the source both have feature names, columns are matched by name and read in the order of ``names``.
    ``ids`` is the column of a table with the names of its rows.
    """
    table = read_new_rows(source, names, ids, "--features")
    if table is not None:
        X = _new_rows(table.X, "X", source, features)
        return NewSamples(X, table.ids, _problems(X, table.names, table.problems))
    arrays = open_arrays(source, "--features", features=names, missing_chunks=missing_chunks)
    for name, of_rows in (("X", "ids"), ("X_test", "ids_test")):
        if name in arrays:
            rows = _named_columns(arrays, name, source, tuple(names or ()))
            X = _new_rows(rows, name, source, features)
            return NewSamples(X, _ids(arrays, of_rows, source, X.shape[0]), _problems(X, names))
    raise ValueError(f"{source}: must contain X (or X_test), got {_listed(arrays)}.")


def _new_rows(rows: Rows, name: str, source: str, features: int) -> Any:
    if rows.shape[1] != features:
        raise ValueError(
            f"{source}: {name} must have {features} features, as the model has, got {rows.shape[1]}."
        )
    if not len(rows):
        raise ValueError(f"{source}: {name} must have at least one sample, got shape {rows.shape}.")
    return rows.read(slice(None))


def _problems(X: Any, names: Sequence[str] | None, known: Mapping[int, str] | None = None) -> dict[int, str]:
    """What is wrong with each row that is not finite, by row number; messages in ``known`` take precedence."""
    problems = dict(known or {})
    for row, column in _first_not_finite(X):
        named = repr(names[column]) if names else str(column)
        problems.setdefault(row, f"column {named} must be finite, got {X[row, column]}")
    return dict(sorted(problems.items()))


def _first_not_finite(X: Any) -> list[tuple[int, int]]:
    """The rows that are not finite, each with its first column that is not."""
    if sparse.issparse(X):
        bad = np.flatnonzero(~np.isfinite(X.data))
        rows, first = np.unique(np.searchsorted(X.indptr, bad, side="right") - 1, return_index=True)
        return list(zip(rows.tolist(), X.indices[bad[first]].tolist(), strict=True))
    finite = np.isfinite(X)
    if finite.all():
        return []
    rows = np.flatnonzero(~finite.all(axis=1))
    return [(row, int(np.argmin(finite[row]))) for row in rows.tolist()]


def _split_pool(arrays: Arrays, source: str, fraction: float, seed: int) -> Arrays:
    """Split ``X, y`` into training and test samples, with the same share of every class."""
    if set(_SPLIT) <= set(arrays):
        return dict(arrays)
    if not set(_POOL) <= set(arrays):
        raise ValueError(
            f"{source}: must hold {_listed(_SPLIT)} (and y_test), or X and y, got {_listed(arrays)}."
        )
    if "X_test" in arrays:
        raise ValueError(
            f"{source}: must hold {_listed(_SPLIT)}, or X and y alone, which are split; got X and X_test."
            " Rename X and y to X_train and y_train."
        )
    X, y = _rows(arrays["X"]), _labels(arrays["y"], "y", source)
    _check_length(y, len(X), "y", source)
    testing = rows_for_test(y, source, fraction, seed)
    ids = _ids(arrays, "ids", source, len(X))
    rest = {name: values for name, values in arrays.items() if name not in (*_POOL, "ids")}
    return {
        **rest,
        "ids_train": ids[~testing],
        "ids_test": ids[testing],
        "X_train": SelectedRows(X, np.flatnonzero(~testing)),
        "y_train": y[~testing],
        "X_test": SelectedRows(X, np.flatnonzero(testing)),
        "y_test": y[testing],
    }


def rows_for_test(
    y: NDArray[Any], source: str, fraction: float = TEST_FRACTION, seed: int = 0
) -> NDArray[np.bool_]:
    """(n,) which rows of a pool with labels y are test samples: the same share of every class."""
    testing = np.zeros(len(y), dtype=bool)
    labels, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    order, ends = np.argsort(codes, kind="stable"), np.cumsum(counts)
    for index, label in enumerate(labels):
        rows = order[ends[index] - counts[index] : ends[index]]
        held_out = round(fraction * len(rows))
        if held_out == len(rows):
            raise ValueError(
                f"data.test_fraction must leave training samples of every class, got {fraction:g}: class"
                f" {plain_line(label)} of {source} has {len(rows)} samples."
            )
        if held_out:
            testing[np.random.default_rng((seed, index)).permutation(rows)[:held_out]] = True
    return testing


def _test_part(arrays: Arrays, source: str, features: tuple[str, ...], training: Arrays) -> Arrays:
    """The test samples of a source; columns and classes are matched with the training data's where both have names."""
    for X, y, ids in (("X_test", "y_test", "ids_test"), (*_POOL, "ids")):
        if X in arrays:
            rows = _named_columns(arrays, X, source, features)
            part: Arrays = {"X_test": rows, "ids_test": _ids(arrays, ids, source, len(rows))}
            return part | ({"y_test": _relabelled(arrays, y, source, training)} if y in arrays else {})
    raise ValueError(f"{source}: must hold X_test (and y_test) or X (and y), got {_listed(arrays)}.")


def _named_columns(arrays: Arrays, name: str, source: str, wanted: tuple[str, ...]) -> Rows:
    """The rows of an array with the wanted columns, matched by name; all columns if one side has no names."""
    rows, names = _rows(arrays[name]), _feature_names(arrays, source, (name,))
    if not wanted or not names or names == wanted:
        return rows
    for of, which in ((names, f"{source}: feature_names"), (wanted, "the names of the training features")):
        if len(set(of)) != len(of):
            raise ValueError(
                f"{which} must be different names, or the same in the same order as those of the training data, got"
                f" {_listed(_repeated(of))} more than once."
            )
    places = {column: place for place, column in enumerate(names)}
    if absent := [column for column in wanted if column not in places]:
        raise ValueError(
            f"{source}: feature_names must have those of the training data, got none named {_listed(absent)}. Its"
            " columns are matched by name; remove feature_names if they are in the right order."
        )
    return ChosenColumns(rows, np.array([places[column] for column in wanted]))


def _relabelled(arrays: Arrays, name: str, source: str, training: Arrays) -> NDArray[Any] | Rows:
    """Labels as numbers of the training data's ``classes``, where both sources list classes and number them."""
    if "classes" not in arrays or "classes" not in training:
        return arrays[name]
    names, known = (
        _class_names(of, place) for of, place in ((arrays, source), (training, "the training data"))
    )
    y = _labels(arrays[name], name, source)
    if names == known or y.dtype.kind not in "iu" or np.asarray(training["y_train"]).dtype.kind not in "iu":
        return y
    if len(y) and not (y.min() >= 0 and y.max() < len(names)):
        raise ValueError(
            f"{source}: {name} must be numbers of its {len(names)} classes, got {y.min()} to {y.max()}."
        )
    number = {one: place for place, one in enumerate(known)}
    if unknown := [names[c] for c in np.unique(y).tolist() if names[c] not in number]:
        raise ValueError(
            f"{source}: {name} must be labels of the classes of the training data, got {_listed(unknown)}."
        )
    relabelled: NDArray[np.int64] = np.array([number.get(one, -1) for one in names])[y]
    return relabelled


def _feature_names(arrays: Arrays, source: str, of: Sequence[str] = ("X", "X_train")) -> tuple[str, ...]:
    """The names of the features, or none."""
    if "feature_names" not in arrays:
        return ()
    names = tuple(str(name) for name in _labels(arrays["feature_names"], "feature_names", source))
    features = next((_rows(arrays[name]) for name in of if name in arrays), None)
    if features is not None and len(names) != features.shape[1]:
        raise ValueError(
            f"{source}: feature_names must be one name for each of {features.shape[1]} features, got {len(names)}."
        )
    return names


def _checked(arrays: Arrays, source: str, test_source: str, features: tuple[str, ...]) -> OpenFeatures:
    """Check everything that needs no samples first; then read the samples, once."""
    X_train, X_test = _rows(arrays["X_train"]), _rows(arrays["X_test"])
    D = X_train.shape[1]
    if X_test.shape[1] != D:
        raise ValueError(
            f"{test_source}: X_test must have {D} features as X_train has, got {X_test.shape[1]}."
        )
    values, labels = _label_values(arrays, source)
    y_train = _encoded(arrays["y_train"], values, "y_train", source, len(X_train))
    y_test = None
    if "y_test" in arrays:
        y_test = _encoded(arrays["y_test"], values, "y_test", test_source, len(X_test))
    _check_every_class_has_rows(y_train, names_of(labels), source)
    if (X_train.entries is None) != (X_test.entries is None):
        kinds = ["dense" if rows.entries is None else "sparse" for rows in (X_train, X_test)]
        raise ValueError(
            f"{test_source}: X_test must be {kinds[0]}, as X_train is, got {kinds[1]} rows: store both in one form."
        )
    names = (labels.dtype.kind, *names_of(labels), *features)
    train, moments, X_train, columns = _read_training(X_train, y_train, names, len(labels), source)
    test, X_test = _read_test(X_test, y_test, names, test_source)
    ids = (
        _ids(arrays, "ids_train", source, len(X_train)),
        _ids(arrays, "ids_test", test_source, len(X_test)),
    )
    prints = {"train": train, "test": test, "ids": _fingerprint_of_ids(ids)}
    return OpenFeatures(X_train, y_train, X_test, y_test, labels, prints, moments, *ids, columns=columns)


def _ids(arrays: Arrays, name: str, source: str, rows: int) -> NDArray[Any]:
    """The names of samples, as counting numbers or text: from the source, or else the row numbers, from 0."""
    if name not in arrays:
        return np.arange(rows)
    ids = np.asarray(arrays[name])
    if ids.shape != (rows,):
        raise ValueError(f"{source}: {name} must be one for each of {rows} samples, got shape {ids.shape}.")
    if ids.dtype.kind in "iu" and ids.min(initial=0) >= 0 and ids.max(initial=0) < 2**63:
        return ids.astype(np.int64)
    texts = ids if ids.dtype.kind == "T" else _labels(ids, name, source).astype(np.str_)
    return np.where(texts == "", numbered_rows(np.arange(rows)), texts.astype(np.dtypes.StringDType()))


def _fingerprint_of_ids(parts: Sequence[NDArray[Any]]) -> str:
    seen = hashlib.sha256()
    for ids in parts:
        seen.update(repr((ids.dtype.kind, len(ids))).encode())
        seen.update(ids.data if ids.dtype.kind == "i" else "\0".join(ids.tolist()).encode())
    return seen.hexdigest()


def _read_training(
    X: Rows, y: NDArray[np.int64], names: tuple[str, ...], n_classes: int, source: str
) -> tuple[str, Moments, Rows, sparse.csr_array | None]:
    """Read the training samples once: their fingerprint, their moments, the samples as rows that are compared with
    their checksums when they are read again, and the columns of each class if they are sparse.

    Raises if they are not finite.
    """
    seen, finite = _Fingerprint(X, y, names), _Finiteness("X_train", source)
    kept, columns = _Checksums(X, f"{source}: X_train"), _ColumnsOfClasses(n_classes, X)

    def checked() -> Iterator[tuple[Any, NDArray[np.int64]]]:
        for part, piece in X.pieces():
            if part.stop > finite.rows_seen:  # not in a second pass
                finite.look_at(piece)
                seen.look_at(piece)
                kept.look_at(piece)
                columns.look_at(piece, y[part])
            yield piece, y[part]

    moments = find_moments(checked, X.shape[1], n_classes, is_sparse=X.entries is not None)
    finite.raise_if_not()
    return seen.with_labels(y), moments, kept.rows(), columns.found


def _read_test(X: Rows, y: NDArray[np.int64] | None, names: tuple[str, ...], source: str) -> tuple[str, Rows]:
    """Read the test samples once: their fingerprint, and the samples as rows that are compared with their checksums.

    Raises if they are not finite.
    """
    seen, finite = _Fingerprint(X, y, names), _Finiteness("X_test", source)
    kept = _Checksums(X, f"{source}: X_test")
    for _, piece in X.pieces():
        finite.look_at(piece)
        seen.look_at(piece)
        kept.look_at(piece)
    finite.raise_if_not()
    return seen.with_labels(y), kept.rows()


class _Fingerprint:
    """A fingerprint of rows that come in pieces of any size, and of their labels."""

    def __init__(self, X: Rows, y: NDArray[np.int64] | None, names: tuple[str, ...]) -> None:
        self._seen = hashlib.sha256(repr((X.shape, y is None, names)).encode())
        #: For sparse rows, one digest each of their sizes, columns and entries, so that pieces change nothing.
        self._parts = [] if X.entries is None else [hashlib.sha256() for _ in range(3)]

    def look_at(self, piece: Any) -> None:
        """Look at the next rows."""
        if not self._parts:
            self._seen.update(piece.data)
            return
        sizes, columns = np.diff(piece.indptr).astype(np.int64), piece.indices.astype(np.int64)
        for part, values in zip(self._parts, (sizes, columns, piece.data), strict=True):
            part.update(values.data)

    def with_labels(self, y: NDArray[np.int64] | None) -> str:
        """The fingerprint, after all rows."""
        for part in self._parts:
            self._seen.update(part.digest())
        if y is not None:
            self._seen.update(y.data)
        return self._seen.hexdigest()


class _ColumnsOfClasses:
    """Collects the columns in which the rows of each class have entries, from sparse rows that come in pieces."""

    def __init__(self, n_classes: int, X: Rows) -> None:
        self.found = None if X.entries is None else sparse.csr_array((n_classes, X.shape[1]), dtype=np.bool_)

    def look_at(self, piece: Any, y: NDArray[np.int64]) -> None:
        """Look at the next rows and their classes."""
        if self.found is None:
            return
        ones = sparse.csr_array((np.ones(piece.nnz), piece.indices, piece.indptr), piece.shape)
        self.found = self.found + (class_totals(ones, y, self.found.shape[0]) > 0)


class _Checksums:
    """Takes the checksums of rows that come in pieces, if others could change them or are to read them again.

    For sparse rows it also counts the entries, which may be fewer than are stored: stored zeros are dropped and
    duplicates are summed.
    """

    def __init__(self, rows: Rows, name: str) -> None:
        self._rows, self._name = rows, name
        self._wanted = rows.can_change or rows.placed() is not None
        self._parts: list[NDArray[np.uint32]] = []
        self._entries: list[NDArray[np.int64]] = []

    def look_at(self, piece: Any) -> None:
        """Look at the next rows."""
        if self._wanted:
            self._parts.append(row_checksums(piece))
        if self._rows.entries is not None:
            self._entries.append(np.diff(piece.indptr).astype(np.int64))

    def rows(self) -> Rows:
        """The rows; reading them again raises if they have changed."""
        rows = self._rows
        if self._parts:
            rows = CheckedRows(rows, np.concatenate(self._parts), self._name)
        if self._entries:
            rows = copy(rows)
            rows.entries = np.concatenate(self._entries)
        return rows


class _Finiteness:
    """Looks for NaN and infinity in rows that come in pieces."""

    def __init__(self, name: str, source: str) -> None:
        self._name, self._source = name, source
        self.rows_seen, self._bad, self._first = 0, 0, (0, 0)

    def look_at(self, piece: Any) -> None:
        """Look at the next rows."""
        bad = _first_not_finite(piece)
        if bad and not self._bad:
            row, column = bad[0]
            self._first = self.rows_seen + row, column
        self._bad += len(bad)
        self.rows_seen += piece.shape[0]

    def raise_if_not(self) -> None:
        """Raise if a number was not finite."""
        if self._bad:
            row, column = self._first
            raise ValueError(
                f"{self._source}: {self._name} must be finite, got NaN or infinity in {self._bad} rows,"
                f" first in row {row}, column {column}."
            )


def _rows(values: NDArray[Any] | Rows) -> Rows:
    assert isinstance(values, Rows)
    return values


def _labels(values: ArrayLike | Rows, name: str, source: str) -> NDArray[Any]:
    """Labels, or names of classes, as a vector; any kind of text becomes ``str``."""
    labels = np.asarray(values)
    if labels.ndim != 1:
        raise ValueError(f"{source}: {name} must be one label per sample, got shape {labels.shape}.")
    if labels.dtype.kind == "S":
        try:
            return np.char.decode(labels, "utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{source}: {name} must be text in UTF-8, got {error.object!r}.") from error
    if labels.dtype.kind in "fcmM" and (labels != labels).any():
        raise ValueError(f"{source}: {name} must be labels, got {labels[labels != labels][0]} among them.")
    return np.array(labels.tolist(), np.str_) if labels.dtype.kind == "T" else labels


def _check_length(y: NDArray[Any], rows: int, name: str, source: str) -> None:
    if y.shape != (rows,):
        raise ValueError(
            f"{source}: {name} must be one label for each of {rows} samples, got shape {y.shape}."
        )


def names_of(labels: NDArray[Any]) -> tuple[str, ...]:
    """The names of classes: their labels as text."""
    return tuple(labels.astype(str).tolist())


def _label_values(arrays: Arrays, source: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """The value that stands for each class in y, and the label of each class; sorted by label, as in scikit-learn."""
    y = _labels(arrays["y_train"], "y_train", source)
    if "classes" not in arrays:
        values = np.unique(y)
        return _in_order_of(values, _storable(values))
    labels = _class_labels(arrays, source)
    values = np.arange(len(labels)) if y.dtype.kind in "iu" else np.asarray(names_of(labels))
    return _in_order_of(values, labels)


def _class_names(arrays: Arrays, source: str) -> tuple[str, ...]:
    """The names of the classes in ``classes``."""
    return names_of(_class_labels(arrays, source))


def _class_labels(arrays: Arrays, source: str) -> NDArray[Any]:
    """The labels of the classes in ``classes``, in that order."""
    classes = np.asarray(arrays["classes"])
    if classes.ndim != 1 or len(classes) < 2:
        raise ValueError(f"{source}: classes must be a list of two names or more, got shape {classes.shape}.")
    labels = _storable(_labels(classes, "classes", source))
    names = names_of(labels)
    if len(set(names)) != len(names):
        raise ValueError(
            f"{source}: classes must be different names, got {_listed(_repeated(names))} more than once."
        )
    return labels


def _in_order_of(values: NDArray[Any], labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    order = np.argsort(labels)
    return values[order], labels[order]


def _storable(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels as JSON can hold them: numbers, text and times as they are, anything else as text."""
    plain = labels.dtype.kind in "biuUmM" or (labels.dtype.kind == "f" and labels.dtype.char != "g")
    return labels if plain else np.array(names_of(labels))


def _encoded(
    labels: ArrayLike | Rows, values: NDArray[Any], name: str, source: str, rows: int
) -> NDArray[np.int64]:
    y = _labels(labels, name, source)
    _check_length(y, rows, name, source)
    order, codes, strange = np.argsort(values), np.empty(rows, np.int64), [y[:0]]
    for part in pieces(rows, _LABELS_AT_ONCE):
        some = y[part].astype(str) if values.dtype.kind == "U" else y[part]
        try:
            places = np.searchsorted(values, some, sorter=order)
        except TypeError as error:  # such as times among numbers
            raise ValueError(
                f"{source}: {name} must be labels of the type of y_train, {values.dtype}, got {y.dtype}."
            ) from error
        codes[part] = order[np.clip(places, 0, len(values) - 1)]
        strange.append(some[values[codes[part]] != some])
    unknown = np.concatenate(strange)
    if len(unknown):
        raise ValueError(
            f"{source}: {name} must be labels of the {len(values)} classes, "
            f"got {_listed(np.unique(unknown).tolist())} in {len(unknown)} samples."
        )
    return codes


def _check_every_class_has_rows(y: NDArray[np.int64], names: tuple[str, ...], source: str) -> None:
    if len(names) < 2:
        raise ValueError(f"{source}: y_train must have two classes or more, got {_listed(names)}.")
    empty = [names[c] for c in np.flatnonzero(np.bincount(y, minlength=len(names)) == 0)]
    if empty:
        raise ValueError(f"{source}: every class must have training samples, {_listed(empty)} have none.")


def _repeated(names: tuple[str, ...]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)


def _listed(names: Any, limit: int = 8) -> str:
    listed = [plain_line(name) for name in names] or ["nothing"]
    more = f" and {len(listed) - limit} more" if len(listed) > limit else ""
    return ", ".join(listed[:limit]) + more
