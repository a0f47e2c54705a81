"""Kernels of linear machines on sparse rows: the solver of `svm_kernels` on CSR, and products of rows and weights.

The columns of a pair's rows are numbered within the support of the pair: the columns that its rows touch. So w is
short, whatever the number of features: other columns have weight zero.
"""

import numpy as np

from pairloom.pipeline.accelerate import inline_kernel, kernel
from pairloom.pipeline.machines.svm_kernels import (
    FIRST_ROWS,
    INNER,
    PATIENCE,
    STEPS,
    certify,
    diagonal_of,
    dot,
    joined,
    largest,
    midpoint,
    move_to_front,
    patience_left,
    row_gaps,
    smo,
    taken,
    useful_positions,
    worst_rows,
)


@kernel
def merged(first, second):
    """The union of two ascending arrays, ascending."""
    union, n, i, j = np.empty(len(first) + len(second), first.dtype), 0, 0, 0
    while i < len(first) or j < len(second):
        if j == len(second) or (i < len(first) and first[i] <= second[j]):
            if j < len(second) and first[i] == second[j]:
                j += 1
            union[n] = first[i]
            i += 1
        else:
            union[n] = second[j]
            j += 1
        n += 1
    return union[:n]


@kernel
def places_in(support, columns, place):
    """The place of every column in the ascending support. ``place`` (D,) is scratch space."""
    places = np.empty(len(columns), np.int32)
    for k in range(len(support)):
        place[support[k]] = k
    for k in range(len(columns)):
        places[k] = place[columns[k]]
    return places


@inline_kernel
def row_dot(data, indices, start, stop, w):
    """x . w of one row."""
    total = w.dtype.type(0)
    for at in range(start, stop):
        total += data[at] * w[indices[at]]
    return total


@inline_kernel
def add_row(scale, data, indices, start, stop, w):
    """w += scale * x of one row."""
    for at in range(start, stop):
        w[indices[at]] += scale * data[at]


@kernel
def sparse_decision_values(data, indices, indptr, coef, intercept):
    """f (M, n) of machines coef (M, S) on n rows, and |w| of each."""
    n = len(indptr) - 1
    f, norms = np.empty((len(coef), n)), np.empty(len(coef))
    for m in range(len(coef)):
        w = coef[m]
        norms[m] = np.sqrt(dot(w, w))
        for i in range(n):
            f[m, i] = row_dot(data, indices, indptr[i], indptr[i + 1], w) + intercept[m]
    return f, norms


@kernel
def sparse_gram(data, indices, indptr, n_columns):
    """(n, n) inner products of n sparse rows, column by column.

    A row is multiplied only with earlier rows that share a column with it. Most columns of text occur in few rows, so
    this takes a fraction of the products of all pairs of rows.
    """
    n = len(indptr) - 1
    K, starts = np.zeros((n, n), data.dtype), np.zeros(n_columns + 1, np.int64)
    for column in indices:
        starts[column + 1] += 1
    for column in range(n_columns):
        starts[column + 1] += starts[column]
    ends, row_of, value_of = starts.copy(), np.empty(len(data), np.int32), np.empty_like(data)
    for i in range(n):
        K_i = K[i]
        for at in range(indptr[i], indptr[i + 1]):
            column, value = indices[at], data[at]
            row_of[ends[column]], value_of[ends[column]] = i, value
            ends[column] += 1
            for k in range(starts[column], ends[column]):
                K_i[row_of[k]] += value * value_of[k]
        for j in range(i):
            K[j, i] = K_i[j]
    return K


@kernel
def add_rows(data, indices, indptr, beta, w):
    """w (fits, S) += the sum of the rows times beta (fits, n)."""
    for f in range(len(beta)):
        for row in range(len(indptr) - 1):
            if beta[f, row] != 0:
                scale = w.dtype.type(beta[f, row])
                add_row(scale, data, indices, indptr[row], indptr[row + 1], w[f])


@kernel
def solve_sparse_rows(data, indices, indptr, y, beta, lower, upper, w, tol, max_iterations, capacity):
    """All fits on sparse rows, as `svm_kernels.solve_rows`; beta (fits, n) and w (fits, S) in place."""
    fits = len(upper)
    intercept, gap, dual, iterations = (
        np.zeros(fits),
        np.zeros(fits),
        np.zeros(fits),
        np.zeros(fits, np.int64),
    )
    scattered = np.zeros(w.shape[1], w.dtype)
    rows, K = with_sparse_rows(
        data,
        indices,
        indptr,
        np.empty(0, np.int64),
        np.empty((0, 0), w.dtype),
        first_sparse_rows(data, indices, indptr, lower, upper, w.shape[1]),
        scattered,
    )
    for f in range(fits):
        rows, K, intercept[f], gap[f], dual[f], iterations[f] = solve_sparse_fit(
            data,
            indices,
            indptr,
            y,
            rows,
            K,
            beta[f],
            lower[f],
            upper[f],
            w[f],
            scattered,
            tol,
            max_iterations,
            capacity,
        )
    return intercept, gap, dual, iterations


@inline_kernel
def solve_sparse_fit(
    data,
    indices,
    indptr,
    y,
    rows,
    K,
    beta,
    lower,
    upper,
    w,
    scattered,
    tol,
    max_iterations,
    capacity,
):
    """One fit: rounds of SMO on the working set, F of all rows, and new rows where the gap is largest."""
    n = len(y)
    F, share = np.empty_like(y), np.empty((2, n))
    for k in range(n):
        F[k] = y[k]
    dual, iterations, patience = 0.0, 0, PATIENCE
    while True:
        before, left = dual, max_iterations - iterations
        iterations += solve_sparse_subset(
            data, indices, indptr, rows, K, beta, lower, upper, F, w, y, before, tol, left
        )
        b, gap, dual, s = certify(y, beta, lower, upper, F, np.float64(dot(w, w)), tol)
        for d in range(len(w)):
            w[d] *= w.dtype.type(s)
        patience = patience_left(patience, before, dual, gap, tol, iterations >= max_iterations)
        if patience == 0:
            return rows, K, b, gap, dual, iterations
        row_gaps(midpoint(F, beta, lower, upper), F, beta, lower, upper, share)
        wanted = max(FIRST_ROWS, len(rows) // 4)
        if len(rows) + wanted > capacity:
            kept = useful_positions(rows, share, beta, lower, upper, capacity - capacity // 4)
            move_to_front(K, kept)
            rows = taken(rows, kept)
            wanted = capacity - len(rows)
        floor = 0.01 * tol * (dual + gap) / n
        new = worst_rows(rows, share, wanted, floor)
        rows, K = with_sparse_rows(data, indices, indptr, rows, K, new, scattered)


@inline_kernel
def solve_sparse_subset(
    data, indices, indptr, rows, K, beta, lower, upper, F, w, y, dual, tol, max_iterations
):
    """SMO on some rows, all other beta held; then w, and F of all rows. Returns the number of steps."""
    beta_W, F_W, diagonal = taken(beta, rows), taken(F, rows), diagonal_of(K, len(rows))
    budget = min(STEPS * len(rows), max_iterations)
    steps = smo(K, diagonal, beta_W, taken(lower, rows), taken(upper, rows), F_W, dual, INNER * tol, budget)
    for k, row in enumerate(rows):
        if beta_W[k] != beta[row]:
            change = w.dtype.type(beta_W[k] - beta[row])
            add_row(change, data, indices, indptr[row], indptr[row + 1], w)
            beta[row] = beta_W[k]
    for row in range(len(y)):
        F[row] = y[row] - row_dot(data, indices, indptr[row], indptr[row + 1], w)
    return steps


@inline_kernel
def first_sparse_rows(data, indices, indptr, lower, upper, n_columns):
    """The rows of each class that are nearest to the other class, along the difference of the class means."""
    n = len(indptr) - 1
    w, side, sizes = np.zeros(n_columns, data.dtype), np.zeros(n, np.int64), np.zeros(2)
    for f in range(len(upper)):
        for k in range(n):
            if upper[f, k] > 0:
                side[k] = 1
            elif lower[f, k] < 0:
                side[k] = -1
    for k in range(n):
        sizes[0] += side[k] > 0
        sizes[1] += side[k] < 0
    for k in range(n):
        if side[k] != 0:
            scale = side[k] / sizes[0 if side[k] > 0 else 1]
            add_row(data.dtype.type(scale), data, indices, indptr[k], indptr[k + 1], w)
    nearness = np.full((2, n), -np.inf)
    for k in range(n):
        if side[k] != 0:
            projection = row_dot(data, indices, indptr[k], indptr[k + 1], w)
            nearness[0 if side[k] > 0 else 1, k] = -side[k] * projection
    return joined(largest(nearness[0], FIRST_ROWS, -np.inf), largest(nearness[1], FIRST_ROWS, -np.inf))


@kernel
def with_sparse_rows(data, indices, indptr, rows, K, new, scattered):
    """The working set with new rows, and its Gram matrix: only the new part of it is computed."""
    old, rows = len(rows), joined(rows, new)
    if len(rows) > len(K):
        larger = np.empty((2 * len(rows), 2 * len(rows)), K.dtype)
        for i in range(old):
            for j in range(old):
                larger[i, j] = K[i, j]
        K = larger
    for i in range(old, len(rows)):
        start, stop = indptr[rows[i]], indptr[rows[i] + 1]
        for at in range(start, stop):
            scattered[indices[at]] = data[at]
        for j in range(i + 1):
            value = row_dot(data, indices, indptr[rows[j]], indptr[rows[j] + 1], scattered)
            K[i, j] = value
            K[j, i] = value
        for at in range(start, stop):
            scattered[indices[at]] = 0
    return rows, K


@kernel
def apply_to_rows(starts, edges, weights, data, indices, indptr, logits):
    """logits[r, e] += weights[e] . x_r for all edges e, from weights that are stored column by column.

    Column d has the edges ``edges[starts[d]:starts[d + 1]]``.
    """
    for r in range(len(indptr) - 1):
        row = logits[r]
        for at in range(indptr[r], indptr[r + 1]):
            x, d = data[at], indices[at]
            for k in range(starts[d], starts[d + 1]):
                row[edges[k]] += x * weights[k]
