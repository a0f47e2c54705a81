"""Where the documentation is: the address that the package names, or the pages of the checkout."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

__all__ = ["documentation_link"]

_DOCS = Path(__file__).resolve().parents[2] / "docs"
#: Of a checkout: the page as `.ci/docs` builds it, or its source.
_PAGES = (_DOCS / "_build" / "html" / "parameters.html", _DOCS / "parameters.md")


def documentation_link() -> str:
    """An address for a reader of a notebook; empty where there is none.

    A package that was released names its documentation in its metadata. A checkout has the pages beside the code.
    """
    try:
        addresses = metadata("pairloom").get_all("Project-URL") or []
    except PackageNotFoundError:
        addresses = []
    for address in addresses:
        name, _, url = str(address).partition(",")
        if name.strip().lower() == "documentation":
            return url.strip()
    return next((page.as_uri() for page in _PAGES if page.is_file()), "")
