"""Which samples a growing model predicts correctly after every added pair, by three couplings at once.

A curve of accuracies needs the predictions of a thousand models, each with one more pair than the previous one. A block
of samples goes through the whole growth before the next block starts, so that it stays in the cache of a core.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from pairloom.pipeline.completion.complete import Completion, plan_completion
from pairloom.pipeline.growth.growing_block_kernels import LANES, gather_block, grow_block
from pairloom.pipeline.threads import in_threads, thread_count
from pairloom.pipeline.user_warnings import warn_user

__all__ = ["COUPLED", "GrowthOutcome", "SampleBlocks", "grow_blocks", "sample_blocks"]

#: The couplings, in the order of the outcomes.
COUPLED = ("wlw2", "stratified", "normal")


class SampleBlocks(NamedTuple):
    """Samples in blocks, sorted by class. Shapes: see `pairloom.pipeline`.

    Attributes
    ----------
    logits : (B, N, N * LANES) float32 array
        The logits of class i against j are in row i, from column j * LANES on.
    labels : (B, LANES) int64 array
        True classes. The last block is padded with samples of class -1, which is never predicted.
    samples : (R,) int64 array
        The sample at each place of the blocks.
    """

    logits: NDArray[np.float32]
    labels: NDArray[np.int64]
    samples: NDArray[np.int64]


class GrowthOutcome(NamedTuple):
    """Predictions of a model while it grows.

    Attributes
    ----------
    accuracies : (3, S) float64 array
        Accuracy of each of `COUPLED` at each size.
    stages : (3, stages, R) float32 array
        For each sample, the share of the sizes of a stage at which it is predicted correctly.
    unsettled : int
        The number of couplings of a block that did not converge within the limit of iterations.
    """

    accuracies: NDArray[np.float64]
    stages: NDArray[np.float32]
    unsettled: int


def sample_blocks(logits: NDArray[np.float32], labels: NDArray[np.integer]) -> SampleBlocks:
    """Cut the samples of a tensor of logits (N, N, R) into blocks.

    Samples are sorted by class: they have the same candidates, so a block converges sooner.
    """
    samples = np.argsort(labels, kind="stable")
    n_blocks = -(-len(samples) // LANES)
    # Full blocks only, so that kernels have loops of constant length.
    places = np.resize(samples, n_blocks * LANES).reshape(n_blocks, LANES)
    blocks = np.empty((n_blocks, *logits.shape[:2], LANES), np.float32)
    for block, of_block in zip(blocks, places, strict=True):
        gather_block(logits, of_block, block)
    classes = np.full(n_blocks * LANES, -1)
    classes[: len(samples)] = labels[samples]
    return SampleBlocks(blocks.reshape(n_blocks, len(logits), -1), classes.reshape(n_blocks, LANES), samples)


def grow_blocks(
    blocks: SampleBlocks,
    start: nx.Graph,
    order: Sequence[tuple[int, int]] = (),
    *,
    sizes: Sequence[int] | None = None,
    stages: Sequence[slice] = (),
    n_jobs: int | None = None,
) -> GrowthOutcome:
    """Grow a model over a start graph by the pairs of `order`, and predict all samples at every size.

    Parameters
    ----------
    blocks : SampleBlocks
    start : networkx.Graph
        A model graph of diameter at most two.
    order : sequence of (int, int)
        Missing pairs, in the order in which they are added.
    sizes : increasing sequence of int, optional
        Numbers of added pairs after which the samples are predicted. By default 0, 1, ... len(order): the start, and
        after every pair.
    stages : sequence of slice
        Ranges of sizes over which the predictions of each sample are averaged.
    n_jobs : int, optional
        Number of threads. The result does not depend on it.
    """
    completion = _diameter_two(start)
    pairs = np.array(order, np.int64).reshape(-1, 2)
    looks = np.arange(len(pairs) + 1) if sizes is None else np.asarray(sizes, np.int64)
    adjacency = completion.trained.astype(np.int64)
    common = adjacency @ adjacency

    def grow(block: int) -> tuple[NDArray[np.int64], NDArray[np.float32], int]:
        right = np.zeros((len(COUPLED), len(looks), LANES), np.bool_)
        unsettled = grow_block(
            blocks.logits[block],
            blocks.labels[block],
            completion.trained.copy(),
            common.copy(),
            completion.offsets,
            completion.neighbours,
            pairs,
            looks,
            right,
        )
        means = [right[:, stage].mean(axis=1, dtype=np.float32) for stage in stages]
        shape = (len(COUPLED), len(stages), LANES)
        return right.sum(axis=2), np.stack(means, axis=1) if means else np.empty(shape, np.float32), unsettled

    parts = in_threads(grow, range(len(blocks.labels)), thread_count(n_jobs, "grow_blocks"))
    counts, means, each_unsettled = zip(*parts, strict=True)
    unsettled = sum(each_unsettled)
    if unsettled:
        warn_user(
            f"grow_blocks: {unsettled} of {2 * len(looks) * len(parts)} couplings of {LANES} samples did not converge"
            " within the limit of iterations; predictions between nearly equal classes may be wrong.",
            ConvergenceWarning,
        )
    n_samples = len(blocks.samples)
    of_samples = np.empty((len(COUPLED), len(stages), n_samples), np.float32)
    of_samples[:, :, blocks.samples] = np.concatenate(means, axis=2)[:, :, :n_samples]
    return GrowthOutcome(np.sum(counts, axis=0) / n_samples, of_samples, unsettled)


def _diameter_two(start: nx.Graph) -> Completion:
    completion = plan_completion(start)
    if completion.to_potentials.size:
        raise ValueError(
            "grow_blocks: start must have diameter at most 2 (a star, hubs, K(d, N - d)), got a wider graph."
        )
    return completion
