"""Write probabilities to a .npz, .csv or .zarr file."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import zarr
from numpy.typing import NDArray

from pairloom.pipeline.storage.zarr_layout import ChunkedArray, Coordinate, group_files, stamp

__all__ = ["FORMATS", "write_probabilities"]

FORMATS = (".npz", ".csv", ".zarr")


def write_probabilities(path: Path, p: NDArray[np.floating], classes: Sequence[str]) -> None:
    """Write probabilities with their class names, in the format given by the suffix of ``path``."""
    if path.suffix == ".npz":
        np.savez_compressed(path, probabilities=p, classes=np.array(classes))
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(_csv_rows(p, classes))
    elif path.suffix == ".zarr":
        array = ChunkedArray("probabilities", ("sample", "class"), p.shape, p.shape, p.dtype.name)
        stamp(path, group_files([array], [Coordinate("class", ("class",), np.array(classes))], {}))
        zarr.open_array(path, path="probabilities", mode="r+")[:] = p
    else:
        raise ValueError(f"--out must end in one of {', '.join(FORMATS)}, got {path}.")


def _csv_rows(p: NDArray[np.floating], classes: Sequence[str]) -> Iterator[list[str]]:
    yield ["prediction", *classes]
    for row in p:
        yield [classes[int(row.argmax())], *(f"{value:.6g}" for value in row)]
