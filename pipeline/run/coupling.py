"""Coupling in a run that stores the tensor: slabs of test samples, coupled by every method."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.completion.complete import Completion
from pairloom.pipeline.completion.slab import couple_slab
from pairloom.pipeline.completion.uncoupled import uncoupled
from pairloom.pipeline.coupling.priors import normalised, prior_odds
from pairloom.pipeline.run.learning import remaining_calibrations
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_completion import wiring_of_run
from pairloom.pipeline.run.run_directory import open_group, write_whole
from pairloom.pipeline.run.tensor_store import read_edge_logits

__all__ = ["Coupled", "couple_samples", "write_probabilities"]

#: Probabilities (sample, class) by coupling method.
Coupled = dict[str, NDArray[np.float32]]


def couple_samples(run: Run, slab: slice) -> list[Path]:
    """Couple a slab of samples by every method, from the logits of its edges in the stored tensor."""
    return write_probabilities(run, slab, _coupled(run, read_edge_logits(run, slab)))


def write_probabilities(run: Run, slab: slice, coupled: Coupled) -> list[Path]:
    """Write the probabilities of a slab of samples, with the priors of the run."""
    group = open_group(run.directory, "probabilities.zarr", write=True)
    return [
        path
        for method, p in coupled.items()
        for path in write_whole(group[method], (slab.start, 0), _with_priors(run, p))
    ]


def _coupled(run: Run, logits: NDArray[np.float32]) -> Coupled:
    """Probabilities (sample, class) by each method, from the stored logits of the sorted edges."""
    shape, limit = run.shape, run.memory_limit
    completion = wiring_of_run(run)
    assert isinstance(completion, Completion), "of machines on sets of classes there is no tensor"
    found = remaining_calibrations(run)
    if not shape.edges_calibrated and run.shortlist is None:
        scales = {method: calibration.scale for method, calibration in found.items()}
        return couple_slab(logits, completion, shape.couplings, scales=scales, memory_limit=limit)
    if not shape.edges_calibrated:
        samples = uncoupled(logits, completion, run.shortlist, limit)
        return {method: samples.couple(method, calibration.scale) for method, calibration in found.items()}
    coupled: Coupled = {}
    for method, calibration in found.items():
        adjusted = (logits * calibration.slope[:, None] + calibration.shift[:, None]).astype(np.float32)
        coupled[method] = uncoupled(adjusted, completion, run.shortlist, limit).couple(method)
    return coupled


def _with_priors(run: Run, p: NDArray[np.float32]) -> NDArray[np.float32]:
    if run.priors is None:
        return p
    shares = run.totals / run.totals.sum()
    return normalised(p, prior_odds(run.priors, shares, "model.priors")).astype(np.float32)
