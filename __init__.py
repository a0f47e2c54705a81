"""Pairloom: multi-class classification by pairs, with probabilities that can be trusted."""

import importlib
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pairloom import graphs
    from pairloom.cluster.background_run import run, submit
    from pairloom.pipeline.completion.complete import complete_logits
    from pairloom.pipeline.coupling import couple, couple_code
    from pairloom.pipeline.estimator.pairwise_svc import PairwiseSVC
    from pairloom.pipeline.machines.nearest_neighbours import NearestNeighboursCV

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
    "couple": "pairloom.pipeline.coupling",
    "couple_code": "pairloom.pipeline.coupling",
    "run": "pairloom.cluster.background_run",
    "submit": "pairloom.cluster.background_run",
}


def __getattr__(name: str) -> Any:
    if name == "graphs":
        return importlib.import_module("pairloom.graphs")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
