"""Real data for benchmarks and tests. They are not part of the package and may be absent."""

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


class DataNotFound(Exception):
    """A data file is missing. The message says where it was searched for."""


def path_of(name: str) -> Path:
    """The file `name` in the folder PAIRLOOM_DATA, by default ../shared/data beside the checkout."""
    folder = os.environ.get("PAIRLOOM_DATA") or Path(__file__).resolve().parents[1].parent / "shared" / "data"
    path = Path(folder) / name
    if not path.is_file():
        raise DataNotFound(f"path_of: PAIRLOOM_DATA must be a folder that holds {name}, got {folder}.")
    return path


def training_rows(name: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Training rows as float32, and their classes as numbers."""
    with np.load(path_of(f"{name}.npz")) as data:
        return data["X_train"].astype(np.float32), data["y_train"]
