"""Probabilities of new samples from the machines of a finished run."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import zarr
from numpy.typing import NDArray

from pairloom.pipeline.machines.linear_machines import MachineSettings
from pairloom.pipeline.machines.logits import collapse
from pairloom.pipeline.run.feature_store import FeatureKeys, read_whitening
from pairloom.pipeline.run.run_directory import RunShape, open_group
from pairloom.pipeline.run.stages import couple_logits, read_machines
from pairloom.pipeline.storage.zarr_layout import ChunkedArray, Coordinate, group_files, read_whole, stamp

__all__ = ["FORMATS", "predict_samples", "write_probabilities"]

FORMATS = (".npz", ".csv", ".zarr")


def predict_samples(
    directory: Path,
    shape: RunShape,
    keys: FeatureKeys,
    settings: MachineSettings,
    X: NDArray[np.float32],
    method: str,
) -> NDArray[np.float32]:
    """Probabilities (sample, class) by one coupling method of the run."""
    whitening = read_whitening(directory, shape, keys)
    logits = collapse(read_machines(directory), settings.scheme.shares, whitening)
    scales = read_whole(open_group(directory, "probabilities.zarr")["scale"])
    scale = float(scales[shape.methods.index(method)])
    slabs = [X[start : start + shape.samples_per_slab] for start in range(0, len(X), shape.samples_per_slab)]
    coupled = [couple_logits(logits(slab), shape, {method: scale})[method] for slab in slabs]
    return np.concatenate([np.empty((0, len(shape.classes)), np.float32), *coupled])


def write_probabilities(path: Path, p: NDArray[np.float32], classes: tuple[str, ...]) -> None:
    """Write probabilities with their class names, in the format that the ending of ``path`` names."""
    if path.suffix == ".npz":
        np.savez_compressed(path, probabilities=p, classes=np.array(classes))
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(_csv_rows(p, classes))
    elif path.suffix == ".zarr":
        array = ChunkedArray("probabilities", ("sample", "class"), p.shape, p.shape)
        stamp(path, group_files([array], [Coordinate("class", ("class",), np.array(classes))], {}))
        zarr.open_array(path, path="probabilities", mode="r+")[:] = p
    else:
        raise ValueError(f"--out must end in one of {', '.join(FORMATS)}, got {path}")


def _csv_rows(p: NDArray[np.float32], classes: tuple[str, ...]) -> Iterator[list[str]]:
    yield ["prediction", *classes]
    for row in p:
        yield [classes[int(row.argmax())], *(f"{value:.6g}" for value in row)]
