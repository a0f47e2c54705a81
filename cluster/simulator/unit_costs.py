"""Measured times of units of work, from a finished run or a short run on a part of the data."""

from __future__ import annotations

import csv
import io
import math
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba.core.event import install_timer
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.cluster.config.config_file import with_overrides, with_section
from pairloom.cluster.drive.driver import load_data
from pairloom.cluster.drive.tasks import run_unit
from pairloom.cluster.simulator.workload import cost_of_stage, planned_sizes
from pairloom.pipeline.config.config import Config
from pairloom.pipeline.config.sections import DataConfig, GraphConfig
from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.features.moments import moments_of
from pairloom.pipeline.features.row_sources import Arrays
from pairloom.pipeline.features.source_files import IN_MEMORY, features_of
from pairloom.pipeline.machines.kernel_machines import train_kernel_model
from pairloom.pipeline.machines.linear_machines import train_machines, whitened_rows
from pairloom.pipeline.machines.normalisation import normalised_moments
from pairloom.pipeline.model.training_set import TrainingSet
from pairloom.pipeline.run.costs import RunSizes
from pairloom.pipeline.run.ledger import Entry, Ledger
from pairloom.pipeline.run.run import Run, Stage
from pairloom.pipeline.run.run_directory import stamp_groups
from pairloom.pipeline.run.run_log import begin_times
from pairloom.pipeline.run.tiles import crude_training_seconds, numbers_per_row
from pairloom.pipeline.stages.planning import plan_run
from pairloom.pipeline.stages.run_file import read_run, write_run
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.location import Location
from pairloom.pipeline.threads import one_blas_thread

__all__ = ["StageTimes", "UnitCosts", "costs_of_run", "measure_costs", "row_exponent", "unit_seconds"]


# Numbers of classes, rows per class and samples of the short run: enough classes that samples have shortlists.
_CLASSES, _ROWS, _SAMPLES = 52, 200, 256
# Fewer classes for machines on sets of classes, each of which is trained on the rows of all classes.
_CODED_CLASSES = 12
# Minimum number of units per worker to estimate the extra time of its first unit.
_FEWEST_UNITS = 4


class StageTimes(NamedTuple):
    """Times of the units of a stage, and the extra time of a worker's first unit, which loads kernels and opens files.

    ``each`` is the extra time of every unit, if each loads its own kernels.
    """

    seconds: NDArray[np.float64]
    warm_up: float
    each: float = 0.0


class UnitCosts(NamedTuple):
    """Measured times of the units of every stage, and the sizes of the run in which they were measured.

    The time per row of a pair grows as its rows to the power of ``row_exponent``.
    """

    sizes: RunSizes
    stages: Mapping[str, StageTimes]
    row_exponent: float = 0.0

    def drawn(
        self, stage: str, units: int, of: int, sizes: RunSizes, random: np.random.Generator
    ) -> NDArray[np.float64]:
        """Times of ``units`` units of a stage that has ``of`` units in a run of these sizes.

        All measured times are used equally often, in random order, which keeps their distribution. They are scaled by
        the work of a unit, which keeps their relative spread. A stage that the measured run did not have, such as
        `collapsed` of a few classes, takes its rough seconds.
        """
        if stage not in self.stages:
            cost = cost_of_stage(stage)
            per_unit, per_work = cost.seconds
            return np.full(units, per_unit + per_work * cost.work(sizes) / of)
        seconds = self.stages[stage].seconds
        cycles = -(-units // len(seconds))
        order = random.permuted(np.tile(np.arange(len(seconds)), (cycles, 1)), axis=1).ravel()[:units]
        scaled = seconds[order] * self.enlargement(stage, of, sizes)
        return np.asarray(scaled + self.stages[stage].each)

    def enlargement(self, stage: str, units: int, sizes: RunSizes) -> float:
        """The work of a unit in a run of these sizes, relative to a measured unit; ``units`` is the number of units."""
        if stage not in self.stages or not units:
            return 1.0
        cost, measured = cost_of_stage(stage), len(self.stages[stage].seconds)
        if not cost.work(self.sizes):  # for example, a calibration that has nothing to learn
            return 1.0
        more = (cost.work(sizes) / units) / (cost.work(self.sizes) / measured)
        if cost.trains:
            more *= (sizes.rows / self.sizes.rows) ** self.row_exponent
        return more

    def warm_up(self, stage: str, sizes: RunSizes) -> float:
        """Extra seconds of a worker's first unit, in a run of these sizes."""
        if stage not in self.stages:
            return 0.0
        work = cost_of_stage(stage).once_work
        return self.stages[stage].warm_up * work(sizes) / work(self.sizes)


def costs_of_run(directory: Location) -> UnitCosts:
    """The times in the ledger of a finished run.

    Raises
    ------
    ValueError
        If the run is not finished.
    """
    plan, ledger, begun = read_run(directory), Ledger(directory), begin_times(directory)
    times = {}
    for stage, keys in plan.keys.items():
        entries = list(ledger.claimed(stage, keys))
        if len(entries) < len(keys):
            raise ValueError(
                f"{directory}: times must come from a finished run, but {stage} has {len(entries)} of "
                f"{len(keys)} units. Run `pairloom resume {directory}` first."
            )
        if entries:
            times[stage] = _stage_times(entries, begun)
    return UnitCosts(planned_sizes(plan), times)


def _stage_times(entries: list[Entry], begun: Mapping[tuple[str, int], float]) -> StageTimes:
    """Separate the extra time of every worker's first unit, if there are enough others to compare it with."""
    seconds = np.array([entry.seconds for entry in entries])
    of_worker: dict[str, list[int]] = defaultdict(list)
    for place in sorted(
        range(len(entries)), key=lambda k: begun.get((entries[k].stage, entries[k].unit), 0.0)
    ):
        of_worker[entries[place].worker].append(place)
    firsts = [places[0] for places in of_worker.values()]
    if len(seconds) < _FEWEST_UNITS * len(firsts):
        return StageTimes(seconds, 0.0)
    others = np.delete(seconds, firsts)
    warm_up = max(0.0, float(np.median(seconds[firsts]) - np.median(others)))
    seconds[firsts] = np.maximum(seconds[firsts] - warm_up, others.min())
    return StageTimes(seconds, warm_up)


def measure_costs(plan: Run, data: OpenFeatures) -> UnitCosts:
    """Times of a short run in this process, on some classes and rows of the data of a plan. This takes seconds.

    It runs twice: the first run loads kernels, the second is measured.
    """
    with tempfile.TemporaryDirectory() as folder:
        part = _part_of(data, _CODED_CLASSES if plan.config.has_code else _CLASSES)
        config = _short(plan, DataConfig(features=IN_MEMORY))
        features = load_data(config, part)
        short = plan_run(config, features)
        first, second = (
            _run_in_turn(replace(short, directory=Path(folder) / name), features)
            for name in ("first", "second")
        )
        sizes = _with_errors(planned_sizes(short), Path(folder) / "second")
    times = {stage: _warmed_up(stage, first[stage], seconds) for stage, seconds in second.items()}
    return UnitCosts(sizes, times, row_exponent(plan, data, int(sizes.rows)))


def _warmed_up(stage: str, first: NDArray[np.float64], second: NDArray[np.float64]) -> StageTimes:
    """Times of units that were done twice, the first time with loading of kernels."""
    if cost_of_stage(stage).per == "coupling":  # each coupling has its own kernels, and is done once
        return StageTimes(second, 0.0, float(np.maximum(first - second, 0.0).mean()))
    return StageTimes(second, max(0.0, float(first[0] - second[0])))


def _short(plan: Run, part: DataConfig) -> Config:
    """The configuration of the short run: few pairs, small tiles and slabs, and the tensor stored as in the plan."""
    tensor = "stored" if plan.shape.tensor_stored else "virtual"
    config = with_overrides(
        plan.config, ["run.edges_per_tile=32", "run.samples_per_slab=64", f"run.tensor={tensor}"]
    )
    graph = GraphConfig(family="one_vs_rest")  # a code that every coupling of codes supports
    if plan.config.has_code:
        config = with_overrides(config, ["run.edges_per_tile=3"])
    else:
        neighbours = min(4, len(plan.shape.classes) - 1)
        graph = GraphConfig(family="hub_neighbours", hubs=1, neighbours=neighbours)
    config = config.model_copy(update={"growth": None, "data": part, "graph": graph})
    # Weights and priors name all classes, of which the short run has some; they take no time.
    return with_section(config, "model", {"priors": None, "class_weight": None})


def _part_of(data: OpenFeatures, classes: int) -> Arrays:
    """The first classes of a data set, up to `_ROWS` rows per class, and some test samples."""
    n = min(len(data.classes), classes)
    rows = np.concatenate([np.flatnonzero(data.y_train == c)[:_ROWS] for c in range(n)])
    samples, labels = np.arange(len(data.X_test)), data.y_test
    if labels is not None and (labels < n).any():  # the report needs labels
        samples = np.flatnonzero(labels < n)
    samples = samples[:: max(1, len(samples) // _SAMPLES)][:_SAMPLES]
    arrays: Arrays = {
        "X_train": features_of(data.X_train.read(rows), "X_train", IN_MEMORY),
        "y_train": data.y_train[rows],
        "X_test": features_of(data.X_test.read(samples), "X_test", IN_MEMORY),
        "classes": data.labels[:n],
    }
    if labels is not None and (labels[samples] < n).all():
        arrays["y_test"] = labels[samples]
    return arrays


def _with_errors(sizes: RunSizes, directory: Location) -> RunSizes:
    """The sizes of a finished short run, with the number of errors that its report explains instead of the maximum.

    It explains none without labelled test samples, which the data or their first classes may lack.
    """
    if not Folder(directory).exists("report/errors.csv"):
        return sizes._replace(explained=0)
    with io.StringIO(Folder(directory).read("report/errors.csv").decode(), newline="") as file:
        return sizes._replace(explained=min(sizes.explained, sum(1 for _ in csv.DictReader(file))))


def _run_in_turn(run: Run, data: OpenFeatures) -> dict[str, NDArray[np.float64]]:
    """Seconds of all units of a run, done one after the other."""
    Folder(run.directory).make()
    write_run(run)
    stamp_groups(run.directory, run.shape)
    return {
        stage.name: np.array([unit_seconds(run, stage, unit, data) for unit in range(run.units(stage.name))])
        for stage in run.stages
        if run.units(stage.name)
    }


def unit_seconds(run: Run, stage: Stage, unit: int, data: OpenFeatures) -> float:
    """Do a unit; return its seconds without the compilation of kernels, which workers will find compiled."""
    compiling: list[float] = []
    with install_timer("numba:compile", compiling.append):
        receipt = run_unit(run, stage, unit, data)
    return receipt.seconds - sum(compiling)


_GROWTH_CLASSES = 3
# Maximum time of the measurement by the crude estimate of `tiles`; the true time may be several times longer.
_GROWTH_SECONDS = 1.5
# With a smaller ratio of rows the difference is lost in the noise of the measurement.
_LEAST_RATIO = 2.0
# Exponents outside this range mean a disturbed measurement. With a kernel, time grows with the square of the rows.
_EXPONENTS = (-0.3, 1.2)


def row_exponent(plan: Run, data: OpenFeatures, rows: int) -> float:
    """The exponent e in "time per row of a pair ~ rows^e". It is 0 if the time is proportional to the rows.

    Parameters
    ----------
    plan, data
        A planned run and its features.
    rows
        The rows per class of pairs whose time is known. They are compared with the rows of the plan, or as many as can
        be trained quickly.
    """
    more = _affordable_rows(plan)
    if plan.config.has_code or more < _LEAST_RATIO * rows:
        return 0.0
    with one_blas_thread():
        _seconds(plan, data, rows)  # loads the kernels
        growth = _seconds(plan, data, more) / _seconds(plan, data, rows)
    exponent = math.log(growth) / math.log(more / rows) - 1
    return min(max(exponent, _EXPONENTS[0]), _EXPONENTS[1])


def _affordable_rows(plan: Run) -> int:
    """The rows per class of the plan, or fewer if training a few such pairs would take more than seconds."""
    rows = int(np.mean(plan.shape.rows))
    pairs = math.comb(min(_GROWTH_CLASSES, len(plan.shape.classes)), 2)
    width = numbers_per_row(plan.shape.numbers_per_row, 2 * rows, plan.kernel is not None)
    crude = crude_training_seconds(pairs, 2 * rows, width, plan.settings.folds)
    return int(rows * min(1.0, _GROWTH_SECONDS / crude))


def _seconds(plan: Run, data: OpenFeatures, rows: int) -> float:
    """The time to train the pairs of a few classes on up to ``rows`` rows per class."""
    n = min(_GROWTH_CLASSES, len(data.classes))
    members = [np.flatnonzero(data.y_train == c)[:rows] for c in range(n)]
    X, classes = (
        data.X_train.read(np.concatenate(members)),
        np.repeat(np.arange(n), [len(m) for m in members]),
    )
    moments = normalised_moments(moments_of(X, classes, n), "data.features")
    training = TrainingSet(moments.normalisation(X), classes, n, None, moments=moments)
    settings, candidate = plan.settings, plan.candidates[0]
    machines = settings.machines_for_calibrations(candidate.C)
    pairs = graphs.decomposition_of(graphs.complete(n))
    if plan.kernel is not None:
        began = time.perf_counter()
        train_kernel_model(plan.kernel, training.X, training.members, pairs, machines)
        return time.perf_counter() - began
    # Whitening is not timed: a worker whitens a class once and trains many pairs with it.
    by_class = {c: training.X[rows] for c, rows in enumerate(training.members)}
    whitened = whitened_rows(by_class, training.whitening(candidate.whiten, settings))
    began = time.perf_counter()
    train_machines(whitened, pairs, machines)
    return time.perf_counter() - began
