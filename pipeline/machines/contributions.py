"""Contributions of the features, or of the support vectors, that sum to a logit of one sample.

The logit of a pair is the mean of its machines' logits -(A_m f_m(x) + B_m), minus a threshold, times a slope, plus a
shift. A logit is the argument of Platt's sigmoid, so it is affine in the decision value. If f_m is a sum over features,
or over support vectors, the mean over the machines is the same sum with averaged weights, without a remainder.
Whitening and normalisation are affine too. The logits of pairs that were not trained, and the coupled odds
(`model.odds_effects`), are linear combinations of logits, so the same holds for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pairloom.pipeline.machines.normalisation import Normalisation
from pairloom.pipeline.threads import pieces

__all__ = [
    "Contributions",
    "Evidence",
    "KernelEvidence",
    "LinearEvidence",
    "PlainEvidence",
    "feature_names",
]

#: Machines whose weights are converted to double precision at once.
_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Contributions:
    """Contributions that sum, with the intercept, to a logit.

    Attributes
    ----------
    kind : {"feature", "support vector"}
    names : (n,) object array
        Names of the features or support vectors.
    values : (n,) array
        The contributions: ``coefficients * (inputs - baseline)``.
    intercept : float
        For features, the logit of the mean training sample; for support vectors, the bias.
    coefficients : (n,) array
        The weights of the raw features, or of the support vectors.
    inputs : (n,) array
        The sample's raw features, or its kernel values with the support vectors.
    baseline : (n,) array
        The mean training sample; zeros for support vectors.
    """

    kind: Literal["feature", "support vector"]
    names: NDArray[np.object_]
    values: NDArray[np.float64]
    intercept: float
    coefficients: NDArray[np.float64]
    inputs: NDArray[np.float64]
    baseline: NDArray[np.float64]

    @property
    def total(self) -> float:
        """The logit: the sum of the contributions and the intercept."""
        return float(self.values.sum() + self.intercept)

    def largest(self, most: int) -> NDArray[np.intp]:
        """The indices of the contributions of largest absolute value, largest first; zeros are left out."""
        order = np.argsort(-np.abs(self.values), kind="stable")[:most]
        return np.asarray(order[self.values[order] != 0])


class Evidence(Protocol):
    """The logits of one sample, and the contributions to any linear combination of them."""

    @property
    def logits(self) -> NDArray[np.float64]:
        """(E,) logits of the machines."""

    def contributions(self, of_machines: NDArray[np.float64], constant: float = 0.0) -> Contributions | None:
        """The contributions to ``of_machines @ logits + constant``; None if they are not known."""


class WeightedSums(Protocol):
    """The logits of machines as sums: `linear_machines.AffineLogits` of features, `kernel_machines.KernelLogits`."""

    @property
    def weights(self) -> Any:
        """(E, n) weights of the features or support vectors."""

    @property
    def bias(self) -> NDArray[np.floating]:
        """(E,)"""


@dataclass(frozen=True, eq=False)
class LinearEvidence:
    """Linear machines: contributions of the features.

    Attributes
    ----------
    machines : WeightedSums
        Logits of normalised samples.
    sample : (D,) float array
        The raw sample.
    normalisation : Normalisation
    names : (D,) object array
        Names of the features.
    """

    machines: WeightedSums
    sample: NDArray[np.floating]
    normalisation: Normalisation
    names: NDArray[np.object_]

    @cached_property
    def logits(self) -> NDArray[np.float64]:
        """(E,) the logits that prediction computes in float32, here in double precision."""
        return np.asarray(_products(self.machines.weights, self._row) + self.machines.bias)

    def contributions(self, of_machines: NDArray[np.float64], constant: float = 0.0) -> Contributions:
        """The contribution of each feature's difference from the mean training sample."""
        used = np.flatnonzero(of_machines)
        weights = np.zeros(len(self.sample))
        for piece in pieces(len(used), _AT_ONCE):
            some = used[piece]
            weights += of_machines[some] @ self.machines.weights[some].astype(np.float64)
        return Contributions(
            "feature",
            self.names,
            values=weights * self._row,
            intercept=float(of_machines @ self.machines.bias) + constant,
            coefficients=self.normalisation.raw_weights(weights).astype(np.float64),
            inputs=self.sample.astype(np.float64),
            baseline=self.normalisation.centre,
        )

    @property
    def _row(self) -> NDArray[np.float64]:
        """The sample as the machines see it: normalised, in float32."""
        return np.asarray(self.normalisation(self.sample).astype(np.float32), np.float64)


def _products(weights: Any, row: NDArray[np.float64]) -> NDArray[np.float64]:
    """(E,) products of float32 weights (E, D), dense or sparse, with a row, in double precision."""
    if sparse.issparse(weights):
        return np.asarray(weights.astype(np.float64) @ row)
    return np.asarray(np.einsum("ed,d->e", weights, row))


@dataclass(frozen=True, eq=False)
class KernelEvidence:
    """Machines with a kernel: contributions of their support vectors.

    Attributes
    ----------
    machines : WeightedSums
    kernel_values : (S,) array
        Kernel values of the sample with the support vectors.
    names : (S,) object array
        Names of the support vectors.
    """

    machines: WeightedSums
    kernel_values: NDArray[np.float64]
    names: NDArray[np.object_]

    @cached_property
    def logits(self) -> NDArray[np.float64]:
        """(E,) logits of the machines."""
        return np.asarray(self.machines.weights @ self.kernel_values + self.machines.bias)

    def contributions(self, of_machines: NDArray[np.float64], constant: float = 0.0) -> Contributions:
        """The contribution of each support vector: its averaged dual coefficient times its kernel value."""
        weights = np.asarray(self.machines.weights.T @ of_machines)
        return Contributions(
            "support vector",
            self.names,
            values=weights * self.kernel_values,
            intercept=float(of_machines @ self.machines.bias) + constant,
            coefficients=weights,
            inputs=self.kernel_values,
            baseline=np.zeros(len(weights)),
        )


@dataclass(frozen=True, eq=False)
class PlainEvidence:
    """Machines that are classifiers of scikit-learn: only their logits are known."""

    logits: NDArray[np.float64]

    def contributions(self, of_machines: NDArray[np.float64], constant: float = 0.0) -> None:
        """None: contributions are not known."""


def feature_names(names: Any, n_features: int) -> NDArray[np.object_]:
    """(D,) the names of the columns, or x0, x1, ... if they have none.

    Examples
    --------
    >>> feature_names(None, 2)
    array(['x0', 'x1'], dtype=object)
    """
    given = [f"x{d}" for d in range(n_features)] if names is None else list(names)
    return np.array(given, dtype=object)
