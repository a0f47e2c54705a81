"""Groups of classes: a coarser answer when the model is uncertain about the class.

Groups form levels, from the classes to coarser and coarser groups: a class belongs to one group of each level, and
classes that share a group share all coarser ones. The probability of a group is the sum of those of its classes.

`answers_at` returns the finest group whose probability reaches a threshold. The threshold is calibrated on the held-out
samples of the fit, as in conformal risk control [A]_: it is the lowest probability from which on answers are right as
often as requested, where one further sample with a wrong answer is counted. Only the likeliest classes of held-out
samples are known, so only these are used for new samples too.

If classes have other shares, or only some of them are possible, every class has a factor, which is zero for an
impossible class. The factors weight the held-out samples, as in `prediction_sets`, and multiply the probabilities of
held-out and new samples alike, so answers are still right as often as requested.

References
----------
.. [A] A. Angelopoulos, S. Bates, A. Fisch, L. Lei and T. Schuster (2024). "Conformal risk control". ICLR.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.graphs.text import listed, quoted
from pairloom.pipeline.calibration.held_out_scores import KEPT, HeldOutScores, likeliest
from pairloom.pipeline.coupling.model_coupling import normalised

__all__ = ["ClassGroups", "GroupAnswers", "answers_at", "class_groups", "least_probability"]

#: The group of all classes, the coarsest level.
EVERYTHING = "any"
#: Number of thresholds to try.
_THRESHOLDS = 512
#: Lower bound of sums of probabilities.
_SMALLEST = np.finfo(np.float64).tiny


class ClassGroups(NamedTuple):
    """Levels of groups, the classes themselves first and one group of all classes last.

    Attributes
    ----------
    names : list of arrays
        The names of the groups of each level.
    of_class : (levels, N) int64
        The group of each class at each level.
    """

    names: list[NDArray[Any]]
    of_class: NDArray[np.int64]

    def sums(self, p: NDArray[np.floating], level: int) -> NDArray[np.float64]:
        """(R, groups) the probabilities of the groups of a level, from those of the classes (R, N)."""
        membership = np.zeros((p.shape[1], len(self.names[level])))
        membership[np.arange(p.shape[1]), self.of_class[level]] = 1.0
        return np.asarray(p.astype(np.float64) @ membership)


class GroupAnswers(NamedTuple):
    """The finest group of each sample whose probability reaches the threshold.

    Attributes
    ----------
    name : (R,) array of objects
        Its name; the label of a class if the answer is a single class.
    level : (R,) int64
        0 for a class, 1 for a group of classes, and so on; the last level is the group of all classes, "any".
    p : (R,) float64
        Its probability.
    """

    name: NDArray[Any]
    level: NDArray[np.int64]
    p: NDArray[np.float64]


def class_groups(labels: NDArray[Any], groups: Any, owner: str) -> ClassGroups:
    """The checked levels of groups of classes. Raise if they miss a class or do not nest.

    Parameters
    ----------
    labels : (N,) array
        The classes.
    groups : mapping of class to group, or sequence of such mappings
        One per level, from the finest to the coarsest. A mapping may also go from the groups of the level before.
    owner : str
        The caller, for errors.
    """
    levels = [groups] if isinstance(groups, Mapping) else groups
    if not isinstance(levels, Sequence) or isinstance(levels, str) or not levels:
        raise TypeError(
            f"{owner}: groups must be a mapping from class to group, or a list of these, got {groups!r:.80}."
        )
    names: list[NDArray[Any]] = [_objects(labels.tolist())]
    of_class = [np.arange(len(labels))]
    for number, level in enumerate(levels, 1):
        parents = _parents(level, names[0], names[-1][of_class[-1]], number, owner)
        unique = list(dict.fromkeys(parents))
        place = {name: at for at, name in enumerate(unique)}
        names.append(_objects(unique))
        of_class.append(np.array([place[name] for name in parents]))
        _check_nested(names, of_class, owner)
    names.append(_objects([EVERYTHING]))
    of_class.append(np.zeros(len(labels), np.int64))
    return ClassGroups(names, np.array(of_class, np.int64))


def _objects(values: list[Any]) -> NDArray[Any]:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _parents(level: Any, labels: NDArray[Any], groups: NDArray[Any], number: int, owner: str) -> list[Any]:
    """The group of every class at a level, given the classes and their groups of the level before.

    Groups may have the same names as classes. A level maps from the classes if it names all of them.
    """
    if not isinstance(level, Mapping):
        raise TypeError(
            f"{owner}: groups must be mappings from class to group, got {level!r:.80} at level {number}."
        )
    keys = labels if all(label in level for label in labels) or number == 1 else groups
    for key in keys:
        if _is_missing(level.get(key)):
            before = " or every group of the level before" if number > 1 else ""
            raise ValueError(
                f"{owner}: groups must hold every class of the model{before}, got none of {quoted(key)} at level"
                f" {number}."
            )
        if not isinstance(level[key], Hashable):
            raise TypeError(
                f"{owner}: names of groups must be text, numbers or the like, got {level[key]!r:.80} for {quoted(key)}"
                f" at level {number}."
            )
    return [level[key] for key in keys]


def _is_missing(group: Any) -> bool:
    """Whether there is no group: a column of a data frame has NaN there."""
    return group is None or (isinstance(group, float) and math.isnan(group))


def _check_nested(names: list[NDArray[Any]], of_class: list[NDArray[np.int64]], owner: str) -> None:
    """Raise if classes that share a group do not share the coarser one."""
    finer, coarser = of_class[-2:]
    for group in range(len(names[-2])):
        above = np.unique(coarser[finer == group])
        if len(above) > 1:
            raise ValueError(
                f"{owner}: groups must nest, got {quoted(names[-2][group])} in several groups of the next level:"
                f" {listed(names[-1][above])}."
            )


def answers_at(
    groups: ClassGroups, p: NDArray[np.floating], least: float, odds: NDArray[np.float64] | None = None
) -> GroupAnswers:
    """The finest group of each sample whose probability is at least ``least``.

    Parameters
    ----------
    groups : ClassGroups
    p : (R, N) array
        The probabilities of the classes with the shares of the fit, all of them possible.
    least : float
        See `least_probability`.
    odds : (N,) array, optional
        The factors of the classes.
    """
    samples, last = np.arange(len(p)), len(groups.names) - 1
    order = likeliest(p, KEPT)
    kept = _of_listed(order, np.take_along_axis(p, order, axis=1), p.shape[1], odds)
    p = p if odds is None else normalised(p, odds)
    place, level, probability = np.zeros(len(p), np.int64), np.full(len(p), last), np.ones(len(p))
    for number in reversed(range(last)):
        best, sure = _best(groups, kept, number)
        answered = sure >= least
        place[answered], level[answered] = best[answered], number
        probability[answered] = groups.sums(p, number)[samples, best][answered]
    name = _objects([groups.names[number][at] for number, at in zip(level, place, strict=True)])
    return GroupAnswers(name, level, np.minimum(probability, 1.0))


def _best(
    groups: ClassGroups, p: NDArray[np.floating], level: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The likeliest group of a level, and its probability."""
    sums = groups.sums(p, level)
    best = sums.argmax(axis=1)
    return best, sums[np.arange(len(p)), best]


def _of_listed(
    listed: NDArray[np.int64],
    listed_p: NDArray[np.floating],
    n_classes: int,
    odds: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    """(R, N) the probabilities of the likeliest classes (R, k), and zero for the others. With ``odds`` they are
    multiplied by these and renormalised; the others keep their share in the sum.
    """
    p = np.zeros((len(listed), n_classes))
    np.put_along_axis(p, listed, listed_p, axis=1)
    if odds is None:
        return p
    others = np.maximum(0.0, 1 - p.sum(axis=1, keepdims=True))
    weighted = p * odds
    return np.asarray(weighted / np.maximum(weighted.sum(axis=1, keepdims=True) + others, _SMALLEST))


def least_probability(
    groups: ClassGroups, scores: HeldOutScores, coverage: float, odds: NDArray[np.float64] | None = None
) -> float:
    """The lowest probability from which on answers for held-out samples are right as often as requested. It is
    positive. With too few of these samples it is infinite, so that all answers are the group of all classes.
    """
    n = groups.of_class.shape[1]
    weight, extra = scores.weight, scores.weight_of_class(n)
    if odds is not None:
        # The weights are those of label shift. Samples of classes that are not possible weigh nothing.
        weight, extra = weight * odds[scores.classes], extra * odds
    p = _of_listed(scores.listed, scores.listed_p, n, odds)
    levels = [_best(groups, p, level) for level in range(len(groups.names) - 1)]
    sure = np.array([one for _, one in levels])
    right = np.array(
        [best == of[scores.classes] for (best, _), of in zip(levels, groups.of_class, strict=False)]
    )
    known = sure[:, weight > 0]
    known = known[known > 0]
    tried = np.unique(np.quantile(known, np.linspace(0, 1, _THRESHOLDS))) if len(known) else np.empty(0)
    one_more = max(weight.max(initial=0.0), extra.max())
    enough = np.inf
    for least in tried[::-1].tolist():
        if _error(sure, right, weight, one_more, least) > 1 - coverage:
            break
        enough = least
    return enough


def _error(
    sure: NDArray[np.float64],
    right: NDArray[np.bool_],
    weight: NDArray[np.float64],
    one_more: float,
    least: float,
) -> float:
    """The share of wrong answers, counting one further wrong answer. The group of all classes is never wrong."""
    deepest = (sure >= least).argmax(axis=0)
    answered = (sure >= least).any(axis=0)
    wrong = answered & ~right[deepest, np.arange(len(deepest))]
    return float((weight @ wrong + one_more) / (weight.sum() + one_more))
