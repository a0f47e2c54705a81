"""Properties have time to compile; the files that take longest come first; no disk is waited for."""

from __future__ import annotations

import gc
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
    config.addinivalue_line(
        "markers",
        "quick(*ids): the parameters of this test that the quick part runs; with the others it takes long",
    )
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector):
    """Leave to the long part the parameters of a test that its mark ``quick`` does not name."""
    made = yield
    if isinstance(made, list):
        _mark_long(collector, {item.callspec.id: item for item in made if hasattr(item, "callspec")})
    return made


def _mark_long(collector, items):
    named = {id_ for item in items.values() for mark in item.iter_markers("quick") for id_ in mark.args}
    if named - items.keys():
        unknown = ", ".join(sorted(named - items.keys()))
        raise collector.CollectError(f"quick must name parameters of its test, got {unknown}.")
    for id_ in items.keys() - named if named else ():
        items[id_].add_marker("long")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish():
    """Spare the garbage collector thousands of tests and modules, which stay until the end."""
    gc.collect()
    gc.freeze()


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


@pytest.fixture(scope="session")
def seaweed_port(tmp_path_factory):
    """A real object store on loopback."""
    from object_stores import seaweed

    with seaweed(tmp_path_factory.mktemp("seaweed")) as port:
        yield port


@pytest.fixture(scope="session")
def moto_port(tmp_path_factory):
    """Another one."""
    from object_stores import moto

    with moto(tmp_path_factory.mktemp("moto")) as port:
        yield port


@pytest.fixture
def bucket(seaweed_port):
    """A new bucket of a real object store, which the environment leads to."""
    from object_stores import in_environment, new_bucket

    with in_environment(seaweed_port):
        yield new_bucket(seaweed_port)


@pytest.fixture(autouse=True)
def the_same_folds_in_every_run():
    """Seed the generator that draws the folds of a model without a `random_state`."""
    import numpy as np  # not earlier: it reads the number of threads

    np.random.seed(0)  # noqa: NPY002, scikit-learn draws from this generator
