"""Freed memory of worker processes: kept for the next pair, not returned to the system at once.

Dask's nanny starts workers with ``MALLOC_TRIM_THRESHOLD_=65536``, so that glibc returns every freed page. A pair's rows
and its Gram matrix, a few megabytes, would then be mapped and cleared anew for every pair: a quarter of its training.
"""

from __future__ import annotations

import ctypes
import functools
import os

__all__ = ["keep_freed_memory"]

#: Pieces below this size come from memory that was used before, and so much of it is kept, in bytes.
_LARGEST_PIECE, _KEPT = 2**25, 2**27
# Names of glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


@functools.cache
def keep_freed_memory() -> bool:
    """Have glibc keep freed memory if Dask told it not to. Returns whether it does; elsewhere nothing is changed."""
    if "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library, or Windows
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGEST_PIECE) and mallopt(_M_TRIM_THRESHOLD, _KEPT))
