"""Parts of the coupling kernels: an exponential that vectorises, row products over padded matrices, a stopping rule."""

import numpy as np

from pairloom.pipeline.accelerate import inline_kernel, simd_kernel

_LOG2_E = np.float32(1.44269504)
# ln 2 in two parts, the first exact in few bits: k * _LN2_HIGH is then exact (Cody and Waite).
_LN2_HIGH = np.float32(0.693359375)
_LN2_LOW = np.float32(-2.12194440e-4)
_ONE, _HALF = np.float32(1.0), np.float32(0.5)
_LOWEST, _HIGHEST = np.float32(-87.0), np.float32(88.0)


@inline_kernel()
def exp32_within(x):
    """exp(x) for a float32 in [-87, 88], with a relative error within 1e-7.

    x = k ln 2 + f with |f| <= ln 2 / 2; exp(f) by the minimax polynomial of the Cephes library's expf, 2^k by writing
    the exponent's bits. LLVM does not vectorise a call of the C library's expf (2.9 ns per element); it does vectorise
    this (0.5 ns per element).
    """
    k = np.floor(x * _LOG2_E + _HALF)
    f = x - k * _LN2_HIGH - k * _LN2_LOW
    p = np.float32(1.9875691500e-4)
    p = p * f + np.float32(1.3981999507e-3)
    p = p * f + np.float32(8.3334519073e-3)
    p = p * f + np.float32(4.1665795894e-2)
    p = p * f + np.float32(1.6666665459e-1)
    p = p * f + np.float32(5.0000001201e-1)
    p = p * f * f + f + _ONE
    power_of_two = np.int32((np.int32(k) + np.int32(127)) << np.int32(23)).view(np.float32)
    return p * power_of_two


@inline_kernel()
def exp32(x):
    """exp(x) for any float32, with x clipped to [-87, 88], so that the result is neither zero nor infinite."""
    return exp32_within(min(max(x, _LOWEST), _HIGHEST))


#: Rows are padded with zeros to a multiple of this, so that sums have no scalar remainder (N = 50: 3 times faster).
PADDING = 32
#: Rows whose products are formed before the first of them is updated. Plain Gauss-Seidel reads each new value at once,
#: as part of a vector, just after it was written as a scalar, which stalls the pipeline. The few updates missed inside
#: a group are added afterwards, so the iterates are the same.
GROUP = 4
#: A change of p below this may be rounding of float32 sums, and is not used to estimate the rate.
FLOOR = np.float32(5e-7)


def padded(n: int) -> int:
    """Width of a padded row of n entries."""
    return -(-n // PADDING) * PADDING


@simd_kernel()
def row_product(matrix, i, x):
    """sum_j matrix[i, j] x_j."""
    row = matrix[i]
    product = np.float32(0)
    for j in range(x.shape[0]):
        product += row[j] * x[j]
    return product


@inline_kernel()
def error_left(change, rate):
    """Estimated distance to the limit of a sequence whose last step was `change` and whose steps shrink by `rate`.

    The remaining steps are a geometric series, whose sum is change * rate / (1 - rate). Stopping on the change alone
    would stop a slow sequence far from its limit.
    """
    return change * max(rate / (1 - rate), 0.1)


@inline_kernel()
def rate_of(change, previous, rate):
    """Ratio of the last two steps; the last known rate where the change is below rounding."""
    return min(change / previous, 0.999) if change > FLOOR else rate
