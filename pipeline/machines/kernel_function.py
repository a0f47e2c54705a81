"""The kernels of machines that are not linear: k(x, z) of all pairs of two sets of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.features.moments import Moments
from pairloom.pipeline.machines.normalisation import Normalisation

__all__ = ["CURVED_KERNELS", "HIGHEST_DEGREE", "CurvedKernel", "Gamma", "KernelFunction", "gamma_of"]

CurvedKernel = Literal["rbf", "poly", "sigmoid", "precomputed"]
CURVED_KERNELS: tuple[str, ...] = get_args(CurvedKernel)
#: Of a polynomial. Powers of numbers other than one soon leave the range of floats.
HIGHEST_DEGREE = 1000
Gamma = float | Literal["scale", "auto"]


@dataclass(frozen=True)
class KernelFunction:
    """A kernel with all of its parameters, as scikit-learn's SVC defines them.

    =============  ==========================================================================
    rbf            exp(-gamma |x - z|^2)
    poly           (gamma x.z + coef0)^degree
    sigmoid        tanh(gamma x.z + coef0)
    precomputed    rows hold their kernel values with all training samples, in their order
    =============  ==========================================================================
    """

    name: CurvedKernel
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0

    @property
    def precomputed(self) -> bool:
        """Whether rows are rows of a kernel matrix."""
        return self.name == "precomputed"

    @property
    def is_inner_product(self) -> bool:
        """Whether it is the inner product of some feature space, so that a machine has a norm there.

        The sigmoid is not, nor is a polynomial with a negative coef0. Of a kernel matrix the user has to know.
        """
        return self.name != "sigmoid" and not (self.name == "poly" and self.coef0 < 0)

    def normalisation(
        self, centre: NDArray[np.float64], deviation: NDArray[np.float64] | None = None
    ) -> Normalisation:
        """How features with this mean, and with this standard deviation if one is given, are normalised for the kernel.

        The radial kernel sees differences only. Of centred rows they lose the fewest digits: |x - z|^2 is computed as
        |x|^2 + |z|^2 - 2 x.z, for which BLAS does the work. Others take features as they come, unless these are
        standardised.
        """
        if deviation is not None:
            return Normalisation(centre, 0, deviation)
        return Normalisation(centre if self.name == "rbf" else np.zeros_like(centre), 0)

    def __call__(
        self, X: NDArray[np.floating], Z: NDArray[np.floating], dtype: Any = np.float64
    ) -> NDArray[Any]:
        """(R, S) values of k between rows X (R, D) and Z (S, D).

        Products and sums of squares are computed in float64: they may cancel.
        """
        x = np.asarray(X, np.float64)
        z = x if Z is X else np.asarray(Z, np.float64)  # BLAS does half the work for x x'
        # What overflows is reported by whoever uses the values.
        with np.errstate(over="ignore", invalid="ignore"):
            products = x @ z.T
            if self.name == "rbf":
                return _radial(products, x, z, self.gamma, dtype)
            products *= self.gamma
            products += self.coef0
            curved = (
                np.tanh(products, out=products) if self.name == "sigmoid" else _power(products, self.degree)
            )
            return np.asarray(curved.astype(dtype, copy=False))


def _radial(
    products: NDArray[np.float64],
    x: NDArray[np.float64],
    z: NDArray[np.float64],
    gamma: float,
    dtype: Any,
) -> NDArray[Any]:
    """exp(-gamma |x - z|^2), given all x.z; `products` is overwritten."""
    products *= 2 * gamma
    # Both squares are added first, so that the value does not depend on which of the two rows comes first.
    products -= gamma * np.einsum("rd,rd->r", x, x)[:, None] + gamma * np.einsum("sd,sd->s", z, z)
    np.minimum(products, 0.0, out=products)
    exponents = products.astype(dtype, copy=False)
    return np.asarray(np.exp(exponents, out=exponents))


def _power(base: NDArray[np.float64], degree: int) -> NDArray[np.float64]:
    """base^degree by squaring: numpy's power calls the C library's pow, which takes ten times as long."""
    if degree == 1:
        return base
    half = _power(base * base, degree // 2)
    return half * base if degree % 2 else half


def gamma_of(gamma: Gamma, moments: Moments, owner: str, *, standardise: bool = False) -> float:
    """The number that gamma stands for, as in scikit-learn; ``owner`` is the parameter, for an error.

    "scale" is 1 / (D * variance of all entries of the training rows, standardised if they are), "auto" is 1 / D.
    """
    D = len(moments.lowest)
    if gamma == "auto":
        return 1.0 / D
    if gamma != "scale":
        return float(gamma)
    if standardise:  # the mean is zero, and every column that varies has variance 1
        return 1.0 / max(1, int(np.count_nonzero(moments.varied)))
    # D * variance is the total variance of the columns, and the scatter of their means about the mean of all.
    centre, exponent = moments.centre, moments.exponent
    between = np.ldexp(centre - centre.mean(), -exponent)
    spread = moments.total_variance(exponent) + float(between @ between)
    try:
        found = math.ldexp(1.0 / spread, -2 * exponent) if spread > 0 else 1.0
    except OverflowError:
        found = math.inf
    if not 0 < found < math.inf:
        raise ValueError(
            f"{owner}='scale' needs features whose variance a float can hold, got larger or smaller ones: scale the"
            " features."
        )
    return found
