"""Scores of probabilities, tables for a terminal and a notebook, and figures as scikit-learn's Display classes.

The report shares the scores and the order and layout of the classes.
"""

from typing import Any

__all__ = ["ConfusionDisplay", "GraphDisplay", "ReliabilityDisplay"]


# Imported on first use: a fit needs the tables, not the figures. Their types are in __init__.pyi.
def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pairloom.pipeline.display import displays

    return getattr(displays, name)
