"""The examples in the docstrings run, and every public function has one."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import pairloom
from pairloom import graphs

ROOMS = ["graphs", "pipeline", "cluster"]
MODULES = [
    module.name
    for room in ROOMS
    for module in pkgutil.walk_packages(
        importlib.import_module(f"pairloom.{room}").__path__, f"pairloom.{room}."
    )
    if not module.ispkg and not module.name.endswith(("_kernels", "__main__"))
]
PUBLIC = [
    (package, name)
    for package in (pairloom, graphs)
    for name in package.__all__
    if inspect.isfunction(getattr(package, name))
]


# The example of pairloom.run starts processes.
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if name == "pairloom.cluster.run" else ())
        for name in MODULES
    ],
)
def test_examples_run(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0
    if name.startswith("pairloom.graphs."):  # what is there is public
        assert result.attempted > 0


@pytest.mark.parametrize(("package", "name"), PUBLIC, ids=lambda value: getattr(value, "__name__", value))
def test_every_public_function_has_an_example(package, name):
    assert ">>> " in getattr(package, name).__doc__
