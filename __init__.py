"""Pairloom: multi-class classification by pairs, with probabilities that can be trusted."""

import importlib
from importlib.metadata import version
from typing import Any

__version__ = version("pairloom")
__all__ = [
    "NearestNeighboursCV",
    "PairwiseSVC",
    "__version__",
    "complete_logits",
    "couple",
    "couple_code",
    "graphs",
    "run",
    "submit",
]

# Imported when they are first used: together they take seconds, in which a command would show nothing. Half of that is
# Dask, which an estimator does not need.
_HOMES = {
    "NearestNeighboursCV": "pairloom.pipeline.machines.nearest_neighbours",
    "PairwiseSVC": "pairloom.pipeline.estimator.pairwise_svc",
    "complete_logits": "pairloom.pipeline.completion.complete",
    "couple": "pairloom.pipeline.coupling.pairs.couple",
    "couple_code": "pairloom.pipeline.coupling.codes.couple_code",
    "run": "pairloom.cluster.run",
    "submit": "pairloom.cluster.run",
}


def __getattr__(name: str) -> Any:
    if name == "graphs":
        return importlib.import_module("pairloom.graphs")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    attribute = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return attribute


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
