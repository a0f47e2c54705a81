"""The events of one stage: by hand, against a slow reference, and by properties that every schedule has."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
import zict
from hypothesis import assume, given
from hypothesis import strategies as st

from pairloom.cluster.drive.schedule import TASK_SECONDS, TASKS_PER_THREAD
from pairloom.cluster.simulator import stage_kernels as kernels
from pairloom.pipeline.run.tiles import order_by_blocks

CALM = kernels.WorkerFaults(np.ones(8), np.full(8, 0.5), 0.0, 0.0, 60.0, 60.0, 5.0, 44)
FREE = kernels.Policy(TASK_SECONDS, TASKS_PER_THREAD, 0.0, 0.0)
FAST = kernels.Fabric(threads=1, latency=0.0, link=1e18, store=1e18, cache=1e9)


def inputs_of(seconds, *, touched=None, **changes):
    """Units that read and write nothing, unless told."""
    seconds = np.asarray(seconds, np.float64)
    given = {"moved": 0.0, "operations": 0.0, "shared": 0.0, "once": 0.0, "warm_up": 0.0, "piece": 0.0}
    first, pieces = np.zeros(len(seconds) + 1, np.int64), np.zeros(0, np.int32)
    if touched is not None:
        first = np.cumsum([0, *map(len, touched)])
        pieces = np.concatenate([np.array(some, np.int32) for some in touched])
    return kernels.Inputs(seconds=seconds, first=first, touched=pieces, **given | changes)


def play(inputs, workers=1, *, fabric=FAST, policy=FREE, faults=CALM, begin=0.0):
    """The tally, and the trace as rows of (core, start, end, first, begun, finished)."""
    trace = np.full((4 * len(inputs.seconds) + 4000, 6), np.nan)
    tally = kernels.stage_events(inputs, fabric, policy, faults, begin, np.zeros(workers), trace)
    return tally, trace[~np.isnan(trace[:, 0])]


def storm(per_hour, seed=0, away=30.0):
    random = np.random.default_rng(seed)
    return kernels.WorkerFaults(
        random.standard_exponential(512), random.random(512), per_hour / 3600, 0.3, away, 2 * away, 5.0, 10**6
    )


def test_five_units_on_two_workers_by_hand():
    # Until a time is known, tasks have one unit, and two per thread are under way: units 0 to 3. Then 3 s pay for one
    # unit of 2 s. So worker 0 has units 0, 2 and 4 (until 6 s), worker 1 has units 1 and 3 (until 4 s).
    tally, trace = play(inputs_of([2.0] * 5), workers=2)
    assert tally[kernels.END] == 6.0
    assert tally[kernels.WORKED] == 10.0
    assert sorted(map(tuple, trace[:, :4])) == [
        (0, 0, 2, 0),
        (0, 2, 4, 2),
        (0, 4, 6, 4),
        (1, 0, 2, 1),
        (1, 2, 4, 3),
    ]


def test_a_transfer_takes_its_bytes_over_the_slower_of_link_and_store_by_hand():
    fabric = FAST._replace(link=100.0, store=150.0, latency=0.25)
    # 200 bytes pass the link in 2 s; both workers' 400 bytes pass the store in 2.67 s. Two operations take 0.5 s.
    tally, _ = play(inputs_of([1.0, 1.0], moved=200.0, operations=2.0), workers=2, fabric=fabric)
    assert tally[kernels.END] == pytest.approx(400 / 150 + 0.5 + 1.0)
    assert tally[kernels.BYTES] == 400
    one, _ = play(inputs_of([1.0], moved=200.0, operations=2.0), fabric=fabric)
    assert one[kernels.END] == pytest.approx(2.0 + 0.5 + 1.0)


def test_the_driver_handles_one_task_after_the_other_by_hand():
    policy = FREE._replace(submitting=0.1, handling=0.5)
    # Units arrive at 0.1 and 0.2 s and end at 1.1 and 1.2 s. Their ends are handled until 1.6 and 2.1 s.
    tally, _ = play(inputs_of([1.0, 1.0]), workers=2, policy=policy)
    assert tally[kernels.END] == pytest.approx(2.1)
    assert tally[kernels.DRIVER_BUSY] == pytest.approx(1.2)


def test_a_cache_keeps_what_was_used_last_by_hand():
    # Three pieces of 10 bytes in turn: a cache of 20 has always just forgotten the next one, a cache of 30 keeps all.
    inputs = inputs_of([1.0] * 6, touched=[[0], [1], [2], [0], [1], [2]], piece=10.0)
    assert play(inputs, fabric=FAST._replace(cache=20.0))[0][kernels.BYTES] == 60
    assert play(inputs, fabric=FAST._replace(cache=30.0))[0][kernels.BYTES] == 30


def test_tiles_of_all_pairs_read_as_many_bytes_as_with_the_cache_of_the_feature_store():
    edges = order_by_blocks(np.stack(np.triu_indices(96, 1), axis=1), 16)
    tiles = [np.unique(edges[k : k + 16]) for k in range(0, len(edges), 16)]
    for kept in (20, 60, 200):
        cache, fetched = zict.LRU(kept, {}, weight=lambda key, value: 1), 0
        for c in np.concatenate(tiles).tolist():
            fetched += c not in cache
            cache[c] = cache.get(c, True)
        inputs = inputs_of(np.ones(len(tiles)), touched=tiles, piece=1.0)
        found = play(inputs, fabric=FAST._replace(cache=float(kept)))[0][kernels.BYTES]
        assert found == pytest.approx(fetched, rel=0.15)


def test_shared_input_is_read_once_per_worker_or_by_every_unit_if_the_cache_is_too_small():
    inputs = inputs_of([5.0] * 8, shared=50.0)
    assert play(inputs, workers=2)[0][kernels.BYTES] == 100
    assert play(inputs, workers=2, fabric=FAST._replace(cache=40.0))[0][kernels.BYTES] == 400


def test_what_a_worker_keeps_for_good_is_read_once_however_large():
    inputs = inputs_of([5.0] * 8, once=50.0)
    assert play(inputs, workers=2, fabric=FAST._replace(cache=40.0))[0][kernels.BYTES] == 100


def test_a_lost_worker_loses_only_the_unit_under_way_by_hand():
    # One worker dies after 2.5 s. By then unit 0 is recorded, and 1.5 s of unit 1 are lost; it is back after 30 s.
    faults = CALM._replace(gaps=np.array([2.5, 1e9]), rate=1.0, away_failed=30.0, notice=5.0)
    tally, trace = play(inputs_of([1.0, 4.0]), faults=faults)
    assert tally[kernels.LOST] == pytest.approx(1.5)
    assert tally[kernels.REDONE] == 1
    assert tally[kernels.END] == pytest.approx(32.5 + 4.0)
    assert trace[:, 3:].tolist() == [[0, 1, 1], [1, 1, 0], [1, 1, 1]]


def test_a_unit_that_always_loses_its_worker_is_given_up():
    faults = storm(3600)._replace(most_losses=5, away_failed=1.0, away_preempted=1.0)
    assert play(inputs_of([1000.0]), faults=faults)[0][kernels.GAVE_UP]


def reference_end(seconds, cores):
    """The schedule without failures and transfers, one unit and one core at a time."""
    pending, waiting, recent, now = list(seconds), [], [], 0.0
    running, idle, done = [], list(range(cores)), 0

    def launch():
        while pending and len(running) + len(waiting) < TASKS_PER_THREAD * cores:
            size = 1
            if recent:
                affordable = TASK_SECONDS / max(float(np.median(recent[-64:])), 1e-6)
                size = max(1, int(min(affordable, len(pending) / (TASKS_PER_THREAD * cores))))
            waiting.append([pending.pop(0) for _ in range(size)])
            while idle and waiting:
                task = waiting.pop(0)
                heapq.heappush(running, (now + sum(task), idle.pop(0), task))

    launch()
    while done < len(seconds):
        now, core, task = heapq.heappop(running)
        recent += task
        done += len(task)
        idle.append(core)
        launch()
        if idle and waiting:
            task = waiting.pop(0)
            heapq.heappush(running, (now + sum(task), idle.pop(0), task))
    return now


units = st.lists(st.floats(0.01, 20.0), min_size=1, max_size=120)


@given(units, st.integers(1, 9))
def test_calm_schedules_are_those_of_a_slow_reference(seconds, workers):
    assert play(inputs_of(seconds), workers)[0][kernels.END] == pytest.approx(reference_end(seconds, workers))


@given(units, st.integers(1, 9), st.integers(1, 4))
def test_a_stage_is_no_shorter_than_its_longest_unit_and_its_share_of_the_work(seconds, workers, threads):
    tally, _ = play(inputs_of(seconds), workers, fabric=FAST._replace(threads=threads))
    assert tally[kernels.END] >= max(max(seconds), sum(seconds) / (workers * threads)) * (1 - 1e-9)


@given(units, st.integers(1, 6), st.integers(1, 3), st.sampled_from([0, 30, 200, 1000]), st.integers(0, 50))
def test_every_unit_is_done_once_and_what_was_executed_was_done_or_redone(
    seconds, workers, threads, per_hour, seed
):
    faults = storm(per_hour, seed)
    tally, trace = play(inputs_of(seconds), workers, fabric=FAST._replace(threads=threads), faults=faults)
    assume(len(trace) < 4 * len(seconds) + 4000)  # a storm that never ends fills the trace
    finished = [u for row in trace for u in range(int(row[3]), int(row[3] + row[5]))]
    assert sorted(finished) == list(range(len(seconds)))
    assert tally[kernels.DONE] == len(seconds)
    assert trace[:, 4].sum() == tally[kernels.DONE] + tally[kernels.REDONE]
    assert tally[kernels.WORKED] == pytest.approx(sum(seconds))
    busy = np.maximum(trace[:, 2] - trace[:, 1], 0).sum()
    assert tally[kernels.WORKED] + tally[kernels.LOST] == pytest.approx(busy)


@pytest.mark.long
@given(units, st.integers(1, 6), st.integers(1, 3), st.sampled_from([0, 200, 1000]), st.integers(0, 50))
def test_no_core_has_two_tasks_at_once(seconds, workers, threads, per_hour, seed):
    fabric, faults = FAST._replace(threads=threads), storm(per_hour, seed)
    _, trace = play(inputs_of(seconds, warm_up=0.3, operations=1.0), workers, fabric=fabric, faults=faults)
    for core in np.unique(trace[:, 0]):
        own = trace[(trace[:, 0] == core) & (trace[:, 4] > 0)]
        own = own[np.argsort(own[:, 1], kind="stable")]
        assert (own[1:, 1] >= own[:-1, 2] - 1e-9).all()


@given(units, st.integers(1, 9))
def test_without_failures_nothing_is_redone(seconds, workers):
    tally, _ = play(inputs_of(seconds), workers)
    assert tally[kernels.REDONE] == tally[kernels.LOST] == tally[kernels.FAILURES] == 0


@given(units, st.integers(1, 8))
def test_more_workers_are_slower_by_no_more_than_a_task(seconds, workers):
    # List scheduling has anomalies: with another number of workers the units are grouped into other tasks, and the last
    # one may end later. But no core idles while a task waits, so a schedule ends before work / cores + longest task,
    # and that of fewer workers not before work / (fewer cores).
    fewer, _ = play(inputs_of(seconds), workers)
    more, trace = play(inputs_of(seconds), workers + 1)
    longest = (trace[:, 2] - trace[:, 1]).max()
    assert more[kernels.END] <= fewer[kernels.END] + longest


def test_failures_cost_time():
    inputs = inputs_of(np.full(2000, 1.0))
    calm, rough = play(inputs, 8)[0], play(inputs, 8, faults=storm(200))[0]
    assert rough[kernels.FAILURES] > 5
    assert rough[kernels.END] > 1.05 * calm[kernels.END]


def test_two_tasks_per_thread_hide_the_driver_until_it_is_the_bottleneck():
    slow = FREE._replace(handling=0.1)
    inputs = inputs_of(np.full(4000, 1.0))
    for workers in (4, 100):
        tally, _ = play(inputs, workers, policy=slow)
        least = max(4000 / workers, 0.1 * tally[kernels.TASKS])
        assert least <= tally[kernels.END] <= 1.1 * least + 3
