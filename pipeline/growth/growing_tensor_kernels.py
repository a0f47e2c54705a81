"""One step of growth: what a new edge changes in the completed tensor, and nothing else."""

from pairloom.pipeline.accelerate import simd_kernel


@simd_kernel
def set_pair(tensor, row_sums, i, j, logits):
    """L_ij = logits, L_ji = -logits, and the row sums with them."""
    forward, backward = tensor[i, j], tensor[j, i]
    own, other = row_sums[i], row_sums[j]
    for r in range(logits.shape[0]):
        change = logits[r] - forward[r]
        own[r] += change
        other[r] -= change
        forward[r] = logits[r]
        backward[r] = -logits[r]


@simd_kernel
def average_in(tensor, row_sums, k, j, left, right, count):
    """Let one more path add to the mean: L_kj += (left + right - L_kj) / count, and the row sums with it."""
    forward, backward = tensor[k, j], tensor[j, k]
    own, other = row_sums[k], row_sums[j]
    share = tensor.dtype.type(1) / tensor.dtype.type(count)
    for r in range(forward.shape[0]):
        change = (left[r] + right[r] - forward[r]) * share
        forward[r] += change
        backward[r] = -forward[r]
        own[r] += change
        other[r] -= change


@simd_kernel
def add_edge(tensor, row_sums, trained, common, i, j, logits):
    """Train pair (i, j): its own logits replace what it was completed with, and it becomes a step of new paths.

    For every k joined to i but not to j, the pair (k, j) gains the path k - i - j, and likewise with i and j exchanged.
    Returns how many pairs changed: at most 2 N, so a step costs O(N R) [S Algorithm 1 forms the means anew].
    """
    set_pair(tensor, row_sums, i, j, logits)
    trained[i, j] = trained[j, i] = True
    changed = 1
    for middle, end in ((i, j), (j, i)):
        for k in range(trained.shape[0]):
            if k != end and trained[k, middle]:
                common[k, end] += 1
                common[end, k] += 1
                if not trained[k, end]:
                    average_in(
                        tensor, row_sums, k, end, tensor[k, middle], tensor[middle, end], common[k, end]
                    )
                    changed += 1
    return changed
