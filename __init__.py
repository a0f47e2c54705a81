"""Pairloom: multi-class classification by pairs, with probabilities that can be trusted."""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from pairloom import graphs
from pairloom.pipeline.completion.complete import complete_logits
from pairloom.pipeline.coupling import couple, couple_code
from pairloom.pipeline.estimator.pairwise_svc import PairwiseSVC
from pairloom.pipeline.machines.nearest_neighbours import NearestNeighboursCV

if TYPE_CHECKING:
    from pairloom.cluster.background_run import run, submit

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


def __getattr__(name: str) -> Any:
    # Dask takes as long to import as all the rest, and an estimator does not need it.
    if name in ("run", "submit"):
        from pairloom.cluster import background_run

        return getattr(background_run, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
