"""Errors of other libraries, with the name of the parameter that they are about."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

__all__ = ["named_errors"]


@contextlib.contextmanager
def named_errors(must: str) -> Iterator[None]:
    """Say which parameter must be what, before the message of an error that does not."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{must}: {error}") from error
