"""Whitening: all candidate whitenings, from the statistics of the classes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.calibration.novelty_signals import ClassPlaces
from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.machines.normalisation import (
    ClassScatter,
    WithinClasses,
    centred_at,
    is_whitened,
    within_classes,
)
from pairloom.pipeline.run.costs import StageCost
from pairloom.pipeline.run.feature_store import (
    drawn_samples,
    read_class_means,
    read_normalisation,
    read_scatter,
)
from pairloom.pipeline.run.run import Keys, Run, Stage
from pairloom.pipeline.run.run_directory import open_group, write_whole
from pairloom.pipeline.storage.digests import digest_of

__all__ = ["Whitening"]


class Whitening(Stage):
    """Store the mean and the whitening matrix of every shrinkage."""

    name = "whitening"
    folders = ("features.zarr",)
    cost = StageCost(
        seconds=(0.03, 6e-10), work=lambda s: s.features**3, writes=lambda s: 4.0 * s.features**2
    )

    def keys(self, run: Run, earlier: Keys) -> tuple[str, ...]:
        """They depend on the statistics, the shrinkages, and the normalisation of the rows."""
        normalised = [run.exponent, *([] if run.kernel is None else [run.kernel.name])]
        return (digest_of([earlier["statistics"][0], list(run.shape.shrinkages), *normalised]),)

    def work(self, run: Run, unit: int, data: OpenFeatures | None) -> list[str]:
        """Store all candidate whitenings; sparse rows have none."""
        if run.shape.sparse is not None:
            return []
        group, shape = open_group(run.directory, "features.zarr", write=True), run.shape
        within = within_classes(_stored_scatter(run)) if shape.whitenings else None
        files = []
        for number, shrinkage in enumerate(shape.shrinkages):
            if within is None or not is_whitened(shrinkage):
                whitening = centred_at(read_normalisation(run).mean_of(np.dtype(shape.dtype)))
            else:
                whitening = within.whitening(float(shrinkage))
                place = shape.whitenings.index(shrinkage)
                files += write_whole(group["factor"], (place, 0, 0), whitening.factor[None])
            files += write_whole(group["mean"], (number, 0), whitening.mean[None])
        if within is not None and shape.placed:
            files += _written_places(run, within)
        return files

    def task_bytes(self, run: Run) -> int:
        """Scatter, its decomposition with LAPACK's workspace, the factor and its products; class means."""
        D = run.shape.features
        if not run.shape.whitenings:
            return 8 * D
        return 10 * 8 * D**2 + 3 * 8 * D * len(run.shape.classes)


def _kept_rows(run: Run) -> NDArray[np.int64]:
    """(N,) number of rows per class in the statistics."""
    drawn = drawn_samples(run, whitened=True).classes
    return np.asarray(run.rows - np.bincount(drawn, minlength=len(run.rows)))


def _written_places(run: Run, within: WithinClasses) -> list[str]:
    """Store the places of the classes. Missing directions are zero, and so is all of it without places."""
    group, files = open_group(run.directory, "features.zarr", write=True), list[str]()
    places = ClassPlaces.of(within, read_class_means(run.directory), _kept_rows(run))
    for name in ClassPlaces._fields:
        array = group[f"place_{name}"]
        values = np.zeros(array.shape, array.dtype) if places is None else getattr(places, name)
        more = [(0, size - had) for size, had in zip(array.shape, values.shape, strict=True)]
        files += write_whole(array, (0,) * values.ndim, np.pad(values, more))
    return files


def _stored_scatter(run: Run) -> Iterator[ClassScatter]:
    """The statistics of the parts of the classes, one after the other."""
    counts = _kept_rows(run)
    for number, classes in enumerate(run.class_parts):
        means, scatter = read_class_means(run.directory, classes), read_scatter(run.directory, number)
        yield ClassScatter(counts[classes], means, scatter)
