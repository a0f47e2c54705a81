"""Learning: the weights of all machines, through the coupling. No unit if the machines keep their weights.

It is one unit, since every step needs all pairs on all samples. `coupled_learning.MOST_SAMPLES` limits the samples and
`learning.MOST_WEIGHTS` the weights, whatever the size of the run.
"""

from __future__ import annotations

import numpy as np

from pairloom.pipeline.calibration.coupled_learning import FEW_SAMPLES, MOST_WORK, sample_limit
from pairloom.pipeline.calibration.held_out import draw_evenly_by_class
from pairloom.pipeline.completion.shortlist import USUAL_SIZE
from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.machines.linear_machines import AffineLogits, LinearModel
from pairloom.pipeline.model.learning import DrawnRows, learn_weights
from pairloom.pipeline.run.costs import PRODUCT, READS_AT_ONCE, SWEEPS, RunSizes, StageCost
from pairloom.pipeline.run.feature_store import read_normalisation, read_raw_rows, read_whitening
from pairloom.pipeline.run.machine_store import coupler_of_run, read_machines
from pairloom.pipeline.run.needs import FLOAT, completion_bytes, edge_machine_bytes
from pairloom.pipeline.run.results import (
    as_chosen,
    chosen_candidate,
    class_weights_of,
    read_calibrations,
    write_result,
)
from pairloom.pipeline.run.run import Keys, Run, Stage
from pairloom.pipeline.run.run_directory import open_group, write_whole
from pairloom.pipeline.storage.digests import digest_of
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.zarr_layout import chunk_path

__all__ = ["Learning"]

#: L-BFGS keeps 15 numbers per weight; the others are the weights, their gradient, and copies of both.
_NUMBERS_PER_WEIGHT = 24


def _samples(s: RunSizes) -> float:
    """Number of samples from which weights are learned."""
    return min(sample_limit(s.edges), s.classes * s.rows)


def _steps_work(s: RunSizes) -> float:
    """Work of all steps: about two descents, of which most stop on the held-out samples after some thirty steps.

    With too few held-out samples no step is tried.
    """
    samples, listed = _samples(s), min(s.listed, USUAL_SIZE)
    steps = 60 * min(1.0, MOST_WORK / 30 / (samples * s.edges * s.features))
    steps = steps if samples / s.folds >= FEW_SAMPLES else 1
    return steps * samples * (2 * PRODUCT * s.edges * s.features + SWEEPS * listed**2)


class Learning(Stage):
    """Learn the weights of all machines at once."""

    name = "learning"
    folders = ("learning", "machines.zarr")
    advice = ', choose a sparser graph, or set model.learn = "machines"'
    cost = StageCost(
        seconds=(0.1, 1e-8),
        work=_steps_work,
        absent=lambda s: not s.learned,
        reads=lambda s: s.edges * s.machine_bytes + s.itemsize * _samples(s) * s.features,
        writes=lambda s: 4.0 * s.edges * s.features,
        operations=lambda s: 20.0 + 2 * s.tiles / READS_AT_ONCE,
        memory=lambda s: (
            s.edges * (3 * s.machine_bytes + 192.0 * s.features)
            + 20.0 * _samples(s) * (s.edges + 2 * s.features)
        ),
    )

    def keys(self, run: Run, earlier: Keys) -> tuple[str, ...]:
        """They depend on all machines and their calibration."""
        if not run.shape.learned:
            return ()
        settings = run.settings.read_in("learning")
        return (digest_of([earlier["machines"], earlier["calibration"], settings]),)

    def work(self, run: Run, unit: int, data: OpenFeatures | None) -> list[str]:
        """Learn the weights and write them with the record; only the record if learning gives no improvement."""
        completion = coupler_of_run(run).completion
        coupled = read_calibrations(run)[run.settings.coupling]
        learned = learn_weights(_drawn_rows(run), _trained(run), run.settings, coupled, completion)
        files = _remove_weights(run) if learned.logits is None else _write_weights(run, learned.logits)
        return [*files, *write_result(run.directory, self.name, "record", learned.record._asdict())]

    def task_bytes(self, run: Run) -> int:
        """All machines, as read and in order; the samples, with their logits and gradients; the vectors of L-BFGS."""
        shape, E = run.shape, run.shape.n_edges
        samples = min(sample_limit(E), sum(shape.rows)) + len(shape.classes)
        machines = 3 * E * edge_machine_bytes(run)
        # Rows, raw and normalised; whitened, scaled and with a column of ones, for separate folds and for all.
        rows = samples * (shape.features + 1) * (2 * int(np.dtype(shape.dtype).itemsize) + 8 * FLOAT)
        # Logits of separate folds and of all, their gradient, and a copy being made.
        logits = FLOAT * samples * 5 * E
        weights = 8 * _NUMBERS_PER_WEIGHT * E * (shape.features + 1)
        return machines + rows + logits + weights + FLOAT * 4 * shape.features**2 + completion_bytes(run)


def _drawn_rows(run: Run) -> DrawnRows:
    """The samples from which an estimator would learn, in the same order."""
    settings = run.settings
    drawn = draw_evenly_by_class(run.rows, sample_limit(run.shape.n_edges), settings.folds, settings.seed)
    X = read_normalisation(run)(read_raw_rows(run, run.starts[drawn.classes] + drawn.rows))
    return DrawnRows(drawn, X, class_weights_of(run, drawn.classes))


def _trained(run: Run) -> LinearModel:
    """All machines, in the order of the sorted edges."""
    machines = as_chosen(run, read_machines(run.directory).of_edges(run.shape.order))
    return LinearModel(machines, read_whitening(run, chosen_candidate(run).whiten))


def _write_weights(run: Run, logits: AffineLogits) -> list[str]:
    """Write learned weights in the order of the tiles, like all arrays of edges."""
    group, as_stored = open_group(run.directory, "machines.zarr", write=True), run.shape.order.argsort()
    return [
        *write_whole(group["learned_coef"], (0, 0), logits.weights[as_stored]),
        *write_whole(group["learned_intercept"], (0,), logits.bias[as_stored]),
    ]


def _remove_weights(run: Run) -> list[str]:
    """Remove weights that were learned with other settings."""
    group = open_group(run.directory, "machines.zarr", write=True)
    for name in ("learned_coef", "learned_intercept"):
        Folder(run.directory).delete(chunk_path(group[name], (0,) * group[name].ndim))
    return []
