"""The examples in the docstrings run, and every public function has one."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

from pairloom import graphs

MODULES = [f"pairloom.graphs.{module.name}" for module in pkgutil.iter_modules(graphs.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("name", [n for n in graphs.__all__ if inspect.isfunction(getattr(graphs, n))])
def test_every_public_function_has_an_example(name):
    assert ">>> " in getattr(graphs, name).__doc__
