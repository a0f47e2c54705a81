"""The choice of C and whitening in a run: one task trains and scores each candidate, and the best is used."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.calibration.coupled_calibration import HeldOut
from pairloom.pipeline.calibration.out_of_fold import out_of_fold_edge_logits
from pairloom.pipeline.calibration.scale import choose_scale
from pairloom.pipeline.completion.complete import plan_completion
from pairloom.pipeline.machines.linear_machines import train_edges
from pairloom.pipeline.machines.linear_model import LinearModel
from pairloom.pipeline.model.choice import (
    PROBE_SAMPLES,
    Candidate,
    JudgedCandidate,
    best_candidate,
)
from pairloom.pipeline.run.feature_store import read_classes, read_draws, read_whitening
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.storage.atomic_file import write_atomically

__all__ = ["chosen_candidate", "class_weights_of", "judge_candidate", "read_candidates", "sample_weights"]


def judge_candidate(run: Run, number: int) -> list[Path]:
    """Train a candidate on the probe graph and write its out-of-fold coupled log loss."""
    candidate, settings = run.settings.candidates[number], run.settings
    held_out = _held_out(run, candidate)
    completion = plan_completion(graphs.model_graph(len(run.shape.classes), run.probe.tolist(), "probe"))
    choice = choose_scale(
        held_out.logits,
        held_out.classes,
        completion,
        settings.coupling,
        weight=held_out.weight,
        memory_limit=run.memory_limit,
    )
    content = {**candidate._asdict(), "log_loss": choice.log_loss, "losses": choice.losses.tolist()}
    path = _candidate_file(run.directory, number)
    write_atomically(path, (json.dumps(content) + "\n").encode())
    return [path]


def _held_out(run: Run, candidate: Candidate) -> HeldOut:
    """Out-of-fold logits of the drawn samples from the machines of a candidate on the probe graph."""
    settings, machines = run.settings, run.settings.machines(candidate.C)
    rows = read_classes(run, range(len(run.shape.classes)), candidate.whiten)
    trained = train_edges(rows, run.probe, machines, sample_weight=sample_weights(run, rows))
    model = LinearModel(trained, read_whitening(run, candidate.whiten))
    most = settings.compared_samples(run.probe_is_own, PROBE_SAMPLES)
    drawn = read_draws(run, most, settings.may_whiten)
    logits = out_of_fold_edge_logits(
        model.logits, run.probe, machines.scheme, drawn.X, drawn.classes, drawn.folds
    )
    return HeldOut(logits, drawn.classes, class_weights_of(run, drawn.classes))


def sample_weights(run: Run, rows: dict[int, NDArray[np.float32]]) -> dict[int, NDArray[np.float64]] | None:
    """The weights of the rows of some classes; None without class weights."""
    if run.class_weights is None:
        return None
    return {c: np.full(len(of_class), run.class_weights[c]) for c, of_class in rows.items()}


def class_weights_of(run: Run, classes: NDArray[np.integer]) -> NDArray[np.float64] | None:
    """The weights of samples, given their classes; None without class weights."""
    return None if run.class_weights is None else np.array(run.class_weights)[classes]


def chosen_candidate(run: Run) -> Candidate:
    """The candidate that the run's machines are trained with."""
    if len(run.settings.candidates) == 1:
        return run.settings.candidates[0]
    return best_candidate(read_candidates(run))


def read_candidates(run: Run) -> list[JudgedCandidate]:
    """All scored candidates; an empty list if there was no choice."""
    if len(run.settings.candidates) == 1:
        return []
    return [_read_candidate(run.directory, number) for number in range(len(run.settings.candidates))]


def _read_candidate(directory: Path, number: int) -> JudgedCandidate:
    content = json.loads(_candidate_file(directory, number).read_bytes())
    candidate = Candidate(content["C"], content["whiten"])
    return JudgedCandidate(candidate, content["log_loss"], np.array(content["losses"]))


def _candidate_file(directory: Path, number: int) -> Path:
    return directory / "candidates" / f"{number:06d}.json"
