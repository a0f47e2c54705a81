"""Calibration of the coupled model on the held-out samples, one unit per coupling."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pairloom.pipeline.calibration.coupled_calibration import (
    CoupledCalibration,
    JudgedCalibration,
    best_calibration,
    calibrate_coupled,
    calibrate_scale,
    judge_couplings,
)
from pairloom.pipeline.calibration.held_out import HeldOutSamples
from pairloom.pipeline.calibration.held_out_scores import HeldOutScores, score_held_out
from pairloom.pipeline.calibration.list_length import is_clearly_better, misses_classes, next_length
from pairloom.pipeline.calibration.list_mass import MassCheck, check_mass
from pairloom.pipeline.calibration.novelty_signals import ClassPlaces, Distances
from pairloom.pipeline.completion.shortlist import with_mass
from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.machines.normalisation import is_whitened
from pairloom.pipeline.machines.settings import Calibration as MachineCalibration
from pairloom.pipeline.run.costs import READS_AT_ONCE, SWEEPS, StageCost
from pairloom.pipeline.run.feature_store import distances_of_draws
from pairloom.pipeline.run.held_out_store import read_held_out
from pairloom.pipeline.run.machine_store import coupler_of_run, distances_to_support
from pairloom.pipeline.run.needs import (
    FLOAT,
    completion_bytes,
    listed_at_once_bytes,
    machine_read_bytes,
    row_bytes,
    support_bytes,
    support_distance_bytes,
)
from pairloom.pipeline.run.results import (
    chosen_calibration,
    chosen_candidate,
    chosen_shortlist,
    read_slopes,
    write_result,
    write_scores,
)
from pairloom.pipeline.run.run import Keys, Run, Stage
from pairloom.pipeline.run.run_directory import open_group, write_whole
from pairloom.pipeline.storage.digests import digest_of

__all__ = ["Calibration", "held_out_task_bytes"]


class Calibration(Stage):
    """Find the scale of the model and the mass of its lists for a coupling; and slopes and shifts, if they are learned.

    The first unit, for the coupling of the model, also chooses the calibration of the machines and the length of the
    shortlist, which the other couplings share, and the coupling if that is "auto".
    """

    name = "calibration"
    where = "in turn"
    folders = ("probabilities.zarr", "calibration")
    scores = True
    advice = ", or lower model.calibration_samples"
    cost = StageCost(
        "coupling",
        seconds=(0.02, 3e-9),
        work=lambda s: s.draws * SWEEPS * (s.couplings + s.calibrations - 1) * s.listed**2,
        reads=lambda s: s.couplings * s.held_out_bytes,
        operations=lambda s: 10.0 + 4 * s.draw_slabs / READS_AT_ONCE,
        memory=lambda s: 4 * s.held_out_bytes,
    )

    def keys(self, run: Run, earlier: Keys) -> tuple[str, ...]:
        """They depend on the held-out samples and on how they are coupled."""
        shape, settings = run.shape, run.settings.read_in("listing", "coupling", "calibrating")
        common: list[Any] = [earlier["held_out"], settings, shape.edges_calibrated]
        common += ["distances to support"] if run.kernel is not None else []
        common += [["lists of up to", run.longest_list]] if run.longest_list != run.shortlist else []
        return tuple(digest_of([*common, coupling]) for coupling in shape.couplings)

    def work(self, run: Run, unit: int, data: OpenFeatures | None) -> list[str]:
        """Calibrate the model for a coupling."""
        shape = run.shape
        calibration, best, judged, lists, scores, length = _calibrated(run, unit)
        group = open_group(run.directory, "probabilities.zarr", write=True)
        files = write_whole(group["scale"], (unit,), np.array([calibration.scale]))
        files += write_whole(group["list_mass"], (unit, 0), np.array([calibration.mass]))
        if scores is not None:
            files += write_scores(run, unit, scores)
        if shape.edges_calibrated:
            as_stored = np.argsort(shape.order)
            files += write_whole(group["slope"], (unit, 0), calibration.slope[as_stored][None])
            files += write_whole(group["shift"], (unit, 0), calibration.shift[as_stored][None])
        if best is not None:
            content = {
                "coupling": best.coupling,
                "scale": calibration.scale,
                "log_loss": calibration.log_loss,
                "calibration": best.calibration,
                "calibrations": [one.row() for one in judged] if len(judged) > 1 else [],
                "lists": None if lists is None else lists._asdict(),
                "shortlist": length,
            }
            files += write_result(run.directory, self.name, unit, content)
        return files

    def task_bytes(self, run: Run) -> int:
        """See `held_out_task_bytes`. Or the distances to the support vectors, which are found when all else is done."""
        needed = held_out_task_bytes(run, run.longest_list)
        return max(needed, _lengthening_bytes(run), support_distance_bytes(run))


class _Calibrated(NamedTuple):
    """The calibration of the model for a coupling, the best of the compared calibrations, and all of them.

    ``lists`` says whether the mass of shortlists is right on the held-out samples; ``scores`` are the scores of these
    samples by the calibrated model; ``length`` is the number of classes that are coupled per sample, None if all are.
    """

    coupled: CoupledCalibration
    best: JudgedCalibration | None
    judged: list[JudgedCalibration]
    lists: MassCheck | None
    scores: HeldOutScores | None
    length: int | None


def _calibrated(run: Run, unit: int) -> _Calibrated:
    settings, coupler = run.settings, coupler_of_run(run)
    level, couplings = settings.coupled_calibration, _couplings(run, unit)
    if level == "none":
        how = settings.calibrations[0]
        scaled = CoupledCalibration.scaled(level, 1.0, coupler, how, couplings[0])
        return _Calibrated(scaled, None, [], None, None, run.shortlist)
    length = run.shortlist if unit == 0 else chosen_shortlist(run)
    held_out_by = functools.partial(read_held_out, run, run.shape.n_edges, length=length)
    judged = [_judged(run, held_out_by, calibration, couplings[0]) for calibration in _compared(run, unit)]
    judged = judge_couplings(judged, held_out_by, coupler, couplings)
    best = best_calibration(judged)
    held_out = held_out_by(best.calibration)
    if unit == 0:
        best, held_out, length = _lengthened(run, best, held_out)
    coupled = calibrate_coupled(
        held_out,
        coupler,
        best.coupling,
        level,
        calibration=best.calibration,
        pairs=best.pairs,
        choice=best.choice,
    )
    samples = with_mass(held_out.samples, coupled.mass)
    lists = check_mass(samples, held_out.classes, coupled.scale, held_out.weight, held_out.totals)
    distances, places = _distances(run)
    scores = score_held_out(
        held_out, coupler, best.coupling, coupled, length, distances=distances, places=places
    )
    return _Calibrated(coupled, best, judged, lists, scores, length)


def _lengthened(
    run: Run, best: JudgedCalibration, held_out: HeldOutSamples
) -> tuple[JudgedCalibration, HeldOutSamples, int | None]:
    """The calibration and the held-out samples with lists that double as long as all held-out samples gain."""
    length, n_classes = run.shortlist, len(run.shape.classes)
    if length is None or not run.settings.may_lengthen:
        return best, held_out, length
    while misses_classes(held_out) and (longer := next_length(length, n_classes)) is not None:
        changed = read_held_out(run, run.shape.n_edges, best.calibration, longer)
        choice = calibrate_scale(changed, best.coupling, near=best.choice.scale)
        if not is_clearly_better(choice, best.choice):
            break
        best, held_out, length = best._replace(choice=choice), changed, longer
    return best, held_out, length


def _distances(run: Run) -> tuple[Distances | None, ClassPlaces | None]:
    """How far the held-out samples are from the support vectors, or from the classes, and the places of these."""
    whitened = is_whitened(chosen_candidate(run).whiten)
    if run.kernel is not None:
        return distances_to_support(run, whitened), None
    return distances_of_draws(run, whitened)


def _couplings(run: Run, unit: int) -> tuple[str, ...]:
    """The couplings that a unit compares: those to choose from for the first, its own for the others."""
    return run.settings.couplings if unit == 0 else (run.shape.couplings[unit],)


def _compared(run: Run, unit: int) -> tuple[MachineCalibration, ...]:
    """The calibrations that are compared for a coupling: all for the first, and its choice for the others."""
    return run.settings.calibrations if unit == 0 else (chosen_calibration(run),)


def _judged(
    run: Run,
    held_out_by: Callable[[MachineCalibration], HeldOutSamples],
    calibration: MachineCalibration,
    coupling: str,
) -> JudgedCalibration:
    choice = calibrate_scale(held_out_by(calibration), coupling)
    pairs = read_slopes(run.directory, run.shape.order) if calibration == "slopes" else None
    return JudgedCalibration(calibration, coupling, choice, pairs)


def _lengthening_bytes(run: Run) -> int:
    """Longer lists of all held-out samples by each length, and the logits that they need."""
    shape, N, longest = run.shape, len(run.shape.classes), run.longest_list
    if longest is None or longest == run.shortlist or not shape.listed:
        return 0
    lists = FLOAT * shape.draws * (3 * longest**2 + 2 * N)
    if run.kernel is None and shape.sparse is None:
        needed = listed_at_once_bytes(run, longest, shape.draws)
    else:
        needed = FLOAT * 3 * min(shape.draws_per_slab, shape.draws) * run.most_pairs
        needed += support_bytes(run, shape.edges_per_tile)
    return lists + needed + 3 * row_bytes(run, "draws") + machine_read_bytes(run) + completion_bytes(run)


def held_out_task_bytes(run: Run, length: int | None) -> int:
    """All held-out samples: completed, scaled and coupled, with lists of this length."""
    shape, N, drawn = run.shape, len(run.shape.classes), row_bytes(run, "draws")
    if shape.code is not None:
        by_machine = 4 * shape.n_edges + 4 * N
        gradients = 64 * 8 * 4 * N * (N + shape.n_edges) if shape.edges_calibrated else 0
        return FLOAT * shape.draws * by_machine + drawn + gradients + completion_bytes(run)
    if shape.listed and length is not None:
        return FLOAT * shape.draws * (4 * length**2 + 4 * N) + drawn
    blocks = 3 * (length or N) ** 2
    completed = min(run.memory_limit // 2, FLOAT * shape.draws * blocks)
    by_edges = FLOAT * shape.draws * (3 * run.most_pairs + 3 * N) + drawn
    return by_edges + completed + completion_bytes(run)
