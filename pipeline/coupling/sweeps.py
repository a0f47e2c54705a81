"""Shared by the couplings that sweep: row products over padded matrices, and the stopping rule."""

import numpy as np

from pairloom.pipeline.accelerate import inline_kernel, simd_kernel

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
