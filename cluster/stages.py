"""The stages of a run. Each is defined once: its name, where it runs, the keys of its units, and their work.

A stage consists of units of work. The key of a unit is the digest of everything that its result depends on, including
the keys of the units that it reads. So a change recomputes only the units that depend on it: new couplings or test
samples leave the machines alone, and a tile of machines depends on no edges but its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pairloom.cluster.growing_run import judged_waves
from pairloom.cluster.ledger import Ledger
from pairloom.cluster.run_record import run_record, run_times
from pairloom.graphs import ModelCode, code_as_text, edge_array
from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.model.choice import n_trials
from pairloom.pipeline.report.report import write_report
from pairloom.pipeline.run.calibrating import calibrate_coupling, judge_model
from pairloom.pipeline.run.choosing import judge_candidates
from pairloom.pipeline.run.coupling import couple_samples
from pairloom.pipeline.run.holding_out import hold_out_slab
from pairloom.pipeline.run.learning import learn_model
from pairloom.pipeline.run.predicting import predict_samples
from pairloom.pipeline.run.run_model import write_run_model
from pairloom.pipeline.run.storing import (
    store_draws,
    store_rows,
    store_samples,
    store_statistics,
    store_whitenings,
)
from pairloom.pipeline.run.tensor_store import store_tensor
from pairloom.pipeline.run.training import train_tile
from pairloom.pipeline.storage.digests import digest_of

if TYPE_CHECKING:
    from pairloom.cluster.plan import Plan

__all__ = ["STAGES", "STAGE_NAMES", "Stage", "stage_named", "unit_keys"]

Keys = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Stage:
    """One stage of a run.

    Attributes
    ----------
    name
        Name of the stage, and of its folder in the ledger.
    where
        "driver": in the driver, which has opened the data, or because the work is small. "cluster": as tasks.
        "in turn": as tasks, one after the other.
    keys
        ``keys(plan, earlier)`` returns the keys of its units, given those of earlier stages.
    work
        ``work(directory, plan, unit, data)`` does a unit and returns the files that it wrote. Units may run
        on any host, in any order within their stage, and several times, even at once: they write the same bytes.
        ``data`` are the features if the stage needs them, else None.
    needs_data
        Whether the work needs the features from the driver.
    """

    name: str
    where: Literal["driver", "cluster", "in turn"]
    keys: Callable[[Plan, Keys], tuple[str, ...]]
    work: Callable[[Path, Plan, int, OpenFeatures | None], list[Path]]
    needs_data: bool = False


def unit_keys(plan: Plan) -> dict[str, tuple[str, ...]]:
    """The keys of all units, by stage."""
    keys: dict[str, tuple[str, ...]] = {}
    for stage in STAGES:
        keys[stage.name] = stage.keys(plan, keys)
    return keys


def stage_named(name: str) -> Stage:
    """The stage with this name."""
    return next(stage for stage in STAGES if stage.name == name)


# Features: the training rows, sorted by class.


def _features_keys(plan: Plan, earlier: Keys) -> tuple[str, ...]:
    # The standard deviations are stored beside the rows.
    standardised = ["standardised"] if plan.shape.standardised else []
    key = digest_of([plan.format, plan.versions["pairloom"], plan.fingerprints["train"], *standardised])
    return (key,) * len(plan.row_blocks)


def _store_features(directory: Path, plan: Plan, unit: int, data: OpenFeatures | None) -> list[Path]:
    data = _present(data)
    return store_rows(plan.run(directory), data, data.by_class(directory), plan.row_blocks[unit])


# Samples: the test samples.


def _samples_keys(plan: Plan, earlier: Keys) -> tuple[str, ...]:
    key = digest_of([plan.format, plan.fingerprints["test"], plan.shape.samples_per_slab])
    return (key,) * len(plan.slabs)


def _store_samples(directory: Path, plan: Plan, unit: int, data: OpenFeatures | None) -> list[Path]:
    return store_samples(plan.run(directory), _present(data), plan.slabs[unit])


# Draws: training samples that calibrate the coupled model.


def _draws_keys(plan: Plan, earlier: Keys) -> tuple[str, ...]:
    model = plan.config.model
    drawn = [plan.shape.draws, model.calibration_samples, model.folds, model.random_state]
    return (digest_of([earlier["features"][0], *drawn]),) * bool(plan.shape.draws)


def _store_draws(directory: Path, plan: Plan, unit: int, data: OpenFeatures | None) -> list[Path]:
    return store_draws(plan.run(directory))


# Statistics: checksums of the classes and, for whitening, their means and scatter without the drawn samples.


def _statistics_keys(plan: Plan, earlier: Keys) -> tuple[str, ...]:
    model = plan.config.model
    held_out = [model.calibration_samples, model.folds, model.random_state] if plan.shape.whitenings else None
    return (digest_of([earlier["features"][0], held_out]),) * len(plan.class_parts)


def _store_statistics(directory: Path, plan: Plan, unit: int, data: OpenFeatures | None) -> list[Path]:
    return store_statistics(plan.run(directory), unit)


# Whitening: all candidate whitenings.


def _whitening_keys(plan: Plan, earlier: Keys) -> tuple[str, ...]:
    # Rows are normalised as the kernel needs them.
    normalised = [] if plan.kernel is None else [plan.kernel.name]
    return (digest_of([earlier["statistics"][0], list(plan.shape.shrinkages), *normalised]),)


def _store_whitenings(directory: Path, plan: Plan, unit: int, data: OpenFeatures | None) -> list[Path]:
    return store_whitenings(plan.run(directory))


# Candidates: C, whitening and calibration, trained and scored on the probe. No units if there is no choice. Later
# trials depend on the results of earlier ones, which depend on the same facts: so these are all that a key needs.


def _candidates_keys(plan: Plan, earlier: Keys) -> tuple[str, ...]:
    if plan.probe is None:
        return ()
    model = plan.config.model
    graph = plan.probe.graph
    sides = code_as_text(graph.matrix) if isinstance(graph, ModelCode) else edge_array(graph).tolist()
    probe = [plan.probe.classes.tolist(), sides, plan.probe.most_rows]
    coupled = [plan.shape.couplings[0], model.shortlist, model.calibration_samples, model.machine_weight]
    common = [earlier["features"][0], _training_facts(plan), coupled, probe]
    common.append([list(candidate) for candidate in plan.candidates])
    return tuple(digest_of([*common, number]) for number in range(n_trials(plan.candidates)))


def _judge_candidates(directory: Path, plan: Plan, unit: int, data: OpenFeatures | None) -> list[Path]:
    return judge_candidates(plan.run(directory), unit)


# Machines: tiles of edges, or of columns of a code.


def _training_facts(plan: Plan) -> list[object]:
    """All settings that machines depend on, except the choice among candidates."""
    m = plan.config.model
    kernel = [] if plan.kernel is None else [asdict(plan.kernel), plan.shape.kernel_rows]
    return [[m.folds, m.fit_on, m.thresholds, m.tol, m.random_state], plan.class_weights, *kernel]


def _machine_key(plan: Plan, earlier: Keys) -> str:
    """The digest of everything that all machines depend on."""
    chosen = earlier["candidates"] or list(plan.candidates[0])
    return digest_of([earlier["whitening"][0], _training_facts(plan), chosen, plan.shape.edges_per_tile])


def _machines_keys(plan: Plan, earlier: Keys) -> tuple[str, ...]:
    machine = _machine_key(plan, earlier)
    return tuple(digest_of([machine, plan.shape.described(tile)]) for tile in plan.tiles)


def _train(directory: Path, plan: Plan, unit: int, data: OpenFeatures | None) -> list[Path]:
    return train_tile(plan.run(directory), plan.tiles[unit])


# Held out: slabs of the drawn samples, scored by all edges. A wave of growth has them scored again: applying machines
# costs little beside training them.


def _held_out_keys(plan: Plan, earlier: Keys) -> tuple[str, ...]:
    facts = [plan.config.model.shortlist, plan.shape.listed, plan.shape.draws_per_slab]
    key = digest_of([earlier["machines"], earlier["draws"], *facts])
    return (key,) * len(plan.draw_slabs)


def _hold_out(directory: Path, plan: Plan, unit: int, data: OpenFeatures | None) -> list[Path]:
    return hold_out_slab(plan.run(directory), plan.draw_slabs[unit])


# Growth: one unit per wave, which scores the model. It depends on the waves before it and on its own edges.


def _growth_keys(plan: Plan, earlier: Keys) -> tuple[str, ...]:
    if plan.config.growth is None:
        return ()
    # The key does not depend on the tiles, because a later wave may extend the last one.
    keys, begin = [digest_of([_machine_key(plan, earlier), earlier["draws"]])], 0
    for wave, end in enumerate(plan.waves):
        edges = plan.shape.edges[begin:end].tolist()
        facts = [plan.judging_coupling, plan.config.growth.cost, edges, plan.pairs_to_propose(wave)]
        model = plan.config.model
        keys.append(digest_of([keys[-1], *facts, model.shortlist, model.machine_weight]))
        begin = end
    return tuple(keys[1:])


def _judge_wave(directory: Path, plan: Plan, unit: int, data: OpenFeatures | None) -> list[Path]:
    assert plan.config.growth is not None
    return judge_model(
        plan.run(directory),
        unit,
        pairs=plan.waves[unit],
        coupling=plan.judging_coupling,
        cost=plan.config.growth.cost,
        most=plan.pairs_to_propose(unit),
    )


# Calibration: of the coupled model, one unit per coupling.


def _calibration_keys(plan: Plan, earlier: Keys) -> tuple[str, ...]:
    model, shape = plan.config.model, plan.shape
    common = [earlier["held_out"], model.coupled_calibration, model.calibration_samples, model.shortlist]
    return tuple(
        digest_of([*common, model.machine_weight, coupling, shape.edges_calibrated])
        for coupling in shape.couplings
    )


def _calibrate(directory: Path, plan: Plan, unit: int, data: OpenFeatures | None) -> list[Path]:
    return calibrate_coupling(plan.run(directory), unit)


# Learning: the weights of all machines, through the coupling. No units if those of the machines are kept.


def _learning_keys(plan: Plan, earlier: Keys) -> tuple[str, ...]:
    if not plan.shape.learned:
        return ()
    return (digest_of([earlier["machines"], earlier["calibration"]]),)


def _learn(directory: Path, plan: Plan, unit: int, data: OpenFeatures | None) -> list[Path]:
    return learn_model(plan.run(directory))


# Model: model.json, from which an estimator reads the model of the run.


def _model_keys(plan: Plan, earlier: Keys) -> tuple[str, ...]:
    facts = [plan.estimator_parameters, plan.model_label, *plan.shape.feature_names]
    return (digest_of([earlier["machines"], earlier["calibration"], facts, *earlier["learning"]]),)


def _describe(directory: Path, plan: Plan, unit: int, data: OpenFeatures | None) -> list[Path]:
    ledger, files = Ledger(directory), dict[str, str]()
    for stage in ("features", "statistics", "whitening", "machines", "calibration", "learning"):
        for entry in ledger.claimed(stage, plan.keys[stage]):
            files |= entry.files
    # Support vectors of machines with a kernel are training rows.
    rows = ("train",) if plan.kernel is None else ()
    unread = [f"features.zarr/{name}/" for name in (*rows, "train_class", "kept_mean", "scatter")]
    unread += ["calibration/", "learning/"]
    needed = {path: digest for path, digest in files.items() if not path.startswith(tuple(unread))}
    return write_run_model(plan.run(directory), plan.model_label, plan.estimator_parameters, needed)


# Logits: the tensor, slabs of test samples scored by all machines. No units if it is virtual.


def _logits_keys(plan: Plan, earlier: Keys) -> tuple[str, ...]:
    if not plan.shape.tensor_stored:
        return ()
    return (digest_of([earlier["machines"], earlier["samples"], *earlier["learning"]]),) * len(plan.slabs)


def _store_tensor(directory: Path, plan: Plan, unit: int, data: OpenFeatures | None) -> list[Path]:
    return store_tensor(plan.run(directory), plan.slabs[unit])


# Probabilities: slabs of test samples, from the tensor where it is stored, else from the machines.


def _probabilities_keys(plan: Plan, earlier: Keys) -> tuple[str, ...]:
    model = plan.config.model
    inputs = earlier["logits"] or [earlier["machines"], earlier["samples"]]
    facts = [plan.shape.couplings, plan.shape.tensor_stored, model.priors, model.shortlist]
    return (digest_of([inputs, earlier["calibration"], *facts, *earlier["learning"]]),) * len(plan.slabs)


def _couple(directory: Path, plan: Plan, unit: int, data: OpenFeatures | None) -> list[Path]:
    work = couple_samples if plan.shape.tensor_stored else predict_samples
    return work(plan.run(directory), plan.slabs[unit])


# Report.


def _report_keys(plan: Plan, earlier: Keys) -> tuple[str, ...]:
    waves = plan.waves if plan.config.growth else None
    return (digest_of([earlier["probabilities"], earlier["calibration"], waves]),)


def _report(directory: Path, plan: Plan, unit: int, data: OpenFeatures | None) -> list[Path]:
    ledger = Ledger(directory)
    stages = STAGE_NAMES[:-1]
    entries = [entry for name in stages for entry in ledger.claimed(name, plan.keys[name])]
    times = run_times(directory, stages, entries)
    return write_report(
        plan.run(directory), run_record(directory, plan), times, judged_waves(directory, plan)
    )


def _present(data: OpenFeatures | None) -> OpenFeatures:
    assert data is not None
    return data


STAGES: tuple[Stage, ...] = (
    Stage("features", "driver", _features_keys, _store_features, needs_data=True),
    Stage("samples", "driver", _samples_keys, _store_samples, needs_data=True),
    Stage("draws", "cluster", _draws_keys, _store_draws),
    Stage("statistics", "cluster", _statistics_keys, _store_statistics),
    Stage("whitening", "cluster", _whitening_keys, _store_whitenings),
    Stage("candidates", "in turn", _candidates_keys, _judge_candidates),
    Stage("machines", "cluster", _machines_keys, _train),
    Stage("held_out", "cluster", _held_out_keys, _hold_out),
    Stage("growth", "in turn", _growth_keys, _judge_wave),
    Stage("calibration", "cluster", _calibration_keys, _calibrate),
    Stage("learning", "cluster", _learning_keys, _learn),
    Stage("model", "cluster", _model_keys, _describe),
    Stage("logits", "cluster", _logits_keys, _store_tensor),
    Stage("probabilities", "cluster", _probabilities_keys, _couple),
    Stage("report", "cluster", _report_keys, _report),
)
STAGE_NAMES = tuple(stage.name for stage in STAGES)
