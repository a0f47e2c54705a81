"""Kernels of completion: fill the missing pairs of a slab of logits in place, or of the shortlists of samples.

A shortlist needs few edges, and has the completed logits of its own pairs only. For held-out samples, machines that did
not see them are summed per class, and applied to single samples.
"""

import numpy as np

from pairloom.pipeline.accelerate import kernel, simd_kernel
from pairloom.pipeline.coupling.vector_kernels import product_by_sample
from pairloom.pipeline.machines.svm_kernels import add_multiple, dot


@simd_kernel()
def scatter(edge_logits, edges, tensor):
    """tensor[i, j] = logits of edge (i, j), tensor[j, i] = their negative, zeros on the diagonal."""
    for i in range(tensor.shape[0]):
        tensor[i, i, :] = 0
    for e in range(edges.shape[0]):
        forward, backward = tensor[edges[e, 0], edges[e, 1]], tensor[edges[e, 1], edges[e, 0]]
        logits = edge_logits[e]
        for r in range(logits.shape[0]):
            forward[r] = logits[r]
            backward[r] = -logits[r]


@simd_kernel()
def fill_missing(tensor, trained, offsets, neighbours, potentials):
    """L_ij = mean over m in O_ij of (L_im + L_mj) for every pair that is not trained [S eq. 4 and 5, with a plus].

    Only trained entries are read and only others are written, so no second tensor is needed. If O_ij is empty, the pair
    gets the difference of the `potentials` (N, samples), which may be empty if there is no such pair.
    """
    n = tensor.shape[0]
    for i in range(n):
        for j in range(i + 1, n):
            if trained[i, j]:
                continue
            forward, backward = tensor[i, j], tensor[j, i]
            # Search common neighbours among the neighbours of the class that has fewer.
            few, other = (i, j) if offsets[i + 1] - offsets[i] <= offsets[j + 1] - offsets[j] else (j, i)
            common = 0
            forward[:] = 0
            for at in range(offsets[few], offsets[few + 1]):
                m = neighbours[at]
                if trained[other, m]:
                    common += 1
                    left, right = tensor[i, m], tensor[m, j]
                    for r in range(forward.shape[0]):
                        forward[r] += left[r] + right[r]
            if common:
                share = tensor.dtype.type(1) / tensor.dtype.type(common)
                for r in range(forward.shape[0]):
                    forward[r] *= share
                    backward[r] = -forward[r]
            else:
                for r in range(forward.shape[0]):
                    forward[r] = potentials[i, r] - potentials[j, r]
                    backward[r] = -forward[r]


@simd_kernel()
def graph_potentials(tensor, offsets, neighbours, to_potentials, potentials):
    """potentials = to_potentials @ divergence in float64; divergence_i = sum of L_im over the neighbours m of i."""
    n, n_samples = tensor.shape[0], tensor.shape[2]
    divergence = np.zeros((n, n_samples))
    for i in range(n):
        own = divergence[i]
        for at in range(offsets[i], offsets[i + 1]):
            row = tensor[i, neighbours[at]]
            for r in range(n_samples):
                own[r] += row[r]
    product_by_sample(to_potentials, divergence, potentials)


@kernel()
def mean_operator(trained, offsets, neighbours, edge_of, operator):
    """operator[i, e] = the coefficient of the logit of edge e in sum_j L_ij of the completed tensor.

    Pairs at distance three or more are not included. `edge_of[at]` is the edge between a class and its neighbour
    `neighbours[at]`, counted from 1, negative if the class is the edge's second.
    """
    n = trained.shape[0]
    common = np.empty(n)
    for i in range(n):
        common[:] = 0  # number of neighbours shared with class j
        for at in range(offsets[i], offsets[i + 1]):
            m = neighbours[at]
            for on in range(offsets[m], offsets[m + 1]):
                common[neighbours[on]] += 1
        for at in range(offsets[i], offsets[i + 1]):
            m, first = neighbours[at], edge_of[at]
            operator[i, abs(first) - 1] += np.sign(first)
            for on in range(offsets[m], offsets[m + 1]):
                j, second = neighbours[on], edge_of[on]
                if j != i and not trained[i, j]:  # L_ij has a share of L_im + L_mj
                    operator[i, abs(first) - 1] += np.sign(first) / common[j]
                    operator[i, abs(second) - 1] += np.sign(second) / common[j]


@kernel()
def divergences(logits, edges, sums):
    """sums[r, i] = the sum of the logits L_im over the neighbours m of i, for sample r."""
    for r in range(logits.shape[0]):
        row, total = logits[r], sums[r]
        total[:] = 0
        for e in range(edges.shape[0]):
            total[edges[e, 0]] += row[e]
            total[edges[e, 1]] -= row[e]


@kernel()
def mark_neighbours(c, offsets, neighbours, edge_of, edge_to):
    """edge_to[m] = the edge between class c and its neighbour m, counted from 1, negative if c is its second."""
    for at in range(offsets[c], offsets[c + 1]):
        edge_to[neighbours[at]] = edge_of[at]


@kernel()
def clear_neighbours(c, offsets, neighbours, edge_to):
    """Undo `mark_neighbours`."""
    for at in range(offsets[c], offsets[c + 1]):
        edge_to[neighbours[at]] = 0


@kernel()
def logit_of(row, edge):
    """The logit of an edge, counted from 1, for its first class; a negative number means its second class."""
    return row[edge - 1] if edge > 0 else -row[-edge - 1]


@kernel()
def complete_block(row, listed, u, offsets, neighbours, edge_of, edge_to, block):
    """block[a, b] = the completed logit of classes listed[a] and listed[b], from the logits of all edges of a sample.

    A trained pair keeps its logit. Other pairs get the mean of L_im + L_mj over the common neighbours m, or u_i - u_j
    if there is none.
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
def needed_edges(listed, offsets, neighbours, edge_of, edge_to, noted, needed):
    """Write the edges that `complete_block` reads into `needed`, each once, counted from 0. Returns their number.

    noted (E,) bool is scratch space: False for every edge, before and afterwards.
    """
    count = 0
    for a in range(listed.shape[0]):
        i = listed[a]
        mark_neighbours(i, offsets, neighbours, edge_of, edge_to)
        for b in range(a + 1, listed.shape[0]):
            j = listed[b]
            if edge_to[j] != 0:
                e = abs(edge_to[j]) - 1
                if not noted[e]:
                    noted[e], needed[count] = True, e
                    count += 1
                continue
            for at in range(offsets[j], offsets[j + 1]):
                first = edge_to[neighbours[at]]
                if first != 0:
                    for edge in (first, edge_of[at]):
                        e = abs(edge) - 1
                        if not noted[e]:
                            noted[e], needed[count] = True, e
                            count += 1
        clear_neighbours(i, offsets, neighbours, edge_to)
    for at in range(count):
        noted[needed[at]] = False
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
    """As `complete_blocks`, for affine edges: only the logits that a sample needs are computed."""
    n_samples, k = lists.shape
    n_edges = weights.shape[0]
    edge_to = np.zeros(potentials.shape[1], np.int64)
    noted, needed = np.zeros(n_edges, np.bool_), np.empty(n_edges, np.int64)
    row, block = np.empty(n_edges, np.float32), np.empty((k, k), tensor.dtype)
    for r in range(n_samples):
        count = needed_edges(lists[r], offsets, neighbours, edge_of, edge_to, noted, needed)
        apply_edges(weights, bias, X[r], needed, count, row)
        complete_block(row, lists[r], potentials[r], offsets, neighbours, edge_of, edge_to, block)
        for a in range(k):
            for b in range(k):
                tensor[a, b, r] = block[a, b]


@kernel()
def needed_by_samples(lists, n_classes, n_edges, offsets, neighbours, edge_of, starts, found):
    """Write the edges that sample r needs into found[starts[r]:starts[r + 1]].

    If `found` is empty, they are only counted: starts[r + 1] - starts[r] is their number.
    """
    edge_to = np.zeros(n_classes, np.int64)
    noted, needed = np.zeros(n_edges, np.bool_), np.empty(n_edges, np.int64)
    for r in range(lists.shape[0]):
        count = needed_edges(lists[r], offsets, neighbours, edge_of, edge_to, noted, needed)
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


@kernel()
def add_class_sums(maps, edges, sums):
    """Add the maps (T, n) of edges (T, 2) to the sums (N, n) of their first classes; subtract from their second's."""
    for e in range(maps.shape[0]):
        add_multiple(np.float32(1), maps[e], sums[edges[e, 0]])
        add_multiple(np.float32(-1), maps[e], sums[edges[e, 1]])


@kernel()
def apply_unseen(coef, shares, bias, X, groups, samples, edges, logits):
    """logits[a] = the logit of edge edges[a] for sample samples[a], by machines that did not see the sample.

    coef (T, M, D) are the weights of the machines of T edges. The logit of edge e for a sample x of group g is the sum
    over m of shares[g, e, m] * (coef[e, m] . x), plus bias[g, e]: the samples of a group share the machines that did
    not see them, and the parameters that were fitted without them.
    """
    for a in range(samples.shape[0]):
        e, r = edges[a], samples[a]
        g = groups[r]
        logit = bias[g, e]
        for m in range(coef.shape[1]):
            if shares[g, e, m] != 0:
                logit += shares[g, e, m] * dot(coef[e, m], X[r])
        logits[a] = logit
