"""Write predictions, labels and probabilities, to a .npz, .csv or .zarr file."""

from __future__ import annotations

import csv
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from pairloom.graphs.text import csv_cell
from pairloom.pipeline.features.feature_set import names_of
from pairloom.pipeline.run.run_directory import coordinate_labels
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.zarr_layout import ChunkedArray, Coordinate, group_files, stamp

__all__ = ["FORMATS", "check_target", "write_probabilities"]

FORMATS = (".npz", ".csv", ".zarr")


def check_target(path: Path, *, force: bool = False, samples: str = "") -> None:
    """Raise unless probabilities may be written to a path: a known ending, and nothing there unless forced.

    Not even then if it has the samples that are predicted.
    """
    if path.suffix not in FORMATS:
        raise ValueError(f"--out must end in one of {', '.join(FORMATS)}, got {path}.")
    if path.exists() and Path(samples).exists() and path.samefile(samples):
        raise FileExistsError(f"--out must not be --features, got {path} for both.")
    if path.exists() and not force:
        raise FileExistsError(f"--out must be new, got {path}, which exists. Pass --force to replace it.")
    if path.is_symlink() or (path.is_dir() and not _holds_probabilities_only(path)):
        raise FileExistsError(
            f"--force replaces a file or a .zarr folder of probabilities and nothing else, got {path}."
        )
    if not path.parent.is_dir():
        raise FileNotFoundError(f"--out must lie in a folder that exists, got {path}.")


def write_probabilities(
    path: Path, p: NDArray[np.floating], classes: NDArray[Any], *, force: bool = False
) -> None:
    """Write the likeliest class of each sample, probabilities and labels, in the format of the ending of ``path``.

    They are written beside their place and then renamed: a file of that name is always whole.
    """
    check_target(path, force=force)
    unfinished = path.with_name(f".{path.stem}-{uuid.uuid4().hex}{path.suffix}")
    try:
        _WRITERS[path.suffix](unfinished, p, classes)
        if path.is_dir():
            shutil.rmtree(path)
        unfinished.replace(path)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.unlink(missing_ok=True)
        raise


def _holds_probabilities_only(folder: Path) -> bool:
    """Whether a folder is a zarr group as `write_probabilities` makes one, or made one before it wrote labels."""
    names = {path.name for path in folder.iterdir()}
    return names - {"prediction"} == {"class", "probabilities", "zarr.json"}


def _write_npz(path: Path, p: NDArray[np.floating], classes: NDArray[Any]) -> None:
    np.savez_compressed(path, prediction=_predicted(p, classes), probabilities=p, classes=classes)


def _write_csv(path: Path, p: NDArray[np.floating], classes: NDArray[Any]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(_csv_rows(p, classes))


def _write_zarr(path: Path, p: NDArray[np.floating], classes: NDArray[Any]) -> None:
    array = ChunkedArray("probabilities", ("sample", "class"), p.shape, p.shape, p.dtype.name)
    labels = coordinate_labels(classes)
    coordinates = [
        Coordinate("class", ("class",), labels),
        Coordinate("prediction", ("sample",), _predicted(p, labels)),
    ]
    stamp(Folder(path), group_files([array], coordinates, {}))
    zarr.open_array(path, path="probabilities", mode="r+")[:] = p


def _predicted(p: NDArray[np.floating], classes: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(classes[p.argmax(axis=1)])


_WRITERS = {".npz": _write_npz, ".csv": _write_csv, ".zarr": _write_zarr}


def _csv_rows(p: NDArray[np.floating], classes: NDArray[Any]) -> Iterator[list[str]]:
    names = [csv_cell(name) for name in names_of(classes)]
    yield ["prediction", *names]
    for row in p:
        yield [names[int(row.argmax())], *(f"{value:.6g}" for value in row)]
