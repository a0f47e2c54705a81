"""Logits: the N x N x R tensor, slabs of test samples scored by all machines. No units if it is virtual."""

from __future__ import annotations

import numpy as np

from pairloom.pipeline.completion.complete import complete_slab
from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.run.collapsed_store import collapsed_machines
from pairloom.pipeline.run.costs import StageCost
from pairloom.pipeline.run.feature_store import read_samples
from pairloom.pipeline.run.needs import (
    FLOAT,
    completion_bytes,
    machine_read_bytes,
    row_bytes,
    support_bytes,
    weight_bytes,
)
from pairloom.pipeline.run.probability_store import write_tensor
from pairloom.pipeline.run.run import Keys, Run, Stage
from pairloom.pipeline.storage.digests import digest_of

__all__ = ["Logits"]


class Logits(Stage):
    """Apply all machines to a slab of test samples, complete their logits, and write the tensor."""

    name = "logits"
    folders = ("logits.zarr",)
    advice = ", or lower run.samples_per_slab"
    # The first slab of a worker reads all machines and keeps them as one affine map.
    cost = StageCost(
        "slab",
        seconds=(0.01, 1e-10),
        work=lambda s: s.samples * (s.edges * s.features + s.completing_work),
        absent=lambda s: not s.tensor_stored,
        reads=lambda s: 4.0 * s.samples * s.features,
        writes=lambda s: 4.0 * s.samples * s.classes**2,
        operations=lambda s: 20.0,
        once=lambda s: s.edges * s.machine_bytes,
        once_operations=lambda s: 2.0 * s.tiles,
        once_work=lambda s: s.collapsing_work,
        memory=lambda s: (
            4.0 * s.edges * (s.features + 96) + 4.0 * s.samples_per_slab * (2 * s.edges + 3 * s.classes**2)
        ),
    )

    def keys(self, run: Run, earlier: Keys) -> tuple[str, ...]:
        """They depend on all machines, the calibration that was chosen, what was learned, and the samples."""
        if not run.shape.tensor_stored:
            return ()
        chosen = earlier["calibration"][:1] if len(run.shape.calibrations) > 1 else ()
        facts = [earlier["machines"], earlier["samples"], *earlier["learning"], *chosen]
        return (digest_of(facts),) * len(run.slabs)

    def work(self, run: Run, unit: int, data: OpenFeatures | None) -> list[str]:
        """Write a slab of the tensor."""
        slab, model, N = run.slabs[unit], collapsed_machines(run), len(run.shape.classes)
        tensor = np.empty((N, N, slab.stop - slab.start), np.float32)
        logits = np.ascontiguousarray(model.logits(read_samples(run, slab)))
        complete_slab(logits, model.coupler.completion, tensor)
        return write_tensor(run, slab.start, tensor)

    def task_bytes(self, run: Run) -> int:
        """The machines as one map, the logits of a slab, and its tensor with a compressed copy."""
        shape, E = run.shape, run.most_pairs
        slab = shape.samples_per_slab * (2 * E + 3 * len(shape.classes) ** 2)
        applied = support_bytes(run, E) or weight_bytes(run, E) + FLOAT * E * 64
        return (
            applied
            + FLOAT * slab
            + 3 * row_bytes(run, "samples")
            + machine_read_bytes(run)
            + completion_bytes(run)
        )
