"""Pairloom: multi-class classification by pairs, with probabilities that can be trusted."""

from importlib.metadata import version

__version__ = version("pairloom")
__all__ = ["__version__"]
