"""Work cut into pieces, and pieces done in threads. The cut never depends on the number of threads."""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from joblib import effective_n_jobs

__all__ = ["in_threads", "pieces", "thread_count"]

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def pieces(length: int, size: int) -> list[slice]:
    """Cut ``range(length)`` into slices of ``size``, the last one shorter.

    Examples
    --------
    >>> pieces(5, 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]


def thread_count(n_jobs: int | None, owner: str) -> int:
    """The number of threads that scikit-learn's n_jobs stands for: -1 is as many as there are cores.

    None is the number of the enclosing ``joblib.parallel_config(n_jobs=...)``, without one a single thread.
    """
    if n_jobs is None:
        return int(effective_n_jobs(None))
    if not isinstance(n_jobs, numbers.Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise ValueError(f"{owner}: n_jobs must be None or an integer other than 0, got {n_jobs!r}.")
    return int(n_jobs) if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + int(n_jobs))


def in_threads(work: Callable[[Piece], Result], pieces: Sequence[Piece], n_threads: int) -> list[Result]:
    """[work(piece) for piece in pieces], in threads, in the order of the pieces."""
    if n_threads == 1 or len(pieces) <= 1:  # starting a thread takes longer than predicting a sample
        return [work(piece) for piece in pieces]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work, pieces))
