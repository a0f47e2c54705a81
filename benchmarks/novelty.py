"""How well novelty separates samples of no class from known ones, compared with other measures on the same features.

Each case has known classes, with training rows and test samples, and strange samples: the out-of-scope sentences of
CLINC150, or the test samples of the half of the classes that was left out, drawn again for each number. No classifier
sees a strange sample before the test.

Peers: the largest probability and the energy [L]_ of a logistic regression with C = 10 in units of the variance, the
relative Mahalanobis distance [R]_ with a covariance shrunk by 0.001, and the distance to the nearest, the tenth and the
fiftieth nearest training row [S]_.

"FPR95" is the share of strange samples that are accepted at the threshold that accepts 95% of the known ones.
"rejected" is the share of known test samples that ``predict(reject=0.05)`` rejects, among classes with as many rows as
folds, to which the promise applies; "deviations off" is its difference from 5%, in standard deviations from the random
choice of test and held-out samples (as if draws were independent). Seconds are CPU time of the fit and of the novelty
of the test samples.

References
----------
.. [L] W. Liu, X. Wang, J. Owens and Y. Li (2020). "Energy-based out-of-distribution detection". NeurIPS.
.. [R] J. Ren, S. Fort, J. Liu, A. Roy, S. Padhy and B. Lakshminarayanan (2021). "A simple fix to Mahalanobis distance
   for improving near-OOD detection". https://arxiv.org/abs/2106.09022.
.. [S] Y. Sun, Y. Ming, X. Zhu and Y. Li (2022). "Out-of-distribution detection with deep nearest neighbors". ICML.
"""

import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors

from pairloom import PairwiseSVC
from pairloom.benchmarks.datasets import load, path_of, synthetic_classes
from pairloom.benchmarks.record import Column, Record

__all__ = ["CASES", "case_of", "measure_novelty"]

#: The cases, and their maximum number of draws: the sentences of CLINC150 are fixed.
CASES = {"clinc150": 1, "icd10cm": 5, "tinyimagenet50": 5, "letter": 5}
OURS, REJECT = "PairwiseSVC", 0.05
_OUT_OF_SCOPE = "clinc150-oos-minilm.npy"

Scores = NDArray[np.floating]


class Case(NamedTuple):
    """Training rows of known classes, known test samples and their classes, and strange ones."""

    X: NDArray[np.float32]
    y: NDArray[np.int64]
    known: NDArray[np.float32]
    y_known: NDArray[np.int64]
    strange: NDArray[np.float32]


@dataclass(frozen=True)
class Row:
    """One measure of novelty on one case, the mean of its draws."""

    data: str
    draws: int
    measure: str
    auroc: float
    least: float
    fpr95: float
    rejected: float
    deviations: float  # both NaN for peers
    seconds: float


COLUMNS = (
    Column("set", lambda row: row.data, 16, left=True),
    Column("draws", lambda row: str(row.draws), 5),
    Column("novelty by", lambda row: row.measure, 24, left=True),
    Column("AUROC", lambda row: f"{row.auroc:.4f}", 7),
    Column("least", lambda row: f"{row.least:.4f}", 7),
    Column("FPR95", lambda row: f"{row.fpr95:.3f}", 6),
    Column("rejected", lambda row: "" if math.isnan(row.rejected) else f"{row.rejected:.3f}", 8),
    Column("deviations off", lambda row: "" if math.isnan(row.deviations) else f"{row.deviations:+.1f}"),
    Column("CPU s", lambda row: f"{row.seconds:.1f}", 7),
)


def case_of(name: str, number: int) -> Case:
    """A case by the name of its set. Half of the classes are known, drawn again for each number."""
    split = synthetic_classes(12, features=24, tests=600) if name == "synthetic" else load(name)
    if name == "clinc150":
        strange = np.load(path_of(_OUT_OF_SCOPE)).astype(np.float32)
        return Case(split.X, split.y, split.X_new, split.y_new, strange)
    n = int(split.y.max()) + 1
    known = np.zeros(n, bool)
    known[np.random.default_rng(number).permutation(n)[: n // 2]] = True
    ours, new = known[split.y], known[split.y_new]
    return Case(split.X[ours], split.y[ours], split.X_new[new], split.y_new[new], split.X_new[~new])


def pairwise(case: Case, samples: NDArray[np.float32]) -> Iterator[tuple[str, Scores]]:
    """The novelty of `PairwiseSVC`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = PairwiseSVC(random_state=0).fit(case.X, case.y)
    yield OURS, model.novelty(samples)
    promised = np.bincount(case.y)[case.y_known] >= model.model_.settings.folds
    rejected = model.predict(case.known[promised], reject=REJECT) == -1
    assert model.model_.held_out is not None, "this fit holds samples out"
    held_out = np.isfinite(model.model_.held_out.strangeness).sum()
    yield "rejected", np.array([rejected.mean(), REJECT * (1 - REJECT) * (1 / promised.sum() + 1 / held_out)])


def logistic(case: Case, samples: NDArray[np.float32]) -> Iterator[tuple[str, Scores]]:
    """The largest probability and the energy of a logistic regression."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression(C=10 / case.X.var(axis=0).sum(), max_iter=300).fit(case.X, case.y)
    values = model.decision_function(samples)
    energy = logsumexp(values, axis=1)
    yield "logistic max softmax", energy - values.max(axis=1)
    yield "logistic energy", -energy


def mahalanobis(case: Case, samples: NDArray[np.float32]) -> Iterator[tuple[str, Scores]]:
    """The Mahalanobis distance to the nearest class, minus that to all samples."""
    X, classes = case.X.astype(np.float64), np.unique(case.y)
    means = np.array([X[case.y == c].mean(axis=0) for c in classes])
    within = X - means[np.searchsorted(classes, case.y)]
    mean = X.mean(axis=0)
    W, T = (_inverse_covariance(rows) for rows in (within, X - mean))
    by_class = np.square(samples @ _root(W)).sum(axis=1)[:, None] - 2 * samples @ W @ means.T
    by_class += np.einsum("nd,de,ne->n", means, W, means)
    yield "relative Mahalanobis", by_class.min(axis=1) - np.square((samples - mean) @ _root(T)).sum(axis=1)


def _inverse_covariance(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    covariance = rows.T @ rows / len(rows)
    return np.asarray(
        np.linalg.inv(covariance + 1e-3 * np.trace(covariance) / len(covariance) * np.eye(len(covariance)))
    )


def _root(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.linalg.cholesky((matrix + matrix.T) / 2))


def neighbours(case: Case, samples: NDArray[np.float32]) -> Iterator[tuple[str, Scores]]:
    """The distances to the nearest training rows."""
    search = NearestNeighbors(n_neighbors=min(50, len(case.X))).fit(case.X)
    distances = search.kneighbors(samples)[0]
    for k in (1, 10, 50):
        yield f"{k}-nearest neighbour", distances[:, min(k, distances.shape[1]) - 1]


#: The measures, in the order of the table.
MEASURES: tuple[Callable[[Case, NDArray[np.float32]], Iterator[tuple[str, Scores]]], ...] = (
    pairwise,
    logistic,
    mahalanobis,
    neighbours,
)


def quality(novelty: Scores, n_known: int) -> tuple[float, float]:
    """The area under the ROC curve, and the share of strange samples that are accepted with 95% of the known ones."""
    known, strange = novelty[:n_known], novelty[n_known:]
    area = roc_auc_score(np.arange(len(novelty)) >= n_known, novelty)
    return float(area), float((strange <= np.quantile(known, 0.95)).mean())


def measure_novelty(record: Record, names: Iterable[str], draws: int) -> list[Row]:
    """The table: every measure on every case, with means over the draws and the smallest area."""
    record.begin("novelty", COLUMNS, f"{draws} draws of the known classes")
    measured = []
    for name in names:
        found: dict[str, list[tuple[float, float, float]]] = {}
        rejected: list[Scores] = []  # the share of each draw, and its variance
        for number in range(min(draws, CASES.get(name, draws))):
            case = case_of(name, number)
            samples = np.concatenate([case.known, case.strange])
            for measure in MEASURES:
                begun = time.process_time()
                for label, novelty in measure(case, samples):
                    if label == "rejected":
                        rejected.append(novelty)
                        continue
                    seconds = time.process_time() - begun
                    found.setdefault(label, []).append((*quality(novelty, len(case.known)), seconds))
        for label, outcomes in found.items():
            areas, fprs, seconds_of = zip(*outcomes, strict=True)
            share = _rejection(rejected) if label == OURS else (math.nan, math.nan)
            quality_of = float(np.mean(areas)), min(areas), float(np.mean(fprs))
            row = Row(name, len(areas), label, *quality_of, *share, float(np.mean(seconds_of)))
            measured.append(row)
            record.add(row)
    return measured


def _rejection(rejected: list[Scores]) -> tuple[float, float]:
    """The mean share of the draws, and how many standard deviations it is off."""
    share, variance = np.mean(rejected, axis=0)
    return float(share), float((share - REJECT) / np.sqrt(variance / len(rejected)))
