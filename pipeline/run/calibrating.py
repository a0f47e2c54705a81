"""Calibration and growth of a run. Both use the out-of-fold logits of the drawn samples."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from pairloom import graphs
from pairloom.pipeline.calibration.coupled_calibration import (
    CoupledCalibration,
    calibrate_coupled,
)
from pairloom.pipeline.growth.wave import GrowthCost, Wave, judge_wave
from pairloom.pipeline.run.choosing import chosen_candidate
from pairloom.pipeline.run.holding_out import read_held_out
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_completion import wiring_of_run
from pairloom.pipeline.run.run_directory import open_group, write_whole
from pairloom.pipeline.storage.atomic_file import write_atomically
from pairloom.pipeline.storage.zarr_layout import read_whole

__all__ = [
    "calibrate_coupling",
    "held_out_loss",
    "judge_model",
    "read_calibrations",
    "read_wave",
    "remove_waves",
]


def calibrate_coupling(run: Run, number: int) -> list[Path]:
    """Calibrate the model for the coupling with this number."""
    shape, found = run.shape, _calibrated(run, run.shape.couplings[number])
    group = open_group(run.directory, "probabilities.zarr", write=True)
    files = write_whole(group["scale"], (number,), np.array([found.scale]))
    if shape.edges_calibrated:
        as_stored = np.argsort(shape.order)
        files += write_whole(group["slope"], (number, 0), found.slope[as_stored][None])
        files += write_whole(group["shift"], (number, 0), found.shift[as_stored][None])
    if found.log_loss is not None:
        path = _loss_file(run.directory, number)
        content = {"coupling": shape.couplings[number], "scale": found.scale, "log_loss": found.log_loss}
        write_atomically(path, (json.dumps(content) + "\n").encode())
        files.append(path)
    return files


def held_out_loss(directory: Path, number: int) -> float | None:
    """The held-out log loss of the coupling with this number, once it is calibrated on held-out samples."""
    try:
        return float(json.loads(_loss_file(directory, number).read_bytes())["log_loss"])
    except FileNotFoundError:
        return None


def _loss_file(directory: Path, number: int) -> Path:
    return directory / "calibration" / f"{number:06d}.json"


def _calibrated(run: Run, coupling: str) -> CoupledCalibration:
    level, how = run.settings.coupled_calibration, chosen_candidate(run).calibration
    if level == "none":
        return CoupledCalibration.scaled(level, 1.0, wiring_of_run(run), how, coupling)
    held_out = read_held_out(run, run.shape.n_edges)
    return calibrate_coupled(held_out, wiring_of_run(run), coupling, level, calibration=how)


def read_calibrations(run: Run) -> dict[str, CoupledCalibration]:
    """The results of `calibrate_coupling` by coupling method, with sorted edges."""
    return {method: _read_calibration(run, number) for number, method in enumerate(run.shape.couplings)}


def _read_calibration(run: Run, number: int) -> CoupledCalibration:
    group, level = open_group(run.directory, "probabilities.zarr"), run.settings.coupled_calibration
    scale = float(read_whole(group["scale"], number))
    if not run.shape.edges_calibrated:
        how = chosen_candidate(run).calibration
        coupling = run.shape.couplings[number]
        return CoupledCalibration.scaled(level, scale, wiring_of_run(run), how, coupling)
    order = run.shape.order
    slope, shift = (read_whole(group[name], number)[order] for name in ("slope", "shift"))
    return CoupledCalibration(level, scale, slope, shift)


def judge_model(run: Run, wave: int, *, pairs: int, coupling: str, cost: GrowthCost, most: int) -> list[Path]:
    """Score the model of the first ``pairs`` edges after a wave, and propose up to ``most`` more."""
    edges = run.shape.edges[:pairs]
    found = judge_wave(
        read_held_out(run, pairs),
        graphs.model_graph(len(run.shape.classes), edges.tolist(), "growing"),
        coupling,
        cost,
        most,
        seed=run.settings.seed,
        near=read_wave(run.directory, wave - 1).scale if wave else None,
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
