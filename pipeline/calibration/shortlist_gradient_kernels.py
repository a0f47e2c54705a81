"""The transpose of the completion of a shortlist: from the gradient of its pairs to that of the edges."""

import numpy as np

from pairloom.pipeline.accelerate import kernel
from pairloom.pipeline.completion.shortlist_kernels import clear_neighbours, mark_neighbours


@kernel()
def add_to_edge(gradient, edge, share):
    """Add to the gradient of an edge, counted from 1, seen from the class that the sign of its number says."""
    if edge > 0:
        gradient[edge - 1] += share
    else:
        gradient[-edge - 1] -= share


@kernel()
def pass_on_block(G, listed, offsets, neighbours, edge_of, edge_to, of_edges, of_potentials):
    """The transpose of `complete_block`: add the gradient G (k, k) of the listed pairs to what they were made of.

    A trained pair is an edge. Another one is a mean over common neighbours, which hands a share to both edges of each,
    and where there is none, a difference of potentials.
    """
    for a in range(listed.shape[0]):
        i = listed[a]
        mark_neighbours(i, offsets, neighbours, edge_of, edge_to)
        for b in range(a + 1, listed.shape[0]):
            j, g = listed[b], G[a, b]
            if edge_to[j] != 0:
                add_to_edge(of_edges, edge_to[j], g)
                continue
            common = 0
            for at in range(offsets[j], offsets[j + 1]):
                common += edge_to[neighbours[at]] != 0
            if common == 0:
                of_potentials[i] += g
                of_potentials[j] -= g
                continue
            for at in range(offsets[j], offsets[j + 1]):
                first = edge_to[neighbours[at]]
                if first != 0:
                    add_to_edge(of_edges, first, g / common)
                    add_to_edge(of_edges, edge_of[at], -g / common)
        clear_neighbours(i, offsets, neighbours, edge_to)


@kernel()
def pass_on_blocks(G, lists, offsets, neighbours, edge_of, of_edges, of_potentials):
    """Pass on the gradients of samples: G (R, k, k), lists (R, k), of_edges (R, E), of_potentials (R, N)."""
    edge_to = np.zeros(of_potentials.shape[1], np.int64)
    for r in range(lists.shape[0]):
        pass_on_block(G[r], lists[r], offsets, neighbours, edge_of, edge_to, of_edges[r], of_potentials[r])


@kernel()
def add_differences(potentials, edges, of_edges):
    """of_edges[r, e] += potentials[r, i] - potentials[r, j] for every edge e = (i, j): the transpose of divergences."""
    for r in range(of_edges.shape[0]):
        row, own = potentials[r], of_edges[r]
        for e in range(edges.shape[0]):
            own[e] += row[edges[e, 0]] - row[edges[e, 1]]
