"""Fill the missing pairs of a slab of logits in place."""

import numpy as np

from pairloom.pipeline.accelerate import kernel, simd_kernel


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

    Only trained entries are read and only others written, so no second tensor is needed. Where O_ij is empty the
    pair takes the difference of the `potentials` (N, samples), which may be empty if there is no such pair.
    """
    n = tensor.shape[0]
    for i in range(n):
        for j in range(i + 1, n):
            if trained[i, j]:
                continue
            forward, backward = tensor[i, j], tensor[j, i]
            # The common neighbours are looked for among the neighbours of the end that has fewer.
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


@kernel()
def mean_operator(trained, offsets, neighbours, edge_of, operator):
    """operator[i, e] = how much the logit of edge e adds to sum_j L_ij of the completed tensor, distant pairs left out.

    `edge_of[at]` is the edge between a class and its neighbour `neighbours[at]`, counted from 1, negative where
    the class is the edge's second.
    """
    n = trained.shape[0]
    for i in range(n):
        for at in range(offsets[i], offsets[i + 1]):
            e = edge_of[at]
            operator[i, abs(e) - 1] += np.sign(e)
        for j in range(n):
            if j == i or trained[i, j]:
                continue
            common = 0
            for at in range(offsets[i], offsets[i + 1]):
                common += trained[neighbours[at], j]
            for at in range(offsets[i], offsets[i + 1]):
                m = neighbours[at]
                if trained[m, j]:
                    operator[i, abs(edge_of[at]) - 1] += np.sign(edge_of[at]) / common
                    for back in range(offsets[m], offsets[m + 1]):
                        if neighbours[back] == j:
                            operator[i, abs(edge_of[back]) - 1] += np.sign(edge_of[back]) / common
