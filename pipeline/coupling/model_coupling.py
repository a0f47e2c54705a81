"""The coupling of a model: which methods suit machines on pairs and on sets of classes, and what "auto" stands for."""

from __future__ import annotations

from typing import Literal, get_args

from pairloom.graphs import ModelCode
from pairloom.graphs.labels import listed
from pairloom.pipeline.coupling.code_closed_form import is_one_vs_rest
from pairloom.pipeline.coupling.couple import METHODS, WEIGHTED
from pairloom.pipeline.coupling.couple_code import CODE_METHODS
from pairloom.pipeline.coupling.couple_code import WEIGHTED as WEIGHTED_BY_CODE

__all__ = [
    "COUPLINGS",
    "MACHINE_WEIGHTS",
    "SIGN_VOTE",
    "MachineWeight",
    "check_code_suits",
    "check_weighted",
    "couplings_of",
    "model_coupling",
]

#: Whether all machines weigh alike in the coupling, or each as many as it has training samples.
MachineWeight = Literal["none", "counts"]
MACHINE_WEIGHTS: tuple[str, ...] = get_args(MachineWeight)
#: The vote of the machines' own signs. Calibrated logits do not tell them, so it is a coupling of models on pairs only.
SIGN_VOTE = "sign_vote"
#: Every value that the parameter may have. Which of them suit depends on the graph.
COUPLINGS = tuple(dict.fromkeys(("auto", *METHODS, SIGN_VOTE, *CODE_METHODS)))


def couplings_of(code: bool) -> tuple[str, ...]:
    """The methods for machines on sets of classes, or on pairs."""
    return tuple(CODE_METHODS if code else METHODS)


def model_coupling(asked: str, code: bool, owner: str) -> str:
    """The method that the parameter stands for, or an error if it does not suit the machines.

    "auto" is "stratified" for machines on pairs, and "bradley_terry" for machines on sets of classes. What is learned
    from calibrated logits takes their vote for that of the machines' own signs.

    Examples
    --------
    >>> model_coupling("auto", False, "PairwiseSVC"), model_coupling("auto", True, "PairwiseSVC")
    ('stratified', 'bradley_terry')
    """
    if asked == "auto":
        return "bradley_terry" if code else "stratified"
    if asked == SIGN_VOTE and not code:
        return "vote"
    if asked not in couplings_of(code):
        machines = "machines on sets of classes" if code else "machines on pairs of classes"
        raise ValueError(
            f"{owner} must be 'auto' or one of {listed(couplings_of(code))} for {machines}, got {asked!r}."
        )
    return asked


def check_code_suits(coupling: str, code: ModelCode, owner: str) -> None:
    """Raise if a coupling needs one class against the rest and the code is another."""
    if coupling == "closed_form" and not is_one_vs_rest(code.matrix):
        raise ValueError(
            f"{owner} must be another than 'closed_form' unless the code is one class against the rest, got it for a"
            f" code of {code.n_machines} machines on {code.n_classes} classes. Use 'bradley_terry'."
        )


def check_weighted(coupling: str, weight: str, code: bool, owner: str) -> None:
    """Raise if machines are to be weighted in a coupling without weights."""
    known = WEIGHTED_BY_CODE if code else WEIGHTED
    if weight == "counts" and coupling not in known:
        raise ValueError(
            f"{owner} must be one of {listed(known)}, which weight the machines, with machine_weight='counts', got"
            f" {coupling!r}."
        )
