"""Properties have time to compile; the files that take longest come first; no disk is waited for."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# Each of several workers has a core of its own. Threads of BLAS and OpenMP would wait for each other, and keep busy.
# Read when numpy and scikit-learn are imported, which is later.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")

# The first example of a property may compile a kernel, which takes seconds.
settings.register_profile("compiling", deadline=None)
settings.load_profile("compiling")

# The files that take longest, so that no worker begins one when the other has nothing left to do. The first two
# compile different kernels.
LONGEST = (
    "coupling/test_couple.py",
    "machines/test_svm.py",
    "cluster/test_two_doors.py",
    "experiments/test_growing_models.py",
    "experiments/test_files.py",
    "cluster/test_background_run.py",
    "cluster/test_closed_pipe.py",
    "cluster/test_interrupts.py",
    "cluster/test_features_command.py",
    "cluster/test_cli.py",
    "benchmarks/test_peers.py",
    "estimator/test_pairwise_svc.py",
    "test_examples.py",
    "test_package.py",
)


def pytest_configure(config):
    """Keep the order of the files: pytest-xdist would begin with those of most tests."""
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def pytest_collection_modifyitems(items):
    def place(item):
        path = item.path.as_posix()
        return next((n for n, name in enumerate(LONGEST) if path.endswith(f"/{name}")), len(LONGEST))

    items.sort(key=place)


@pytest.fixture(scope="session", autouse=True)
def no_disk_is_waited_for():
    """Files are flushed for the day when the power fails. Here none fails, and a run flushes hundreds of times."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda descriptor: None)
        yield
