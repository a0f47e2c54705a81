"""The kinds of machines: linear SVMs, SVMs with another kernel, and classifiers of scikit-learn.

A kind knows what its machines need (how features are normalised, which C and whitening may be tried, whether distances
are known) and trains them. The trained machines of all kinds have the same methods: `LinearModel`, `KernelModel` and
`EstimatorModel`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from pairloom.graphs import Decomposition
from pairloom.pipeline.features.moments import Moments
from pairloom.pipeline.machines.contributions import Evidence
from pairloom.pipeline.machines.estimator_machines import (
    EstimatorModel,
    has_feature_norm,
    train_estimator_model,
)
from pairloom.pipeline.machines.folds import ALONE, FitOn, FoldScheme
from pairloom.pipeline.machines.kernel_function import Gamma, KernelFunction, gamma_of
from pairloom.pipeline.machines.kernel_machines import KernelModel, train_kernel_model
from pairloom.pipeline.machines.linear_machines import Advance, LinearModel, train_linear_model
from pairloom.pipeline.machines.normalisation import (
    Normalisation,
    NormalisedMoments,
    Shrinkage,
    Whitening,
    is_worth_a_trial,
)
from pairloom.pipeline.machines.settings import MachineSettings, scaled_C

__all__ = [
    "EstimatorKind",
    "KernelKind",
    "LinearKind",
    "Logits",
    "MachineKind",
    "TrainedMachines",
    "TrainingRows",
    "candidate_Cs",
    "svm_kind",
    "svm_kind_of",
]

#: The candidates of `whiten="auto"`: on three sets of embeddings the test loss has a flat minimum about 0.8.
SHRINKAGES: tuple[Shrinkage, ...] = ("none", 0.8)
#: The candidates of `C="auto"`, in multiples of C = "scale". Each of the three is the best for some of fourteen sets.
MULTIPLES_OF_SCALE = (0.1, 1.0, 10.0)
#: The same for sparse rows, in half steps. The loss of text is steep below its best C and flat above: a tenth of
#: "scale" may be far too little and "scale" too much, where a third of it is best.
MULTIPLES_OF_SPARSE_SCALE = (0.1, 10**-0.5, 1.0, 10**0.5, 10.0)
#: C = "scale" of machines with a kernel, and the candidates of C = "auto".
KERNEL_C, KERNEL_CS = 10.0, (1.0, 10.0, 100.0)


class Logits(Protocol):
    """The logits of all edges as one map of samples from `TrainedMachines.prepared`."""

    def __call__(self, X: Any, /) -> NDArray[np.float32]:
        """(E, R) float32 logits."""

    def calibrated(self, slope: NDArray[np.float64], shift: NDArray[np.float64]) -> Self:
        """The map with logits ``slope[e] * l + shift[e]``, where l are the logits of this one."""

    def ranking(self, potentials: Callable[[NDArray[np.float32]], NDArray[np.float32]]) -> Any:
        """The ranking of the classes as an affine map, if it can do without the logits of all edges; else None."""

    def evidence(self, X: Any, normalisation: Normalisation, names: NDArray[np.object_]) -> Evidence:
        """The contributions to the logits of one raw sample X (1, D)."""


class TrainedMachines(Protocol):
    """The trained machines of all edges."""

    @property
    def machines(self) -> Any:
        """The machines themselves: arrays, or a list of classifiers by edge."""

    @property
    def kernel(self) -> KernelFunction | None:
        """The kernel; None if the machines are linear, or classifiers with kernels of their own."""

    @property
    def n_edges(self) -> int:
        """E, the number of trained pairs, or pairs of sets."""

    def by_distance(self, scheme: FoldScheme) -> Self:
        """The same machines with distances as logits; ``scheme`` is the fold scheme they were trained with."""

    def by_decision_value(self) -> Self:
        """The same machines with decision values as logits."""

    @property
    def profile(self) -> NDArray[np.float32]:
        """(E, PARTS, PROFILE_SIZE) the profiles of the pairs, kept from training until slopes are fitted."""

    def unprofiled(self) -> Self:
        """The same machines without their profiles."""

    def prepared(self, X: Any, normalisation: Normalisation) -> Any:
        """Samples in the form that the machines take."""

    def collapsed(self, shares: NDArray[np.float64]) -> Logits:
        """The mean of each edge's machines, weighted by `shares` (M,), as one map."""

    def held_out_logits(
        self, shares: NDArray[np.float64], X: Any, parts: NDArray[np.integer], /
    ) -> NDArray[np.float32]:
        """(E, R) logits of prepared training samples with these shares, each with the parameters of its part."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of a saved model by name, or an error if the machines cannot be saved."""

    def described(self, C: float) -> tuple[str, str]:
        """The kernel and C, for a summary."""

    def names_of_inputs(
        self, names: Any, edges: NDArray[np.int64] | None, labels: NDArray[Any], ids: Sequence[Any] = ()
    ) -> NDArray[np.object_]:
        """The names of the terms of the logits: features, from ``names``, or support vectors, from ``ids``."""


class TrainingRows(Protocol):
    """Training samples, the rows of each class, and their weights: `model.training_set.TrainingSet`."""

    @property
    def X(self) -> Any:
        """All samples."""

    @property
    def members(self) -> Sequence[NDArray[np.int64]]:
        """The rows of each class."""

    @property
    def weight(self) -> NDArray[np.float64] | None:
        """(n,) weights; None if all are equal."""


class MachineKind(Protocol):
    """How machines are trained, before there are any."""

    @property
    def kernel(self) -> KernelFunction | None:
        """The kernel; None if the machines are linear, or classifiers with kernels of their own."""

    @property
    def measures_distances(self) -> bool:
        """Whether the distance of a sample to the hyperplane is known."""

    @property
    def retrains_pairs(self) -> bool:
        """Whether pairs of a fitted model can be retrained, and pairs added; training them is quick."""

    def normalisation(self, full: Normalisation) -> Normalisation:
        """The part of centring, standardising and scaling that the machines need."""

    def shrinkages(
        self, whiten: Shrinkage | Literal["auto"], moments: NormalisedMoments | None
    ) -> tuple[Shrinkage, ...]:
        """The whitenings to try."""

    def Cs(self, C: Any, moments: NormalisedMoments | None) -> list[float]:
        """The values of C to try, for normalised features."""

    def train(
        self,
        rows: TrainingRows,
        sides: Decomposition,
        settings: MachineSettings,
        whitening: Callable[[], Whitening],
        n_threads: int = 1,
        advance: Advance | None = None,
    ) -> TrainedMachines:
        """Train all pairs, or the columns of a code. ``whitening()`` computes the whitening, if the kind uses one."""

    def from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> TrainedMachines:
        """The machines of a saved model."""


@dataclass(frozen=True)
class LinearKind:
    """Linear SVMs; ``alone`` if each standardises its own samples, so that C refers to standardised features."""

    kernel: None = None
    alone: bool = False
    measures_distances = True
    retrains_pairs = True

    def normalisation(self, full: Normalisation) -> Normalisation:
        """All of it; without the exponent if machines standardise, since their C does not depend on any scale."""
        return full._replace(exponent=0) if self.alone else full

    def shrinkages(
        self, whiten: Shrinkage | Literal["auto"], moments: NormalisedMoments | None
    ) -> tuple[Shrinkage, ...]:
        """The given one, or for "auto" `SHRINKAGES` if there are enough rows. Sparse rows are not whitened."""
        assert moments is not None
        if moments.is_sparse:
            return ("none",)
        if whiten == "auto":
            return SHRINKAGES if is_worth_a_trial(moments.n_rows, *moments.class_means.shape) else ("none",)
        return ("none" if whiten == "none" else float(whiten),)

    def Cs(self, C: Any, moments: NormalisedMoments | None) -> list[float]:
        """Numbers refer to raw features. Words are multiples of 10 / mean squared norm of the features."""
        assert moments is not None
        if self.alone and moments.is_sparse:
            raise ValueError(
                f"fit_on must be another than {ALONE!r} for sparse features, whose columns its machines would centre,"
                f" got {ALONE!r}: choose 'fold', or make the features dense."
            )
        by_scale = scaled_C(moments.class_means.shape[1] if self.alone else moments.total_variance)
        tried = MULTIPLES_OF_SPARSE_SCALE if moments.is_sparse else MULTIPLES_OF_SCALE
        multiples = {"auto": tried, "scale": (1.0,)}
        Cs: list[float] = []
        for c in candidate_Cs(C):
            if isinstance(c, str):
                Cs += [by_scale * multiple for multiple in multiples[c]]
            else:
                Cs.append(self.normalisation(moments.normalisation).inner_C(c))
        return Cs

    def train(
        self,
        rows: TrainingRows,
        sides: Decomposition,
        settings: MachineSettings,
        whitening: Callable[[], Whitening],
        n_threads: int = 1,
        advance: Advance | None = None,
    ) -> LinearModel:
        """Train on whitened rows."""
        weight, members = rows.weight, dict(enumerate(rows.members))
        return train_linear_model(
            {c: rows.X[of_class] for c, of_class in members.items()},
            sides,
            settings,
            whitening(),
            n_threads,
            advance,
            sample_weight=None
            if weight is None
            else {c: weight[of_class] for c, of_class in members.items()},
        )

    def from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> LinearModel:
        """The machines of a saved model."""
        return LinearModel.from_arrays(arrays)


class _WithoutWhitening:
    """Common to kernels and classifiers: features are not whitened, and pairs are trained once."""

    retrains_pairs = False

    def shrinkages(self, whiten: object, moments: object) -> tuple[Shrinkage, ...]:
        """None."""
        return ("none",)


@dataclass(frozen=True)
class KernelKind(_WithoutWhitening):
    """SVMs with a kernel that is not linear."""

    kernel: KernelFunction

    @property
    def measures_distances(self) -> bool:
        """True if the kernel is an inner product."""
        return self.kernel.is_inner_product

    def normalisation(self, full: Normalisation) -> Normalisation:
        """Only the part that does not change the values of the kernel, unless features are standardised."""
        return self.kernel.normalisation(full.centre, full.deviation)

    def Cs(self, C: Any, moments: object) -> list[float]:
        """Numbers are not changed; "scale" is 10, and "auto" tries 1, 10 and 100."""
        words = {"auto": KERNEL_CS, "scale": (KERNEL_C,)}
        return [value for c in candidate_Cs(C) for value in (words[c] if isinstance(c, str) else (float(c),))]

    def train(
        self,
        rows: TrainingRows,
        sides: Decomposition,
        settings: MachineSettings,
        whitening: object,
        n_threads: int = 1,
        advance: Advance | None = None,
    ) -> KernelModel:
        """Train on Gram matrices of the rows, or on blocks of X if it is a kernel matrix."""
        return train_kernel_model(
            self.kernel,
            rows.X,
            rows.members,
            sides,
            settings,
            weight=rows.weight,
            n_threads=n_threads,
            advance=advance,
        )

    def from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> KernelModel:
        """The machines of a saved model."""
        return KernelModel.from_arrays(self.kernel, arrays)


@dataclass(frozen=True)
class EstimatorKind(_WithoutWhitening):
    """Clones of a classifier of scikit-learn, which take raw features."""

    estimator: Any
    kernel: None = None

    @property
    def measures_distances(self) -> bool:
        """True if the norm of the fitted classifier is known."""
        return has_feature_norm(self.estimator)

    def normalisation(self, full: Normalisation) -> Normalisation:
        """The identity."""
        return Normalisation(np.zeros_like(full.centre), 0)

    def Cs(self, C: object, moments: object) -> list[float]:
        """One value, which is not used: C is the classifier's own parameter."""
        return [KERNEL_C]

    def train(
        self,
        rows: TrainingRows,
        sides: Decomposition,
        settings: MachineSettings,
        whitening: object,
        n_threads: int = 1,
        advance: Advance | None = None,
    ) -> EstimatorModel:
        """Train a clone for every machine."""
        return train_estimator_model(
            self.estimator, rows.X, rows.members, sides, settings, n_threads=n_threads, advance=advance
        )

    def from_arrays(self, arrays: object) -> EstimatorModel:
        """Raises: see `EstimatorModel.arrays`."""
        raise ValueError("classifiers of scikit-learn are not saved")


def candidate_Cs(C: Any) -> Sequence[Any]:
    """C as a list of values to try."""
    several = isinstance(C, (list, tuple)) or (isinstance(C, np.ndarray) and C.ndim > 0)
    return list(C) if several else [C]


def svm_kind(kernel: KernelFunction | None, fit_on: FitOn = "rest") -> LinearKind | KernelKind:
    """SVMs with this kernel, or linear SVMs for None, in this fold scheme."""
    return LinearKind(alone=fit_on == ALONE) if kernel is None else KernelKind(kernel)


class KernelParameters(Protocol):
    """The parameters of a kernel, by their names in the estimator and in configurations."""

    @property
    def kernel(self) -> Any:
        """Its name."""

    @property
    def gamma(self) -> Gamma:
        """A number, "scale" or "auto"."""

    @property
    def degree(self) -> int:
        """The degree of a polynomial."""

    @property
    def coef0(self) -> float:
        """The constant of a polynomial or sigmoid."""

    @property
    def standardise(self) -> Any:
        """Whether features are standardised; no longer "auto"."""

    @property
    def fit_on(self) -> FitOn:
        """The fold scheme."""


def svm_kind_of(parameters: KernelParameters, moments: Moments, owner: str) -> LinearKind | KernelKind:
    """The SVMs for these parameters, with ``gamma`` as a number; ``owner`` is the name of gamma, for an error."""
    if parameters.kernel == "linear":
        return svm_kind(None, parameters.fit_on)
    gamma = gamma_of(parameters.gamma, moments, owner, standardise=bool(parameters.standardise))
    return KernelKind(
        KernelFunction(parameters.kernel, gamma, int(parameters.degree), float(parameters.coef0))
    )
