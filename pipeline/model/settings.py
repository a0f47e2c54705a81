"""The settings of a model, the values of its parameters, the candidates for C and whitening, and the calibrations.

They represent the parameters of a PairwiseSVC or the section [model] of a configuration. `ModelSettings.of_parameters`
reads them from either by the names of its fields. A new parameter needs its values and a field here,
a key in the section and an argument of the estimator: no other module lists them, see CONTRIBUTING.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from annotated_types import Ge, Gt, Le, Lt
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight

from pairloom.graphs.text import did_you_mean, listed, quoted
from pairloom.pipeline.calibration.coupled_calibration import CoupledLevel
from pairloom.pipeline.calibration.held_out import CALIBRATION_SAMPLES
from pairloom.pipeline.completion.shortlist import shortlist_size
from pairloom.pipeline.coupling.model_coupling import COUPLINGS, MachineWeight, couplings_of
from pairloom.pipeline.machines.folds import FitOn
from pairloom.pipeline.machines.kernel_function import HIGHEST_DEGREE, Gamma, KernelFunction
from pairloom.pipeline.machines.kinds import LinearKind, MachineKind
from pairloom.pipeline.machines.normalisation import NormalisedMoments, Shrinkage, is_whitened
from pairloom.pipeline.machines.settings import Calibration, MachineSettings

__all__ = [
    "LARGEST_COUNT",
    "VALUES",
    "CalibrationSamples",
    "Candidate",
    "Degree",
    "Folds",
    "Kernel",
    "Learn",
    "ModelSettings",
    "Penalty",
    "RunCalibration",
    "Shortlist",
    "Step",
    "Tolerance",
    "Whiten",
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

#: The largest number of samples, or seconds: numpy's integers hold it, and its products with numbers of classes.
LARGEST_COUNT = 2**31 - 1

# The values of parameters. The keys of the section [model] have these types, by which pydantic checks a configuration;
# `rules.check_value` checks the parameters of an estimator by them.
Kernel = Literal["auto", "linear", "rbf", "poly", "sigmoid"]
Degree = Annotated[int, Ge(1), Le(HIGHEST_DEGREE)]
Penalty = Annotated[float, Gt(0)] | Literal["scale", "auto"]
Folds = Annotated[int, Ge(2), Le(LARGEST_COUNT)] | Literal["auto"]
#: The machines of a run are SVMs, which have no probabilities of their own: "none" is not for them.
RunCalibration = Literal["auto", "distance", "slopes", "platt"]
CalibrationSamples = Annotated[int, Ge(1), Le(LARGEST_COUNT)]
#: Keep the weights of the trained machines, or learn all of them together through the coupling.
Learn = Literal["machines", "coupled"]
Whiten = Shrinkage | Literal["auto"]
Shortlist = Annotated[int, Ge(2)] | Literal["auto", "none"]
Tolerance = Annotated[float, Gt(0), Lt(1)]

#: The values of the parameters of PairwiseSVC, by name. It takes a few more than a configuration.
VALUES: Mapping[str, Any] = {
    "coupling": COUPLINGS,
    "kernel": Kernel | Literal["precomputed"],
    "gamma": Gamma,
    "degree": Degree,
    "coef0": float,
    "C": Penalty | list[Penalty],
    "folds": Folds,
    "fit_on": FitOn,
    "calibration": RunCalibration | Literal["none"],
    "coupled_calibration": CoupledLevel,
    "calibration_samples": CalibrationSamples,
    "learn": Learn,
    "standardise": bool | Literal["auto"],
    "whiten": Whiten,
    "shortlist": Shortlist | None,
    "machine_weight": MachineWeight,
    "thresholds": bool,
    "tol": Tolerance,
    "memory_limit": Annotated[float, Gt(0)],
    "verbose": bool | Annotated[int, Ge(0)],
}


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


#: The steps of a fit that read a setting. Of a run, the keys of its stages have the settings that their steps read.
Step = Literal["training", "drawing", "listing", "coupling", "calibrating", "learning"]


_TRAINING: tuple[Step, ...] = ("training",)


def _read_in(*steps: Step) -> dict[str, tuple[Step, ...]]:
    """The metadata of a field that these steps read; the steps after them read what these have made."""
    return {"steps": steps}


@dataclass(frozen=True)
class ModelSettings:
    """The settings with which a model is fitted, given its samples and its graph.

    A field that does not name the steps that read it counts as read by training, on which everything else depends.

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

    # The first four and the kind are in the keys of stages as the run has decided them.
    candidates: tuple[Candidate, ...] = field(metadata=_read_in())
    calibrations: tuple[Calibration, ...] = field(metadata=_read_in())
    coupling: str = field(default="stratified", metadata=_read_in())
    couplings: tuple[str, ...] = field(default=("stratified",), metadata=_read_in())
    folds: int = field(default=4, metadata=_read_in("training", "drawing"))
    fit_on: FitOn = "rest"
    coupled_calibration: CoupledLevel = field(default="scale", metadata=_read_in("calibrating"))
    calibration_samples: int = field(default=CALIBRATION_SAMPLES, metadata=_read_in("drawing"))
    thresholds: bool = False
    tol: float = 1e-3
    seed: int = field(default=0, metadata=_read_in("training", "drawing"))
    shortlist: int | Literal["auto", "none"] = field(default="auto", metadata=_read_in("listing"))
    machine_weight: MachineWeight = field(default="none", metadata=_read_in("coupling"))
    kind: MachineKind = field(default_factory=LinearKind, metadata=_read_in())
    learn: Learn = field(default="machines", metadata=_read_in("learning"))

    @classmethod
    def of_parameters(cls, parameters: Any, **others: Any) -> ModelSettings:
        """The settings from parameters of the same names, and ``others`` that depend on more than one parameter.

        ``parameters`` is anything that has them as attributes: a PairwiseSVC, or the section [model] of a run.
        """
        given = {name: getattr(parameters, name) for name in _names(cls) - others.keys()}
        return cls(**{name: _plain(value) for name, value in given.items()}, **others)

    def read_in(self, *steps: Step) -> dict[str, Any]:
        """The settings that some steps of a fit read, by name."""
        read = [
            one.name for one in fields(self) if not {*steps}.isdisjoint(one.metadata.get("steps", _TRAINING))
        ]
        return {name: getattr(self, name) for name in read}

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

    @property
    def may_lengthen(self) -> bool:
        """Whether held-out samples decide on the length of the shortlist."""
        judged = self.coupled_calibration != "none" and self.learn != "coupled"
        return judged and self.shortlist == "auto"

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
