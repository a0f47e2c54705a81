"""The table of parameters is true: it agrees with the signatures, and they with the configuration."""

import ast
import inspect
import re
from pathlib import Path

import pytest

from pairloom import PairwiseSVC, graphs
from pairloom.pipeline.config.cluster_config import ClusterConfig
from pairloom.pipeline.config.sections import GraphConfig, GrowthConfig, ModelConfig, RunConfig

PAGE = (Path(__file__).parents[1] / "docs" / "parameters.md").read_text()
SECTIONS = {
    "graph": GraphConfig,
    "model": ModelConfig,
    "growth": GrowthConfig,
    "cluster": ClusterConfig,
    "run": RunConfig,
}
# Where an estimator and a run cannot have the same default, the table says why.
OTHER_DEFAULTS = {"random_state": 0, "memory_limit": None}


def rows_of(title):
    """The cells of the table under a heading, without its own heading and the line below that."""
    section = re.search(rf"^## {title}$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL).group(1)
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def signature_of(function):
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p for p in parameters if p.name not in ("self", "X", "y")}


TABLES = [("The model", PairwiseSVC.__init__), ("Growth", PairwiseSVC.grow)]


@pytest.mark.parametrize(("title", "function"), TABLES)
def test_every_parameter_is_in_the_table_with_its_default(title, function):
    documented = {cells[0].strip("`"): ast.literal_eval(cells[2].strip("`")) for cells in rows_of(title)}
    assert documented == {name: p.default for name, p in signature_of(function).items()}


@pytest.mark.parametrize(("title", "function"), TABLES)
def test_the_configuration_has_the_same_names_and_defaults(title, function):
    for name, key, default, _ in rows_of(title):
        name, key = name.strip("`"), key.strip("`")
        if key == "none":
            continue
        section, field = key.split(".")
        assert name in (field, "graph", "n_jobs"), "the same name, but for a section and for workers"
        stored = SECTIONS[section].model_fields[field].default
        assert stored == OTHER_DEFAULTS.get(name, ast.literal_eval(default.strip("`")))


def test_every_key_of_the_model_and_of_growth_is_a_parameter():
    assert set(ModelConfig.model_fields) <= set(signature_of(PairwiseSVC.__init__))
    assert set(GrowthConfig.model_fields) - {"coupling"} == set(signature_of(PairwiseSVC.grow))


def test_everything_after_the_graph_is_keyword_only():
    graph, *others = signature_of(PairwiseSVC.__init__).values()
    assert graph.name == "graph"
    assert {p.kind for p in others} == {inspect.Parameter.KEYWORD_ONLY}


def test_every_family_is_in_the_table_and_in_the_configuration():
    documented = {
        cells[0].strip("`"): set(re.findall(r"`(\w+)`", cells[1]))
        for title in ("Graph families", "Codes")
        for cells in rows_of(title)
    }
    families = (*graphs.FAMILIES, *graphs.CODE_FAMILIES)
    assert documented == {family: set(graphs.family_parameters(family)) for family in families}
    assert set().union(*documented.values()) == set(GraphConfig.model_fields) - {"family"}


def test_every_parameter_has_a_docstring_with_its_default():
    text = inspect.getdoc(PairwiseSVC)
    for name, parameter in signature_of(PairwiseSVC.__init__).items():
        (described,) = re.findall(rf"^{name} : .*$", text, re.MULTILINE)
        assert "default=" in described
        if isinstance(parameter.default, str):
            assert f'default="{parameter.default}"' in described
