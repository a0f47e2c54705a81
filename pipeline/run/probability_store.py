"""Results on test samples on disk: the tensor of logits where it is stored, and the probabilities.

Probabilities are stored for all classes or, if there are many, as lists of the likeliest. A list has the likeliest
classes of a sample, their probabilities, and the mass of the rest. For labelled samples the probability of the true
class is stored too, since it may not be in the list.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.display.top_probabilities import TopProbabilities
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import LIST_PARTS, open_group, write_whole
from pairloom.pipeline.storage.zarr_layout import read_whole

__all__ = [
    "Kept",
    "read_lists",
    "read_probabilities",
    "read_tensor",
    "write_probabilities",
    "write_tensor",
]

#: Probabilities (sample, class), or lists with the probabilities of the true classes, if these are known.
Kept = NDArray[np.float32] | tuple[TopProbabilities, NDArray[np.float32] | None]


def write_probabilities(run: Run, method: str, first: int, p: Kept) -> list[str]:
    """Write the probabilities of a slab by a coupling method; ``first`` is the number of its first sample."""
    group = open_group(run.directory, "probabilities.zarr", write=True)
    if isinstance(p, np.ndarray):
        return write_whole(group[method], (first, 0), p)
    top, likelihood = p
    parts: dict[str, Any] = {"": top.p, "_class": top.classes, "_rest": top.rest, "_likelihood": likelihood}
    assert tuple(parts) == LIST_PARTS
    return [
        path
        for part, values in parts.items()
        if values is not None
        for path in write_whole(group[method + part], (first, 0)[: values.ndim], values)
    ]


def read_lists(run: Run, method: str, samples: slice) -> tuple[TopProbabilities, NDArray[np.float32] | None]:
    """The stored lists of some samples, and the probabilities of their true classes, if these are known."""
    group = open_group(run.directory, "probabilities.zarr")
    p, classes, rest = (read_whole(group[method + part], samples) for part in LIST_PARTS[:3])
    likelihood = read_whole(group[method + LIST_PARTS[3]], samples) if run.shape.labelled else None
    return TopProbabilities(classes, p, rest), likelihood


def read_probabilities(run: Run, method: str, samples: slice) -> NDArray[np.float32]:
    """The stored probabilities of all classes on some samples."""
    return read_whole(open_group(run.directory, "probabilities.zarr")[method], samples)


def write_tensor(run: Run, first: int, tensor: NDArray[np.float32]) -> list[str]:
    """Write the logits (class, other class, sample) of a slab. ``first`` is the number of its first sample."""
    group = open_group(run.directory, "logits.zarr", write=True)
    return write_whole(group["tensor"], (0, 0, first), tensor)


def read_tensor(run: Run, samples: slice) -> NDArray[np.float32]:
    """The stored logits (class, other class, sample) of some samples."""
    everything = slice(None)
    return read_whole(open_group(run.directory, "logits.zarr")["tensor"], (everything, everything, samples))
