"""Small results of the stages of a run: scored candidates, waves of growth, calibrations, and learned weights.

Each is a JSON file or a short array, written by the stage of the same name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sized
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.calibration.coupled_calibration import CoupledCalibration, PairSlopes
from pairloom.pipeline.calibration.coupled_learning import LearningRecord
from pairloom.pipeline.calibration.held_out_scores import HeldOutScores
from pairloom.pipeline.calibration.list_mass import MassCheck
from pairloom.pipeline.completion.shortlist import ListMass
from pairloom.pipeline.growth.waves import Wave
from pairloom.pipeline.machines.folds import FoldScheme
from pairloom.pipeline.machines.linear_machines import AffineLogits
from pairloom.pipeline.machines.pair_calibration import SlopePrior, Slopes
from pairloom.pipeline.machines.settings import Calibration
from pairloom.pipeline.model.choice import JudgedCandidate, best_candidate, n_trials
from pairloom.pipeline.model.learning import Learned
from pairloom.pipeline.model.settings import Candidate
from pairloom.pipeline.run.feature_store import read_normalisation
from pairloom.pipeline.run.ledger import Ledger
from pairloom.pipeline.run.machine_store import coupler_of_run
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import open_group, write_whole
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.location import Location
from pairloom.pipeline.storage.zarr_layout import read_whole

__all__ = [
    "as_chosen",
    "candidate_rows",
    "chosen_calibration",
    "chosen_candidate",
    "chosen_coupling",
    "chosen_shortlist",
    "class_weights_of",
    "held_out_loss",
    "judged_calibrations",
    "methods_of",
    "read_calibrations",
    "read_candidates",
    "read_edge_calibration",
    "read_learned",
    "read_learned_weights",
    "read_learning_record",
    "read_list_mass",
    "read_mass_check",
    "read_scale",
    "read_scores",
    "read_slopes",
    "read_trials",
    "read_wave",
    "remaining_calibrations",
    "remove_waves",
    "sample_weights",
    "write_result",
    "write_scores",
    "write_slopes",
]


class _Distances(Protocol):
    """Machines that know their distances to samples."""

    def by_distance(self, scheme: FoldScheme) -> Self:
        """The same machines with distances as logits; ``scheme`` is their fold scheme."""


Calibrated = TypeVar("Calibrated", bound=_Distances)


def write_result(directory: Location, stage: str, unit: int | str, content: object) -> list[str]:
    """Write a JSON file of a stage, for a unit or under a name."""
    path = _path(stage, unit)
    Folder(directory).write(path, (json.dumps(content) + "\n").encode())
    return [path]


def _read_result(directory: Location, stage: str, unit: int | str) -> Any:
    return json.loads(Folder(directory).read(_path(stage, unit)))


def _path(stage: str, unit: int | str) -> str:
    return f"{stage}/{unit:06d}.json" if isinstance(unit, int) else f"{stage}/{unit}.json"


def chosen_candidate(run: Run) -> Candidate:
    """The candidate with which the machines of the run are trained."""
    if len(run.settings.candidates) == 1:
        return run.settings.candidates[0]
    return best_candidate(read_candidates(run))


def read_candidates(run: Run) -> list[JudgedCandidate]:
    """All scored candidates; an empty list if there was no choice."""
    return read_trials(run, n_trials(run.settings.candidates))


def candidate_rows(run: Run) -> list[dict[str, Any]]:
    """A row per compared candidate: first the kernels, compared at planning, then C and whitening."""
    normalisation, standardise = read_normalisation(run), run.shape.standardised
    judged = [one.row(normalisation, run.kernel, standardise) for one in read_candidates(run)]
    return [*run.kernel_choice.candidates, *judged]


def read_trials(run: Run, count: int) -> list[JudgedCandidate]:
    """The scored candidates of the first trials."""
    trials = (_read_result(run.directory, "candidates", number) for number in range(count))
    return [
        JudgedCandidate(
            Candidate(scored["C"], scored["whiten"], scored["calibration"]),
            scored["log_loss"],
            np.array(scored["losses"]),
        )
        for scored in trials
    ]


def chosen_calibration(run: Run) -> Calibration:
    """The calibration of the run's machines. If several are compared, the unit of the first coupling chooses it."""
    if len(run.settings.calibrations) == 1:
        return run.settings.calibrations[0]
    chosen: Calibration = _read_result(run.directory, "calibration", 0)["calibration"]
    return chosen


def chosen_coupling(run: Run) -> str:
    """The coupling of the model."""
    if len(run.settings.couplings) == 1:
        return run.settings.coupling
    chosen: str = _read_result(run.directory, "calibration", 0)["coupling"]
    return chosen


def chosen_shortlist(run: Run) -> int | None:
    """Number of classes that the model couples per sample; None means all.

    If held-out samples decide, the unit of the first coupling chooses it.
    """
    if run.longest_list == run.shortlist:
        return run.shortlist
    length: int = _read_result(run.directory, "calibration", 0)["shortlist"]
    return length


def methods_of(run: Run) -> dict[str, str]:
    """The couplings of the run by name. "auto" stands for the coupling that was chosen for the model."""
    first, *others = run.shape.couplings
    return {first: chosen_coupling(run), **{name: name for name in others}}


def judged_calibrations(run: Run) -> list[dict[str, Any]]:
    """The calibrations and couplings that were compared, with their held-out log losses; empty without a choice."""
    if len(run.settings.calibrations) == len(run.settings.couplings) == 1:
        return []
    judged: list[dict[str, Any]] = _read_result(run.directory, "calibration", 0)["calibrations"]
    return judged


def as_chosen(run: Run, machines: Calibrated) -> Calibrated:
    """Stored machines with the calibration that was chosen."""
    settings = run.settings
    into_distances = settings.turns_into_distances(chosen_calibration(run))
    return machines.by_distance(settings.machines().scheme) if into_distances else machines


def write_slopes(run: Run, pairs: PairSlopes) -> list[str]:
    """Write the slopes of all pairs, given in the order of the model, and their prior distribution."""
    slopes, as_stored = pairs.slopes, np.argsort(run.shape.order)
    both = np.column_stack([slopes.slope, slopes.without_part])[as_stored]
    prior = pairs.prior._asdict() | {"weights": pairs.prior.weights.tolist()}
    return [
        *write_whole(open_group(run.directory, "machines.zarr", write=True)["slopes"], (0, 0), both),
        *write_result(run.directory, "slopes", "prior", prior),
    ]


def read_slopes(directory: Location, order: NDArray[np.intp]) -> PairSlopes:
    """The slopes of the pairs, permuted by ``order``."""
    stored = read_whole(open_group(directory, "machines.zarr")["slopes"])[order]
    prior = _read_result(directory, "slopes", "prior")
    prior["weights"] = np.array(prior["weights"])
    return PairSlopes(Slopes(stored[:, 0], stored[:, 1:]), SlopePrior(**prior))


def sample_weights(run: Run, rows: Mapping[int, Sized]) -> dict[int, NDArray[np.float64]] | None:
    """The weights of the rows of some classes; None without class weights."""
    if run.class_weights is None:
        return None
    return {c: np.full(len(of_class), run.class_weights[c]) for c, of_class in rows.items()}


def class_weights_of(run: Run, classes: NDArray[np.integer]) -> NDArray[np.float64] | None:
    """The weights of samples, given their classes; None without class weights."""
    return None if run.class_weights is None else np.array(run.class_weights)[classes]


def read_wave(directory: Location, wave: int) -> Wave:
    """The score of the model after a wave, and the pairs that were proposed for the next one."""
    content = _read_result(directory, "growth", wave)
    typed = {"proposed": [(i, j) for i, j in content["proposed"]], "mass": ListMass(*content["mass"])}
    return Wave(**content | typed)


def remove_waves(directory: Location, first: int) -> None:
    """Remove the results of waves from number ``first`` on, which the run no longer has.

    The ledger says which files they are; other files with such names do not belong to the run and stay.
    """
    ledger = Ledger(directory)
    for entry in ledger.beyond("growth", first):
        path = _path("growth", entry.unit)
        if ledger.folder.digest(path) == entry.files.get(path, ""):
            ledger.folder.delete(path)


def read_calibrations(run: Run) -> dict[str, CoupledCalibration]:
    """The calibration of the coupled model by the name of the coupling in the run, with sorted edges."""
    return {name: _read_calibration(run, number) for number, name in enumerate(run.shape.couplings)}


def _read_calibration(run: Run, number: int) -> CoupledCalibration:
    level = run.settings.coupled_calibration
    scale, mass = read_scale(run.directory, number), read_list_mass(run.directory, number)
    how = chosen_calibration(run)
    if not run.shape.edges_calibrated:
        coupling = run.shape.couplings[number]
        scaled = CoupledCalibration.scaled(level, scale, coupler_of_run(run), how, coupling)
        return scaled._replace(mass=mass)
    slope, shift = read_edge_calibration(run.directory, number, run.shape.order)
    pairs = read_slopes(run.directory, run.shape.order) if how == "slopes" else None
    return CoupledCalibration(level, scale, slope, shift, pairs=pairs, mass=mass)


def read_scale(directory: Location, number: int) -> float:
    """The scale of the coupled model for coupling ``number``."""
    return float(read_whole(open_group(directory, "probabilities.zarr")["scale"], number))


def read_list_mass(directory: Location, number: int) -> ListMass:
    """The mass of the lists for coupling ``number``."""
    return ListMass(*read_whole(open_group(directory, "probabilities.zarr")["list_mass"], number).tolist())


def write_scores(run: Run, number: int, scores: HeldOutScores) -> list[str]:
    """Write the model's scores of its held-out samples, for coupling ``number``.

    A whitened model may be calibrated by fewer samples than are drawn. The remaining rows of the array have no class.
    """
    group = open_group(run.directory, "probabilities.zarr", write=True)
    table = np.full(group["held_out_scores"].shape[1:], -1.0)
    table[: len(scores.classes)] = scores.table()
    weights = np.zeros(group["novelty"].shape[1:])
    weights[:, : len(scores.novelty.weight)] = scores.novelty
    files = write_whole(group["held_out_scores"], (number, 0, 0), table[None])
    return files + write_whole(group["novelty"], (number, 0, 0), weights[None])


def read_scores(directory: Location, number: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The scores of the held-out samples for coupling ``number``, and the weights of the novelty signals.

    Signals that the model does not have are stored with a deviation of zero and left out here.
    """
    group = open_group(directory, "probabilities.zarr")
    weights = read_whole(group["novelty"], number)
    return read_whole(group["held_out_scores"], number), weights[:, weights[-1] > 0]


def read_edge_calibration(
    directory: Location, number: int, order: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Slope and shift of every edge for coupling ``number``, with edges permuted by ``order``."""
    group = open_group(directory, "probabilities.zarr")
    return read_whole(group["slope"], number)[order], read_whole(group["shift"], number)[order]


def held_out_loss(directory: Location, number: int) -> float | None:
    """The held-out log loss of coupling ``number``; None until it is calibrated on held-out samples."""
    try:
        return float(_read_result(directory, "calibration", number)["log_loss"])
    except FileNotFoundError:
        return None


def read_mass_check(directory: Location, number: int) -> MassCheck | None:
    """Whether the mass of the lists is right on held-out samples, for coupling ``number``; None without lists."""
    try:
        lists = _read_result(directory, "calibration", number)["lists"]
    except FileNotFoundError:
        return None
    return None if lists is None else MassCheck(**lists)


def read_learned(run: Run) -> Learned | None:
    """The weights learned through the coupling, with sorted edges; None if the run keeps those of its machines."""
    record = read_learning_record(run)
    if record is None:
        return None
    weights = read_learned_weights(run.directory, run.shape.order) if record.iterations else None
    return Learned(weights, record)


def read_learning_record(run: Run) -> LearningRecord | None:
    """The record of learning through the coupling; None if the run does not learn."""
    if run.settings.learn == "machines":
        return None
    return LearningRecord(**_read_result(run.directory, "learning", "record"))


def remaining_calibrations(run: Run) -> dict[str, CoupledCalibration]:
    """The calibrations to apply at prediction, by coupling method. Learned logits are scaled already."""
    record, named, methods = read_learning_record(run), read_calibrations(run), methods_of(run)
    calibrations = {methods[name]: calibration for name, calibration in named.items()}
    if record is None or not record.iterations:
        return calibrations
    none_left = CoupledCalibration.uniform(run.settings.coupled_calibration, 1.0, run.shape.n_edges)
    return {method: none_left._replace(mass=c.mass) for method, c in calibrations.items()}


def read_learned_weights(directory: Location, order: NDArray[np.intp]) -> AffineLogits:
    """The weights learned through the coupling, with edges permuted by ``order``."""
    group = open_group(directory, "machines.zarr")
    weights, bias = (read_whole(group[name])[order] for name in ("learned_coef", "learned_intercept"))
    return AffineLogits(weights, bias)
