"""Small results of the stages of a run: scored candidates, waves of growth, calibrations, and learned weights.

Each is a JSON file or a short array, written by the stage of the same name. Every reader of a run uses these functions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.calibration.coupled_calibration import CoupledCalibration
from pairloom.pipeline.calibration.coupled_learning import LearningRecord
from pairloom.pipeline.calibration.list_mass import MassCheck
from pairloom.pipeline.completion.shortlist import ListMass
from pairloom.pipeline.growth.waves import Wave
from pairloom.pipeline.machines.linear_machines import AffineLogits
from pairloom.pipeline.model.choice import JudgedCandidate, best_candidate, n_trials
from pairloom.pipeline.model.learning import Learned
from pairloom.pipeline.model.settings import Candidate
from pairloom.pipeline.run.machine_store import coupler_of_run
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import open_group
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.zarr_layout import read_whole

__all__ = [
    "chosen_candidate",
    "class_weights_of",
    "held_out_loss",
    "read_calibrations",
    "read_candidates",
    "read_edge_calibration",
    "read_learned",
    "read_learned_weights",
    "read_learning_record",
    "read_list_mass",
    "read_mass_check",
    "read_trials",
    "read_wave",
    "remaining_calibrations",
    "remove_waves",
    "sample_weights",
    "write_result",
]


def write_result(directory: Path, stage: str, unit: int | str, content: object) -> list[str]:
    """Write a JSON file of a stage: that of a unit, or one with a name."""
    path = _path(stage, unit)
    Folder(directory).write(path, (json.dumps(content) + "\n").encode())
    return [path]


def _read_result(directory: Path, stage: str, unit: int | str) -> Any:
    return json.loads(Folder(directory).read(_path(stage, unit)))


def _path(stage: str, unit: int | str) -> str:
    return f"{stage}/{unit:06d}.json" if isinstance(unit, int) else f"{stage}/{unit}.json"


def chosen_candidate(run: Run) -> Candidate:
    """The candidate that the run's machines are trained with."""
    if len(run.settings.candidates) == 1:
        return run.settings.candidates[0]
    return best_candidate(read_candidates(run))


def read_candidates(run: Run) -> list[JudgedCandidate]:
    """All scored candidates; an empty list if there was no choice."""
    return read_trials(run, n_trials(run.settings.candidates))


def read_trials(run: Run, count: int) -> list[JudgedCandidate]:
    """The scored candidates of the first trials."""
    return [
        JudgedCandidate(
            Candidate(scored["C"], scored["whiten"], scored["calibration"]),
            scored["log_loss"],
            np.array(scored["losses"]),
        )
        for number in range(count)
        for scored in _read_result(run.directory, "candidates", number)
    ]


def sample_weights(
    run: Run, rows: Mapping[int, NDArray[np.floating]]
) -> dict[int, NDArray[np.float64]] | None:
    """The weights of the rows of some classes; None without class weights."""
    if run.class_weights is None:
        return None
    return {c: np.full(len(of_class), run.class_weights[c]) for c, of_class in rows.items()}


def class_weights_of(run: Run, classes: NDArray[np.integer]) -> NDArray[np.float64] | None:
    """The weights of samples, given their classes; None without class weights."""
    return None if run.class_weights is None else np.array(run.class_weights)[classes]


def read_wave(directory: Path, wave: int) -> Wave:
    """The score of the model after a wave, and the pairs that were proposed for the next one."""
    content = _read_result(directory, "growth", wave)
    typed = {"proposed": [(i, j) for i, j in content["proposed"]], "mass": ListMass(*content["mass"])}
    return Wave(**content | typed)


def remove_waves(directory: Path, first: int) -> None:
    """Remove the results of waves from number ``first`` on, which the run no longer has."""
    folder = Folder(directory)
    for name in folder.names("growth"):
        if name.isdecimal() and int(name) >= first:
            folder.delete(f"growth/{name}.json")


def read_calibrations(run: Run) -> dict[str, CoupledCalibration]:
    """The calibration of the coupled model by coupling method, with sorted edges."""
    return {method: _read_calibration(run, number) for number, method in enumerate(run.shape.couplings)}


def _read_calibration(run: Run, number: int) -> CoupledCalibration:
    group, level = open_group(run.directory, "probabilities.zarr"), run.settings.coupled_calibration
    scale, mass = float(read_whole(group["scale"], number)), read_list_mass(run.directory, number)
    if not run.shape.edges_calibrated:
        how = chosen_candidate(run).calibration
        coupling = run.shape.couplings[number]
        scaled = CoupledCalibration.scaled(level, scale, coupler_of_run(run), how, coupling)
        return scaled._replace(mass=mass)
    by_edge = read_edge_calibration(run.directory, number, run.shape.order)
    return CoupledCalibration(level, scale, *by_edge, mass=mass)


def read_list_mass(directory: Path, number: int) -> ListMass:
    """The mass of the lists for the coupling with this number."""
    return ListMass(*read_whole(open_group(directory, "probabilities.zarr")["list_mass"], number).tolist())


def read_edge_calibration(
    directory: Path, number: int, order: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Slope and shift of every edge for the coupling with this number, with edges in this order."""
    group = open_group(directory, "probabilities.zarr")
    return read_whole(group["slope"], number)[order], read_whole(group["shift"], number)[order]


def held_out_loss(directory: Path, number: int) -> float | None:
    """The held-out log loss of the coupling with this number, once it is calibrated on held-out samples."""
    try:
        return float(_read_result(directory, "calibration", number)["log_loss"])
    except FileNotFoundError:
        return None


def read_mass_check(directory: Path, number: int) -> MassCheck | None:
    """Whether the mass of the lists is right on held-out samples, for the coupling with this number; None without."""
    try:
        lists = _read_result(directory, "calibration", number)["lists"]
    except FileNotFoundError:
        return None
    return None if lists is None else MassCheck(**lists)


def read_learned(run: Run) -> Learned | None:
    """What was learned through the coupling, with sorted edges; None if the run keeps the weights of its machines."""
    record = read_learning_record(run)
    if record is None:
        return None
    weights = read_learned_weights(run.directory, run.shape.order) if record.iterations else None
    return Learned(weights, record)


def read_learning_record(run: Run) -> LearningRecord | None:
    """What learning has done; None if the run does not learn."""
    if run.settings.learn == "machines":
        return None
    return LearningRecord(**_read_result(run.directory, "learning", "record"))


def remaining_calibrations(run: Run) -> dict[str, CoupledCalibration]:
    """The calibrations of the logits that predict, by coupling method. Learned logits have their scale already."""
    record, calibrations = read_learning_record(run), read_calibrations(run)
    if record is None or not record.iterations:
        return calibrations
    none_left = CoupledCalibration.uniform(run.settings.coupled_calibration, 1.0, run.shape.n_edges)
    return {method: none_left._replace(mass=c.mass) for method, c in calibrations.items()}


def read_learned_weights(directory: Path, order: NDArray[np.intp]) -> AffineLogits:
    """Weights that were learned through the coupling, with edges in this order."""
    group = open_group(directory, "machines.zarr")
    weights, bias = (read_whole(group[name])[order] for name in ("learned_coef", "learned_intercept"))
    return AffineLogits(weights, bias)
