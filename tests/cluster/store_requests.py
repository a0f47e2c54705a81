"""Requests of this process to object stores: counted, and disturbed, before or after they are done."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import obstore
import pytest

__all__ = ["Hook", "ServerError", "hooked_requests"]

#: Called with the number of a request, from 1 on, its kind and its path.
Hook = Callable[[int, str, str], object]

_KINDS = ("put", "get", "head", "delete", "list", "list_with_delimiter")
_ASYNCHRONOUS = ("put_async", "get_async", "get_range_async", "get_ranges_async", "delete_async")


class ServerError(obstore.exceptions.GenericError):
    """What is left of an answer 5xx when obstore gives up."""


@contextlib.contextmanager
def hooked_requests(
    before: Hook = lambda number, kind, path: None, after: Hook = lambda number, kind, path: None
) -> Iterator[None]:
    """Call ``before`` and ``after`` with every request. If they raise, it has failed, or is done but not answered."""
    numbers = itertools.count(1)

    def hooked(request: Any, kind: str) -> Any:
        @functools.wraps(request)
        def ask(store: Any, path: str = "", *arguments: Any, **options: Any) -> Any:
            number = next(numbers)
            before(number, kind, path)
            answer = request(store, path, *arguments, **options)
            after(number, kind, path)
            return answer

        return ask

    def hooked_async(request: Any, kind: str) -> Any:
        @functools.wraps(request)
        async def ask(store: Any, path: str = "", *arguments: Any, **options: Any) -> Any:
            number = next(numbers)
            before(number, kind, path)
            answer = await request(store, path, *arguments, **options)
            after(number, kind, path)
            return answer

        return ask

    with pytest.MonkeyPatch.context() as patched:
        for kind in _KINDS:
            patched.setattr(obstore, kind, hooked(getattr(obstore, kind), kind))
        for name in _ASYNCHRONOUS:
            kind = name.removesuffix("_async").partition("_")[0]
            patched.setattr(obstore, name, hooked_async(getattr(obstore, name), kind))
        yield
