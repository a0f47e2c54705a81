"""The pairs of a sample's shortlist: which edges they need, and their completed logits."""

import numpy as np

from pairloom.pipeline.accelerate import kernel, simd_kernel
from pairloom.pipeline.machines.svm_kernels import dot


@kernel()
def divergences(logits, edges, sums):
    """sums[r, i] = the sum of the logits of the edges of class i for sample r, each seen from i."""
    for r in range(logits.shape[0]):
        row, total = logits[r], sums[r]
        total[:] = 0
        for e in range(edges.shape[0]):
            total[edges[e, 0]] += row[e]
            total[edges[e, 1]] -= row[e]


@kernel()
def add_divergences(logits, edges, sums):
    """Add what some of the edges contribute to `divergences`."""
    for r in range(logits.shape[0]):
        row, total = logits[r], sums[r]
        for e in range(edges.shape[0]):
            total[edges[e, 0]] += row[e]
            total[edges[e, 1]] -= row[e]


@kernel()
def mark_neighbours(c, offsets, neighbours, edge_of, edge_to):
    """edge_to[m] = the edge between class c and its neighbour m, counted from 1, negative where c is its second."""
    for at in range(offsets[c], offsets[c + 1]):
        edge_to[neighbours[at]] = edge_of[at]


@kernel()
def clear_neighbours(c, offsets, neighbours, edge_to):
    """Undo `mark_neighbours`."""
    for at in range(offsets[c], offsets[c + 1]):
        edge_to[neighbours[at]] = 0


@kernel()
def logit_of(row, edge):
    """The logit of an edge, counted from 1, seen from the class that the sign of its number says."""
    return row[edge - 1] if edge > 0 else -row[-edge - 1]


@kernel()
def complete_block(row, listed, u, offsets, neighbours, edge_of, edge_to, block):
    """block[a, b] = the completed logit of classes listed[a] and listed[b], from the logits of all edges of a sample.

    A trained pair keeps its logit. Another one is the mean of L_im + L_mj over the common neighbours m, and u_i - u_j
    where there is none.
    """
    k = listed.shape[0]
    for a in range(k):
        i = listed[a]
        block[a, a] = 0
        mark_neighbours(i, offsets, neighbours, edge_of, edge_to)
        for b in range(a + 1, k):
            j = listed[b]
            if edge_to[j] != 0:
                logit = logit_of(row, edge_to[j])
            else:
                total, common = row.dtype.type(0), 0
                for at in range(offsets[j], offsets[j + 1]):
                    first = edge_to[neighbours[at]]
                    if first != 0:
                        total += logit_of(row, first) - logit_of(row, edge_of[at])
                        common += 1
                logit = total / row.dtype.type(common) if common else u[i] - u[j]
            block[a, b] = logit
            block[b, a] = -logit
        clear_neighbours(i, offsets, neighbours, edge_to)


@kernel()
def complete_blocks(logits, lists, potentials, offsets, neighbours, edge_of, tensor):
    """Complete the blocks of samples: logits (R, E), lists (R, k), potentials (R, N), tensor (k, k, R)."""
    n_samples, k = lists.shape
    edge_to = np.zeros(potentials.shape[1], np.int64)
    block = np.empty((k, k), tensor.dtype)
    for r in range(n_samples):
        complete_block(logits[r], lists[r], potentials[r], offsets, neighbours, edge_of, edge_to, block)
        for a in range(k):
            for b in range(k):
                tensor[a, b, r] = block[a, b]


@kernel()
def needed_edges(listed, offsets, neighbours, edge_of, edge_to, stamp, number, needed):
    """Write the edges that `complete_block` reads into `needed`, each once, counted from 0. Returns how many.

    stamp[e] == number says that edge e was written for this sample.
    """
    count = 0
    for a in range(listed.shape[0]):
        i = listed[a]
        mark_neighbours(i, offsets, neighbours, edge_of, edge_to)
        for b in range(a + 1, listed.shape[0]):
            j = listed[b]
            if edge_to[j] != 0:
                e = abs(edge_to[j]) - 1
                if stamp[e] != number:
                    stamp[e], needed[count] = number, e
                    count += 1
                continue
            for at in range(offsets[j], offsets[j + 1]):
                first = edge_to[neighbours[at]]
                if first != 0:
                    for edge in (first, edge_of[at]):
                        e = abs(edge) - 1
                        if stamp[e] != number:
                            stamp[e], needed[count] = number, e
                            count += 1
        clear_neighbours(i, offsets, neighbours, edge_to)
    return count


@simd_kernel()
def apply_edges(weights, bias, x, needed, count, row):
    """row[e] = weights[e] . x + bias[e] for the first `count` edges in `needed`."""
    for at in range(count):
        e = needed[at]
        row[e] = dot(weights[e], x) + bias[e]


@simd_kernel()
def apply_pairs(weights, bias, X, samples, edges, logits):
    """logits[a] = weights[edges[a]] . X[samples[a]] + bias[edges[a]]."""
    for a in range(samples.shape[0]):
        e = edges[a]
        logits[a] = dot(weights[e], X[samples[a]]) + bias[e]


@kernel()
def apply_and_complete(weights, bias, X, lists, potentials, offsets, neighbours, edge_of, tensor):
    """As `complete_blocks`, with the logits of affine edges, of which only those that a sample needs are computed."""
    n_samples, k = lists.shape
    n_edges = weights.shape[0]
    edge_to = np.zeros(potentials.shape[1], np.int64)
    stamp, needed = np.full(n_edges, -1), np.empty(n_edges, np.int64)
    row, block = np.empty(n_edges, np.float32), np.empty((k, k), tensor.dtype)
    for r in range(n_samples):
        count = needed_edges(lists[r], offsets, neighbours, edge_of, edge_to, stamp, r, needed)
        apply_edges(weights, bias, X[r], needed, count, row)
        complete_block(row, lists[r], potentials[r], offsets, neighbours, edge_of, edge_to, block)
        for a in range(k):
            for b in range(k):
                tensor[a, b, r] = block[a, b]


@kernel()
def needed_by_samples(lists, n_classes, n_edges, offsets, neighbours, edge_of, starts, found):
    """Write the edges that sample r needs into found[starts[r]:starts[r + 1]].

    If `found` is empty, they are only counted: starts[r + 1] - starts[r] says how many there are.
    """
    edge_to = np.zeros(n_classes, np.int64)
    stamp, needed = np.full(n_edges, -1), np.empty(n_edges, np.int64)
    for r in range(lists.shape[0]):
        count = needed_edges(lists[r], offsets, neighbours, edge_of, edge_to, stamp, r, needed)
        if found.shape[0] == 0:
            starts[r + 1] = starts[r] + count
        else:
            for at in range(count):
                found[starts[r] + at] = needed[at]


@kernel()
def complete_needed(values, starts, found, n_edges, lists, potentials, offsets, neighbours, edge_of, tensor):
    """As `complete_blocks`, where values[starts[r]:starts[r + 1]] are the logits of the edges that sample r needs."""
    n_samples, k = lists.shape
    edge_to = np.zeros(potentials.shape[1], np.int64)
    row, block = np.empty(n_edges, np.float32), np.empty((k, k), tensor.dtype)
    for r in range(n_samples):
        for at in range(starts[r], starts[r + 1]):
            row[found[at]] = values[at]
        complete_block(row, lists[r], potentials[r], offsets, neighbours, edge_of, edge_to, block)
        for a in range(k):
            for b in range(k):
                tensor[a, b, r] = block[a, b]
