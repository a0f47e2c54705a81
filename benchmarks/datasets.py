"""Where the real data are that a benchmark or a test may use: never part of the package, often absent."""

import os
from pathlib import Path

import numpy as np


class DataNotFound(Exception):
    """The message says where the file was looked for: a reason to skip."""


def path_of(name):
    """The file `name`, in the folder PAIRLOOM_DATA or else in ../shared/data beside the checkout."""
    folder = os.environ.get("PAIRLOOM_DATA") or Path(__file__).resolve().parents[1].parent / "shared" / "data"
    path = Path(folder) / name
    if not path.is_file():
        raise DataNotFound(f"no {name} in {folder}; set PAIRLOOM_DATA to the folder that has it")
    return path


def training_rows(name):
    """Training rows as float32, and their class numbers."""
    with np.load(path_of(f"{name}.npz")) as data:
        return data["X_train"].astype(np.float32), data["y_train"]
