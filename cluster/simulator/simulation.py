"""Play a run on a simulated cluster: its stages one after the other, by the rules of `driver` and `schedule`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.cluster.drive.schedule import TASK_SECONDS, TASKS_PER_THREAD, UnitFailed
from pairloom.cluster.simulator import stage_kernels as kernels
from pairloom.cluster.simulator.simulated_cluster import SimulatedCluster
from pairloom.cluster.simulator.unit_costs import UnitCosts
from pairloom.cluster.simulator.workload import Phase, Workload, cost_of_stage
from pairloom.pipeline.run.feature_store import CACHE_BYTES

__all__ = ["RunForecast", "StageForecast", "simulate"]

# Dask gives a task to four workers before it reports a loss; `cluster.retries` is 10 by default.
_MOST_LOSSES = 4 * 11
_DRAWS = 4096
# If no resource is busy for this share of the time, a stage with few units is limited by their number.
_BUSY = 0.5


class StageForecast(NamedTuple):
    """The forecast of a stage.

    Attributes
    ----------
    stage, where, units
        As in `stages`.
    seconds
        From the end of the stage before, or from the start of the workers, to the end of this stage.
    tasks
        Number of tasks that were executed.
    worked, lost
        Core-seconds of units that were finished, and of units whose worker was lost.
    redone
        Units that were started again because their worker was lost.
    failures
        Workers lost during the stage.
    bytes_moved
        Bytes read from the store and written to it.
    memory
        Bytes that one task needs.
    threads
        Number of concurrent tasks per worker: less than its cores if memory is short.
    busy
        Share of the time for which each resource was busy: the cores; the scheduler, with the driver that waits for it;
        the driver, looking for ledger entries; the bandwidth of the store; its latency; and the busiest link.
    """

    stage: str
    where: str
    units: int
    seconds: float
    tasks: int
    worked: float
    lost: float
    redone: int
    failures: int
    bytes_moved: float
    memory: float
    threads: int
    busy: dict[str, float]

    @property
    def limited_by(self) -> str:
        """The resource that limits the stage."""
        if self.where == "driver":
            return "driver"
        if self.where == "in turn":
            return "one task at a time"
        most = max(self.busy, key=lambda name: self.busy[name])
        if self.busy[most] >= _BUSY:
            return most
        return "few units" if self.units < 2 * self.threads else most


class RunForecast(NamedTuple):
    """The forecast of a run: its stages, the cluster, the seconds until its workers have started and read the plan, and
    the seconds for which workers are paid."""

    stages: tuple[StageForecast, ...]
    cluster: SimulatedCluster
    startup: float
    paid_seconds: float
    trace: NDArray[np.float64]

    @property
    def seconds(self) -> float:
        """Seconds from the start of the first stage to the end of the last."""
        return self.startup + sum(stage.seconds for stage in self.stages)

    @property
    def worked(self) -> float:
        """Core-seconds of finished units."""
        return sum(stage.worked for stage in self.stages)

    @property
    def efficiency(self) -> float:
        """Share of the cores' time that went into finished units, over the whole run."""
        cores = self.cluster.workers * self.cluster.cores
        return self.worked / (cores * self.seconds) if self.seconds else 1.0

    @property
    def bytes_moved(self) -> float:
        """Bytes read from the store and written to it."""
        return sum(stage.bytes_moved for stage in self.stages)

    @property
    def redone(self) -> int:
        """Units that were started again because their worker was lost."""
        return sum(stage.redone for stage in self.stages)

    @property
    def worker_hours(self) -> float:
        """Hours of all workers together, from their start to the end of the run."""
        return self.cluster.workers * self.paid_seconds / 3600

    @property
    def price(self) -> float:
        """Worker-hours times the price per hour."""
        return self.worker_hours * self.cluster.price

    @property
    def limited_by(self) -> str:
        """The resource that limits the stages which take most of the time."""
        total = {"start of the workers": self.startup}
        for stage in self.stages:
            total[stage.limited_by] = total.get(stage.limited_by, 0.0) + stage.seconds
        return max(total, key=lambda name: total[name])

    @property
    def too_large(self) -> tuple[StageForecast, ...]:
        """Stages with tasks that need more memory than a worker has, so that the run would fail."""
        return tuple(stage for stage in self.stages if stage.memory > self.cluster.memory_bytes)


def simulate(
    work: Workload, costs: UnitCosts, cluster: SimulatedCluster, *, seed: int = 0, traced: int = 0
) -> RunForecast:
    """Play a run.

    Parameters
    ----------
    work
        The run, from `planned_workload` or `imagined_workload`.
    costs
        Measured times, from `costs_of_run` or `measure_costs`. Times of a run of other sizes are scaled.
    cluster
        The cluster.
    seed
        Seed of the order of the times, and of failures. Equal seeds give equal forecasts.
    traced
        Number of task executions to record, for tests.

    Returns
    -------
    RunForecast

    Raises
    ------
    UnitFailed
        If a task lost its worker so often that the run would have been given up.
    """
    session = _Session(work, costs, cluster, seed, traced)
    stages = tuple(session.play(number, phase) for number, phase in enumerate(work.phases))
    paid = 0.0 if session.started is None else session.clock - session.started
    return RunForecast(stages, cluster, session.startup, paid, session.trace())


class _Session:
    """One run on a simulated cluster, up to the present stage."""

    def __init__(
        self, work: Workload, costs: UnitCosts, cluster: SimulatedCluster, seed: int, traced: int
    ) -> None:
        self._work, self._costs, self._cluster, self._seed = work, costs, cluster, seed
        self._of, self._traced = work.units(), traced
        self._traces: list[NDArray[np.float64]] = []
        self._back = np.zeros(cluster.workers)
        self.clock = 0.0
        self.started: float | None = None
        self.startup = 0.0

    def trace(self) -> NDArray[np.float64]:
        """Rows of `stage_kernels.stage_events`, after the number of the phase."""
        return np.concatenate([np.zeros((0, 7)), *self._traces])

    def play(self, number: int, phase: Phase) -> StageForecast:
        """Play a stage, and set the clock to its end."""
        cluster = self._cluster
        if phase.where != "driver" and self.started is None:
            self.started, self.startup = self.clock, cluster.startup + self._plan_seconds()
            self.clock += self.startup
        begin = self.clock
        # Before it starts a stage, the driver looks for the ledger entry of every unit.
        scan = self._of[phase.stage] * (cluster.ledger_seconds + cluster.latency)
        self.clock += scan
        random = np.random.default_rng([self._seed, number])
        seconds = self._costs.drawn(phase.stage, phase.units, self._of[phase.stage], self._work.sizes, random)
        seconds += cluster.unit_seconds
        if phase.where == "driver":
            outcome, threads = self._in_driver(phase, seconds), 1
        else:
            threads = self._threads(phase.stage)
            outcome = self._on_cluster(number, phase, seconds, threads, random)
        self.clock = outcome[kernels.END]
        return self._forecast(phase, outcome, scan, self.clock - begin, threads)

    def _in_driver(self, phase: Phase, seconds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Units one after the other, in the driver."""
        cluster, inputs = self._cluster, self._inputs(phase, seconds)
        tally = np.zeros(kernels.TALLIES)
        moved = phase.units * (inputs.moved + inputs.shared)
        tally[kernels.WORKED], tally[kernels.DONE] = seconds.sum(), phase.units
        tally[kernels.BYTES], tally[kernels.TASKS] = moved, phase.units
        tally[kernels.END] = (
            self.clock
            + seconds.sum()
            + inputs.warm_up
            + moved / min(cluster.link_bytes, cluster.store_bytes)
            + phase.units * inputs.operations * cluster.latency
        )
        return tally

    def _on_cluster(
        self,
        number: int,
        phase: Phase,
        seconds: NDArray[np.float64],
        threads: int,
        random: np.random.Generator,
    ) -> NDArray[np.float64]:
        """Units as tasks: all together, or one after the other."""
        cluster, faults = self._cluster, self._faults(random)
        fabric = kernels.Fabric(
            threads, cluster.latency, cluster.link_bytes, cluster.store_bytes, float(CACHE_BYTES)
        )
        handling = cluster.handle_seconds + cluster.handle_seconds_per_worker * cluster.workers
        policy = kernels.Policy(TASK_SECONDS, TASKS_PER_THREAD, cluster.submit_seconds, handling)
        pieces = [seconds] if phase.where == "cluster" else np.split(seconds, len(seconds))
        total = np.zeros(kernels.TALLIES)
        for turn, piece in enumerate(pieces):
            trace = np.full((self._traced, 6), np.nan)
            inputs = self._inputs(phase, piece)
            if turn:
                inputs = inputs._replace(warm_up=0.0)
            tally = kernels.stage_events(inputs, fabric, policy, faults, self.clock, self._back, trace)
            if tally[kernels.GAVE_UP]:
                raise UnitFailed(
                    f"{phase.stage}: a task lost its worker more than {_MOST_LOSSES} times, so the run would be given "
                    "up. Lower --failures-per-hour or --preemptions, or make units shorter."
                )
            rows = trace[~np.isnan(trace[:, 0])]
            self._traces.append(np.insert(rows, 0, number, axis=1))
            self.clock = float(tally[kernels.END])
            total += tally
        total[kernels.END] = self.clock
        return total

    def _inputs(self, phase: Phase, seconds: NDArray[np.float64]) -> kernels.Inputs:
        sizes, cost, of = self._work.sizes, cost_of_stage(phase.stage), self._of[phase.stage]
        first, pieces, size = np.zeros(len(seconds) + 1, np.int64), np.zeros(0, np.int32), 0.0
        if cost.reads_classes:
            touched = self._work.touched
            first = touched.first[phase.first : phase.first + len(seconds) + 1]
            pieces, size = touched.pieces, touched.classes_per_piece * sizes.class_bytes
        return kernels.Inputs(
            seconds=np.ascontiguousarray(seconds, np.float64),
            moved=(cost.reads(sizes) + cost.writes(sizes)) / of,
            operations=float(cost.operations(sizes)),
            shared=float(cost.shared(sizes)),
            once=float(cost.once(sizes)),
            warm_up=self._costs.warm_up(phase.stage, sizes)
            + cost.once_operations(sizes) * self._cluster.latency,
            first=first,
            touched=pieces,
            piece=float(size),
        )

    def _faults(self, random: np.random.Generator) -> kernels.WorkerFaults:
        cluster = self._cluster
        return kernels.WorkerFaults(
            gaps=random.standard_exponential(_DRAWS),
            victims=random.random(_DRAWS),
            rate=cluster.losses_per_second,
            preempted=cluster.preempted_share,
            away_failed=cluster.failed_seconds + self._work.sizes.edges * cluster.plan_seconds_per_pair,
            away_preempted=cluster.preempted_seconds + self._work.sizes.edges * cluster.plan_seconds_per_pair,
            notice=cluster.notice_seconds,
            most_losses=_MOST_LOSSES,
        )

    def _plan_seconds(self) -> float:
        """Seconds until all workers have read the plan, about 12 bytes per pair, at the same time."""
        cluster, pairs = self._cluster, self._work.sizes.edges
        moved = 12.0 * pairs * max(1 / cluster.link_bytes, cluster.workers / cluster.store_bytes)
        return pairs * cluster.plan_seconds_per_pair + moved

    def _threads(self, stage: str) -> int:
        """Threads per worker for which there is memory; at least one, even without enough memory."""
        needed = cost_of_stage(stage).memory(self._work.sizes)
        affordable = self._cluster.memory_bytes // max(1, int(needed))
        return max(1, min(self._cluster.cores, affordable))

    def _forecast(
        self, phase: Phase, tally: NDArray[np.float64], scan: float, seconds: float, threads: int
    ) -> StageForecast:
        at_once = 1 if phase.where == "driver" else threads * self._cluster.workers
        spent, cost, sizes = max(seconds, 1e-9), cost_of_stage(phase.stage), self._work.sizes
        waited = tally[kernels.DONE] * cost.operations(sizes) * self._cluster.latency
        return StageForecast(
            stage=phase.stage,
            where=phase.where,
            units=phase.units,
            seconds=seconds,
            tasks=int(tally[kernels.TASKS]),
            worked=float(tally[kernels.WORKED]),
            lost=float(tally[kernels.LOST]),
            redone=int(tally[kernels.REDONE]),
            failures=int(tally[kernels.FAILURES]),
            bytes_moved=float(tally[kernels.BYTES]),
            memory=float(cost.memory(sizes)),
            threads=at_once,
            busy={
                "cores": float(tally[kernels.WORKED] + tally[kernels.LOST]) / (at_once * spent),
                "scheduler": float(tally[kernels.DRIVER_BUSY]) / spent,
                "driver": scan / spent,
                "latency": float(waited) / (at_once * spent),
                "store": float(tally[kernels.STORE_BUSY]) / spent,
                "network": float(tally[kernels.LINK_BUSY]) / spent,
            },
        )
