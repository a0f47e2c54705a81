"""The rules for the parameters of a model: the values of each, and what must hold between them.

Each rule is stated once. Its message uses the notation of the door through which the parameters came: `PairwiseSVC`, or
a configuration.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import numpy as np

from pairloom.graphs.text import did_you_mean, listed
from pairloom.pipeline.coupling.model_coupling import couplings_of
from pairloom.pipeline.machines.folds import ALONE
from pairloom.pipeline.machines.kinds import candidate_Cs
from pairloom.pipeline.model.settings import is_finite

__all__ = [
    "CONFIGURATION",
    "ESTIMATOR",
    "MEASURED",
    "Door",
    "allows",
    "check_coupling",
    "check_distances",
    "check_edges_calibrated",
    "check_fold_alone",
    "check_learnable",
    "check_no_shortlist",
    "check_value",
    "requirement",
    "words_among",
]


@dataclass(frozen=True)
class Door:
    """How messages name a parameter and its value: `coupling` of PairwiseSVC is `model.coupling` of a configuration.

    Attributes
    ----------
    owner, end : str
        Beginning and end of messages.
    prefix : str
        Prefix of every parameter.
    equals, quote : str
        Text between a parameter and its value, and around a word.
    true, false : str
        How these are written.
    """

    owner: str
    end: str
    prefix: str
    equals: str
    quote: str
    true: str
    false: str

    def value(self, parameter: str, value: Any) -> str:
        """A parameter with the value that was given."""
        return f"{self.prefix}{parameter}{self.equals}{value!r}"

    def word(self, parameter: str, *words: str) -> str:
        """A parameter with one or several words as its value, as a user writes them."""
        return f"{self.prefix}{parameter}{self.equals}{self.words(*words)}"

    def words(self, *words: str) -> str:
        """Words as a user writes them."""
        return " or ".join(f"{self.quote}{word}{self.quote}" for word in words)

    def error(self, message: str) -> ValueError:
        """The error with this message."""
        return ValueError(f"{self.owner}{message}{self.end}")


ESTIMATOR = Door("PairwiseSVC: ", ".", "", "=", "'", "True", "False")
CONFIGURATION = Door("", "", "model.", " = ", '"', "true", "false")


def check_value(name: str, value: Any, values: Any, door: Door) -> None:
    """Raise unless a type allows the value of a parameter, see `allows`."""
    if not allows(values, value):
        message = (
            f"{door.owner}{door.prefix}{name} must be {requirement(values, door)}, got {value!r}{door.end}"
        )
        raise ValueError(
            f"{message}{did_you_mean(value, words_among(values)) if isinstance(value, str) else ''}"
        )


_BOUNDS = {"Gt": operator.gt, "Ge": operator.ge, "Lt": operator.lt, "Le": operator.le}


def allows(values: Any, value: Any) -> bool:
    """Whether a type allows a value. Numbers are finite, and may be numpy's.

    A tuple of words stands for these.

    Examples
    --------
    >>> from annotated_types import Ge
    >>> values = Annotated[int, Ge(2)] | Literal["auto"]
    >>> [allows(values, value) for value in (2, 1, True, "auto", "four", None)]
    [True, False, False, True, False, False]
    """
    kind, inner = get_origin(values), get_args(values)
    if isinstance(values, tuple) or kind is Literal:
        return isinstance(value, str) and value in words_among(values)
    if kind in (Union, UnionType):
        return any(allows(one, value) for one in inner)
    if kind is list:
        several = candidate_Cs(value)
        return len(several) > 0 and all(allows(inner[0], one) for one in several)
    if kind is Annotated:
        return allows(inner[0], value) and all(
            _BOUNDS[bound](value, limit) for bound, limit in _bounds(values)
        )
    if values is bool:
        return isinstance(value, (bool, np.bool_))
    if values is int:
        return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return is_finite(value) if values is float else value is None


def _bounds(values: Any) -> list[tuple[str, float]]:
    """The bounds of an annotated number, by the names of their classes."""
    names = [(bound, type(bound).__name__) for bound in values.__metadata__]
    return [(name, getattr(bound, name.lower())) for bound, name in names if name in _BOUNDS]


def words_among(values: Any) -> tuple[str, ...]:
    """The words that a type allows."""
    if isinstance(values, tuple):
        return values
    if get_origin(values) is Literal:
        return get_args(values)
    several = get_args(values) if get_origin(values) in (Union, UnionType) else ()
    return tuple(word for one in several for word in words_among(one))


def requirement(values: Any, door: Door) -> str:
    """What a parameter must be: a phrase that follows "must be".

    Examples
    --------
    >>> from annotated_types import Ge
    >>> requirement(Annotated[int, Ge(2)] | Literal["auto"], ESTIMATOR)
    "an integer of at least 2 or 'auto'"
    """
    words = [f"{door.quote}{word}{door.quote}" for word in words_among(values)]
    numbers = list(_numbers(values, door))
    if not numbers:
        return f"one of {', '.join(words)}"
    lists = [one for one in numbers if one.startswith("a list")]
    *others, last = [*(one for one in numbers if one not in lists), *words, *lists]
    return f"{', '.join(others)} or {last}" if others else last


def _numbers(values: Any, door: Door) -> Iterator[str]:
    """The allowed values that are not words, as phrases."""
    kind, inner = get_origin(values), get_args(values)
    if kind in (Union, UnionType):
        for one in inner:
            yield from _numbers(one, door)
    elif kind is Annotated and get_origin(inner[0]) is list:
        yield from _numbers(inner[0], door)
    elif kind is Annotated:
        yield _bounded("an integer" if inner[0] is int else "a number", dict(_bounds(values)))
    elif kind is list:
        yield "a list of these"
    elif values is bool:
        yield from (door.true, door.false)
    elif values in (int, float):
        yield "an integer" if values is int else "a finite number"


def _bounded(number: str, bounds: dict[str, float]) -> str:
    if bounds == {"Gt": 0}:
        return number.replace("a ", "a positive ", 1)
    if bounds.keys() == {"Ge", "Le"}:
        return f"{number} from {bounds['Ge']} to {bounds['Le']}"
    words = {"Gt": "above", "Ge": "of at least", "Lt": "below", "Le": "of at most"}
    return " ".join([number, " and ".join(f"{words[bound]} {limit}" for bound, limit in bounds.items())])


def check_coupling(asked: str, machine_weight: str, code: bool, door: Door, key: str = "coupling") -> str:
    """The method for a coupling. Raise unless it suits the machines; ``code`` says whether these are on sets of
    classes. ``key`` is the parameter with the coupling.
    """
    owner, couplings = f"{door.owner}{key}", couplings_of(code)
    try:
        method = couplings.named(asked, owner)
        couplings.check_weighted(method, machine_weight, owner)
    except ValueError as error:
        raise ValueError(str(error).removesuffix(".") + door.end) from error
    return method


def check_edges_calibrated(method: str, given: str, machine_weight: str, code: bool, door: Door) -> None:
    """Raise if slopes and shifts of edges cannot be learned through a coupling; ``given`` is the user's value of it."""
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
    """Raise if a shortlist is requested for machines on sets of classes."""
    if shortlist is not None and not isinstance(shortlist, str):
        raise door.error(
            f"{door.prefix}shortlist must be {door.words('auto', 'none')} for machines on sets of classes, which are"
            f" coupled with all of them, got {shortlist!r}"
        )


def check_learnable(
    method: str, machine_weight: str, *, graph: str, code: bool, machines: str, door: Door
) -> None:
    """Raise if weights cannot be learned through the coupling, because it or the machines have no gradient.

    ``graph`` is the parameter of the graph with its value; ``machines`` are the parameters that make machines
    nonlinear, with their values, or empty.
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
    """Raise if distances are requested as logits but have no slope, or cannot be measured.

    ``parameters`` have ``calibration``, ``coupled_calibration`` and ``thresholds``; ``measured`` says whether machines
    know their distance to a sample; ``machines`` are the parameters that decide this, with their values.
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


#: Parameters that machines need if each standardises and calibrates itself on the fold that it is trained on.
_OF_ONE_FOLD = {
    "kernel": "linear",
    "calibration": "platt",
    "thresholds": False,
    "standardise": False,
    "whiten": "none",
}


def check_fold_alone(parameters: Any, door: Door) -> None:
    """Raise unless machines of a single fold are linear SVMs with a sigmoid of that fold.

    ``parameters`` have the names in `_OF_ONE_FOLD`, and ``fit_on``.
    """
    if parameters.fit_on != ALONE:
        return
    for name, value in _OF_ONE_FOLD.items():
        if (given := getattr(parameters, name)) != value:
            raise door.error(
                f"{door.word('fit_on', ALONE)} needs {door.value(name, value)}, since its machines standardise and"
                f" calibrate themselves, each by its own fold, got {door.value(name, given)}"
            )
