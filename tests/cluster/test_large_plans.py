"""A plan of tens of thousands of classes is a plan or a refusal that says what it would need, in bounded memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from pairloom.graphs import CODE_FAMILIES, FAMILIES
from pairloom.pipeline.config.config import Config
from pairloom.pipeline.config.sections import DataConfig, GraphConfig, RunConfig
from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.features.moments import moments_of
from pairloom.pipeline.features.row_sources import ArrayRows
from pairloom.pipeline.run.needs import task_bytes
from pairloom.pipeline.stages import planning
from pairloom.pipeline.stages.planning import plan_run

MEGABYTE = 2**20
#: Families with few pairs, whose plan needs no matrix of all classes.
PLANNED = ("star", "path", "tree", "bipartite", "hub_neighbours")
ANSWERING = [*FAMILIES, *sorted(set(CODE_FAMILIES) - {"code"})]


def data_of(n_classes):
    y = np.repeat(np.arange(n_classes), 4)
    X = np.random.default_rng(0).standard_normal((len(y), 4), dtype=np.float32)
    labels = np.arange(n_classes)
    prints, moments = {"train": "t", "test": "s", "ids": "i"}, moments_of(X, y, n_classes)
    ids = (np.arange(len(X)), np.arange(50))
    return OpenFeatures(ArrayRows(X), y, ArrayRows(X[:50]), y[:50], labels, prints, moments, *ids)


@pytest.fixture(scope="module", params=[20_000, pytest.param(50_000, marks=pytest.mark.long)])
def data(request):
    return data_of(request.param)


def graph_of(family, n):
    needed = {"tree": {"parents": [-1] + [0] * (n - 1)}, "bipartite": {"hubs": 3}, "grown": {"edges": n + 9}}
    return GraphConfig(family=family, **needed.get(family, {}))


def config_of(family, n, **run):
    return Config(data=DataConfig(features="x.npz"), graph=graph_of(family, n), run=RunConfig(**run))


@pytest.mark.quick(*(f"20000-{family}" for family in ANSWERING if family not in PLANNED))
@pytest.mark.parametrize("family", ANSWERING)
def test_every_family_answers_in_bounded_memory(family, data, monkeypatch):
    n = len(data.classes)
    monkeypatch.setattr(planning, "available_bytes", lambda: 4 * 2**30)
    tracemalloc.start()
    try:
        message = plan_or_refusal(config_of(family, n), data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < (300 + n / 100) * MEGABYTE
    assert ("planned" in message) == (family in PLANNED), message
    if family not in PLANNED:
        assert f"graph.family = {family!r}" in message or "run.memory_limit must be at least" in message


def plan_or_refusal(config, data):
    try:
        return f"{plan_run(config, data).shape.n_edges} pairs planned"
    except ValueError as error:
        return str(error)


@pytest.mark.long
def test_a_plan_that_does_not_fit_says_what_it_needs_and_what_this_machine_has(monkeypatch):
    monkeypatch.setattr(planning, "available_bytes", lambda: 2**30)
    with pytest.raises(
        ValueError, match=r"'complete' takes about 29\.80 GiB .* 20,000 classes, .* has 1\.00 GiB"
    ):
        plan_run(config_of("complete", 20_000), data_of(20_000))
    assert plan_run(config_of("complete", 200), data_of(200)).shape.n_edges == 19_900


@pytest.mark.long
def test_no_task_of_twenty_thousand_classes_needs_more_than_a_gibibyte():
    plan = plan_run(config_of("hub_neighbours", 20_000), data_of(20_000))
    assert plan.shape.n_edges > 200_000
    assert not plan.shape.tensor_stored
    assert max(task_bytes(plan).values()) < 2**30, task_bytes(plan)
