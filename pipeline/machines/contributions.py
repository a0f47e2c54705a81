"""What a logit of one sample is made of: contributions of its features, or of support vectors, that sum to it.

The logit of a pair is the mean of its machines' logits -(A_m f_m(x) + B_m), minus a threshold, times a slope, plus a
shift. Platt's sigmoid is applied to none of them: a logit is its argument, and affine in the decision value. So where
f_m is a sum over features, or over support vectors, the mean over the machines is the same sum with averaged weights,
and nothing is left over. Whitening and normalisation are affine too. A pair that was not trained, and the coupled odds
(`model.odds_effects`), are linear combinations of logits: the same holds for them.
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
        Of the features or support vectors.
    values : (n,) array
        The contributions: ``coefficients * (inputs - baseline)``.
    intercept : float
        For features, the logit of the mean training sample; for support vectors, the bias.
    coefficients : (n,) array
        The weights of the features as they come, or of the support vectors.
    inputs : (n,) array
        The sample's features as they come, or its kernel values with the support vectors.
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
        """The places of the largest contributions of either sign, largest first; zeros are left out."""
        order = np.argsort(-np.abs(self.values), kind="stable")[:most]
        return np.asarray(order[self.values[order] != 0])


class Evidence(Protocol):
    """The logits of one sample, and what any linear combination of them is made of."""

    @property
    def logits(self) -> NDArray[np.float64]:
        """(E,) of the machines."""

    def contributions(self, of_machines: NDArray[np.float64], constant: float = 0.0) -> Contributions | None:
        """Of the number ``of_machines @ logits + constant``; None where they are not known."""


class WeightedSums(Protocol):
    """The logits of machines as sums: `linear_machines.AffineLogits` of features, `kernel_machines.KernelLogits`."""

    @property
    def weights(self) -> Any:
        """(E, n) of what the logits are sums over."""

    @property
    def bias(self) -> NDArray[np.floating]:
        """(E,)"""


@dataclass(frozen=True, eq=False)
class LinearEvidence:
    """Linear machines: contributions of the features.

    Attributes
    ----------
    machines : WeightedSums
        Of normalised samples.
    sample : (D,) float array
        As it came.
    normalisation : Normalisation
    names : (D,) object array
        Of the features.
    """

    machines: WeightedSums
    sample: NDArray[np.floating]
    normalisation: Normalisation
    names: NDArray[np.object_]

    @cached_property
    def logits(self) -> NDArray[np.float64]:
        """(E,) the sums of float32 products that prediction computes, in double precision."""
        return np.asarray(_products(self.machines.weights, self._row) + self.machines.bias)

    def contributions(self, of_machines: NDArray[np.float64], constant: float = 0.0) -> Contributions:
        """Each feature's, as its difference from the mean training sample: those of a mean sample are zero."""
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
        Of the sample with the support vectors.
    names : (S,) object array
        Of the support vectors.
    """

    machines: WeightedSums
    kernel_values: NDArray[np.float64]
    names: NDArray[np.object_]

    @cached_property
    def logits(self) -> NDArray[np.float64]:
        """(E,) of the machines."""
        return np.asarray(self.machines.weights @ self.kernel_values + self.machines.bias)

    def contributions(self, of_machines: NDArray[np.float64], constant: float = 0.0) -> Contributions:
        """Each support vector's: its dual coefficients, averaged over the machines, times its kernel value."""
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
    """Machines of another estimator, of which the logits are all that is known."""

    logits: NDArray[np.float64]

    def contributions(self, of_machines: NDArray[np.float64], constant: float = 0.0) -> None:
        """None are known."""


def feature_names(names: Any, n_features: int) -> NDArray[np.object_]:
    """(D,) the names of the columns, or x0, x1 and so on where they have none.

    Examples
    --------
    >>> feature_names(None, 2)
    array(['x0', 'x1'], dtype=object)
    """
    given = [f"x{d}" for d in range(n_features)] if names is None else list(names)
    return np.array(given, dtype=object)
