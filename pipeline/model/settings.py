"""The settings of a model, the rules between them, the candidates for C and whitening, and the calibrations.

They stand for the parameters of a PairwiseSVC, and for the section [model] of a configuration. `ModelSettings` takes
them from either by their names, so a new parameter needs a field here and no list of fields elsewhere.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight

from pairloom.graphs.text import did_you_mean, listed, quoted
from pairloom.pipeline.calibration.coupled_calibration import CoupledLevel
from pairloom.pipeline.calibration.held_out import CALIBRATION_SAMPLES
from pairloom.pipeline.completion.shortlist import shortlist_size
from pairloom.pipeline.coupling.model_coupling import MachineWeight, couplings_of
from pairloom.pipeline.machines.folds import ALONE, FitOn
from pairloom.pipeline.machines.kernel_function import KernelFunction
from pairloom.pipeline.machines.kinds import LinearKind, MachineKind
from pairloom.pipeline.machines.normalisation import NormalisedMoments, Shrinkage, is_whitened
from pairloom.pipeline.machines.settings import Calibration, MachineSettings

__all__ = [
    "CONFIGURATION",
    "ESTIMATOR",
    "LARGEST_COUNT",
    "MEASURED",
    "Candidate",
    "Door",
    "ModelSettings",
    "calibrations_of",
    "candidates_of",
    "check_coupling",
    "check_distances",
    "check_edges_calibrated",
    "check_fold_alone",
    "check_learnable",
    "check_no_shortlist",
    "class_weights",
    "couplings_to_compare",
    "error_prefix",
    "is_count",
    "is_finite",
    "is_positive",
    "is_share",
]


#: Relative duality gap of the machines of a trial. Their losses differ from those at 0.001 by less than one percent.
TRIAL_TOL = 0.01


class Candidate(NamedTuple):
    """Settings that may be chosen: the C of machines on normalised features and their whitening.

    ``calibration`` is the one that they are compared with.
    """

    C: float
    whiten: Shrinkage
    calibration: Calibration


def couplings_to_compare(parameters: Any, code: bool, owner: str, growing: bool = False) -> tuple[str, ...]:
    """The couplings to choose from, the usual one first.

    There is no choice where nothing is calibrated on held-out samples. Where weights are learned or pairs are added
    through the coupling, that is the usual one, before there is a model to choose another with.
    """
    methods = couplings_of(code).methods_for(parameters.coupling, owner)
    fixed = growing or parameters.learn == "coupled" or parameters.coupled_calibration == "none"
    return methods[:1] if fixed else methods


def calibrations_of(parameters: Any, measurable: bool, growing: bool = False) -> tuple[Calibration, ...]:
    """The calibrations that parameters leave to choose from, the usual one first.

    ``parameters`` have them as attributes; ``measurable`` says whether machines know their distance to a sample. A run
    whose graph is ``growing`` has no choice: its waves are judged before there are all of its machines.
    """
    asked, level = parameters.calibration, parameters.coupled_calibration
    if asked != "auto":
        return (asked,)
    # Distances have no slope of their own: without a coupled calibration only Platt's sigmoid is one. A threshold
    # belongs to one calibration, so machines with thresholds cannot serve several.
    if not measurable or level == "none" or parameters.thresholds:
        return ("platt",)
    # Slopes that are learned later, one by one or with the weights, start from one for all.
    if level == "edges" or parameters.learn == "coupled":
        return ("distance", "platt")
    return ("slopes",) if growing else ("distance", "slopes", "platt")


def candidates_of(
    kind: MachineKind,
    C: Any,
    whiten: Shrinkage | Literal["auto"],
    calibrations: Sequence[Calibration],
    moments: NormalisedMoments | None,
) -> tuple[Candidate, ...]:
    """The candidates that the parameters stand for; ``moments`` are those of the normalised rows, where known.

    They are compared with slopes of their own, if these are among the calibrations: between the others.
    """
    how: Calibration = "slopes" if "slopes" in calibrations else calibrations[0]
    return tuple(Candidate(c, t, how) for c in kind.Cs(C, moments) for t in kind.shrinkages(whiten, moments))


@dataclass(frozen=True)
class ModelSettings:
    """How a model is fitted, given its samples and its graph.

    Attributes
    ----------
    candidates : tuple of Candidate
        The values of C and whitening to choose from; one, if there is nothing to choose.
    calibrations : tuple of Calibration
        The calibrations to choose from, by the machines of the whole model.
    coupling : str
        The coupling by which candidates are compared, before one is chosen.
    couplings : tuple of str
        The couplings to choose from, that one first.
    folds, fit_on, thresholds, tol, seed
        See `machines.settings.MachineSettings`.
    coupled_calibration : {"scale", "edges", "none"}
        What is learned through the coupling.
    calibration_samples : int
        How many training samples, at most, it is learned from.
    shortlist : int, "auto" or "none"
        How many classes of a sample are coupled; "none" lists none and couples all.
    machine_weight : {"none", "counts"}
        Whether all machines weigh alike in the coupling, or each as many as it has training samples.
    kind : MachineKind
        Whether machines are linear, have another kernel, or are classifiers of scikit-learn.
    learn : {"machines", "coupled"}
        Whether the weights of the machines are then learned through the coupling.
    """

    candidates: tuple[Candidate, ...]
    calibrations: tuple[Calibration, ...]
    coupling: str = "stratified"
    couplings: tuple[str, ...] = ("stratified",)
    folds: int = 4
    fit_on: FitOn = "rest"
    coupled_calibration: CoupledLevel = "scale"
    calibration_samples: int = CALIBRATION_SAMPLES
    thresholds: bool = False
    tol: float = 1e-3
    seed: int = 0
    shortlist: int | Literal["auto", "none"] = "auto"
    machine_weight: MachineWeight = "none"
    kind: MachineKind = field(default_factory=LinearKind)
    learn: Literal["machines", "coupled"] = "machines"

    @classmethod
    def of_parameters(cls, parameters: Any, **others: Any) -> ModelSettings:
        """The settings that parameters of the same names ask for, with others that depend on more than these.

        ``parameters`` is anything that has them as attributes: a PairwiseSVC, or the section [model] of a run.
        """
        given = {name: getattr(parameters, name) for name in _names(cls) - others.keys()}
        return cls(**{name: _plain(value) for name, value in given.items()}, **others)

    def machines(self, C: float = 1.0, calibration: Calibration = "platt") -> MachineSettings:
        """The settings of the machines at one C."""
        shared = {name: getattr(self, name) for name in _names(ModelSettings) & _names(MachineSettings)}
        # Log odds of their own need no held-out samples, unless a shift or a scale is learned from these.
        holds_out = calibration != "none" or self.thresholds or self.coupled_calibration != "none"
        profiled = calibration == "slopes"
        return MachineSettings(C=C, calibration=calibration, holds_out=holds_out, profiled=profiled, **shared)

    def machines_for_calibrations(self, C: float) -> MachineSettings:
        """The settings of machines that serve all calibrations: Platt's becomes any other, not the other way round."""
        calibration = "platt" if "platt" in self.calibrations else self.calibrations[0]
        return replace(self.machines(C, calibration), profiled="slopes" in self.calibrations)

    def machines_as_chosen(self, C: float, calibration: Calibration) -> MachineSettings:
        """The settings of machines that serve all calibrations and have been given one of them."""
        return replace(self.machines(C, calibration), turned=self.turns_into_distances(calibration))

    def turns_into_distances(self, calibration: Calibration) -> bool:
        """Whether machines that serve all calibrations must be given their distances to have this one."""
        return "platt" in self.calibrations and calibration in ("distance", "slopes")

    def for_trials(self) -> ModelSettings:
        """The same with machines that are fitted roughly, which is enough to compare candidates."""
        return replace(self, tol=max(self.tol, TRIAL_TOL))

    @property
    def kernel(self) -> KernelFunction | None:
        """The kernel of the machines; None means that they are linear, or classifiers of scikit-learn."""
        return self.kind.kernel

    @property
    def may_whiten(self) -> bool:
        """Whether any candidate whitens."""
        return any(is_whitened(candidate.whiten) for candidate in self.candidates)

    def counts_of(self, totals: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """The samples of each class where machines are weighted by them, else None."""
        return totals if self.machine_weight == "counts" else None

    def shortlist_of(self, n_classes: int) -> int | None:
        """How many of so many classes are coupled; None means all."""
        return shortlist_size(self.shortlist, n_classes)


def _names(settings: Any) -> set[str]:
    return {one.name for one in fields(settings)}


def _plain(value: Any) -> Any:
    """A value with numpy's numbers as Python's: settings may be written as JSON."""
    return value.item() if isinstance(value, np.generic) else value


def class_weights(
    class_weight: Any, labels: Sequence[Any], classes: NDArray[np.integer], owner: str, source: str
) -> NDArray[np.float64]:
    """The weight of each class; one that is not named has weight 1.

    Parameters
    ----------
    class_weight : mapping of labels to positive numbers, or "balanced"
    labels : the labels of all classes
    classes : (n,) int array
        The class of every sample.
    owner, source : str
        The parameter, and where the labels are from, for the messages.
    """
    if isinstance(class_weight, str) and class_weight == "balanced":
        return np.asarray(compute_class_weight("balanced", classes=np.arange(len(labels)), y=classes))
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            f"{owner} must be a mapping of labels to weights, 'balanced' or None, got {class_weight!r}."
        )
    known = set(labels)
    if unknown := [label for label in class_weight if label not in known]:
        raise ValueError(
            f"{owner} must name classes of {source}, got {listed(unknown)}.{did_you_mean(unknown[0], labels)}"
        )
    for label, weight in class_weight.items():
        if not is_positive(weight):
            shown = f"{weight:g}" if isinstance(weight, float) else repr(weight)
            raise ValueError(f"{owner} must be positive, got {shown} for class {quoted(label)}.")
    return np.array([class_weight.get(label, 1.0) for label in labels], np.float64)


#: The largest number of samples, or seconds: numpy's integers hold it, and its products with numbers of classes.
LARGEST_COUNT = 2**31 - 1


def is_count(value: Any, least: int) -> bool:
    """Whether a value is an integer of at least `least`."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= least


def is_positive(value: Any) -> bool:
    """Whether a value is a number above zero that a float can hold."""
    try:
        return _is_number(value) and 0 < float(value) < np.inf
    except OverflowError:  # of an integer
        return False


def is_finite(value: Any) -> bool:
    """Whether a value is a number that a float can hold."""
    try:
        return _is_number(value) and bool(np.isfinite(float(value)))
    except OverflowError:  # of an integer
        return False


def is_share(value: Any) -> bool:
    """Whether a value is a number from 0 to 1."""
    return _is_number(value) and 0 <= value <= 1


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


@contextlib.contextmanager
def error_prefix(must: str) -> Iterator[None]:
    """Say which parameter must be what, before the message of an error that does not."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{must}: {error}") from error


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
