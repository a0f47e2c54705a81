"""Calibration of the coupled model on the held-out samples, one unit per coupling."""

from __future__ import annotations

import numpy as np

from pairloom.pipeline.calibration.coupled_calibration import CoupledCalibration, calibrate_coupled
from pairloom.pipeline.calibration.list_mass import MassCheck, check_mass
from pairloom.pipeline.completion.shortlist import with_mass
from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.run.costs import READS_AT_ONCE, SWEEPS, StageCost
from pairloom.pipeline.run.held_out_store import read_held_out
from pairloom.pipeline.run.machine_store import coupler_of_run
from pairloom.pipeline.run.needs import FLOAT, completion_bytes
from pairloom.pipeline.run.results import chosen_candidate, write_result
from pairloom.pipeline.run.run import Keys, Run, Stage
from pairloom.pipeline.run.run_directory import open_group, write_whole
from pairloom.pipeline.storage.digests import digest_of

__all__ = ["Calibration", "held_out_task_bytes"]


class Calibration(Stage):
    """Find the scale of the model and the mass of its lists, or every edge's slope and shift too, for a coupling."""

    name = "calibration"
    folders = ("probabilities.zarr", "calibration")
    scores = True
    advice = ", or lower model.calibration_samples"
    cost = StageCost(
        "coupling",
        seconds=(0.02, 3e-9),
        work=lambda s: s.draws * SWEEPS * s.couplings * s.listed**2,
        reads=lambda s: s.couplings * s.held_out_bytes,
        operations=lambda s: 10.0 + 4 * s.draw_slabs / READS_AT_ONCE,
        memory=lambda s: 4 * s.held_out_bytes,
    )

    def keys(self, run: Run, earlier: Keys) -> tuple[str, ...]:
        """They depend on the held-out samples and on how they are coupled."""
        model, shape = run.config.model, run.shape
        common = [earlier["held_out"], model.coupled_calibration, model.calibration_samples, model.shortlist]
        return tuple(
            digest_of([*common, model.machine_weight, coupling, shape.edges_calibrated])
            for coupling in shape.couplings
        )

    def work(self, run: Run, unit: int, data: OpenFeatures | None) -> list[str]:
        """Calibrate the model for a coupling."""
        shape, (calibration, lists) = run.shape, _calibrated(run, run.shape.couplings[unit])
        group = open_group(run.directory, "probabilities.zarr", write=True)
        files = write_whole(group["scale"], (unit,), np.array([calibration.scale]))
        files += write_whole(group["list_mass"], (unit, 0), np.array([calibration.mass]))
        if shape.edges_calibrated:
            as_stored = np.argsort(shape.order)
            files += write_whole(group["slope"], (unit, 0), calibration.slope[as_stored][None])
            files += write_whole(group["shift"], (unit, 0), calibration.shift[as_stored][None])
        if calibration.log_loss is not None:
            content = {
                "coupling": shape.couplings[unit],
                "scale": calibration.scale,
                "log_loss": calibration.log_loss,
                "lists": None if lists is None else lists._asdict(),
            }
            files += write_result(run.directory, self.name, unit, content)
        return files

    def task_bytes(self, run: Run) -> int:
        """See `held_out_task_bytes`."""
        return held_out_task_bytes(run)


def _calibrated(run: Run, coupling: str) -> tuple[CoupledCalibration, MassCheck | None]:
    """The calibration, and where shortlists are coupled, whether their mass is right on the held-out samples."""
    level, how = run.settings.coupled_calibration, chosen_candidate(run).calibration
    if level == "none":
        return CoupledCalibration.scaled(level, 1.0, coupler_of_run(run), how, coupling), None
    held_out = read_held_out(run, run.shape.n_edges)
    coupled = calibrate_coupled(held_out, coupler_of_run(run), coupling, level, calibration=how)
    samples = with_mass(held_out.samples, coupled.mass)
    weights = (held_out.weight, held_out.totals)
    return coupled, check_mass(samples, held_out.classes, coupled.scale, *weights)


def held_out_task_bytes(run: Run) -> int:
    """All held-out samples, completed, scaled, coupled."""
    shape, N, k = run.shape, len(run.shape.classes), run.shape.listed
    if shape.code is not None:
        by_machine = 4 * shape.n_edges + 4 * N + shape.features
        gradients = 64 * 8 * 4 * N * (N + shape.n_edges) if shape.edges_calibrated else 0
        return FLOAT * shape.draws * by_machine + gradients + completion_bytes(run)
    if k:
        return FLOAT * shape.draws * (4 * k**2 + 4 * N + shape.features)
    blocks = 3 * (run.shortlist or N) ** 2
    completed = min(run.memory_limit // 2, FLOAT * shape.draws * blocks)
    by_edges = FLOAT * shape.draws * (3 * run.most_pairs + 3 * N + shape.features)
    return by_edges + completed + completion_bytes(run)
