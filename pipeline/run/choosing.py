"""The choice of C, whitening and calibration in a run: one task trains and scores each trial, and the best is used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pairloom.graphs import Sides
from pairloom.pipeline.machines.kernel_model import KernelModel, train_kernel_model
from pairloom.pipeline.machines.linear_model import LinearModel, train_linear_model
from pairloom.pipeline.model.choice import (
    Candidate,
    JudgedCandidate,
    Probe,
    best_candidate,
    n_trials,
    part_of_class,
    trial,
)
from pairloom.pipeline.model.judging import judge_trial
from pairloom.pipeline.model.model_settings import ModelSettings
from pairloom.pipeline.model.training_set import TrainingSet
from pairloom.pipeline.run.feature_store import read_class
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.storage.atomic_file import write_atomically

__all__ = [
    "chosen_candidate",
    "class_weights_of",
    "judge_candidates",
    "read_candidates",
    "sample_weights",
    "train_on",
]


def judge_candidates(run: Run, number: int) -> list[Path]:
    """Train a trial on the probe, and write the out-of-fold coupled log loss of its candidates."""
    assert run.probe is not None
    settings, before = run.settings, _read_trials(run.directory, number)
    judged = judge_trial(
        _probe_set(run, run.probe),
        run.probe.graph,
        settings,
        trial(settings.candidates, number, before),
        train_on,
        memory_limit=run.memory_limit,
    )
    content = [
        {**one.candidate._asdict(), "log_loss": one.log_loss, "losses": one.losses.tolist()} for one in judged
    ]
    path = _trial_file(run.directory, number)
    write_atomically(path, (json.dumps(content) + "\n").encode())
    return [path]


def _probe_set(run: Run, probe: Probe) -> TrainingSet:
    """The training samples of the probe, as `TrainingSet.part` would choose them from all."""
    seed, rows_of = run.settings.seed, []
    for c in probe.classes.tolist():
        rows = read_class(run, c)
        rows_of.append(rows[part_of_class(len(rows), c, seed, probe.most_rows)])
    of_class = np.repeat(np.arange(len(rows_of)), [len(rows) for rows in rows_of])
    weight = class_weights_of(run, probe.classes[of_class])
    return TrainingSet(np.concatenate(rows_of), of_class, len(rows_of), weight)


def train_on(
    settings: ModelSettings, training: TrainingSet, sides: Sides, candidate: Candidate
) -> LinearModel | KernelModel:
    """The machines of the pairs, or of the code, of a training set that is in memory."""
    if settings.kernel is not None:
        return train_kernel_model(
            settings.kernel,
            training.X,
            training.members,
            sides,
            settings.machines(candidate.C, candidate.calibration),
            weight=training.weight,
        )
    return train_linear_model(
        training.by_class(training.X),
        sides,
        settings.machines(candidate.C, candidate.calibration),
        training.whitening(candidate.whiten, settings),
        sample_weight=None if training.weight is None else training.by_class(training.weight),
    )


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


def chosen_candidate(run: Run) -> Candidate:
    """The candidate that the run's machines are trained with."""
    if len(run.settings.candidates) == 1:
        return run.settings.candidates[0]
    return best_candidate(read_candidates(run))


def read_candidates(run: Run) -> list[JudgedCandidate]:
    """All scored candidates; an empty list if there was no choice."""
    return _read_trials(run.directory, n_trials(run.settings.candidates))


def _read_trials(directory: Path, count: int) -> list[JudgedCandidate]:
    return [one for number in range(count) for one in _read_trial(directory, number)]


def _read_trial(directory: Path, number: int) -> list[JudgedCandidate]:
    content = json.loads(_trial_file(directory, number).read_bytes())
    return [
        JudgedCandidate(
            Candidate(one["C"], one["whiten"], one["calibration"]), one["log_loss"], np.array(one["losses"])
        )
        for one in content
    ]


def _trial_file(directory: Path, number: int) -> Path:
    return directory / "candidates" / f"{number:06d}.json"
