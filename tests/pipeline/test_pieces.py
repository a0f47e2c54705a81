"""Work in pieces, and pieces in threads."""

import os
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joblib import parallel_config

from pairloom.pipeline.threads import in_threads, pieces, thread_count


@given(length=st.integers(0, 300), size=st.integers(1, 50))
def test_pieces_cover_everything_once_and_only_the_last_is_shorter(length, size):
    cut = pieces(length, size)
    assert [i for piece in cut for i in range(length)[piece]] == list(range(length))
    sizes = [piece.stop - piece.start for piece in cut]
    assert all(found == size for found in sizes[:-1])
    assert all(1 <= found <= size for found in sizes)


@pytest.mark.parametrize(
    ("n_jobs", "threads"), [(None, 1), (1, 1), (7, 7), (-1, 4), (-2, 3), (-4, 1), (-99, 1)]
)
def test_n_jobs_counts_threads_as_scikit_learn_does(n_jobs, threads, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert thread_count(n_jobs, "couple") == threads


def test_none_follows_the_configuration_of_joblib():
    with parallel_config(n_jobs=3):
        assert thread_count(None, "couple") == 3
        assert thread_count(2, "couple") == 2
    assert thread_count(None, "couple") == 1


def test_an_unknown_number_of_cores_is_one(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert thread_count(-1, "couple") == 1


@pytest.mark.parametrize("n_jobs", [0, 1.0, "2", [1]])
def test_n_jobs_that_is_no_count_is_refused(n_jobs):
    with pytest.raises(ValueError, match="couple: n_jobs must be None or an integer other than 0, got"):
        thread_count(n_jobs, "couple")


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_results_come_in_the_order_of_the_pieces_whoever_is_first(n_threads):
    def work(k):
        time.sleep(0.002 * (7 - k))
        return k * k

    assert in_threads(work, range(8), n_threads) == [k * k for k in range(8)]
    assert in_threads(work, [], n_threads) == []


def test_pieces_are_done_at_the_same_time():
    together = threading.Barrier(3, timeout=30)  # broken unless three threads wait at once
    assert sorted(in_threads(lambda _: together.wait(), range(3), 3)) == [0, 1, 2]


def test_there_are_no_more_threads_than_were_asked_for():
    seen = in_threads(lambda _: (time.sleep(0.005), threading.get_ident())[1], range(12), 2)
    assert len(set(seen)) <= 2


def test_one_piece_that_fails_fails_the_work():
    def work(k):
        return 1 / (k - 2)

    with pytest.raises(ZeroDivisionError):
        in_threads(work, range(5), 2)
