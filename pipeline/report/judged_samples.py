"""The test samples of a run, judged: read slab by slab, so that no more than a slab of probabilities is held."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from pairloom.pipeline.pieces import pieces
from pairloom.pipeline.report.evaluation import Outcomes, count_confusions, outcomes
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import open_group
from pairloom.pipeline.storage.zarr_layout import read_whole

__all__ = ["MOST_ERRORS", "ConfidentErrors", "JudgedSamples", "judge_samples"]

#: Probabilities that are read at once: 16 MiB of float32.
NUMBERS_AT_ONCE = 2**22
#: Errors whose probabilities are kept.
MOST_ERRORS = 200


class ConfidentErrors(NamedTuple):
    """The errors with the largest probabilities: their samples, descending, and all probabilities of these."""

    samples: NDArray[np.int64]
    p: NDArray[np.float32]

    @property
    def confidence(self) -> NDArray[np.float32]:
        """Probability of the predicted class."""
        return np.asarray(self.p.max(axis=1, initial=0.0))

    def joined(self, samples: NDArray[np.int64], p: NDArray[np.float32]) -> ConfidentErrors:
        """The most confident of these and others. Of equal ones, those that come first stay first."""
        both = ConfidentErrors(np.concatenate([self.samples, samples]), np.concatenate([self.p, p]))
        best = np.argsort(-both.confidence, kind="stable")[:MOST_ERRORS]
        return ConfidentErrors(both.samples[best], both.p[best])


class JudgedSamples(NamedTuple):
    """The test samples and what became of them.

    Attributes
    ----------
    by_method : dict of Outcomes
        By coupling method, that of the model first.
    confusion : (N, N) int64 array
        Counts (true class, predicted class) by the coupling of the model.
    likeness : (N, N) float64 array
        Mean probability of class j on samples of class i, by the coupling of the model; zero without samples.
    errors : ConfidentErrors
        By the coupling of the model.
    """

    by_method: dict[str, Outcomes]
    confusion: NDArray[np.int64]
    likeness: NDArray[np.float64]
    errors: ConfidentErrors

    @property
    def model(self) -> Outcomes:
        """The outcomes by the coupling of the model."""
        return next(iter(self.by_method.values()))


def judge_samples(run: Run) -> JudgedSamples | None:
    """Compare the stored probabilities with the labels; None if there are no labelled test samples."""
    shape, N = run.shape, len(run.shape.classes)
    if not (shape.labelled and shape.samples):
        return None
    labels = read_whole(open_group(run.directory, "features.zarr")["label"])
    likeness, errors = np.zeros((N, N)), ConfidentErrors(np.empty(0, np.int64), np.empty((0, N), np.float32))
    by_method: dict[str, Outcomes] = {}
    for place, method in enumerate(shape.couplings):
        parts = []
        for some, p in _probabilities(run, method):
            found = outcomes(p, labels[some])
            parts.append(found)
            if place == 0:
                likeness += _membership(labels[some], N) @ p
                wrong = np.flatnonzero(~found.right)
                errors = errors.joined(some.start + wrong, p[wrong])
        by_method[method] = Outcomes.joined(parts)
    likeness /= np.maximum(np.bincount(labels, minlength=N), 1)[:, None]
    of_model = by_method[shape.couplings[0]]
    confusion = count_confusions(of_model.label, of_model.predicted, N)
    return JudgedSamples(by_method, confusion, likeness, errors)


def _probabilities(run: Run, method: str) -> Iterator[tuple[slice, NDArray[np.float32]]]:
    stored = open_group(run.directory, "probabilities.zarr")[method]
    for some in _pieces_of_chunks(run):
        yield some, read_whole(stored, some)


def _pieces_of_chunks(run: Run) -> list[slice]:
    """Slices of the samples that are whole chunks, several at once: zarr then reads them side by side."""
    slab = run.shape.samples_per_slab
    most = max(1, NUMBERS_AT_ONCE // (slab * len(run.shape.classes)))
    return pieces(run.shape.samples, most * slab)


def _membership(labels: NDArray[np.int32], n_classes: int) -> csr_array:
    """(N, r) sparse matrix of ones where a sample is of a class."""
    samples = np.arange(len(labels))
    return csr_array((np.ones(len(labels), np.float32), (labels, samples)), shape=(n_classes, len(labels)))
