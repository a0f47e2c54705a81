"""The parameter `coupling` of a model: which methods suit machines on pairs and on sets of classes; and new priors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from pairloom.graphs import ModelCode
from pairloom.graphs.text import did_you_mean, listed
from pairloom.pipeline.coupling.codes.couple_code import CODE_METHODS
from pairloom.pipeline.coupling.codes.couple_code import WEIGHTED as WEIGHTED_BY_CODE
from pairloom.pipeline.coupling.codes.gradient import CODE_GRADIENTS
from pairloom.pipeline.coupling.codes.solvers import is_one_vs_rest
from pairloom.pipeline.coupling.pairs.couple import METHODS, WEIGHTED
from pairloom.pipeline.coupling.pairs.gradient import GRADIENTS

__all__ = [
    "COUPLINGS",
    "MACHINE_WEIGHTS",
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


#: Whether all machines weigh alike in the coupling, or each as many as it has training samples.
MachineWeight = Literal["none", "counts"]
MACHINE_WEIGHTS: tuple[str, ...] = get_args(MachineWeight)
#: The vote of the machines' own signs, which calibrated logits may not have. For models on pairs only.
SIGN_VOTE = "sign_vote"
#: Every value that the parameter may have. Which of them suit depends on the graph.
COUPLINGS = tuple(dict.fromkeys(("auto", *METHODS, SIGN_VOTE, *CODE_METHODS)))


@dataclass(frozen=True)
class ModelCouplings:
    """The couplings of one kind of machines.

    Attributes
    ----------
    machines : str
        The machines, for messages.
    methods, weighted, gradients : tuple of str
        All methods, those with weights of the machines, and those with a gradient.
    words : dict of str to str
        Values of the parameter that stand for a method: "auto" for the usual one, "sign_vote" for "vote", since what is
        learned from calibrated logits takes their vote for that of the machines' own signs.
    compared : tuple of str
        The methods that "auto" chooses from on held-out samples, the usual one first.
    """

    machines: str
    methods: tuple[str, ...]
    weighted: tuple[str, ...]
    gradients: tuple[str, ...]
    words: dict[str, str]
    compared: tuple[str, ...]

    def named(self, asked: str, owner: str) -> str:
        """The method that the parameter stands for, or an error if it does not suit the machines.

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
        """The methods to choose from: several for "auto", and otherwise the one that is asked for.

        Examples
        --------
        >>> ON_PAIRS.methods_for("auto", "PairwiseSVC"), ON_PAIRS.methods_for("sign_vote", "PairwiseSVC")
        (('stratified', 'wlw2', 'bradley_terry'), ('vote',))
        """
        return self.compared if asked == "auto" else (self.named(asked, owner),)

    def check_weighted(self, method: str, weight: str, owner: str) -> None:
        """Raise if machines are to be weighted in a coupling without weights."""
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
    """The couplings of machines on sets of classes, or on pairs, where no model has been made yet."""
    return ON_SETS if code else ON_PAIRS


def check_code_suits(coupling: str, code: ModelCode, owner: str) -> None:
    """Raise if a coupling needs one class against the rest and the code is another."""
    if coupling == "closed_form" and not is_one_vs_rest(code.matrix):
        raise ValueError(
            f"{owner} must be another than 'closed_form' unless the code is one class against the rest, got it for a"
            f" code of {code.n_machines} machines on {code.n_classes} classes. Use 'bradley_terry'."
        )


_LEAST = np.finfo(np.float32).tiny


def in_order(priors: Any, labels: Sequence[Any], owner: str) -> Any:
    """Priors in the order of the classes: those of a mapping, which must name each of them, or what was given."""
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
    """The shares of all classes, adding up to one, from any non-negative numbers in proportion to them."""
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
    """The factors by which priors change the odds: the new share of each class over its share in training."""
    return np.asarray(check_priors(priors, labels, owner) / shares)


def normalised(p: NDArray[np.float32], odds: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Probabilities (R, N) times the odds of new priors, if there are any, rows adding up to one."""
    weighted = p.astype(np.float64)
    if odds is not None:
        # A class with all the probability may have no share: the rest must not be all zeros.
        weighted = np.maximum(weighted, _LEAST) * odds
    return np.asarray(weighted / weighted.sum(axis=1, keepdims=True))
