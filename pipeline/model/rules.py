"""Rules between the parameters of a model, stated once for both doors: PairwiseSVC, and the configuration of a run.

Values of single parameters are checked by the doors themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pairloom.graphs.text import listed
from pairloom.pipeline.coupling.model_coupling import couplings_of
from pairloom.pipeline.machines.folds import ALONE

__all__ = [
    "CONFIGURATION",
    "ESTIMATOR",
    "MEASURED",
    "Door",
    "check_coupling",
    "check_distances",
    "check_edges_calibrated",
    "check_fold_alone",
    "check_learnable",
    "check_no_shortlist",
]


@dataclass(frozen=True)
class Door:
    """How messages name a parameter and its value: `coupling` of PairwiseSVC is `model.coupling` of a configuration.

    Attributes
    ----------
    owner, end : str
        What messages begin and end with.
    prefix : str
        Of every parameter.
    equals, quote : str
        Between a parameter and its value, and around a word.
    """

    owner: str
    end: str
    prefix: str
    equals: str
    quote: str

    def value(self, parameter: str, value: Any) -> str:
        """A parameter with the value that was given."""
        return f"{self.prefix}{parameter}{self.equals}{value!r}"

    def word(self, parameter: str, *words: str) -> str:
        """A parameter with a word, or with one of several, as a user writes them."""
        return f"{self.prefix}{parameter}{self.equals}{self.words(*words)}"

    def words(self, *words: str) -> str:
        """Words as a user writes them."""
        return " or ".join(f"{self.quote}{word}{self.quote}" for word in words)

    def error(self, message: str) -> ValueError:
        """The error with this message."""
        return ValueError(f"{self.owner}{message}{self.end}")


ESTIMATOR = Door("PairwiseSVC: ", ".", "", "=", "'")
CONFIGURATION = Door("", "", "model.", " = ", '"')


def check_coupling(asked: str, machine_weight: str, code: bool, door: Door, key: str = "coupling") -> str:
    """The method that a coupling stands for; raise unless it suits the machines, which may be on sets of classes.

    ``key`` is the parameter that names the coupling.
    """
    owner, couplings = f"{door.owner}{key}", couplings_of(code)
    try:
        method = couplings.named(asked, owner)
        couplings.check_weighted(method, machine_weight, owner)
    except ValueError as error:
        raise ValueError(str(error).removesuffix(".") + door.end) from error
    return method


def check_edges_calibrated(method: str, given: str, machine_weight: str, code: bool, door: Door) -> None:
    """Raise if slopes and shifts of edges cannot be learned through a coupling; ``given`` is how it was asked for."""
    edges, gradients = door.word("coupled_calibration", "edges"), couplings_of(code).gradients
    if method not in gradients:
        raise door.error(f"{edges} needs a coupling with a gradient, one of {listed(gradients)}, got {given}")
    if machine_weight == "counts" and not code:
        raise door.error(
            f"{edges} with {door.word('machine_weight', 'counts')} is for machines on sets of classes only. Use"
            f" {door.word('coupled_calibration', 'scale')}, or the graph {door.words('one_vs_one')}, the code of all"
            " pairs"
        )


def check_no_shortlist(shortlist: Any, door: Door) -> None:
    """Raise if a shortlist is asked of machines on sets of classes."""
    if shortlist is not None and not isinstance(shortlist, str):
        raise door.error(
            f"{door.prefix}shortlist must be {door.words('auto', 'none')} for machines on sets of classes, which are"
            f" coupled with all of them, got {shortlist!r}"
        )


def check_learnable(
    method: str, machine_weight: str, *, graph: str, code: bool, machines: str, door: Door
) -> None:
    """Raise if weights cannot be learned through the coupling, since it or the machines have no gradient.

    ``graph`` is the parameter that names the graph, with its value; ``machines`` those of machines that are not linear,
    or empty.
    """
    learned = door.word("learn", "coupled")
    if code or machine_weight != "none":
        raise door.error(
            f"{learned} needs machines on pairs of classes, all with the same weight, got {graph},"
            f" {door.value('machine_weight', machine_weight)}"
        )
    gradients = couplings_of(code).gradients
    if method not in gradients:
        raise door.error(
            f"{learned} needs a coupling with a gradient, one of {listed(gradients)}, got {method!r}"
        )
    if machines:
        raise door.error(f"{learned} needs linear machines, since their weights are learned, got {machines}")


#: Calibrations that need the distance of a machine to a sample.
MEASURED = ("distance", "slopes")


def check_distances(parameters: Any, measured: bool, machines: str, door: Door) -> None:
    """Raise if distances for logits have no slope, or cannot be measured.

    ``parameters`` have ``calibration``, ``coupled_calibration`` and ``thresholds``; ``measured`` says whether
    ``machines``, the parameters that say what they are, know their distance to a sample.
    """
    distance, level = door.word("calibration", parameters.calibration), parameters.coupled_calibration
    if level == "none" and parameters.calibration == "distance":
        raise door.error(
            f"{distance} needs {door.word('coupled_calibration', 'scale', 'edges')}, since its slope is the scale of"
            f" the coupled model, got {door.words('none')}"
        )
    if parameters.calibration == "slopes" and (level != "scale" or parameters.thresholds):
        raise door.error(
            f"{distance} needs {door.word('coupled_calibration', 'scale')} and no thresholds, since every pair has its"
            f" slope already, got {door.value('coupled_calibration', level)},"
            f" {door.value('thresholds', parameters.thresholds)}"
        )
    if not measured:
        raise door.error(
            f"{distance} needs machines whose norm in feature space is known (linear ones, or a kernel that is an inner"
            f" product, which neither the sigmoid nor a polynomial with coef0 < 0 is), got {machines}"
        )


#: What machines must be that are standardised and calibrated by the fold that they are fitted on.
_OF_ONE_FOLD = {
    "kernel": "linear",
    "calibration": "platt",
    "thresholds": False,
    "standardise": False,
    "whiten": "none",
}


def check_fold_alone(parameters: Any, door: Door) -> None:
    """Raise if machines of one fold are to be anything but linear SVMs with a sigmoid of that fold.

    ``parameters`` have those of `_OF_ONE_FOLD`, and ``fit_on``.
    """
    if parameters.fit_on != ALONE:
        return
    for name, value in _OF_ONE_FOLD.items():
        if (given := getattr(parameters, name)) != value:
            raise door.error(
                f"{door.word('fit_on', ALONE)} needs {door.value(name, value)}, since its machines standardise and"
                f" calibrate themselves, each by its own fold, got {door.value(name, given)}"
            )
