"""The settings of a model, the rules between them, the candidates for C and whitening, and the calibrations.

They represent the parameters of a PairwiseSVC or the section [model] of a configuration. `ModelSettings.of_parameters`
reads them from either by the names of its fields.
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


#: Relative duality gap of the machines of a trial. Losses differ from those at 0.001 by less than one percent.
TRIAL_TOL = 0.01


class Candidate(NamedTuple):
    """Settings that may be chosen: C on normalised features, and the whitening.

    ``calibration`` is the calibration with which candidates are compared.
    """

    C: float
    whiten: Shrinkage
    calibration: Calibration


def couplings_to_compare(parameters: Any, code: bool, owner: str, growing: bool = False) -> tuple[str, ...]:
    """The couplings to choose from, the usual one first.

    There is no choice if nothing is calibrated on held-out samples. Learning weights and growing need a coupling before
    there is a model to choose one with, so they use the usual one.
    """
    methods = couplings_of(code).methods_for(parameters.coupling, owner)
    fixed = growing or parameters.learn == "coupled" or parameters.coupled_calibration == "none"
    return methods[:1] if fixed else methods


def calibrations_of(parameters: Any, measurable: bool, growing: bool = False) -> tuple[Calibration, ...]:
    """The calibrations that the parameters leave open, the usual one first.

    ``measurable`` says whether machines know their distance to a sample. A run whose graph is ``growing`` has no
    choice, because its waves are scored before all machines exist.
    """
    asked, level = parameters.calibration, parameters.coupled_calibration
    if asked != "auto":
        return (asked,)
    # Distances are logits only up to a slope: without a coupled calibration only Platt's sigmoid has one. A threshold
    # belongs to one calibration, so machines with thresholds cannot serve several.
    if not measurable or level == "none" or parameters.thresholds:
        return ("platt",)
    # Slopes that are learned later, per edge or with the weights, start from a common slope.
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
    """The candidates that the parameters ask for; ``moments`` are those of the normalised rows, if known.

    They are compared with the calibration "slopes" if it is open, because its losses lie between those of the others.
    """
    how: Calibration = "slopes" if "slopes" in calibrations else calibrations[0]
    return tuple(Candidate(c, t, how) for c in kind.Cs(C, moments) for t in kind.shrinkages(whiten, moments))


@dataclass(frozen=True)
class ModelSettings:
    """The settings with which a model is fitted, given its samples and its graph.

    Attributes
    ----------
    candidates : tuple of Candidate
        The values of C and whitening to choose from; one, if there is nothing to choose.
    calibrations : tuple of Calibration
        The calibrations to choose from, by the machines of the whole model.
    coupling : str
        The coupling with which candidates are compared, before the coupling of the model is chosen.
    couplings : tuple of str
        The couplings to choose from, starting with ``coupling``.
    folds, fit_on, thresholds, tol, seed
        See `machines.settings.MachineSettings`.
    coupled_calibration : {"scale", "edges", "none"}
        The parameters that are calibrated through the coupling.
    calibration_samples : int
        Maximum number of training samples for this calibration.
    shortlist : int, "auto" or "none"
        Number of classes that are coupled per sample; "none" couples all.
    machine_weight : {"none", "counts"}
        Whether all machines have the same weight in the coupling, or each the number of its training samples.
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
        """The settings from parameters of the same names, and ``others`` that depend on more than one parameter.

        ``parameters`` is anything that has them as attributes: a PairwiseSVC, or the section [model] of a run.
        """
        given = {name: getattr(parameters, name) for name in _names(cls) - others.keys()}
        return cls(**{name: _plain(value) for name, value in given.items()}, **others)

    def machines(self, C: float = 1.0, calibration: Calibration = "platt") -> MachineSettings:
        """The settings of the machines at one C."""
        shared = {name: getattr(self, name) for name in _names(ModelSettings) & _names(MachineSettings)}
        # Machines that give log odds themselves need no held-out samples, unless a shift or a scale is learned.
        holds_out = calibration != "none" or self.thresholds or self.coupled_calibration != "none"
        profiled = calibration == "slopes"
        return MachineSettings(C=C, calibration=calibration, holds_out=holds_out, profiled=profiled, **shared)

    def machines_for_calibrations(self, C: float) -> MachineSettings:
        """The settings of machines that serve all calibrations: Platt's can become any other, but not vice versa."""
        calibration = "platt" if "platt" in self.calibrations else self.calibrations[0]
        return replace(self.machines(C, calibration), profiled="slopes" in self.calibrations)

    def machines_as_chosen(self, C: float, calibration: Calibration) -> MachineSettings:
        """The settings of machines that served all calibrations and then took one of them."""
        return replace(self.machines(C, calibration), turned=self.turns_into_distances(calibration))

    def turns_into_distances(self, calibration: Calibration) -> bool:
        """Whether machines that serve all calibrations must take distances as logits for this calibration."""
        return "platt" in self.calibrations and calibration in ("distance", "slopes")

    def for_trials(self) -> ModelSettings:
        """The same settings with a rough tolerance, which is enough to compare candidates."""
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
        """Number of samples per class if machines are weighted by them, else None."""
        return totals if self.machine_weight == "counts" else None

    def shortlist_of(self, n_classes: int) -> int | None:
        """Number of classes that are coupled per sample, out of ``n_classes``; None means all."""
        return shortlist_size(self.shortlist, n_classes)


def _names(settings: Any) -> set[str]:
    return {one.name for one in fields(settings)}


def _plain(value: Any) -> Any:
    """A value with numbers of numpy turned into Python's, since settings may be written as JSON."""
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
        The parameter, and the source of the labels, for messages.
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
    """Put ``must``, which says which parameter must be what, before the message of an error inside the block."""
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
        Beginning and end of messages.
    prefix : str
        Prefix of every parameter.
    equals, quote : str
        Text between a parameter and its value, and around a word.
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
    """The method for a coupling; raise unless it suits the machines, which ``code`` says are on sets of classes.

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
    """Raise if distances are to be logits but have no slope, or cannot be measured.

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
