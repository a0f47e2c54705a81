"""Learning through the coupling in a run: one task learns the weights of all machines, once they are calibrated.

Every step needs the logits of all pairs on all its samples at once, so nothing here is cut into tiles. The samples are
at most `coupled_learning.MOST_SAMPLES`, the weights at most `learning.MOST_WEIGHTS`, whatever the size of the run.
"""

from __future__ import annotations

import json
from pathlib import Path

from pairloom.pipeline.calibration.coupled_calibration import CoupledCalibration
from pairloom.pipeline.calibration.coupled_learning import LearningRecord, sample_limit
from pairloom.pipeline.calibration.drawn_samples import draw_evenly_by_class
from pairloom.pipeline.completion.complete import Completion
from pairloom.pipeline.machines.linear_model import LinearModel
from pairloom.pipeline.machines.logits import AffineLogits
from pairloom.pipeline.model.learning import DrawnRows, Learned, learn_weights
from pairloom.pipeline.run.calibrating import read_calibrations
from pairloom.pipeline.run.choosing import chosen_candidate, class_weights_of
from pairloom.pipeline.run.feature_store import read_normalisation, read_raw_rows, read_whitening
from pairloom.pipeline.run.machine_store import read_machines
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_completion import wiring_of_run
from pairloom.pipeline.run.run_directory import open_group, write_whole
from pairloom.pipeline.storage.atomic_file import write_atomically
from pairloom.pipeline.storage.zarr_layout import chunk_file, read_whole

__all__ = ["learn_model", "read_learned", "read_learning_record", "remaining_calibrations"]


def learn_model(run: Run) -> list[Path]:
    """Learn the weights of all machines; write them, and the record. Where the machines are kept, the record only."""
    completion = wiring_of_run(run)
    assert isinstance(completion, Completion), "machines on sets of classes are not learned"
    coupled = read_calibrations(run)[run.settings.coupling]
    learned = learn_weights(_drawn_rows(run), _trained(run), run.settings, coupled, completion)
    files = _remove_weights(run) if learned.logits is None else _write_weights(run, learned.logits)
    path = _record_file(run.directory)
    write_atomically(path, (json.dumps(learned.record._asdict()) + "\n").encode())
    return [*files, path]


def read_learned(run: Run) -> Learned | None:
    """The result of `learn_model`, with sorted edges; None if the run keeps the weights of its machines anyway."""
    record = read_learning_record(run)
    if record is None:
        return None
    return Learned(_read_weights(run) if record.iterations else None, record)


def read_learning_record(run: Run) -> LearningRecord | None:
    """What learning has done; None if the run does not learn."""
    if run.settings.learn == "machines":
        return None
    return LearningRecord(**json.loads(_record_file(run.directory).read_bytes()))


def remaining_calibrations(run: Run) -> dict[str, CoupledCalibration]:
    """The calibrations of the logits that predict, by coupling method: of learned ones none, they were calibrated."""
    record = read_learning_record(run)
    if record is None or not record.iterations:
        return read_calibrations(run)
    none_left = CoupledCalibration.uniform(run.settings.coupled_calibration, 1.0, run.shape.n_edges)
    return dict.fromkeys(run.shape.couplings, none_left)


def _drawn_rows(run: Run) -> DrawnRows:
    """The samples that an estimator would learn from, in the same order."""
    settings = run.settings
    drawn = draw_evenly_by_class(run.rows, sample_limit(run.shape.n_edges), settings.folds, settings.seed)
    X = read_normalisation(run)(read_raw_rows(run, run.starts[drawn.classes] + drawn.rows))
    return DrawnRows(drawn, X, class_weights_of(run, drawn.classes))


def _trained(run: Run) -> LinearModel:
    """All machines, in the order of the sorted edges."""
    machines = read_machines(run.directory).of_edges(run.shape.order)
    return LinearModel(machines, read_whitening(run, chosen_candidate(run).whiten))


def _write_weights(run: Run, logits: AffineLogits) -> list[Path]:
    """Write learned weights in the order of the tiles, as all arrays of edges are."""
    group, as_stored = open_group(run.directory, "machines.zarr", write=True), run.shape.order.argsort()
    return [
        *write_whole(group["learned_coef"], (0, 0), logits.weights[as_stored]),
        *write_whole(group["learned_intercept"], (0,), logits.bias[as_stored]),
    ]


def _remove_weights(run: Run) -> list[Path]:
    """Remove weights that were learned with other settings."""
    group = open_group(run.directory, "machines.zarr", write=True)
    for name in ("learned_coef", "learned_intercept"):
        chunk_file(group[name], (0,) * group[name].ndim).unlink(missing_ok=True)
    return []


def _read_weights(run: Run) -> AffineLogits:
    group, order = open_group(run.directory, "machines.zarr"), run.shape.order
    weights, bias = (read_whole(group[name])[order] for name in ("learned_coef", "learned_intercept"))
    return AffineLogits(weights, bias)


def _record_file(directory: Path) -> Path:
    return directory / "learning" / "record.json"
