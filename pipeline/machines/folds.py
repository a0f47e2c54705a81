"""Folds: the samples that a machine is fitted on, those that calibrate it, and those held out from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.user_warnings import warn_user

__all__ = [
    "ALONE",
    "FIT_ON",
    "INNER_FOLDS",
    "NEVER_HELD_OUT",
    "PARTS",
    "FitOn",
    "FoldScheme",
    "class_folds",
    "class_parts",
    "fold_scheme",
    "folds_of",
    "undivided",
    "usable_folds",
]

USUAL_FOLDS, MANY_FOLDS, FEW_SAMPLES = 4, 8, 16
#: Machines with a kernel have `MANY_FOLDS` for up to this many samples in all.
_FEW_OF_ALL = 8192
#: The fold of samples that every machine is fitted on.
NEVER_HELD_OUT = -1
#: Parts of a fold: a sample is scored with a calibration found without its part. With two parts, calibrations on half
#: of the samples are flatter than those on all, and the scale chosen with them is 1.4 times too large (clinc150: 4.49
#: where 3.11 is best on test samples; with four parts 3.92, with eight 3.74).
PARTS = 8

#: LIBSVM's number of folds for calibration, within the one fold that a machine sees: see `fold_alone`.
INNER_FOLDS = 5

FitOn = Literal["rest", "fold", "all", "fold_alone"]
FIT_ON: tuple[str, ...] = get_args(FitOn)
#: The scheme of [S]: machines that also standardise and calibrate by the fold that they are fitted on.
ALONE = "fold_alone"


def folds_of(
    folds: int | Literal["auto"],
    counts: NDArray[np.integer],
    *,
    kernel_on_pairs: bool = False,
    fit_on: FitOn = "rest",
) -> int:
    """The number of folds for the parameter ``folds``, given the number of samples of each class.

    "auto" is 4, or 8 if half of the classes have fewer than 16 samples: leaving out a quarter of so few costs too much
    (icd10cm, 14 samples per class: log loss 0.402 with 8 folds, 0.426 with 4). It is at most the size of the largest
    class.

    Machines with a kernel gain from every sample that they are fitted on, and are fitted on some thousands in seconds.
    So "auto" is 8 for them too, with "rest", up to 8192 samples and if every class has at least 16. With "all", more
    folds do not mean more samples, and are a little worse (satimage, C = 1: 1.012 of SVC's log loss instead of 1.006).
    Machines on sets of classes keep 4: their sigmoids would be fitted on folds with a handful of samples on one side,
    and on noise they looked better than guessing.
    """
    if folds != "auto":
        return int(folds)
    many = np.median(counts) < FEW_SAMPLES
    if kernel_on_pairs and fit_on == "rest":
        many = many or (counts.min() >= FEW_SAMPLES and counts.sum() <= _FEW_OF_ALL)
    return min(MANY_FOLDS if many else USUAL_FOLDS, int(counts.max()))


def usable_folds(folds: int | Literal["auto"], counts: NDArray[np.integer], owner: str) -> int:
    """As `folds_of`, with a warning about classes with a single sample, or fewer samples than the given folds.

    Raises if no class has as many samples as folds, since nothing could be held out.
    """
    usable, largest = folds_of(folds, counts), int(counts.max())
    if largest < 2:
        raise ValueError(
            f"{owner}: a class must have at least 2 samples, to hold one out, got one of each class. Labels that are"
            " all different are numbers to predict (use a regressor), or names of rows."
        )
    if usable > largest:
        raise ValueError(
            f"{owner}: folds must be at least 2 and at most the size of the largest class, {largest}, got {folds}."
        )
    if warning := _of_rare(counts, usable, "auto" if folds == "auto" else "given"):
        warn_user(f"{owner}: {warning}", UserWarning)
    return usable


def _of_rare(counts: NDArray[np.integer], usable: int, folds: Literal["auto", "given"]) -> str:
    """The warning about classes with too few samples; empty if there are none."""
    if folds == "given" and (rare := int((counts < usable).sum())):
        return (
            f"{rare} of {len(counts)} classes have fewer than {usable} samples, the least has {int(counts.min())}: all"
            " their samples train every machine, and none is held out for calibration. Lower folds to hold some out."
        )
    if single := int((counts == 1).sum()):
        return (
            f"{single} of {len(counts)} classes have a single sample, which trains every machine and cannot be held out"
            " for calibration: add samples of these classes, or leave them out."
        )
    return ""


def class_folds(n_samples: int, n_folds: int, seed: int, class_key: int) -> NDArray[np.int64]:
    """The fold of every sample of a class: sizes as even as possible, drawn from (seed, class) alone.

    So a class has the same folds in every pair and on every worker, whatever the other classes are. A class with fewer
    samples than folds is not split: all its samples are in the fold `NEVER_HELD_OUT`.
    """
    if n_samples < n_folds:
        return np.full(n_samples, NEVER_HELD_OUT, np.int64)
    return _shuffled(np.arange(n_samples) % n_folds, seed, class_key)


def class_parts(
    n_samples: int, n_folds: int, seed: int, class_key: int, parts: int = PARTS
) -> NDArray[np.int64]:
    """The part of every sample of a class: each fold is split evenly into this number of `parts`.

    A sample is scored with parameters that were found without its part. Classes with fewer samples than folds have no
    parts, as their samples are never scored.
    """
    if n_samples < n_folds:
        return np.full(n_samples, NEVER_HELD_OUT, np.int64)
    return _shuffled(np.arange(n_samples) // n_folds % parts, seed, class_key)


def _shuffled(values: NDArray[np.int64], seed: int, class_key: int) -> NDArray[np.int64]:
    order = np.random.default_rng([seed, class_key]).permutation(len(values))
    shuffled = np.empty_like(values)
    shuffled[order] = values
    return shuffled


@dataclass(frozen=True)
class FoldScheme:
    """How the M machines of a pair use its K folds.

    Attributes
    ----------
    fitted_on : (M, K) bool
        Machine m is fitted on the samples of these folds.
    calibrated_on : (M, K) bool
        Platt's parameters of machine m are fitted to its decision values on these folds.
    pooled : bool
        Whether all machines share one pair of parameters, fitted on the union of their calibration samples.
    shares : (M,)
        The pair's logit is the mean of its machines' logits with these weights: a geometric mean of odds.
    out_of_fold : (K, M)
        The weights for a training sample of fold k: only machines that were not fitted on it have any.
    """

    fitted_on: NDArray[np.bool_]
    calibrated_on: NDArray[np.bool_]
    pooled: bool
    shares: NDArray[np.float64]
    out_of_fold: NDArray[np.float64]

    @property
    def n_machines(self) -> int:
        """M, the number of machines per pair."""
        return len(self.shares)

    def distance_units(self, norms: NDArray[Any]) -> NDArray[Any]:
        """The units (..., M) by which decision values are divided to give distances: the norms of the machines.

        The machine of "all" that was fitted on all samples gets the mean norm of the others. Its own norm is larger,
        since it was fitted on more samples, some of them inside its margin. But its decision values are spread like
        those of the others, on which the scale of the distances is chosen.
        """
        held_out = self.out_of_fold.any(axis=0)
        if held_out.all() or not held_out.any():
            return norms
        return np.asarray(np.where(held_out, norms, norms[..., held_out].mean(axis=-1, keepdims=True)))

    def costs(self, folds: NDArray[np.int64], C: NDArray[np.float64]) -> NDArray[np.float64]:
        """The C (M, n) of samples in these folds for each machine; zero if it is not fitted on the sample."""
        return np.where(self.fitted_on[:, folds] | (folds == NEVER_HELD_OUT), C, 0.0)


def fold_scheme(n_folds: int, fit_on: FitOn = "rest") -> FoldScheme:
    """How K folds are used.

    Parameters
    ----------
    n_folds : int
    fit_on : {"rest", "fold", "all", "fold_alone"}
        - "rest": machine k is fitted on all folds but k and calibrated on k;
        - "fold": machine k is fitted on fold k and calibrated on the others;
        - "fold_alone" [S 2.3]: machine k is fitted on fold k, and standardised and calibrated by the same samples: see
          `fold_alone`, which does not read `calibrated_on`;
        - "all" [LW 8], LIBSVM's way: decision values by cross-validation, one pair of Platt parameters on their union,
          and one more machine on all samples, which alone is used for prediction.
    """
    one = np.eye(n_folds, dtype=bool)
    if fit_on == "all":
        everything = np.ones((1, n_folds), dtype=bool)
        return FoldScheme(
            fitted_on=np.vstack([~one, everything]),
            calibrated_on=np.vstack([one, ~everything]),
            pooled=True,
            shares=np.r_[np.zeros(n_folds), 1.0],
            out_of_fold=np.hstack([one, np.zeros((n_folds, 1))]).astype(float),
        )
    fitted_on = ~one if fit_on == "rest" else one
    unseen = np.ascontiguousarray(~fitted_on.T)
    return FoldScheme(
        fitted_on=fitted_on,
        calibrated_on=~fitted_on,
        pooled=False,
        shares=np.full(n_folds, 1 / n_folds),
        out_of_fold=unseen / unseen.sum(axis=1, keepdims=True),
    )


def undivided(n_folds: int) -> FoldScheme:
    """One machine per pair, fitted on the samples of all folds, without calibration: no sample is held out.

    Out-of-fold logits, which d' is computed from, are those of the machine that was fitted on the sample.
    """
    everything = np.ones((1, n_folds), dtype=bool)
    return FoldScheme(
        fitted_on=everything,
        calibrated_on=~everything,
        pooled=False,
        shares=np.ones(1),
        out_of_fold=np.ones((n_folds, 1)),
    )
