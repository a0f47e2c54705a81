"""Machines that did not see a sample, joined without the logits of all edges: sums per class, and single logits.

``coef`` (T, M, D) are the weights of the machines of T edges. The logit of edge e for a sample x of group g is
``sum over m of shares[g, e, m] * (coef[e, m] . x) + bias[g, e]``: samples of a group share the machines that did not
see them, and the parameters that were found without them.
"""

import numpy as np

from pairloom.pipeline.accelerate import kernel
from pairloom.pipeline.machines.svm_kernels import add_multiple, dot


@kernel()
def add_class_sums(maps, edges, sums):
    """Add the maps (T, n) of edges (T, 2) to those of their classes, sums (N, n).

    The map of an edge counts for its first class, and against its second.
    """
    for e in range(maps.shape[0]):
        add_multiple(np.float32(1), maps[e], sums[edges[e, 0]])
        add_multiple(np.float32(-1), maps[e], sums[edges[e, 1]])


@kernel()
def apply_unseen(coef, shares, bias, X, groups, samples, edges, logits):
    """logits[a] = that of edge edges[a] for sample samples[a], which is in group groups[samples[a]]."""
    for a in range(samples.shape[0]):
        e, r = edges[a], samples[a]
        g = groups[r]
        logit = bias[g, e]
        for m in range(coef.shape[1]):
            if shares[g, e, m] != 0:
                logit += shares[g, e, m] * dot(coef[e, m], X[r])
        logits[a] = logit
