"""Paths that look like URLs: runs are read from and written to mounted file systems, so they are refused."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["URL_ADVICE", "NotLocal", "check_local", "looks_like_url"]

# A `Path` has lost one of the slashes. A scheme has two letters or more: C:/data is a drive of Windows.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
URL_ADVICE = "Mount the storage, or copy the files, and give their path."


class NotLocal(ValueError):
    """A URL where a path is needed."""


def looks_like_url(path: str | Path) -> bool:
    """Whether a path begins as a URL does.

    Examples
    --------
    >>> [looks_like_url(path) for path in ("s3://bucket/run", "file:///run", "C:/runs", "runs/s3:/x", "runs")]
    [True, True, False, False, False]
    """
    return _URL.match(str(path)) is not None


def check_local(parameter: str, path: str | Path) -> None:
    """Raise `NotLocal` if a path looks like a URL. Otherwise it would quietly become a folder of that name."""
    if looks_like_url(path):
        raise NotLocal(f"{parameter} must be a path, not a URL, got {str(path)!r}. {URL_ADVICE}")
