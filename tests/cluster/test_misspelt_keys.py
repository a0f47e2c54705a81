"""An unknown key suggests the key that was meant, or none."""

import pytest

from pairloom.cluster.config.config_file import configured
from pairloom.cluster.config.config_problems import _SYNONYMS, similar
from pairloom.cluster.config.config_reference import sections
from pairloom.pipeline.config.config import ConfigError

MEANT = [
    ("graph.hub", "hubs"),
    ("graph.neighbors", "neighbours"),
    ("model.fodls", "folds"),
    ("model.c", "C"),
    ("model.seed", "random_state"),
    ("run.seed", "model.random_state"),
    ("model.tolerance", "tol"),
    ("model.standardize", "standardise"),
    ("model.hubs", "graph.hubs"),
    ("run.workers", "cluster.workers"),
    ("cluster.n_jobs", "workers"),
    ("data.test_size", "test_fraction"),
    ("data.target", "label"),
    ("data.lables", "label"),
    ("model.class_wieghts", "class_weight"),
    ("growth.time", "seconds"),
    ("growth.max_pairs", "pairs"),
    ("model.memory_limt", None),
]
#: Keys that look like one that means something else.
NOT_MEANT = [
    "model.colour",
    "graph.nodes",
    "growth.age",
    "run.tenor_voice",
    "data.feathers_only",
    "model.cols",
]


def complaint(key):
    with pytest.raises(ConfigError) as caught:
        configured({"data": {"features": "digits"}}, {key: 3})
    return str(caught.value)


@pytest.mark.parametrize(("key", "meant"), MEANT)
def test_a_slip_or_another_word_suggests_the_key(key, meant):
    if meant is None:
        assert f"{key}: unknown key. Known: " in complaint(key)
    else:
        assert f"{key}: unknown key. Did you mean {meant!r}?" in complaint(key)


@pytest.mark.parametrize("key", NOT_MEANT)
def test_a_key_that_only_looks_alike_is_not_suggested(key):
    assert f"{key}: unknown key. Known: " in complaint(key)


def test_every_word_stands_for_a_key_that_exists_and_is_none_itself():
    keys = {f"{name}.{key.name}" for name, section in sections().items() for key in section.keys}
    assert set(_SYNONYMS) <= keys
    for key, words in _SYNONYMS.items():
        section = key.partition(".")[0]
        assert not {f"{section}.{word}" for word in words} & keys


@pytest.mark.parametrize(
    ("section", "key"), [(name, key.name) for name, section in sections().items() for key in section.keys]
)
def test_no_key_is_a_slip_of_another_of_its_section(section, key):
    others = [other.name for other in sections()[section].keys if other.name != key]
    assert similar(key, others) is None
