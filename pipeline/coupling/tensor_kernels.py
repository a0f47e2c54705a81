"""Passes over the logit tensor L (class, class, sample): checked row sums, and its samples as matrices."""

import numpy as np

from pairloom.pipeline.accelerate import simd_kernel

#: Samples of one stretch of a row: 8 KB in float32. Shorter runs defeat the prefetcher, which stops where a page ends
#: (N = 200, R = 2000, ms of CPU: 512 samples 52, 1024 36, 2048 18, 4096 21; a plain sum 15).
STRETCH = 2048
#: Samples whose matrices are held at once: a cache line of float32 logits.
BLOCK = 16


@simd_kernel()
def row_sums(L, first, last, tol, sums):
    """Add the pairs of classes [first, last) with later ones to the row sums, and count what is not antisymmetric.

    Every method needs both, so one pass over memory does both: `normal` is these sums, the iterating methods start
    from them. The comparison is written so that whatever is not finite counts as an offence: infinity would satisfy
    |a + b| <= t + t |a|, but subtracted from itself it is NaN, which satisfies nothing.

    Parameters
    ----------
    L : (N, N, R) array
    first, last : a band of classes. Threads share the work by bands, since half of the samples would be short runs.
    tol : allowed |L_ij + L_ji| / (1 + |L_ij|)
    sums : (N, R) array, where L_ij is added at i and L_ji at j

    Returns
    -------
    The number of offending pairs of entries.
    """
    n, n_samples = L.shape[0], L.shape[2]
    offences = np.float32(0)  # as wide as the logits, so that the loop stays SIMD
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
    """matrices[k, i, j] = L[i, j, start + k], i < j, for samples before `stop`: a matrix a sample, contiguous along j.

    The order of the loops is deliberate: the innermost reads are independent cache misses, which overlap. Copying short
    runs of samples instead takes two to four times as long.
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
    """product = matrix @ rows, the last axis of rows being the samples.

    Not a product of BLAS: there the last bits of a sample depend on how many samples stand beside it, so on the slab
    and on the number of threads.
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
    """wins[i, r] = how many classes i beats for sample r; a pair at exactly 0 gives half a win to each."""
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
