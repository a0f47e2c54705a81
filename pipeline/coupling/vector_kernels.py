"""Parts of the coupling kernels, for SIMD.

An exponential that vectorises, row products over padded matrices and a stopping rule; passes over the logit tensor
L (class, class, sample): checked row sums, and one matrix per sample.
"""

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
#: Rows whose products are formed before the first of them is updated. Plain Gauss-Seidel reads each new value, as part
#: of a vector, just after it was written as a scalar, which stalls the pipeline. The few updates that are missed within
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
    """Ratio of the last two steps; the last known rate if the change is below rounding."""
    return min(change / previous, 0.999) if change > FLOOR else rate


#: Samples per stretch of a row: 8 KB in float32. Shorter runs defeat the prefetcher, which stops at the end of a page
#: (CPU time for N = 200, R = 2000: 512 samples 52 ms, 1024 36 ms, 2048 18 ms, 4096 21 ms; a plain sum 15 ms).
STRETCH = 2048
#: Samples whose matrices are in memory at once: one cache line of float32 logits.
BLOCK = 16


@simd_kernel()
def row_sums(L, first, last, tol, sums):
    """Add the pairs of classes [first, last) with later ones to the row sums, and count entries not antisymmetric.

    Every method needs both, so one pass over memory does both: `normal` is these sums, and the methods that iterate
    start from them. The comparison is written so that entries which are not finite count as offences: infinity would
    satisfy |a + b| <= t + t |a|, but infinity minus infinity is NaN, and every comparison with NaN is false.

    Parameters
    ----------
    L : (N, N, R) array
    first, last : a band of classes. Threads share the work by bands, since bands of samples would be short runs.
    tol : largest |L_ij + L_ji| / (1 + |L_ij|)
    sums : (N, R) array, where L_ij is added at i and L_ji at j

    Returns
    -------
    The number of offending pairs of entries.
    """
    n, n_samples = L.shape[0], L.shape[2]
    offences = np.float32(0)  # as wide as the logits, so that the loop is vectorised
    for low in range(0, n_samples, STRETCH):
        high = min(low + STRETCH, n_samples)
        for i in range(first, last):
            own, diagonal = sums[i, low:high], L[i, i, low:high]
            for r in range(own.shape[0]):
                own[r] += diagonal[r]
                offences += np.float32(not (abs(diagonal[r]) <= tol))
            for j in range(i + 1, n):
                other, forward, backward = sums[j, low:high], L[i, j, low:high], L[j, i, low:high]
                for r in range(own.shape[0]):
                    a, b = forward[r], backward[r]
                    own[r] += a
                    other[r] += b
                    offences += np.float32(not (abs(a + b) - tol * abs(a) <= tol))
    return offences


@simd_kernel()
def gather_upper(L, start, stop, matrices):
    """matrices[k, i, j] = L[i, j, start + k], i < j, for samples before `stop`: one matrix per sample, contiguous in j.

    The order of the loops is deliberate: the innermost reads are independent cache misses, which overlap. Copying short
    runs of samples takes two to four times as long.
    """
    n = L.shape[0]
    for i in range(n):
        for k in range(min(stop - start, matrices.shape[0])):
            source, target = L[i, i + 1 :, start + k], matrices[k, i, i + 1 : n]
            for j in range(target.shape[0]):
                target[j] = source[j]


@simd_kernel()
def weighted_row_sums(L, weights, start, stop, sums):
    """sums[i, r] = sum_j weights[i, j] L[i, j, r]."""
    n = L.shape[0]
    for i in range(n):
        own = sums[i, start:stop]
        own[:] = 0
        for j in range(n):
            w, row = weights[i, j], L[i, j, start:stop]
            for r in range(own.shape[0]):
                own[r] += w * row[r]


@simd_kernel()
def product_by_sample(matrix, rows, product):
    """product = matrix @ rows, where the last axis of rows are the samples.

    BLAS is not used: with it, the last bits of a sample depend on the number of samples, so on the slab and on the
    number of threads.
    """
    product[:] = 0
    for i in range(matrix.shape[0]):
        own = product[i]
        for j in range(matrix.shape[1]):
            w, row = matrix[i, j], rows[j]
            for r in range(own.shape[0]):
                own[r] += w * row[r]


@simd_kernel()
def count_wins(L, start, stop, wins):
    """wins[i, r] = the number of classes that i beats for sample r; a logit of exactly 0 is half a win for each."""
    n = L.shape[0]
    wins[:, start:stop] = 0
    for i in range(n):
        own = wins[i, start:stop]
        for j in range(i + 1, n):
            other, row = wins[j, start:stop], L[i, j, start:stop]
            for r in range(own.shape[0]):
                share = np.float32(row[r] > 0) + np.float32(0.5) * np.float32(row[r] == 0)
                own[r] += share
                other[r] += np.float32(1) - share
