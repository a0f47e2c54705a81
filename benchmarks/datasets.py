"""Data for benchmarks and tests: real sets, which may be absent as they are not in the package, and synthetic ones."""

import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

#: Sets that are features with a split of their own, by their short names.
FEATURES = {
    "clinc150": "clinc150-minilm",
    "icd10cm": "icd10cm-minilm",
    "tinyimagenet50": "tinyimagenet50-efficientnet",
    "imagenette": "imagenette-efficientnet",
}
#: Sets that are one pool of rows. Half of them, at most MOST_TRAINING, are drawn for training.
TABLES = ("usps", "letter", "satimage", "segment", "mnist", "dna", "waveform")
MOST_TRAINING = 5000
SETS = (*FEATURES, *TABLES, "digits")


class DataNotFound(Exception):
    """A data file is missing. The message says where it was searched for."""


class Split(NamedTuple):
    """Training and test samples with their labels, in the order of `train_test_split`."""

    X: NDArray[np.float32]
    X_new: NDArray[np.float32]
    y: NDArray[Any]
    y_new: NDArray[Any]


def path_of(name: str) -> Path:
    """The file `name` in the folder PAIRLOOM_DATA, by default ../shared/data beside the checkout."""
    folder = os.environ.get("PAIRLOOM_DATA") or Path(__file__).resolve().parents[1].parent / "shared" / "data"
    path = Path(folder) / name
    if not path.is_file():
        raise DataNotFound(f"path_of: PAIRLOOM_DATA must be a folder that holds {name}, got {folder}.")
    return path


def split_of(name: str) -> Split:
    """A set of features with a split of its own, or scikit-learn's digits."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return Split(*train_test_split(X.astype(np.float32), y, test_size=0.4, random_state=0, stratify=y))
    with np.load(path_of(f"{name}.npz")) as data:
        X, X_new, y, y_new = (data[key] for key in ("X_train", "X_test", "y_train", "y_test"))
    return Split(X.astype(np.float32), X_new.astype(np.float32), y, y_new)


def training_rows(name: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Training rows as float32, and their classes as numbers."""
    with np.load(path_of(f"{name}.npz")) as data:
        return data["X_train"].astype(np.float32), data["y_train"]


def load(name: str) -> Split:
    """A set by its short name, with its classes numbered from 0."""
    table = name in TABLES
    split = load_table(name) if table else split_of(FEATURES.get(name, name))
    classes, y = np.unique(split.y, return_inverse=True)
    return split._replace(y=y, y_new=np.searchsorted(classes, split.y_new))


def load_table(name: str) -> Split:
    """Draw the training part of a table, and scale all columns to [-1, 1] by it."""
    with np.load(path_of(f"{name}.npz")) as data:
        X, y = data["X"].astype(np.float32), data["y"]
    n = min(len(y) // 2, MOST_TRAINING)
    X, X_new, y, y_new = train_test_split(X, y, train_size=n, random_state=0, stratify=y)
    low, high = X.min(axis=0), X.max(axis=0)
    span = np.where(high > low, high - low, 1)
    return Split(2 * (X - low) / span - 1, 2 * (X_new - low) / span - 1, y, y_new)


def write_split(split: Split, path: Path) -> None:
    """Write a set as the features of a run."""
    np.savez(path, X_train=split.X, y_train=split.y, X_test=split.X_new, y_test=split.y_new)


def synthetic_classes(classes: int, rows: int = 40, features: int = 384, tests: int = 2000) -> Split:
    """Classes of any number and size, about equally hard to tell apart whatever their number; the same every time.

    Class means are standard normal in a subspace of 64 dimensions (or a sixth of all, if that is less), which an
    orthonormal basis lifts to all dimensions; the noise is normal in all of them. With 40 rows of 384 features per
    class, its standard deviation, 1.95 - 0.20 log10(N), makes the nearest mean right for 0.91 to 0.93 of the test
    rows, for N from 100 to 5000.
    """
    rng = np.random.default_rng(0)
    subspace = max(2, min(64, features // 6))
    basis = np.linalg.qr(rng.standard_normal((features, subspace)))[0].T.astype(np.float32)
    # Means in a smaller subspace are farther from the centre, so that classes are as far apart in any of them.
    means = np.float32(math.sqrt(64 / subspace)) * (
        rng.standard_normal((classes, subspace), np.float32) @ basis
    )
    noise = np.float32(1.95 - 0.20 * math.log10(classes))

    def drawn(y: NDArray[np.int64]) -> NDArray[np.float32]:
        return means[y] + noise * rng.standard_normal((len(y), features), np.float32)

    y, y_new = np.repeat(np.arange(classes), rows), np.arange(tests) % classes
    return Split(drawn(y), drawn(y_new), y, y_new)
