"""The first stages of a run: store the features, test samples, drawn samples and whitenings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.calibration.drawn_samples import DrawnSamples, draw_samples
from pairloom.pipeline.features.feature_set import FeatureSet
from pairloom.pipeline.machines.normalisation import fit_normalisation
from pairloom.pipeline.machines.whitening import fit_whitening, is_whitened
from pairloom.pipeline.model.class_table import checksum
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import open_group, write_chunks, write_whole

__all__ = ["store_classes", "store_draws", "store_samples", "store_whitenings"]


def store_classes(run: Run, data: FeatureSet, classes: slice) -> list[Path]:
    """Store the training rows of some classes, in chunks of one class each, and their checksums."""
    group = open_group(run.directory, "features.zarr", write=True)
    train, files, sums = group["train"], [], []
    for c in range(classes.start, classes.stop):
        rows = data.X_train[data.y_train == c]
        files += write_chunks(train, (c, 0, 0), _padded(rows, train.chunks[1], train.shape[1])[None])
        sums.append(checksum(rows))
    return files + write_whole(group["checksum"], (classes.start,), np.array(sums, np.int64))


def _padded(rows: NDArray[np.floating], chunk: int, most: int) -> NDArray[Any]:
    """Add rows of NaN until the chunk, or the array, is full."""
    length = min(most, -(-len(rows) // chunk) * chunk)
    return np.pad(rows, ((0, length - len(rows)), (0, 0)), constant_values=np.nan)


def store_samples(run: Run, data: FeatureSet, samples: slice) -> list[Path]:
    """Store a slab of test samples, and their labels if known."""
    group = open_group(run.directory, "features.zarr", write=True)
    files = write_whole(group["test"], (samples.start, 0), data.X_test[samples])
    if data.y_test is not None:
        files += write_whole(group["label"], (samples.start,), data.y_test[samples].astype(np.int32))
    return files


def store_draws(run: Run, data: FeatureSet) -> list[Path]:
    """Store the training samples that calibrate the coupled model.

    These are as many as any candidate needs. Candidates that whiten use only the first of every class.
    """
    group = open_group(run.directory, "features.zarr", write=True)
    drawn = _drawn(run, data, run.draws_whitened)
    return [
        *write_whole(group["drawn"], (0, 0), data.X_train[drawn.rows]),
        *write_whole(group["drawn_class"], (0,), drawn.classes.astype(np.int32)),
        *write_whole(group["drawn_fold"], (0,), drawn.folds.astype(np.int32)),
        *write_whole(group["drawn_part"], (0,), drawn.parts.astype(np.int32)),
    ]


def store_whitenings(run: Run, data: FeatureSet) -> list[Path]:
    """Store the centre and all candidate whitenings.

    The covariance is computed without the drawn samples.
    """
    group, shape = open_group(run.directory, "features.zarr", write=True), run.shape
    normalisation = fit_normalisation(data.X_train, "data.features: X_train")
    X, held_out = normalisation(data.X_train), _drawn(run, data, True).rows
    files = write_whole(group["centre"], (0,), normalisation.centre)
    for number, shrinkage in enumerate(shape.shrinkages):
        whitening = fit_whitening(X, data.y_train, shrinkage, held_out)
        files += write_whole(group["mean"], (number, 0), whitening.mean[None])
        if is_whitened(shrinkage):
            place = shape.whitenings.index(shrinkage)
            files += write_whole(group["factor"], (place, 0, 0), whitening.factor[None])
    return files


def _drawn(run: Run, data: FeatureSet, whitened: bool) -> DrawnSamples:
    settings = run.settings
    return draw_samples(data.y_train, settings.calibration_samples, settings.folds, settings.seed, whitened)
