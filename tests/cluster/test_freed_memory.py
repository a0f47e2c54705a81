"""Freed memory of workers is used again."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

PAGES = """
import resource, numpy as np
from pairloom.cluster.drive.tasks import keep_freed_memory
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        np.empty(2**18, np.float32).fill(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
before = faults()
print(before, keep_freed_memory(), faults())
"""


def page_faults(**environment: str) -> tuple[int, bool, int]:
    """Page faults of a hundred arrays of a megabyte in a new process, before and after the call, and its answer."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC")}
    found = subprocess.run(
        [sys.executable, "-c", PAGES], env=inherited | environment, capture_output=True, text=True, check=True
    )
    before, kept, after = found.stdout.split()
    return int(before), kept == "True", int(after)


@pytest.mark.long
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the setting is glibc's")
def test_what_the_nanny_has_glibc_return_is_kept():
    before, kept, after = page_faults(MALLOC_TRIM_THRESHOLD_="65536")
    assert kept
    assert before > 10_000, "every array was mapped anew"
    assert after < 2_000


@pytest.mark.long
def test_a_process_that_dask_did_not_start_is_left_alone():
    assert page_faults()[1] is False
