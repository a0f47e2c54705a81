"""The paths in a configuration: relative to its file, so that it means the same in every working directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pairloom.cluster.local_path import looks_like_url
from pairloom.pipeline.features.feature_set import DATA_FOLDER, EMBEDDED

__all__ = ["anchored"]

_PATHS = (
    ("data", "features"),
    ("data", "test"),
    ("cluster", "scheduler_file"),
    ("cluster", "tls_ca_file"),
    ("cluster", "tls_cert"),
    ("cluster", "tls_key"),
)


def anchored(tables: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The tables of a configuration with paths that are relative to a folder made absolute.

    Values that are no paths, or not of the right type, are left to the validation.

    Examples
    --------
    >>> anchored({"data": {"features": "x.npz", "test": "/there/y.npz"}}, Path("/here"))
    {'data': {'features': '/here/x.npz', 'test': '/there/y.npz'}}
    >>> anchored({"data": {"features": "digits"}}, Path("/here"))
    {'data': {'features': 'digits'}}
    """
    found = dict(tables)
    for section, key in _PATHS:
        table = found.get(section)
        if isinstance(table, dict) and _is_relative(table.get(key)):
            # One spelling of one place, since settings are compared.
            found[section] = table | {key: os.path.normpath(folder.resolve() / table[key])}
    return found


def _is_relative(source: Any) -> bool:
    """Whether a value is a path that depends on where one is."""
    return (
        isinstance(source, str)
        and source != ""
        and source not in EMBEDDED
        and not source.startswith("~")
        and f"${DATA_FOLDER}" not in source
        and not looks_like_url(source)
        and not Path(source).is_absolute()
    )
