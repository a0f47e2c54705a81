"""The events of one stage on an imagined cluster: tasks start, finish, and are lost with their workers.

There is one event per task, not per unit: a task is a range of units, and its time is the sum of theirs. Each shared
resource (the store, the link of a worker, the driver with its scheduler) is a queue served in the order of arrival. It
has the throughput of fair sharing and needs no events. The reads and writes of a task pass these queues together, when
the task starts.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.accelerate import inline_kernel, kernel

__all__ = [
    "BYTES",
    "DONE",
    "DRIVER_BUSY",
    "END",
    "FAILURES",
    "GAVE_UP",
    "LINK_BUSY",
    "LOST",
    "REDONE",
    "STORE_BUSY",
    "TALLIES",
    "TASKS",
    "WORKED",
    "Fabric",
    "Inputs",
    "Policy",
    "WorkerFaults",
    "stage_events",
]

#: Positions in the tally of a stage: its end; seconds of finished units, and of lost units; tasks; units done, and
#: units started but lost; bytes; busy seconds of the driver, the store and the busiest link; workers lost; whether some
#: task lost its worker too often.
END, WORKED, LOST, TASKS, DONE, REDONE, BYTES, DRIVER_BUSY, STORE_BUSY, LINK_BUSY, FAILURES, GAVE_UP = range(
    12
)
# Also in the tally: when the driver and the store are free, units seen by the pace, rows of the trace.
_DRIVER_FREE, _STORE_FREE, _NOTED, _TRACED = range(12, 16)
TALLIES = 12

_FINISHED, _STRUCK, _RETURNED = 0, 1, 2
# As in `schedule._Pace`, the median is over the last 64 units.
_REMEMBERED = 64


class Fabric(NamedTuple):
    """Threads per worker; seconds per operation of the store; bytes per second of a worker's link and of the store;
    bytes of a worker's cache."""

    threads: int
    latency: float
    link: float
    store: float
    cache: float


class Policy(NamedTuple):
    """The constants of `schedule`, and the driver's seconds to submit a task and to handle its end."""

    task_seconds: float
    tasks_per_thread: int
    submitting: float
    handling: float


class Inputs(NamedTuple):
    """The units of a stage: their seconds, and the bytes that they read and write.

    Each unit moves ``moved`` bytes in ``operations`` of the store. ``shared`` bytes are read once per worker, if its
    cache can hold them. Unit u reads ``touched[first[u] : first[u + 1]]``, pieces of ``piece`` bytes each, unless they
    are in the cache. The first task of a worker reads ``once`` bytes more and takes ``warm_up`` seconds longer.
    """

    seconds: NDArray[np.float64]
    moved: float
    operations: float
    shared: float
    once: float
    warm_up: float
    first: NDArray[np.int64]
    touched: NDArray[np.int32]
    piece: float


class WorkerFaults(NamedTuple):
    """Lost workers: times between two losses (of mean 1) and their victims (0 to 1), both used in turn; losses per
    second; the share that are preemptions; seconds that a failed and a preempted worker is away; seconds until the
    scheduler notices; how often a task may lose its worker."""

    gaps: NDArray[np.float64]
    victims: NDArray[np.float64]
    rate: float
    preempted: float
    away_failed: float
    away_preempted: float
    notice: float
    most_losses: int


class _Cores(NamedTuple):
    """The task of every core: when it started and had its input, first unit, units (0 if idle), earlier losses. The
    attempt changes when a worker is lost, and marks the events of its tasks as void."""

    start: NDArray[np.float64]
    ready: NDArray[np.float64]
    first: NDArray[np.int64]
    size: NDArray[np.int64]
    losses: NDArray[np.int64]
    attempt: NDArray[np.int64]


class _Workers(NamedTuple):
    """Of every worker: when it is back, when its link is free, how long that was busy, the bytes it has fetched,
    whether it has worked, and the bytes that it had fetched when it last used a piece."""

    back: NDArray[np.float64]
    link_free: NDArray[np.float64]
    link_busy: NDArray[np.float64]
    fetched: NDArray[np.float64]
    warm: NDArray[np.bool_]
    used: NDArray[np.float32]


@kernel
def stage_events(
    inputs: Inputs,
    fabric: Fabric,
    policy: Policy,
    faults: WorkerFaults,
    begin: float,
    back: NDArray[np.float64],
    trace: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Run the units of a stage from time ``begin`` on, and return the tally.

    Parameters
    ----------
    back
        The time at which each worker is back. It is changed in place, since a worker may still be away when the next
        stage begins.
    trace
        (n, 6) rows to fill, one for each execution of a task: core, start, end, first unit, number of units begun and
        of units finished. May have no rows.
    """
    units, threads = len(inputs.seconds), fabric.threads
    tally = np.zeros(16)
    tally[END] = tally[_DRIVER_FREE] = tally[_STORE_FREE] = begin
    cores, workers = _cores(threads * len(back)), _workers(back, inputs, begin)
    recent = np.zeros(_REMEMBERED)
    # Tasks at the scheduler: when they arrive, first unit, units, losses. Lost tasks go before new ones.
    queue, again = [(begin, 0, 0, 0)], [(begin, 0, 0, 0)]
    head, head_again = 1, 1
    events = [(faults.gaps[0] / faults.rate + begin if faults.rate > 0 else np.inf, _STRUCK, 0, 0)]
    idle, next_idle, alive = [0], 1, 0
    for thread in range(threads):
        for w in range(len(back)):
            if back[w] <= begin:
                idle.append(w * threads + thread)
                alive += thread == 0
            elif thread == 0:
                events.append((back[w], _RETURNED, w, 0))
    heapq.heapify(events)
    planned, under_way, now = 0, 0, begin
    while tally[DONE] < units and not tally[GAVE_UP]:
        # The driver launches tasks, as `schedule.StageTasks` does.
        while planned < units and under_way < policy.tasks_per_thread * max(1, alive * threads):
            size = _units_per_task(units - planned, max(1, alive * threads), recent, tally, policy)
            tally[_DRIVER_FREE] = max(tally[_DRIVER_FREE], now) + policy.submitting
            tally[DRIVER_BUSY] += policy.submitting
            queue.append((tally[_DRIVER_FREE], planned, size, 0))
            planned += size
            under_way += 1

        while next_idle < len(idle) and head + head_again < len(queue) + len(again):
            core = idle[next_idle]
            next_idle += 1
            if back[core // threads] > now or cores.size[core]:
                continue
            if head_again < len(again) and (head == len(queue) or again[head_again][0] <= now):
                task = again[head_again]
                head_again += 1
            else:
                task = queue[head]
                head += 1
            finish = _start(core, task, now, inputs, fabric, cores, workers, tally)
            heapq.heappush(events, (finish, _FINISHED, core, cores.attempt[core]))

        now, kind, who, number = heapq.heappop(events)
        if kind == _FINISHED and number == cores.attempt[who]:
            _finish(who, now, inputs, cores, recent, policy, tally, trace)
            under_way -= 1
            idle.append(who)
        elif kind == _STRUCK:
            following = faults.gaps[(number + 1) % len(faults.gaps)] / faults.rate
            heapq.heappush(events, (now + following, _STRUCK, 0, number + 1))
            if alive:
                w = _victim(faults, number, alive, now, workers)
                _lose(w, now, inputs, threads, faults, cores, workers, tally, again, trace)
                heapq.heappush(events, (back[w], _RETURNED, w, 0))
                alive -= 1
        elif kind == _RETURNED:
            alive += 1
            for thread in range(threads):
                idle.append(who * threads + thread)
    tally[LINK_BUSY] = workers.link_busy.max()
    return tally[:TALLIES]


@inline_kernel()
def _cores(n: int) -> _Cores:
    return _Cores(
        np.zeros(n),
        np.zeros(n),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
    )


@inline_kernel()
def _workers(back: NDArray[np.float64], inputs: Inputs, begin: float) -> _Workers:
    n, pieces = len(back), 0
    if len(inputs.touched):
        pieces = inputs.touched.max() + 1
    return _Workers(
        back,
        np.full(n, begin),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n, np.bool_),
        np.full((n, pieces), -np.inf, np.float32),
    )


@inline_kernel()
def _units_per_task(
    pending: int, threads: int, recent: NDArray[np.float64], tally: NDArray[np.float64], policy: Policy
) -> int:
    """As `schedule._Pace.units_per_task`."""
    if tally[_NOTED] == 0:
        return 1
    median = np.median(recent[: int(min(tally[_NOTED], _REMEMBERED))])
    affordable = policy.task_seconds / max(median, 1e-6)
    fair = pending / (policy.tasks_per_thread * threads)
    return max(1, int(min(affordable, fair)))


@inline_kernel()
def _start(
    core: int,
    task: tuple[float, int, int, int],
    now: float,
    inputs: Inputs,
    fabric: Fabric,
    cores: _Cores,
    workers: _Workers,
    tally: NDArray[np.float64],
) -> float:
    """Start a task on a core as soon as it has arrived there; return when it will be finished."""
    arrival, a, n, losses = task
    w, at, work = core // fabric.threads, max(now, arrival), 0.0
    for u in range(a, a + n):
        work += inputs.seconds[u]
    moved = (
        n * inputs.moved + _shared(n, w, inputs, fabric, workers) + _fetched(a, n, w, inputs, fabric, workers)
    )
    ready = at + n * inputs.operations * fabric.latency
    if moved > 0:
        tally[_STORE_FREE] = max(tally[_STORE_FREE], at) + moved / fabric.store
        workers.link_free[w] = max(workers.link_free[w], at) + moved / fabric.link
        ready += max(tally[_STORE_FREE], workers.link_free[w]) - at
    if not workers.warm[w]:
        ready += inputs.warm_up
        workers.warm[w] = True
    tally[BYTES] += moved
    tally[STORE_BUSY] += moved / fabric.store
    workers.link_busy[w] += moved / fabric.link
    tally[TASKS] += 1
    cores.start[core], cores.ready[core] = at, ready
    cores.first[core], cores.size[core], cores.losses[core] = a, n, losses
    return ready + work


@inline_kernel()
def _shared(n: int, w: int, inputs: Inputs, fabric: Fabric, workers: _Workers) -> float:
    """Bytes of the input that all units share: read once per worker, or by every unit if the cache is too small."""
    once = 0.0 if workers.warm[w] else inputs.once
    if inputs.shared > fabric.cache:
        return once + n * inputs.shared
    return once if workers.warm[w] else once + inputs.shared


@inline_kernel()
def _fetched(a: int, n: int, w: int, inputs: Inputs, fabric: Fabric, workers: _Workers) -> float:
    """Bytes of the pieces that units read and that are not in the worker's cache.

    A piece counts as evicted when the worker has fetched as many bytes as the cache holds since it last used the piece.
    A real LRU cache also counts pieces that it found, and so evicts a little sooner.
    """
    before = workers.fetched[w]
    if len(inputs.touched) == 0:
        return 0.0
    for k in range(inputs.first[a], inputs.first[a + n]):
        piece = inputs.touched[k]
        if workers.fetched[w] - workers.used[w, piece] >= fabric.cache:
            workers.fetched[w] += inputs.piece
        workers.used[w, piece] = workers.fetched[w]
    return float(workers.fetched[w] - before)


@inline_kernel()
def _finish(
    core: int,
    now: float,
    inputs: Inputs,
    cores: _Cores,
    recent: NDArray[np.float64],
    policy: Policy,
    tally: NDArray[np.float64],
    trace: NDArray[np.float64],
) -> None:
    """The task of a core is finished, and its receipts reach the driver."""
    a, n = cores.first[core], cores.size[core]
    waited = (cores.ready[core] - cores.start[core]) / n
    for u in range(a, a + n):
        tally[WORKED] += inputs.seconds[u]
        recent[int(tally[_NOTED]) % _REMEMBERED] = inputs.seconds[u] + waited
        tally[_NOTED] += 1
    tally[DONE] += n
    cores.size[core] = 0
    tally[_DRIVER_FREE] = max(tally[_DRIVER_FREE], now) + policy.handling
    tally[DRIVER_BUSY] += policy.handling
    tally[END] = tally[_DRIVER_FREE]
    _write_trace(trace, tally, core, cores.start[core], now, a, n, n)


@inline_kernel()
def _victim(faults: WorkerFaults, number: int, alive: int, now: float, workers: _Workers) -> int:
    """The worker that is lost: any of those that are present."""
    nth, w = int(faults.victims[number % len(faults.victims)] * alive), 0
    while workers.back[w] > now or nth > 0:
        nth -= workers.back[w] <= now
        w += 1
    return w


@inline_kernel()
def _lose(
    w: int,
    now: float,
    inputs: Inputs,
    threads: int,
    faults: WorkerFaults,
    cores: _Cores,
    workers: _Workers,
    tally: NDArray[np.float64],
    again: list[tuple[float, int, int, int]],
    trace: NDArray[np.float64],
) -> None:
    """A worker is lost with its cache. Its tasks go to other workers once the scheduler has noticed."""
    number = int(tally[FAILURES])
    is_preempted = faults.victims[-1 - number % len(faults.victims)] < faults.preempted
    workers.back[w] = now + (faults.away_preempted if is_preempted else faults.away_failed)
    workers.warm[w], workers.link_free[w] = False, now
    workers.used[w, :] = -np.inf
    tally[FAILURES] += 1
    for core in range(w * threads, (w + 1) * threads):
        cores.attempt[core] += 1
        if cores.size[core]:
            finished, begun = _finished_units(core, now, inputs, cores, tally)
            a, n, losses = cores.first[core], cores.size[core], cores.losses[core] + begun
            again.append((now + faults.notice, a + finished, n - finished, losses))
            tally[GAVE_UP] += losses > faults.most_losses
            _write_trace(trace, tally, core, cores.start[core], now, a, finished + begun, finished)
            cores.size[core] = 0


@inline_kernel()
def _finished_units(
    core: int, now: float, inputs: Inputs, cores: _Cores, tally: NDArray[np.float64]
) -> tuple[int, int]:
    """Units of a lost task that are in the ledger, and whether another had started: only that one is done again."""
    if now < cores.start[core]:
        return 0, 0
    a, n, finished, at = cores.first[core], cores.size[core], 0, cores.ready[core]
    while finished < n - 1 and at + inputs.seconds[a + finished] <= now:
        at += inputs.seconds[a + finished]
        tally[WORKED] += inputs.seconds[a + finished]
        finished += 1
    tally[LOST] += max(0.0, now - at)
    tally[DONE] += finished
    tally[REDONE] += 1
    return finished, 1


@kernel
def _write_trace(
    trace: NDArray[np.float64],
    tally: NDArray[np.float64],
    core: int,
    start: float,
    end: float,
    first: int,
    begun: int,
    finished: int,
) -> None:
    row = int(tally[_TRACED])
    if row < len(trace):
        trace[row, 0], trace[row, 1], trace[row, 2] = core, start, end
        trace[row, 3], trace[row, 4], trace[row, 5] = first, begun, finished
        tally[_TRACED] += 1
