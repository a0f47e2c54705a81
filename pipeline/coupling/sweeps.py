"""What the sweeping couplings share: row products over padded matrices, and when to stop."""

import numpy as np

from pairloom.pipeline.accelerate import inline_kernel, simd_kernel

#: Rows are padded with zeros to a multiple of this, so that sums have no scalar remainder (N = 50: 3 times faster).
PADDING = 32
#: Rows whose products are formed before the first of them is updated. Gauss-Seidel proper reads each new value at once,
#: in a vector that was just written as a scalar, which stalls the pipeline; the few updates missed inside a group are
#: added afterwards, so the iterates are the same.
GROUP = 4
#: A change of p below this may be the rounding of float32 sums: it says nothing about the rate any more.
FLOOR = np.float32(5e-7)


def padded(n):
    """The width of a padded row of n entries."""
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
    """The distance to the limit of a sequence that last moved by `change`, were its moves to go on shrinking by `rate`.

    A geometric series: what is left is change * rate / (1 - rate). Stopping on the change alone would stop a slow
    sequence far from its limit.
    """
    return change * max(rate / (1 - rate), 0.1)


@inline_kernel()
def rate_of(change, previous, rate):
    """How much smaller the last move was than the one before; the last known rate where both are but rounding."""
    return min(change / previous, 0.999) if change > FLOOR else rate
