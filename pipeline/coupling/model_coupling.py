"""The parameter `coupling` of a model: the methods for machines on pairs and on sets of classes; and new priors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pairloom.graphs import ModelCode
from pairloom.graphs.text import did_you_mean, listed
from pairloom.pipeline.coupling.codes.couple_code import CODE_METHODS, is_one_vs_rest
from pairloom.pipeline.coupling.codes.couple_code import WEIGHTED as WEIGHTED_BY_CODE
from pairloom.pipeline.coupling.codes.gradient import CODE_GRADIENTS
from pairloom.pipeline.coupling.pairs.couple import METHODS, WEIGHTED
from pairloom.pipeline.coupling.pairs.gradient import GRADIENTS

__all__ = [
    "COUPLINGS",
    "ON_PAIRS",
    "ON_SETS",
    "SIGN_VOTE",
    "MachineWeight",
    "ModelCouplings",
    "check_code_suits",
    "check_priors",
    "couplings_of",
    "in_order",
    "normalised",
    "prior_odds",
]


#: The weights of machines in the coupling: equal, or the number of training samples of each.
MachineWeight = Literal["none", "counts"]
#: The vote by the signs of decision values, which calibration may change. For models on pairs only.
SIGN_VOTE = "sign_vote"
#: All values of the parameter. The graph decides which of them are allowed.
COUPLINGS = tuple(dict.fromkeys(("auto", *METHODS, SIGN_VOTE, *CODE_METHODS)))


@dataclass(frozen=True)
class ModelCouplings:
    """The couplings of one kind of machines.

    Attributes
    ----------
    machines : str
        The machines, for messages.
    methods, weighted, gradients : tuple of str
        All methods, the methods with weights of the machines, and the methods with a gradient.
    words : dict of str to str
        Values of the parameter that stand for a method: "auto" for the default method, and "sign_vote" for "vote",
        which replaces it where only calibrated logits are known.
    compared : tuple of str
        The methods among which "auto" chooses on held-out samples, the default first.
    """

    machines: str
    methods: tuple[str, ...]
    weighted: tuple[str, ...]
    gradients: tuple[str, ...]
    words: dict[str, str]
    compared: tuple[str, ...]

    def named(self, asked: str, owner: str) -> str:
        """The method that the parameter stands for. Raises if it does not suit the machines.

        Examples
        --------
        >>> ON_PAIRS.named("auto", "PairwiseSVC"), ON_SETS.named("auto", "PairwiseSVC")
        ('stratified', 'bradley_terry')
        """
        method = self.words.get(asked, asked)
        if method not in self.methods:
            raise ValueError(
                f"{owner} must be 'auto' or one of {listed(self.methods)} for {self.machines}, got {asked!r}."
            )
        return method

    def methods_for(self, asked: str, owner: str) -> tuple[str, ...]:
        """The methods to choose from: several for "auto", otherwise the given one.

        Examples
        --------
        >>> ON_PAIRS.methods_for("auto", "PairwiseSVC"), ON_PAIRS.methods_for("sign_vote", "PairwiseSVC")
        (('stratified', 'wlw2', 'bradley_terry'), ('vote',))
        """
        return self.compared if asked == "auto" else (self.named(asked, owner),)

    def check_weighted(self, method: str, weight: str, owner: str) -> None:
        """Raise if machine_weight is "counts" and the coupling has no weights."""
        if weight == "counts" and method not in self.weighted:
            raise ValueError(
                f"{owner} must be one of {listed(self.weighted)}, which weight the machines, with"
                f" machine_weight='counts', got {method!r}."
            )


ON_PAIRS = ModelCouplings(
    "machines on pairs of classes",
    tuple(METHODS),
    WEIGHTED,
    tuple(GRADIENTS),
    {"auto": "stratified", SIGN_VOTE: "vote"},
    ("stratified", "wlw2", "bradley_terry"),
)
ON_SETS = ModelCouplings(
    "machines on sets of classes",
    tuple(CODE_METHODS),
    WEIGHTED_BY_CODE,
    tuple(CODE_GRADIENTS),
    {"auto": "bradley_terry"},
    ("bradley_terry",),
)


def couplings_of(code: bool) -> ModelCouplings:
    """The couplings of machines on sets of classes, or on pairs."""
    return ON_SETS if code else ON_PAIRS


def check_code_suits(coupling: str, code: ModelCode, owner: str) -> None:
    """Raise if a coupling needs one class against the rest and the code is different."""
    if coupling == "closed_form" and not is_one_vs_rest(code.matrix):
        raise ValueError(
            f"{owner} must be another than 'closed_form' unless the code is one class against the rest, got it for a"
            f" code of {code.n_machines} machines on {code.n_classes} classes. Use 'bradley_terry'."
        )


_LEAST = np.finfo(np.float32).tiny


def in_order(priors: Any, labels: Sequence[Any], owner: str) -> Any:
    """Priors in the order of the classes. A mapping must have all classes; other priors are returned unchanged."""
    if not isinstance(priors, Mapping):
        return priors
    known = set(labels)
    if unknown := [label for label in priors if label not in known]:
        raise ValueError(
            f"{owner} must name the classes of the model, got {listed(unknown)}.{did_you_mean(unknown[0], labels)}"
        )
    if missing := [label for label in labels if label not in priors]:
        raise ValueError(f"{owner} must have a share for every class, got none for {listed(missing)}.")
    return [priors[label] for label in labels]


def check_priors(priors: Any, labels: Sequence[Any], owner: str) -> NDArray[np.float64]:
    """The prior of each class: the given non-negative numbers, divided by their sum."""
    n, ordered = len(labels), in_order(priors, labels, owner)
    try:
        given = np.asarray(ordered, np.float64)
    except (TypeError, ValueError):
        given = np.empty(0)  # not numbers
    if given.shape != (n,) or not (given >= 0).all() or not 0 < given.sum() < np.inf:
        raise ValueError(f"{owner} must be {n} non-negative numbers, one per class, got {priors!r}.")
    return np.asarray(given / given.sum())


def prior_odds(
    priors: Any, labels: Sequence[Any], shares: NDArray[np.float64], owner: str = "PairwiseSVC: priors"
) -> NDArray[np.float64]:
    """The factors by which new priors change the odds: the prior of each class over its share in training."""
    return np.asarray(check_priors(priors, labels, owner) / shares)


def normalised(p: NDArray[np.float32], odds: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Probabilities (R, N) times the odds of new priors, if any; rows sum to one."""
    weighted = p.astype(np.float64)
    if odds is not None:
        # The prior of the only class with a positive probability may be zero: the others must not all be zero.
        weighted = np.maximum(weighted, _LEAST) * odds
    return np.asarray(weighted / weighted.sum(axis=1, keepdims=True))
