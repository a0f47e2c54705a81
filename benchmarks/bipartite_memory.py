"""Time and peak memory of `normal` over a bipartite graph, in a process of its own."""

import sys
import time

import numpy as np

from pairloom import graphs
from pairloom.benchmarks.memory import peak_bytes
from pairloom.pipeline.completion.complete import plan_completion
from pairloom.pipeline.completion.slab import couple_slab

#: Standard deviation of the logits.
SPREAD = 3.0


def complete_and_couple_bipartite(n_classes: int, hubs: int, n_samples: int) -> None:
    """Print the time and the peak memory of `normal` over K(hubs, n_classes - hubs)."""
    completion = plan_completion(graphs.bipartite(n_classes, hubs))
    rng = np.random.default_rng(0)
    edge_logits = SPREAD * rng.standard_normal((len(completion.edges), n_samples), np.float32)
    began = time.perf_counter()
    p = couple_slab(edge_logits, completion, ["normal"])["normal"]
    seconds = time.perf_counter() - began
    assert abs(p.sum(axis=1) - 1).max() < 1e-5
    print(seconds, peak_bytes())


if __name__ == "__main__":
    complete_and_couple_bipartite(*map(int, sys.argv[1:]))
