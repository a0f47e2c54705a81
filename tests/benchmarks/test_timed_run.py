"""Every worker-second of a run belongs to one heading."""

import pytest

from pairloom.benchmarks.timed_run import (
    STORE,
    Interval,
    TaskSpan,
    TimedRun,
    store_parts,
    store_seconds,
    worker_time,
)


def run_of(intervals, tasks, store=None):
    return TimedRun(None, tuple(intervals), tuple(tasks), {}, store or {}, 0.0, {})


def test_gaps_before_the_last_task_are_the_schedulers_and_after_it_the_worker_is_idle():
    tasks = [
        TaskSpan("machines", "a", 1, 4, 0),
        TaskSpan("machines", "b", 1, 3, 0),
        TaskSpan("machines", "b", 5, 8, 0),
    ]
    found = worker_time(run_of([Interval("machines", 0, 10)], tasks), workers=2)
    assert found.training == 8
    # 0 to 1 both; 3 to 4 b, 4 to 5 both wait for the task that begins at 5; 8 to 10 nobody has a task
    assert found.scheduler == 2 + 1 + 2 + 4
    assert found.idle == 3  # a has none while b is at the last
    assert found.total == 20


def test_tasks_in_turn_leave_the_other_workers_idle():
    tasks = [TaskSpan("candidates", "a", 0, 2, 0), TaskSpan("candidates", "b", 3, 5, 0)]
    found = worker_time(run_of([Interval("candidates", 0, 5)], tasks), workers=2)
    assert (found.training, found.idle, found.scheduler) == (4, 4, 2)


def test_store_and_transfer_are_taken_from_the_time_of_the_task():
    tasks = [TaskSpan("logits", "a", 0, 5, 1)]
    run = run_of([Interval("logits", 0, 5)], tasks, {"logits": {"ledger.py: record": 0.05, "read": 0.2}})
    assert store_seconds(run) == {"read": pytest.approx(0.8), "ledger.py: record": pytest.approx(0.2)}
    found = worker_time(run, workers=1)
    assert (found.applying, found.store, found.transfer, found.overhead) == (3, 1, 1, pytest.approx(0.4))


def test_all_workers_wait_for_the_driver_and_a_growing_run_repeats_its_stages():
    intervals = [Interval("plan", 0, 1), Interval("machines", 1, 2), Interval("machines", 2, 3)]
    tasks = [TaskSpan("machines", "a", 1, 2, 0), TaskSpan("machines", "b", 2, 3, 0)]
    found = worker_time(run_of(intervals, tasks), workers=2)
    assert (found.driver, found.training, found.idle) == (2, 2, 2)
    assert sum(found.shares().values()) == pytest.approx(1)


def test_a_sample_is_in_the_store_if_any_frame_of_its_stack_is():
    def node(file, count, *children):
        named = {str(k): child for k, child in enumerate(children)}
        return {"description": {"filename": file, "name": "f"}, "count": count, "children": named}

    zarr_call = node("training.py", 4, node(f"{STORE[0]}/array.py", 3, node("asyncio.py", 2)))
    tree = {"count": 10, "children": {"task": node("units.py", 10, zarr_call)}}
    assert store_parts(tree) == {"array.py: f": pytest.approx(0.3)}
    assert store_parts({"count": 0, "children": {}}) == {}
