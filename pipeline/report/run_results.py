"""What a report reads from the arrays of a run: its test samples, compared with their labels, and its trained pairs.

Probabilities are read slab by slab, so that a report never holds those of all samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from pairloom.pipeline.display.evaluation import Outcomes, count_confusions, outcomes
from pairloom.pipeline.pieces import pieces
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import open_group
from pairloom.pipeline.storage.zarr_layout import read_whole

__all__ = [
    "MOST_ERRORS",
    "NUMBERS_AT_ONCE",
    "ConfidentErrors",
    "JudgedSamples",
    "TrainedPairs",
    "judge_samples",
    "read_dprime",
    "read_trained_pairs",
]

#: Probabilities that are read at once: 16 MiB of float32.
NUMBERS_AT_ONCE = 2**22
#: Errors whose probabilities are kept.
MOST_ERRORS = 200
#: Bytes of the parameters of machines that are read at once.
_BYTES_AT_ONCE = 2**24


class ConfidentErrors(NamedTuple):
    """The errors with the largest probabilities: their samples, descending, and all probabilities of these."""

    samples: NDArray[np.int64]
    p: NDArray[np.float32]

    @property
    def confidence(self) -> NDArray[np.float32]:
        """Probability of the predicted class."""
        return np.asarray(self.p.max(axis=1, initial=0.0))

    def joined(self, samples: NDArray[np.int64], p: NDArray[np.float32]) -> ConfidentErrors:
        """The most confident of these and others; of equally confident ones, the first."""
        both = ConfidentErrors(np.concatenate([self.samples, samples]), np.concatenate([self.p, p]))
        best = np.argsort(-both.confidence, kind="stable")[:MOST_ERRORS]
        return ConfidentErrors(both.samples[best], both.p[best])


class JudgedSamples(NamedTuple):
    """The test samples, compared with their labels.

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
            part = outcomes(p, labels[some])
            parts.append(part)
            if place == 0:
                likeness += _membership(labels[some], N) @ p
                wrong = np.flatnonzero(~part.right)
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


@dataclass(frozen=True, eq=False)
class TrainedPairs:
    """The pairs of a model graph.

    Attributes
    ----------
    n_classes : int
    edges : (E, 2) int64 array
        In the order of the tiles.
    dprime : (E,) float64 array
        Distance between the two classes on held-out logits, in standard deviations.
    hubs : (H,) int64 array
        Classes that the graph joins to all others.
    """

    n_classes: int
    edges: NDArray[np.int64]
    dprime: NDArray[np.float64]
    hubs: NDArray[np.int64]

    @property
    def degrees(self) -> NDArray[np.int64]:
        """(N,) trained pairs of each class."""
        return np.bincount(self.edges.ravel(), minlength=self.n_classes)

    @property
    def number_of_all(self) -> int:
        """How many pairs the classes have."""
        return self.n_classes * (self.n_classes - 1) // 2

    @cached_property
    def numbers(self) -> NDArray[np.int32]:
        """(N, N) the number of each pair among the edges, -1 where it is not trained."""
        numbers = np.full((self.n_classes, self.n_classes), -1, np.int32)
        i, j = self.edges.T
        numbers[i, j] = numbers[j, i] = np.arange(len(self.edges))
        return numbers


def read_trained_pairs(run: Run) -> TrainedPairs:
    """The trained pairs of a run."""
    edges, N = run.shape.edges, len(run.shape.classes)
    degrees = np.bincount(edges.ravel(), minlength=N)
    hubs = run.graph.get("hubs")
    if not isinstance(hubs, list):
        # The hubs of a graph that names none are the classes joined to all others, unless every class is.
        hubs = np.flatnonzero(degrees == N - 1) if degrees.min() < N - 1 else []
    return TrainedPairs(N, edges, read_dprime(run), np.asarray(hubs, np.int64))


def read_dprime(run: Run) -> NDArray[np.float64]:
    """(E,) d' of every edge, or column of a code, in the order of the tiles."""
    stored = open_group(run.directory, "machines.zarr")["parameters"]
    tile = run.shape.edges_per_tile
    several = max(1, _BYTES_AT_ONCE // (8 * tile * int(np.prod(stored.shape[1:]))))
    column = run.shape.machine_parameters.index("dprime")
    return np.concatenate(
        [read_whole(stored, edges)[:, 0, column] for edges in pieces(run.shape.n_edges, several * tile)]
    )
