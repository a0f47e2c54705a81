"""Real data for benchmarks and tests. They are not part of the package and may be absent."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


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
