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
from pairloom.pipeline.stages.planning import plan_run

MEGABYTE = 2**20


def data_of(n_classes):
    y = np.repeat(np.arange(n_classes), 4)
    X = np.random.default_rng(0).standard_normal((len(y), 4), dtype=np.float32)
    labels = np.arange(n_classes)
    prints, moments = {"train": "t", "test": "s"}, moments_of(X, y, n_classes)
    return OpenFeatures(ArrayRows(X), y, ArrayRows(X[:50]), y[:50], labels, prints, moments)


@pytest.fixture(scope="module", params=[20_000, pytest.param(100_000, marks=pytest.mark.long)])
def data(request):
    return data_of(request.param)


def graph_of(family, n):
    needed = {"tree": {"parents": [-1] + [0] * (n - 1)}, "bipartite": {"hubs": 3}, "grown": {"edges": n + 9}}
    return GraphConfig(family=family, **needed.get(family, {}))


def config_of(family, n, **run):
    return Config(data=DataConfig(features="x.npz"), graph=graph_of(family, n), run=RunConfig(**run))


@pytest.mark.parametrize("family", [*FAMILIES, *sorted(set(CODE_FAMILIES) - {"code"})])
def test_every_family_answers_in_bounded_memory(family, data):
    n = len(data.classes)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"must be at least|at most") as refused:
            plan_run(config_of(family, n), data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < (300 + n / 100) * MEGABYTE
    message = str(refused.value)
    assert f"graph.family = {family!r}" in message or "run.memory_limit must be at least" in message


def test_a_star_of_twenty_thousand_classes_is_planned_where_there_is_the_memory():
    plan = plan_run(config_of("star", 20_000, memory_limit="100GiB"), data_of(20_000))
    assert len(plan.shape.edges) == 19_999
    assert not plan.shape.tensor_stored
