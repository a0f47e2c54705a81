"""Scores that need no model, to compare those of the model with: class frequencies, and the nearest centroid."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from pairloom.pipeline.display.evaluation import Outcomes
from pairloom.pipeline.pieces import pieces
from pairloom.pipeline.report.run_results import NUMBERS_AT_ONCE
from pairloom.pipeline.run.feature_store import read_normalisation, read_samples, read_stored_rows
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import rows_per_file

__all__ = ["FREQUENCIES", "NEAREST", "baseline_outcomes", "by_frequencies", "by_nearest"]

FREQUENCIES, NEAREST = "class frequencies", "nearest centroid"
#: Numbers of the training rows that centroids are found from, at most: 1 GiB of float32.
_MOST_NUMBERS = 2**28
#: Multiplications for the distances, some seconds' worth: with more samples, every k-th is compared.
_MOST_WORK = 2e10


def baseline_outcomes(run: Run, labels: NDArray[np.int64]) -> dict[str, Outcomes]:
    """The outcomes of the labelled test samples by each baseline; without centroids if there are very many rows."""
    shape = run.shape
    found = {FREQUENCIES: by_frequencies(np.array(shape.rows), labels)}
    if sum(shape.rows) * shape.features <= _MOST_NUMBERS:
        step = max(1, round(shape.samples * len(shape.classes) * shape.features / _MOST_WORK))
        found[NEAREST] = _of_samples(_scores(run, step), labels[::step])
    return found


def by_frequencies(rows: NDArray[np.integer], labels: NDArray[np.int64]) -> Outcomes:
    """Every sample is given the shares of the classes in training."""
    shares, n = rows / rows.sum(), len(labels)
    place = np.empty(len(rows), np.int64)
    place[np.argsort(-shares, kind="stable")] = np.arange(len(rows))
    likeliest = int(shares.argmax())
    return Outcomes(
        labels, np.full(n, likeliest), np.full(n, shares[likeliest]), shares[labels], place[labels]
    )


def by_nearest(scores: NDArray[np.floating], labels: NDArray[np.int64]) -> Outcomes:
    """Outcomes by scores (sample, class) that are no probabilities: confidences are unknown."""
    every = np.arange(len(labels))
    unknown = np.full(len(labels), np.nan)
    rank = (scores > scores[every, labels][:, None]).sum(axis=1)
    return Outcomes(labels, scores.argmax(axis=1), unknown, unknown, rank)


def _of_samples(parts: Iterator[NDArray[np.floating]], labels: NDArray[np.int64]) -> Outcomes:
    found, start = [], 0
    for scores in parts:
        found.append(by_nearest(scores, labels[start : start + len(scores)]))
        start += len(scores)
    return Outcomes.joined(found)


def _scores(run: Run, step: int) -> Iterator[NDArray[np.floating]]:
    """x · m - |m|² / 2 of every step-th test sample x and every centroid m: the largest is that of the nearest."""
    centroids = _centroids(run)
    half = (centroids**2).sum(axis=1) / 2
    most = max(1, NUMBERS_AT_ONCE // len(half))
    for slab in pieces(run.shape.samples, run.shape.samples_per_slab):
        X = read_samples(run, slab)[-slab.start % step :: step]
        for some in pieces(len(X), most):
            yield X[some] @ centroids.T - half


def _centroids(run: Run) -> NDArray[np.float32]:
    """(N, D) means of the normalised training rows of each class; the store has them sorted by class."""
    N, D, classes = (
        len(run.shape.classes),
        run.shape.features,
        np.repeat(np.arange(len(run.shape.classes)), run.rows),
    )
    sums = np.zeros((N, D))
    for some in pieces(len(classes), rows_per_file(D)):
        X = read_normalisation(run)(read_stored_rows(run, some.start, some.stop))
        sums += csr_array((np.ones(len(X)), (classes[some], np.arange(len(X)))), shape=(N, len(X))) @ X
    return np.asarray(sums / np.array(run.shape.rows)[:, None], np.float32)
