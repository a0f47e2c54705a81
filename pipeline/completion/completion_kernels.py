"""Fill the missing pairs of a slab of logits in place."""

import numpy as np

from pairloom.pipeline.accelerate import kernel, simd_kernel
from pairloom.pipeline.coupling.pairs.tensor_kernels import product_by_sample


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

    Only trained entries are read and only others are written, so no second tensor is needed. Where O_ij is empty, the
    pair gets the difference of the `potentials` (N, samples), which may be empty if there is no such pair.
    """
    n = tensor.shape[0]
    for i in range(n):
        for j in range(i + 1, n):
            if trained[i, j]:
                continue
            forward, backward = tensor[i, j], tensor[j, i]
            # Common neighbours are searched among the neighbours of the class that has fewer.
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
    """potentials = to_potentials @ divergence, divergence_i = sum of L_im over the neighbours m of i, in float64."""
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
    """operator[i, e] = the coefficient of the logit of edge e in sum_j L_ij of the completed tensor, near pairs only.

    `edge_of[at]` is the edge between a class and its neighbour `neighbours[at]`, counted from 1, negative where
    the class is the edge's second.
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
