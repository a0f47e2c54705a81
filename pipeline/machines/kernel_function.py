"""Kernels and Gram matrices: k(x, z) for all pairs of rows of two sets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Gt
from numpy.typing import NDArray

from pairloom.pipeline.features.moments import Moments
from pairloom.pipeline.machines.normalisation import Normalisation

__all__ = [
    "HIGHEST_DEGREE",
    "KEPT_BYTES",
    "MOST_ROWS",
    "Gamma",
    "GramBlocks",
    "KernelFunction",
    "KernelName",
    "check_gram_rows",
    "gamma_of",
    "gram_type",
    "is_inner_product",
]


KernelName = Literal["rbf", "poly", "sigmoid", "precomputed"]
#: Highest degree of a polynomial. Powers of numbers other than one soon leave the range of floats.
HIGHEST_DEGREE = 1000
Gamma = Annotated[float, Gt(0)] | Literal["scale", "auto"]


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

    name: KernelName
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0

    @property
    def precomputed(self) -> bool:
        """Whether rows are rows of a kernel matrix."""
        return self.name == "precomputed"

    def described(self) -> str:
        """The name and gamma, for a summary."""
        return self.name if self.precomputed else f"{self.name}, gamma {self.gamma:.4g}"

    @property
    def is_inner_product(self) -> bool:
        """Whether it is the inner product of some feature space, so that a machine has a norm there.

        The sigmoid is not, nor is a polynomial with a negative coef0. A kernel matrix is taken to be one.
        """
        return is_inner_product(self.name, self.coef0)

    def normalisation(
        self, centre: NDArray[np.float64], deviation: NDArray[np.float64] | None = None
    ) -> Normalisation:
        """The normalisation for this kernel of features with this mean, and with this standard deviation if given.

        The radial kernel depends on differences only. Rows are centred for it, so that few digits cancel:
        |x - z|^2 is computed as |x|^2 + |z|^2 - 2 x.z, with a product of BLAS. Other kernels take raw features, unless
        they are standardised.
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
        # Callers check for overflow.
        with np.errstate(over="ignore", invalid="ignore"):
            products = x @ z.T
            if self.name == "rbf":
                return _radial(products, x, z, self.gamma, dtype)
            products *= self.gamma
            products += self.coef0
            values = (
                np.tanh(products, out=products) if self.name == "sigmoid" else _power(products, self.degree)
            )
            return np.asarray(values.astype(dtype, copy=False))


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


def is_inner_product(kernel: str, coef0: float) -> bool:
    """Whether a kernel of this name, which may be "linear", is the inner product of some feature space."""
    return kernel != "sigmoid" and not (kernel == "poly" and coef0 < 0)


def gamma_of(gamma: Gamma, moments: Moments, owner: str, *, standardise: bool = False) -> float:
    """The value of gamma, as in scikit-learn; ``owner`` is the parameter, for an error.

    "scale" is 1 / (D * variance of all entries of the training rows, after standardisation if any), "auto" is 1 / D.
    """
    D = len(moments.lowest)
    if gamma == "auto":
        return 1.0 / D
    if gamma != "scale":
        return float(gamma)
    if standardise:  # the mean is zero, and every column that varies has variance 1
        return 1.0 / max(1, int(np.count_nonzero(moments.varied)))
    # D * variance is the total variance of the columns plus the scatter of their means about the mean of all entries.
    centre, exponent = moments.centre, moments.exponent
    between = np.ldexp(centre - centre.mean(), -exponent)
    spread = moments.total_variance(exponent) + float(between @ between)
    try:
        number = math.ldexp(1.0 / spread, -2 * exponent) if spread > 0 else 1.0
    except OverflowError:
        number = math.inf
    if not 0 < number < math.inf:
        raise ValueError(
            f"{owner}='scale' needs features whose variance a float can hold, got larger or smaller ones: scale the"
            " features."
        )
    return number


#: Most rows of one problem: their Gram matrix takes 2 GiB in float32.
MOST_ROWS = 23_170
#: Bytes of diagonal blocks (a class with itself) that are kept, since every edge of the class needs them; or, for
#: machines on more than two classes, of the matrix of all rows.
KEPT_BYTES = 256 * 2**20
#: For smaller duality gaps, rounding errors of float32 matter.
_FLOAT32_TOL = 1e-5


def gram_type(tol: float) -> Any:
    """The type of Gram matrices that machines with this tolerance are trained on."""
    return np.float32 if tol >= _FLOAT32_TOL else np.float64


def check_gram_rows(rows: int, owner: str) -> None:
    """Raise if a problem has more rows than its Gram matrix may have; ``owner`` is the parameter, for the error."""
    if rows > MOST_ROWS:
        raise ValueError(
            f"{owner}: the classes of one machine must have at most {MOST_ROWS:,} training rows together, whose kernel"
            f" matrix takes 2 GiB, got {rows:,}. Train on fewer rows, or use PairwiseSVC(estimator=SVC(...)), which"
            " holds no such matrix."
        )


class GramBlocks:
    """Blocks ``between(c, d)`` (n_c, n_d) of kernel values of the rows of two classes, computed when they are needed.

    A block depends on its two classes alone, to the bit. Threads may share an object: two may compute the same block,
    but they get the same values.
    """

    def __init__(
        self, between: Callable[[int, int], NDArray[Any]], sizes: Mapping[int, int], name: str, dtype: Any
    ) -> None:
        self._between, self._sizes, self._name, self._dtype = between, sizes, name, dtype
        self._kept: dict[int, NDArray[Any]] = {}
        self._room = KEPT_BYTES
        self._whole: NDArray[Any] | None = None

    @classmethod
    def of_rows(
        cls, kernel: KernelFunction, class_rows: Mapping[int, NDArray[np.floating]], tol: float
    ) -> GramBlocks:
        """Blocks of the kernel between rows (n_c, D) of classes."""
        dtype = gram_type(tol)
        sizes = {c: len(rows) for c, rows in class_rows.items()}
        return cls(lambda c, d: kernel(class_rows[c], class_rows[d], dtype), sizes, kernel.name, dtype)

    @classmethod
    def of_matrix(
        cls, matrix: NDArray[np.floating], members: Sequence[NDArray[np.int64]], tol: float
    ) -> GramBlocks:
        """Blocks of a kernel matrix (n, n) of all training samples; ``members[c]`` are the rows of class c."""
        dtype, sizes = gram_type(tol), {c: len(rows) for c, rows in enumerate(members)}
        return cls(
            lambda c, d: matrix[np.ix_(members[c], members[d])].astype(dtype), sizes, "precomputed", dtype
        )

    def of(self, classes: Sequence[int]) -> NDArray[Any]:
        """(n, n) Gram matrix of the stacked rows of some classes."""
        return (
            self._part_of_whole(classes) if len(classes) > 2 and self._keeps_whole else self._joined(classes)
        )

    @property
    def _keeps_whole(self) -> bool:
        """Whether the matrix of all rows is small enough to keep. Machines on many classes all need most of it."""
        n = sum(self._sizes.values())
        return bool(n * n * np.dtype(self._dtype).itemsize <= KEPT_BYTES)

    def _part_of_whole(self, classes: Sequence[int]) -> NDArray[Any]:
        if self._whole is None:
            self._whole = self._joined(list(self._sizes))
        starts = dict(zip(self._sizes, np.cumsum([0, *self._sizes.values()]).tolist(), strict=False))
        rows = np.concatenate([np.arange(starts[c], starts[c] + self._sizes[c]) for c in classes])
        return np.asarray(self._whole[np.ix_(rows, rows)])

    def _joined(self, classes: Sequence[int]) -> NDArray[Any]:
        ends = np.cumsum([self._sizes[c] for c in classes]).tolist()
        check_gram_rows(ends[-1], f"PairwiseSVC: kernel={self._name!r}")
        places = [slice(end - self._sizes[c], end) for c, end in zip(classes, ends, strict=True)]
        gram = np.empty((ends[-1], ends[-1]), self._dtype)
        for first, (c, rows) in enumerate(zip(classes, places, strict=True)):
            gram[rows, rows] = self._of_class(c)
            for d, columns in zip(classes[first + 1 :], places[first + 1 :], strict=True):
                block = self._checked(c, d)
                gram[rows, columns], gram[columns, rows] = block, block.T
        return gram

    def _of_class(self, c: int) -> NDArray[Any]:
        block = self._kept.get(c)
        if block is None:
            block = self._checked(c, c)
            if block.nbytes <= self._room:
                self._room -= block.nbytes
                self._kept[c] = block
        return block

    def _checked(self, c: int, d: int) -> NDArray[Any]:
        with np.errstate(over="ignore"):
            block = self._between(c, d)
        if not np.isfinite(block).all():
            raise ValueError(
                f"PairwiseSVC: kernel={self._name!r}: kernel values must be finite numbers that"
                f" {np.dtype(self._dtype)} can hold, got larger ones: scale the features, or choose a smaller gamma"
                " or degree."
            )
        return block
