"""Threads: how many, and work on pieces in them."""

import numbers
import os
from concurrent.futures import ThreadPoolExecutor


def thread_count(n_jobs, owner):
    """The number of threads that scikit-learn's n_jobs stands for: None is one, -1 as many as there are cores."""
    if n_jobs is None:
        return 1
    if not isinstance(n_jobs, numbers.Integral) or n_jobs == 0:
        raise ValueError(f"{owner}: n_jobs must be None or an integer other than 0, got {n_jobs!r}.")
    return int(n_jobs) if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + int(n_jobs))


def in_threads(work, pieces, n_threads):
    """[work(piece) for piece in pieces], in threads, in the order of the pieces."""
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work, pieces))
