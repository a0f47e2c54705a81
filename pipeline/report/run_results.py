"""What a report reads from the arrays of a run: its test samples, compared with their labels, and its trained pairs.

Probabilities are read slab by slab, so that a report never holds those of all samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from pairloom.graphs.decomposition import Pairs
from pairloom.graphs.hubs import hubs_to_mark
from pairloom.pipeline.display.class_layout import FEW_CLASSES
from pairloom.pipeline.display.evaluation import Confusions, Outcomes, outcomes
from pairloom.pipeline.display.top_probabilities import TopProbabilities
from pairloom.pipeline.report.set_tables import SetCounts, set_limits
from pairloom.pipeline.run.feature_store import read_labels
from pairloom.pipeline.run.machine_store import read_dprime
from pairloom.pipeline.run.probability_store import read_lists, read_probabilities
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.threads import pieces

__all__ = [
    "MOST_ERRORS",
    "NUMBERS_AT_ONCE",
    "ConfidentErrors",
    "JudgedSamples",
    "TrainedPairs",
    "judge_samples",
    "read_trained_pairs",
]

#: Probabilities that are read at once: 16 MiB of float32.
NUMBERS_AT_ONCE = 2**22
#: Errors whose probabilities are kept, and likeliest classes of each.
MOST_ERRORS, LISTED = 200, 20


class ConfidentErrors(NamedTuple):
    """The errors with the largest probabilities: their samples, descending, and their likeliest classes."""

    samples: NDArray[np.int64]
    top: TopProbabilities

    def joined(self, samples: NDArray[np.int64], top: TopProbabilities) -> ConfidentErrors:
        """The most confident of these and others; of equally confident ones, the first."""
        both = np.concatenate([self.samples, samples]), TopProbabilities.joined([self.top, top])
        best = np.argsort(-both[1].p[:, 0], kind="stable")[:MOST_ERRORS]
        return ConfidentErrors(both[0][best], both[1].of_samples(best))


class JudgedSamples(NamedTuple):
    """The test samples, compared with their labels.

    Attributes
    ----------
    by_method : dict of Outcomes
        By coupling method, that of the model first.
    confusion : Confusions
        By the coupling of the model.
    likeness : (N, N) float64 array, or of many classes CSR
        Mean probability of class j on samples of class i, by the coupling of the model; zero without samples. Of many
        classes, of the likeliest ones of each sample.
    errors : ConfidentErrors
        By the coupling of the model.
    sets : SetCounts, optional
        By the coupling of the model; None where no samples were held out.
    """

    by_method: dict[str, Outcomes]
    confusion: Confusions
    likeness: NDArray[np.float64] | csr_array
    errors: ConfidentErrors
    sets: SetCounts | None = None

    @property
    def model(self) -> Outcomes:
        """The outcomes by the coupling of the model."""
        return next(iter(self.by_method.values()))


def judge_samples(run: Run) -> JudgedSamples | None:
    """Compare the stored probabilities with the labels; None if there are no labelled test samples."""
    shape, N = run.shape, len(run.shape.classes)
    if not (shape.labelled and shape.samples):
        return None
    labels = read_labels(run.directory)
    likeness: Any = csr_array((N, N)) if N > FEW_CLASSES else np.zeros((N, N))
    none = TopProbabilities.of(np.empty((0, N), np.float32), min(shape.kept or LISTED, N))
    errors = ConfidentErrors(np.empty(0, np.int64), none)
    by_method: dict[str, Outcomes] = {}
    limits, sets = set_limits(run), []
    for place, method in enumerate(shape.couplings):
        parts = []
        for some, predicted in _predicted(run, method, labels):
            parts.append(predicted.outcomes)
            if place == 0:
                likeness = likeness + _membership(labels[some], N) @ predicted.matrix(N)
                wrong = np.flatnonzero(~predicted.outcomes.right)
                errors = errors.joined(some.start + wrong, predicted.top.of_samples(wrong))
                sets += [] if limits is None else [limits.counts_of(predicted.outcomes, predicted.top)]
        by_method[method] = Outcomes.joined(parts)
    counts = np.maximum(np.bincount(labels, minlength=N), 1)[:, None]
    likeness = likeness / counts if isinstance(likeness, np.ndarray) else likeness.multiply(1 / counts)
    of_model = by_method[shape.couplings[0]]
    confusion = Confusions.of(of_model.label, of_model.predicted, N)
    return JudgedSamples(by_method, confusion, likeness, errors, SetCounts.joined(sets) if sets else None)


class _Predicted(NamedTuple):
    """Some samples as they were predicted; the probabilities of all classes (R, N) where these are few."""

    outcomes: Outcomes
    top: TopProbabilities
    p: NDArray[np.float32] | None

    def matrix(self, n_classes: int) -> Any:
        """(R, N) probabilities, or of many classes CSR with those of the likeliest ones."""
        return self.top.sparse(n_classes) if self.p is None else self.p


def _predicted(run: Run, method: str, labels: NDArray[np.integer]) -> Iterator[tuple[slice, _Predicted]]:
    """The stored probabilities of labelled samples, several slabs at once."""
    for some in _pieces_of_chunks(run):
        if run.shape.kept:
            top, likelihood = read_lists(run, method, some)
            assert likelihood is not None, "samples have labels"
            yield some, _Predicted(_outcomes_of_lists(top, likelihood, labels[some]), top, None)
        else:
            p = read_probabilities(run, method, some)
            top = TopProbabilities.of(p, min(LISTED, p.shape[1]))
            yield some, _Predicted(outcomes(p, labels[some]), top, p if p.shape[1] <= FEW_CLASSES else None)


def _outcomes_of_lists(
    top: TopProbabilities, likelihood: NDArray[np.floating], labels: NDArray[np.integer]
) -> Outcomes:
    """The outcomes of samples whose likeliest classes are listed; a class that is not listed ranks after those."""
    is_label = top.classes == labels[:, None]
    rank = np.where(is_label.any(axis=1), is_label.argmax(axis=1), is_label.shape[1])
    confidence = top.p[:, 0].astype(np.float64)
    predicted = top.classes[:, 0].astype(np.int64)
    return Outcomes(labels.astype(np.int64), predicted, confidence, likelihood.astype(np.float64), rank)


def _pieces_of_chunks(run: Run) -> list[slice]:
    """Slices of the samples that are whole chunks, several at once: zarr then reads them side by side."""
    slab = run.shape.samples_per_slab
    most = max(1, NUMBERS_AT_ONCE // (slab * (run.shape.kept or len(run.shape.classes))))
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
        Classes to mark as hubs.
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
    def _sorted(self) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """The pairs as one number each, ascending, and their order."""
        numbers = np.sort(self.edges, axis=1) @ np.array([self.n_classes, 1])
        order = np.argsort(numbers)
        return numbers[order], order

    def number(self, i: int | NDArray[np.integer], j: NDArray[np.integer]) -> NDArray[np.int64]:
        """The numbers of pairs of classes among the edges, -1 where a pair is not trained."""
        pairs, order = self._sorted
        asked = np.minimum(i, j) * self.n_classes + np.maximum(i, j)
        place = np.searchsorted(pairs, asked).clip(max=len(pairs) - 1)
        return np.where(pairs[place] == asked, order[place], -1)


def read_trained_pairs(run: Run) -> TrainedPairs:
    """The trained pairs of a run."""
    pairs = Pairs(run.shape.edges, len(run.shape.classes), run.graph)
    return TrainedPairs(pairs.n, pairs.edges, read_dprime(run.directory), hubs_to_mark(pairs))
