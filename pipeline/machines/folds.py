"""Folds: the samples that a machine is fitted on, those that calibrate it, and those held out from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from pairloom.graphs.labels import quoted

__all__ = ["FIT_ON", "FitOn", "FoldScheme", "check_folds", "class_folds", "fold_scheme"]

FitOn = Literal["rest", "fold", "all"]
FIT_ON: tuple[str, ...] = get_args(FitOn)


def check_folds(
    folds: int, counts: NDArray[np.integer], labels: Sequence[object] | NDArray[Any], owner: str
) -> None:
    """Raise unless every class has a sample for every fold."""
    c = int(counts.argmin())
    if counts[c] < folds:
        raise ValueError(
            f"{owner} must be at least 2 and at most the size of the smallest class"
            f" (class {quoted(labels[c])} has {counts[c]} samples), got {folds}."
        )


def class_folds(n_samples: int, n_folds: int, seed: int, class_key: int) -> NDArray[np.int64]:
    """The fold of every sample of a class: sizes as even as possible, drawn from (seed, class) and nothing else.

    So a class has the same folds in every pair, on every worker, whatever the other classes are.
    """
    order = np.random.default_rng([seed, class_key]).permutation(n_samples)
    folds = np.empty(n_samples, dtype=np.int64)
    folds[order] = np.arange(n_samples) % n_folds
    return folds


@dataclass(frozen=True)
class FoldScheme:
    """The machines of one pair, as matrices over K folds and M machines.

    Attributes
    ----------
    fitted_on : (M, K) bool
        Machine m is fitted on the samples of these folds.
    calibrated_on : (M, K) bool
        Platt's parameters of machine m come from its decision values on these.
    pooled : bool
        One pair of parameters for all machines, from the union of their calibration samples.
    shares : (M,)
        The pair's logit is the mean of its machines' logits with these weights: a geometric mean of odds.
    out_of_fold : (K, M)
        The same for a training sample of fold k: only machines that were not fitted on it.
    """

    fitted_on: NDArray[np.bool_]
    calibrated_on: NDArray[np.bool_]
    pooled: bool
    shares: NDArray[np.float64]
    out_of_fold: NDArray[np.float64]

    @property
    def n_machines(self) -> int:
        """M, how many machines a pair has."""
        return len(self.shares)


def fold_scheme(n_folds: int, fit_on: FitOn = "rest") -> FoldScheme:
    """How K folds are used.

    Parameters
    ----------
    n_folds : int
    fit_on : {"rest", "fold", "all"}
        - "rest": machine k is fitted on all folds but k and calibrated on k;
        - "fold" [S 2.3]: machine k is fitted on fold k and calibrated on the others;
        - "all" [LW 8], LIBSVM's way: decision values by cross-validation, one pair of Platt parameters on their union,
          and one more machine on all samples, which alone is used for prediction.
    """
    own = np.eye(n_folds, dtype=bool)
    if fit_on == "all":
        everything = np.ones((1, n_folds), dtype=bool)
        return FoldScheme(
            fitted_on=np.vstack([~own, everything]),
            calibrated_on=np.vstack([own, ~everything]),
            pooled=True,
            shares=np.r_[np.zeros(n_folds), 1.0],
            out_of_fold=np.hstack([own, np.zeros((n_folds, 1))]).astype(float),
        )
    fitted_on = ~own if fit_on == "rest" else own
    unseen = ~fitted_on.T
    return FoldScheme(
        fitted_on=fitted_on,
        calibrated_on=~fitted_on,
        pooled=False,
        shares=np.full(n_folds, 1 / n_folds),
        out_of_fold=unseen / unseen.sum(axis=1, keepdims=True),
    )
