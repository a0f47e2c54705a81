"""Calibration and growth of a run. Both use the out-of-fold logits of the drawn samples."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.calibration.coupled_calibration import (
    CoupledCalibration,
    HeldOut,
    calibrate_coupled,
    unit_of,
)
from pairloom.pipeline.completion.complete import Completion, plan_completion
from pairloom.pipeline.growth.wave import GrowthCost, Wave, judge_wave
from pairloom.pipeline.machines.whitening import is_whitened
from pairloom.pipeline.run.choosing import chosen_candidate, class_weights_of
from pairloom.pipeline.run.feature_store import read_draws
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import open_group, write_whole
from pairloom.pipeline.storage.atomic_file import write_atomically
from pairloom.pipeline.storage.zarr_layout import read_whole

__all__ = [
    "calibrate_coupling",
    "completion_of",
    "judge_model",
    "read_calibration",
    "read_wave",
    "remove_waves",
]


def calibrate_coupling(run: Run, number: int) -> list[Path]:
    """Calibrate the model for the coupling with this number."""
    level, shape = run.settings.coupled_calibration, run.shape
    if level == "none":
        found = CoupledCalibration.uniform(level, 1.0, len(shape.edges))
    else:
        found = calibrate_coupled(
            _held_out(run, shape.edges),
            completion_of(shape.edges, len(shape.classes)),
            shape.couplings[number],
            level,
            shortlist=run.shortlist,
            memory_limit=run.memory_limit,
        )
    group = open_group(run.directory, "probabilities.zarr", write=True)
    files = write_whole(group["scale"], (number,), np.array([found.scale]))
    if shape.edges_calibrated:
        as_stored = np.argsort(graphs.edge_order(shape.edges))
        files += write_whole(group["slope"], (number, 0), found.slope[as_stored][None])
        files += write_whole(group["shift"], (number, 0), found.shift[as_stored][None])
    return files


def read_calibration(run: Run, number: int) -> CoupledCalibration:
    """The result of `calibrate_coupling`, with sorted edges."""
    group, level = open_group(run.directory, "probabilities.zarr"), run.settings.coupled_calibration
    scale = float(read_whole(group["scale"], number))
    if not run.shape.edges_calibrated:
        return CoupledCalibration.uniform(level, scale, len(run.shape.edges))
    order = graphs.edge_order(run.shape.edges)
    slope, shift = (read_whole(group[name], number)[order] for name in ("slope", "shift"))
    return CoupledCalibration(level, scale, slope, shift)


def judge_model(run: Run, wave: int, *, pairs: int, coupling: str, cost: GrowthCost, most: int) -> list[Path]:
    """Score the model of the first ``pairs`` edges after a wave, and propose up to ``most`` more."""
    edges = run.shape.edges[:pairs]
    found = judge_wave(
        _held_out(run, edges),
        graphs.model_graph(len(run.shape.classes), edges.tolist(), "growing"),
        coupling,
        cost,
        most,
        seed=run.settings.seed,
        near=read_wave(run.directory, wave - 1).scale if wave else None,
        shortlist=run.shortlist,
    )
    path = _wave_file(run.directory, wave)
    write_atomically(path, (json.dumps(found._asdict()) + "\n").encode())
    return [path]


def read_wave(directory: Path, wave: int) -> Wave:
    """The result of `judge_model`."""
    content = json.loads(_wave_file(directory, wave).read_bytes())
    return Wave(**content | {"proposed": [(i, j) for i, j in content["proposed"]]})


def remove_waves(directory: Path, first: int) -> None:
    """Remove the results of waves from number ``first`` on, which the run no longer has."""
    for path in (directory / "growth").glob("*.json"):
        if path.stem.isdecimal() and int(path.stem) >= first:
            path.unlink(missing_ok=True)


def _wave_file(directory: Path, wave: int) -> Path:
    return directory / "growth" / f"{wave:06d}.json"


def _held_out(run: Run, edges: NDArray[np.int64]) -> HeldOut:
    """Out-of-fold logits of the drawn samples for the first edges of the run, with sorted edges."""
    chosen = chosen_candidate(run)
    drawn = read_draws(run, is_whitened(chosen.whiten))
    stored = read_whole(open_group(run.directory, "logits.zarr")["drawn"], slice(len(edges)))
    logits = np.ascontiguousarray(stored[graphs.edge_order(edges)][:, drawn.chosen])
    weight = class_weights_of(run, drawn.classes)
    return HeldOut(logits, drawn.classes, weight, unit_of(logits, chosen.calibration))


def completion_of(edges: NDArray[np.int64], n_classes: int) -> Completion:
    """The completion of a graph given by its edges; planned once per process, not once per slab."""
    return _completion_of(edges.tobytes(), n_classes)


@functools.lru_cache(maxsize=4)
def _completion_of(edges: bytes, n_classes: int) -> Completion:
    pairs = np.frombuffer(edges, np.int64).reshape(-1, 2)
    return plan_completion(graphs.model_graph(n_classes, pairs.tolist(), "run"))
