"""Prediction sets: classes that contain the true one as often as requested, calibrated on the held-out samples.

This is conformal prediction. Every class of a new sample has a score, which says how poorly it fits. The set has the
classes whose score is at most a quantile of the scores of the held-out samples for their true classes. Equally many
held-out samples are drawn from every class, so each is weighted by the number of samples that it represents. A quantile
of weighted scores is exact for samples that are drawn per class and then weighted (label shift, [P]): the new sample
counts too, with the weight of the class that is tried. A held-out sample is scored by the machines of one fold, or of
all but one if these are fitted on folds; a new sample by all machines, which predict better. So the coverage errs on
the high side.

References
----------
.. [V] V. Vovk, A. Gammerman and G. Shafer (2005). "Algorithmic Learning in a Random World", Springer.
.. [C] V. Vovk (2015). "Cross-conformal predictors". Annals of Mathematics and Artificial Intelligence 74, 9-28.
.. [S] M. Sadinle, J. Lei and L. Wasserman (2019). "Least ambiguous set-valued classifiers with bounded error levels".
   Journal of the American Statistical Association 114, 223-234 (LAC).
.. [R] Y. Romano, M. Sesia and E. Candès (2020). "Classification with valid and adaptive coverage". NeurIPS (APS).
.. [A] A. Angelopoulos, S. Bates, J. Malik and M. Jordan (2021). "Uncertainty sets for image classifiers using conformal
   prediction". ICLR (RAPS).
.. [P] A. Podkopaev and A. Ramdas (2021). "Distribution-free uncertainty quantification for classification under label
   shift". UAI.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from networkx.utils import UnionFind
from numpy.typing import NDArray
from scipy import sparse

from pairloom.pipeline.calibration.held_out_scores import HeldOutScores, weighted_quantiles
from pairloom.pipeline.coupling.model_coupling import SIGN_VOTE
from pairloom.pipeline.model.fitted_model import FittedModel
from pairloom.pipeline.model.settings import is_share
from pairloom.pipeline.threads import pieces

__all__ = [
    "ClassPool",
    "SetBy",
    "SetScore",
    "check_coverage",
    "check_output",
    "held_out_of",
    "labels_of_sets",
    "pool_classes",
    "sets_of_probabilities",
    "thresholds_of",
]

#: The score of a class: least ambiguous sets, adaptive sets, and adaptive sets with a penalty for unlikely classes.
SetScore = Literal["lac", "aps", "raps"]
#: Coverage of all samples together, or of the samples of every class.
SetBy = Literal["all", "class"]
#: The penalty of RAPS per class beyond the rank that the held-out samples need [A].
_PENALTY = 0.05
#: Number of samples whose sets are computed at once.
_BATCH = 2048


def check_coverage(coverage: Any, owner: str) -> float:
    """The checked coverage, a number between 0 and 1."""
    if not is_share(coverage) or not 0 < coverage < 1:
        raise ValueError(f"{owner}: coverage must be a number above 0 and below 1, got {coverage!r}.")
    return float(coverage)


def check_output(output: Any, owner: str) -> None:
    """Raise unless sets are requested as a matrix or as labels."""
    if output not in ("matrix", "labels"):
        raise ValueError(f"{owner}: output must be 'matrix' or 'labels', got {output!r}.")


def labels_of_sets(sets: sparse.csr_array, labels: NDArray[Any]) -> list[NDArray[Any]]:
    """The labels in each set, in the order of the classes."""
    return [labels[row] for row in np.split(sets.indices, sets.indptr[1:-1])] if sets.shape[0] else []


def held_out_of(model: FittedModel, coupling: str, shortlist: Any, owner: str) -> HeldOutScores:
    """The held-out scores of a model. Raise if it has none for this coupling."""
    if model.held_out is None or not len(model.held_out.classes):
        raise ValueError(f"{owner}: the model has no held-out samples: {_why_none(model)}.")
    method = model.method_named(coupling, f"{owner}: coupling")
    fitted = model.method_named("auto", f"{owner}: coupling")
    if coupling == SIGN_VOTE or method != fitted:
        raise ValueError(
            f"{owner}: coupling must be {fitted!r}, with which the held-out samples were scored, got {coupling!r}:"
            " set it back, or fit with the other one."
        )
    if model.list_size(shortlist) != model.list_size("auto"):
        raise ValueError(
            f"{owner}: shortlist must be {model.shortlist!r}, with which the held-out samples were scored, got"
            f" {shortlist!r}: set it back, or fit with the other one."
        )
    return model.held_out


def _why_none(model: FittedModel) -> str:
    if model.learned is not None and model.learned.logits is not None:
        return "learn='coupled' has learned from all of them; fit with learn='machines'"
    if model.coupled.level == "none":
        return "coupled_calibration='none' scores none; fit with coupled_calibration='scale'"
    if model.held_out is None:
        return "it was changed since its fit; fit it again with the classes and pairs that it has now"
    return "no class has as many samples as folds; fit with fewer folds"


class ClassPool(NamedTuple):
    """Classes that share a threshold, and their total number of held-out samples."""

    classes: tuple[int, ...]
    held_out: int


def pool_classes(model: FittedModel, classes: NDArray[np.int64], coverage: float) -> list[ClassPool]:
    """The classes, merged until every pool has enough held-out samples for a coverage, if there are as many.
    ``classes`` are those of the held-out samples: the true or the predicted ones. A coverage of 1 - a needs 1 / a - 1
    samples: 19 for 95%. Pairs are merged in the order of ascending d', so that similar classes share a pool; for
    machines on sets, in the order of the number of machines that separate two classes.
    """
    n, needed = len(model.classes.labels), math.ceil(1 / (1 - coverage) - 1 - 1e-9)
    counts = np.bincount(classes, minlength=n)
    pools, held_out = UnionFind(range(n)), dict(enumerate(counts.tolist()))
    for i, j in _nearest_first(model):
        a, b = pools[i], pools[j]
        if a != b and min(held_out[a], held_out[b]) < needed:
            pools.union(i, j)
            held_out[pools[i]] = held_out[a] + held_out[b]
    return [
        ClassPool(tuple(sorted(pool)), int(counts[list(pool)].sum()))
        for pool in sorted(pools.to_sets(), key=min)
    ]


def _nearest_first(model: FittedModel) -> list[tuple[int, int]]:
    """Pairs of classes, the most similar first."""
    if model.code is not None:
        matrix = model.code.matrix.astype(np.int64)
        pairs = np.argwhere(np.triu(np.ones((len(matrix),) * 2, bool), 1))
        apart = (matrix[pairs[:, 0]] != matrix[pairs[:, 1]]).sum(axis=1)
    else:
        machines = model.trained.machines
        pairs = model.edges
        apart = machines.dprime if hasattr(machines, "dprime") else np.array([one.dprime for one in machines])
    return [(int(i), int(j)) for i, j in pairs[np.argsort(apart, kind="stable")]]


class _Conformity(NamedTuple):
    """The scores of the true classes of held-out samples, and of all classes of new samples."""

    of_true: Callable[[HeldOutScores], NDArray[np.float64]]
    of_all: Callable[[NDArray[np.float64], int], NDArray[np.float64]]


def thresholds_of(
    model: FittedModel,
    scores: HeldOutScores,
    values: NDArray[np.float64],
    coverage: float,
    classes: NDArray[np.int64] | None = None,
    odds: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """(N,) for each class, the value that this share of new samples does not exceed, from the values of held-out
    samples.

    Parameters
    ----------
    model : FittedModel
    scores : HeldOutScores
        Of the held-out samples.
    values : (R,) array
        What they are ranked by.
    coverage : float
    classes : (R,) int array, optional
        The class that each of them counts for, if each class has its own threshold.
    odds : (N,) array, optional
        The factors of new priors, by which the samples of a class are weighted.
    """
    n = len(model.classes.labels)
    weight, extra = scores.weight, scores.weight_of_class(n)
    if odds is not None:
        weight, extra = weight * odds[scores.classes], extra * odds
    if classes is None:
        return weighted_quantiles(values, weight, coverage, extra)
    thresholds = np.empty(n)
    for pool in pool_classes(model, classes, coverage):
        members = np.array(pool.classes)
        chosen = np.isin(classes, members)
        thresholds[members] = weighted_quantiles(values[chosen], weight[chosen], coverage, extra[members])
    return thresholds


def _conformity(score: SetScore, scores: HeldOutScores, coverage: float, seed: int | None) -> _Conformity:
    """The scores of a kind; with a seed they are continuous: the share of the class itself that counts is drawn."""
    if score == "lac":
        return _Conformity(lambda held_out: 1 - held_out.p, lambda p, first: 1 - p)
    free = 0.0
    if score == "raps":
        ranks = scores.rank.astype(np.float64)
        free = float(weighted_quantiles(ranks, scores.weight, coverage, np.zeros(1))[0])

    def adaptive(above: Any, p: Any, rank: Any, drawn: Any) -> NDArray[np.float64]:
        penalty = _PENALTY * np.maximum(0, rank - free) if score == "raps" else 0.0
        return np.asarray(above + drawn * p + penalty)

    def of_true(held_out: HeldOutScores) -> NDArray[np.float64]:
        drawn = 1.0 if seed is None else np.random.default_rng([seed, 3]).random(len(held_out.p))
        return adaptive(held_out.above, held_out.p, held_out.rank, drawn)

    def of_all(p: NDArray[np.float64], first: int) -> NDArray[np.float64]:
        order = np.argsort(-p, axis=1, kind="stable")
        sorted_p = np.take_along_axis(p, order, axis=1)
        above = np.cumsum(sorted_p, axis=1) - sorted_p
        drawn = 1.0 if seed is None else np.random.default_rng([seed, 4, first]).random((len(p), 1))
        rank = np.arange(1, p.shape[1] + 1)
        scores = np.empty_like(p)
        np.put_along_axis(scores, order, adaptive(above, sorted_p, rank, drawn), axis=1)
        return scores

    return _Conformity(of_true, of_all)


def sets_of_probabilities(
    model: FittedModel,
    scores: HeldOutScores,
    probabilities: Callable[[slice], NDArray[np.floating]],
    n_samples: int,
    coverage: float,
    *,
    score: SetScore = "lac",
    by: SetBy = "all",
    randomised: bool = True,
    priors: Any = None,
    owner: str = "predict_set",
) -> sparse.csr_array:
    """(R, N) whether each class is in the set of each sample.

    Parameters
    ----------
    model : FittedModel
    scores : HeldOutScores
        Of the model: see `held_out_of`.
    probabilities : callable
        ``probabilities(rows)`` are the probabilities of a slice of the samples, with the class shares of the fit.
    n_samples : int
    coverage : float
    score, by, randomised, priors, owner
        See `PairwiseSVC.predict_set`. Priors weight the held-out samples; the probabilities stay those of the fit.
    """
    coverage = check_coverage(coverage, owner)
    for name, value, known in (("score", score, get_args(SetScore)), ("by", by, get_args(SetBy))):
        if value not in known:
            raise ValueError(f"{owner}: {name} must be one of {', '.join(map(repr, known))}, got {value!r}.")
    how = _conformity(score, scores, coverage, model.settings.seed if randomised else None)
    of_class, odds = scores.classes if by == "class" else None, model.classes.odds(priors)
    limits = thresholds_of(model, scores, how.of_true(scores), coverage, of_class, odds)
    parts = [
        sparse.csr_array(how.of_all(probabilities(rows).astype(np.float64), rows.start) <= limits)
        for rows in pieces(n_samples, _BATCH)
    ]
    n = len(model.classes.labels)
    return sparse.vstack(parts, "csr") if parts else sparse.csr_array((0, n), dtype=bool)
