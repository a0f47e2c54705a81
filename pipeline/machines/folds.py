"""Folds: which samples a machine is fitted on, which calibrate it, and which it has never seen."""

from dataclasses import dataclass

import numpy as np

FIT_ON = ("rest", "fold")
CALIBRATIONS = ("average", "crossval")


def class_folds(n_samples, n_folds, seed, class_index):
    """The fold of every sample of a class: as even as can be, drawn from (seed, class) and nothing else.

    So a class has the same folds in every pair, on every worker, whatever the other classes are.
    """
    order = np.random.default_rng([seed, class_index]).permutation(n_samples)
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
        The pair's logit is the mean of its machines' with these weights: a geometric mean of odds.
    out_of_fold : (K, M)
        The same for a training sample of fold k: only machines that did not see it.
    """

    fitted_on: np.ndarray
    calibrated_on: np.ndarray
    pooled: bool
    shares: np.ndarray
    out_of_fold: np.ndarray

    @property
    def n_machines(self):
        return len(self.shares)


def fold_scheme(n_folds, fit_on="rest", calibration="average"):
    """How K folds are used [S 2.3].

    `fit_on="fold"` (the paper): machine k is fitted on fold k and calibrated on the others. `"rest"`: the other way
    round. `calibration="crossval"` [LW 8]: decision values by cross-validation, one pair of Platt parameters on
    their union, and one more machine on all samples, which alone is used for prediction.
    """
    own = np.eye(n_folds, dtype=bool)
    if calibration == "crossval":
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
