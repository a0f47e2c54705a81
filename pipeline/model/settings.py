"""The settings of a model, the candidates for C and whitening, and the calibrations to choose from.

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
from pairloom.pipeline.calibration.drawn_samples import CALIBRATION_SAMPLES
from pairloom.pipeline.completion.shortlist import shortlist_size
from pairloom.pipeline.coupling.model_coupling import MachineWeight, couplings_of
from pairloom.pipeline.machines.folds import FitOn
from pairloom.pipeline.machines.kernel_function import KernelFunction
from pairloom.pipeline.machines.kinds import LinearKind, MachineKind
from pairloom.pipeline.machines.normalisation import NormalisedMoments
from pairloom.pipeline.machines.settings import Calibration, MachineSettings
from pairloom.pipeline.machines.whitening import Shrinkage, is_whitened

__all__ = [
    "LARGEST_COUNT",
    "Candidate",
    "ModelSettings",
    "calibrations_of",
    "candidates_of",
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
