"""Passes over the logit tensor L (class, class, sample): checked row sums, and one matrix per sample."""

import numpy as np

from pairloom.pipeline.accelerate import simd_kernel

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
