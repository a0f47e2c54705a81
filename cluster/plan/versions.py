"""Versions of everything that a result depends on."""

from __future__ import annotations

import importlib.metadata
import platform

import pairloom

__all__ = ["installed_versions"]

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "zarr", "dask", "distributed", "networkx")


def installed_versions() -> dict[str, str]:
    """Versions of pairloom, Python and the packages below it, by name."""
    packages = {name: importlib.metadata.version(name) for name in _PACKAGES}
    return {"pairloom": pairloom.__version__, "python": platform.python_version(), **packages}
