"""Load, check and fingerprint features and labels.

A source is the name of an embedded set, or a ``.npz`` file, a zarr group or a folder of ``.npy`` files with
``X_train, y_train, X_test, y_test`` (or ``X, y``, one pool to be split) and optionally ``classes``. Labels may be of
any sortable type. Pickled arrays are not read.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zarr
from numpy.typing import ArrayLike, NDArray

from pairloom.pipeline.features import imagenet50

__all__ = [
    "DATA_FOLDER",
    "EMBEDDED",
    "FeatureSet",
    "expand_data_folder",
    "load_features",
    "load_samples",
]

DATA_FOLDER = "PAIRLOOM_DATA"

_SPLIT = ("X_train", "y_train", "X_test")
_POOL = ("X", "y")


class FeatureSet(NamedTuple):
    """Training and test samples of one data set.

    Parameters
    ----------
    X_train, X_test : (n, D) float32 or float64 arrays
        Features, finite; float32 unless the source has a wider type.
    y_train, y_test : (n,) int64 arrays
        Labels as indices into ``classes``. ``y_test`` is None if the test samples have no labels.
    classes : tuple of str
        Class names, in the order of the labels.
    fingerprints : dict
        ``{"train": ..., "test": ...}``: equal if and only if that part has the same numbers and names.
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


def load_features(
    source: str, *, test: str | None = None, test_fraction: float = 0.25, seed: int = 0
) -> FeatureSet:
    """Load, check and fingerprint a data set.

    Parameters
    ----------
    source : str
        A name in `EMBEDDED`, or the path of a ``.npz`` file, a zarr group or a folder of ``.npy`` files.
    test : str, optional
        Another such path, whose ``X_test, y_test`` (or ``X, y``) replace the test samples of ``source``.
    test_fraction : float
        Share of every class to use as test samples, if ``source`` is one pool ``X, y``.
    seed : int
        Seed of that split.

    Examples
    --------
    >>> data = load_features("digits")
    >>> data.X_train.shape, data.X_test.shape, data.classes[:3]
    ((1347, 64), (450, 64), ('0', '1', '2'))
    """
    arrays = EMBEDDED[source]() if source in EMBEDDED else read_arrays(source)
    arrays = _split_pool(arrays, source, test_fraction, seed)
    if test is not None:
        arrays = {**arrays, **_test_part(read_arrays(test, "data.test"), test)}
    data = _checked(arrays, source, test or source)
    if source == "imagenet50-synthetic":
        # The fingerprint is the recipe: the features come from a matrix product, whose last bits differ between CPUs.
        recipe = f"{source} version {imagenet50.GENERATOR_VERSION}"
        prints = {"train": recipe, "test": recipe if test is None else data.fingerprints["test"]}
        data = data._replace(fingerprints=prints, synthetic=True)
    return data


def load_samples(source: str, features: int) -> NDArray[np.floating]:
    """Load the samples to predict: ``X`` (or ``X_test``) of a source, with ``features`` columns."""
    arrays = read_arrays(source, "--features")
    for name in ("X", "X_test"):
        if name in arrays:
            X = _feature_matrix(arrays[name], name, source)
            if X.shape[1] != features:
                raise ValueError(
                    f"{source}: {name} must have {features} features, as the model has, got {X.shape[1]}."
                )
            if not len(X):
                raise ValueError(f"{source}: {name} must have at least one sample, got shape {X.shape}.")
            return X
    raise ValueError(f"{source}: must contain X (or X_test), got {_listed(arrays)}.")


def read_arrays(source: str, parameter: str = "data.features") -> dict[str, NDArray[Any]]:
    """Read every array of a ``.npz`` file, a zarr group or a folder of ``.npy`` files. Errors name ``parameter``."""
    path = expand_data_folder(source)
    if not _exists(path):
        sets = f" (embedded sets: {_listed(EMBEDDED)})" if parameter == "data.features" else ""
        raise FileNotFoundError(f"{parameter}: no such file or folder: {path}{sets}.")
    try:
        if path.suffix == ".npz" and path.is_file():
            return _read_npz(path)
        if path.is_dir():
            is_zarr = (path / "zarr.json").exists() or (path / ".zgroup").exists()
            return _read_zarr(path) if is_zarr else _read_npy_files(path)
    except _BROKEN as error:
        raise ValueError(f"{parameter}: {path} is damaged or not what its name says: {error}.") from error
    except (OSError, MemoryError) as error:
        raise ValueError(f"{parameter}: {path} cannot be read: {error}.") from error
    raise ValueError(f"{parameter} must be a .npz file, a zarr group or a folder of .npy files, got {path}.")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # such as a name that is too long
        return False


# What numpy, zipfile and zarr raise for files that are cut short, changed, or of another kind.
_BROKEN = (
    zipfile.BadZipFile,
    EOFError,
    zlib.error,
    struct.error,
    NotImplementedError,
    RuntimeError,
    KeyError,
)


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise zipfile.BadZipFile("not a .npz archive")
    with np.load(path, allow_pickle=False) as archive:
        return {name: _unpickled(archive.__getitem__, name, path) for name in archive.files}


def _read_zarr(path: Path) -> dict[str, NDArray[Any]]:
    try:
        group = zarr.open_group(path, mode="r")
        return {name: np.asarray(array[:]) for name, array in group.arrays()}
    except Exception as error:  # zarr and its codecs raise many kinds
        raise RuntimeError(error) from error


def _read_npy_files(path: Path) -> dict[str, NDArray[Any]]:
    files = sorted(path.glob("*.npy"))
    return {f.stem: _unpickled(lambda name: np.load(path / f"{name}.npy"), f.stem, path) for f in files}


def expand_data_folder(source: str) -> Path:
    """Replace ``$PAIRLOOM_DATA`` by the value of the environment variable."""
    if f"${DATA_FOLDER}" not in source:
        return Path(source).expanduser()
    if not os.environ.get(DATA_FOLDER):
        name = source.replace(f"${DATA_FOLDER}", "").lstrip("/")
        raise ValueError(f"data.features is {source!r}: set {DATA_FOLDER} to the folder that holds {name}.")
    return Path(source.replace(f"${DATA_FOLDER}", os.environ[DATA_FOLDER]))


def _unpickled(load: Callable[[str], Any], name: str, path: Path) -> NDArray[Any]:
    try:
        loaded = load(name)
        if isinstance(loaded, bytes):  # numpy's answer for a member of an archive that is no .npy file
            raise EOFError(f"{name} is not an array")
        return np.asarray(loaded)
    except ValueError as error:
        if "pickle" not in str(error):
            raise ValueError(f"{path}: {name} cannot be read: {error}.") from error
        raise ValueError(
            f"{path}: {name} cannot be read without unpickling, which could run code. "
            "Save labels and class names as strings or integers, not as objects."
        ) from error


def _digits() -> dict[str, NDArray[Any]]:
    from sklearn.datasets import load_digits  # sklearn.datasets takes half a second to import

    X, y = load_digits(return_X_y=True)
    return {"X": X, "y": y}


def _imagenet50_synthetic() -> dict[str, NDArray[Any]]:
    X_train, y_train = imagenet50.synthetic_split(200)
    X_test, y_test = imagenet50.synthetic_split(50, test=True)
    names = np.array([row.name for row in imagenet50.CLASSES])
    return {"X_train": X_train, "y_train": y_train, "X_test": X_test, "y_test": y_test, "classes": names}


EMBEDDED: dict[str, Callable[[], dict[str, NDArray[Any]]]] = {
    "digits": _digits,
    "imagenet50-synthetic": _imagenet50_synthetic,
}


def _split_pool(
    arrays: Mapping[str, NDArray[Any]], source: str, fraction: float, seed: int
) -> dict[str, NDArray[Any]]:
    """Split ``X, y`` into training and test samples, with the same share of every class."""
    if set(_SPLIT) <= set(arrays):
        return dict(arrays)
    if not set(_POOL) <= set(arrays):
        raise ValueError(
            f"{source}: must hold {_listed(_SPLIT)} (and y_test), or X and y, got {_listed(arrays)}."
        )
    X = _matrix(arrays["X"], "X", source)
    y = _labels(arrays["y"], "y", source)
    _check_length(y, len(X), "y", source)
    testing = np.zeros(len(y), dtype=bool)
    for index, label in enumerate(np.unique(y)):
        rows = np.random.default_rng((seed, index)).permutation(np.flatnonzero(y == label))
        held_out = round(fraction * len(rows))
        if held_out == len(rows):
            raise ValueError(
                f"data.test_fraction must leave training samples of every class, got {fraction:g}: class {label}"
                f" of {source} has {len(rows)} samples."
            )
        testing[rows[:held_out]] = True
    rest = {name: values for name, values in arrays.items() if name not in _POOL}
    return {
        **rest,
        "X_train": X[~testing],
        "y_train": y[~testing],
        "X_test": X[testing],
        "y_test": y[testing],
    }


def _test_part(arrays: Mapping[str, NDArray[Any]], source: str) -> dict[str, NDArray[Any]]:
    for X, y in (("X_test", "y_test"), _POOL):
        if X in arrays:
            return {"X_test": arrays[X]} | ({"y_test": arrays[y]} if y in arrays else {})
    raise ValueError(f"{source}: must hold X_test (and y_test) or X (and y), got {_listed(arrays)}.")


def _checked(arrays: Mapping[str, NDArray[Any]], source: str, test_source: str) -> FeatureSet:
    X_train = _feature_matrix(arrays["X_train"], "X_train", source)
    X_test = _feature_matrix(arrays["X_test"], "X_test", test_source)
    D = X_train.shape[1]
    if X_test.shape[1] != D:
        raise ValueError(
            f"{test_source}: X_test must have {D} features as X_train has, got {X_test.shape[1]}."
        )
    values, names = _label_values(arrays, source)
    y_train = _encoded(arrays["y_train"], values, "y_train", source, len(X_train))
    y_test = None
    if "y_test" in arrays:
        y_test = _encoded(arrays["y_test"], values, "y_test", test_source, len(X_test))
    _check_every_class_has_rows(y_train, names, source)
    prints = {"train": _fingerprint(X_train, y_train, names), "test": _fingerprint(X_test, y_test, names)}
    return FeatureSet(X_train, y_train, X_test, y_test, names, prints)


def _matrix(values: ArrayLike, name: str, source: str) -> NDArray[Any]:
    X = np.asarray(values)
    if X.ndim != 2 or X.shape[1] == 0:
        raise ValueError(f"{source}: {name} must be a matrix (samples, features), got shape {X.shape}.")
    if X.dtype.kind not in "fiub":
        raise ValueError(f"{source}: {name} must be real numbers, got dtype {X.dtype}.")
    return X


def _feature_matrix(values: ArrayLike, name: str, source: str) -> NDArray[np.floating]:
    X = _matrix(values, name, source)
    # Keep float64: rows are centred before they become float32, or features far from zero would lose their digits.
    X = np.ascontiguousarray(X, dtype=np.result_type(X.dtype, np.float32))
    finite = np.isfinite(X).all(axis=1)
    if not finite.all():
        first = int(np.flatnonzero(~finite)[0])
        raise ValueError(
            f"{source}: {name} must be finite, got NaN or infinity in {(~finite).sum()} rows, first {first}."
        )
    return X


def _labels(values: ArrayLike, name: str, source: str) -> NDArray[Any]:
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


def _label_values(arrays: Mapping[str, NDArray[Any]], source: str) -> tuple[NDArray[Any], tuple[str, ...]]:
    """The distinct labels, sorted or in the order of ``classes``, and the class names."""
    y = _labels(arrays["y_train"], "y_train", source)
    if "classes" not in arrays:
        values = np.unique(y)
        return values, tuple(str(value) for value in values)
    classes = np.asarray(arrays["classes"])
    if classes.ndim != 1 or len(classes) < 2:
        raise ValueError(f"{source}: classes must be a list of two names or more, got shape {classes.shape}.")
    names = tuple(str(name) for name in _labels(classes, "classes", source))
    if len(set(names)) != len(names):
        raise ValueError(
            f"{source}: classes must be different names, got {_listed(_repeated(names))} more than once."
        )
    values = np.arange(len(names)) if y.dtype.kind in "iu" else np.asarray(names)
    return values, names


def _encoded(labels: ArrayLike, values: NDArray[Any], name: str, source: str, rows: int) -> NDArray[np.int64]:
    y = _labels(labels, name, source)
    _check_length(y, rows, name, source)
    if values.dtype.kind == "U":
        y = y.astype(str)
    order = np.argsort(values)
    try:
        found = np.searchsorted(values, y, sorter=order)
    except TypeError as error:  # such as times among numbers
        raise ValueError(
            f"{source}: {name} must be labels of the type of y_train, {values.dtype}, got {y.dtype}."
        ) from error
    places = np.clip(found, 0, len(values) - 1)
    codes = order[places]
    strange = values[codes] != y
    if strange.any():
        raise ValueError(
            f"{source}: {name} must be labels of the {len(values)} classes, "
            f"got {_listed(np.unique(y[strange]).tolist())} in {int(strange.sum())} samples."
        )
    return codes.astype(np.int64)


def _check_every_class_has_rows(y: NDArray[np.int64], names: tuple[str, ...], source: str) -> None:
    if len(names) < 2:
        raise ValueError(f"{source}: y_train must have two classes or more, got {_listed(names)}.")
    empty = [names[c] for c in np.flatnonzero(np.bincount(y, minlength=len(names)) == 0)]
    if empty:
        raise ValueError(f"{source}: every class must have training samples, {_listed(empty)} have none.")


def _fingerprint(X: NDArray[np.floating], y: NDArray[np.int64] | None, names: tuple[str, ...]) -> str:
    seen = hashlib.sha256(repr((X.shape, y is None, names)).encode())
    seen.update(X.data)
    if y is not None:
        seen.update(y.data)
    return seen.hexdigest()


def _repeated(names: tuple[str, ...]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def _listed(names: Any, limit: int = 8) -> str:
    listed = [str(name) for name in names] or ["nothing"]
    more = f" and {len(listed) - limit} more" if len(listed) > limit else ""
    return ", ".join(listed[:limit]) + more
