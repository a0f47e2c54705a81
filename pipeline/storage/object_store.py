"""Object stores, through obstore: opening them, translating their errors, and counting requests.

obstore repeats failed requests (answers 5xx, lost connections, timeouts of reads) with growing pauses, for `patience`
seconds. The remaining errors are translated into the errors below, whose messages have no query and no credential.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from pairloom.pipeline.storage.location import BadUrl, StoreUrl

try:
    import obstore
    from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store
except ImportError:  # the extra is not installed
    obstore = None  # type: ignore[assignment]

__all__ = [
    "PATIENCE",
    "StoreAway",
    "StoreDenied",
    "StoreError",
    "StoreUnfit",
    "check_installed",
    "open_store",
    "patience",
    "requests",
    "translated",
]

#: Environment variable: the seconds for which requests are repeated while a store does not answer.
PATIENCE = "PAIRLOOM_STORE_PATIENCE"
_PATIENCE_SECONDS, _REQUEST_SECONDS = 120.0, 60.0
_BACKOFF: Any = {
    "init_backoff": timedelta(seconds=0.1),
    "max_backoff": timedelta(seconds=5),
    "base": 2.0,
}

#: Number of requests of this process by kind, without repetitions.
requests: Counter[str] = Counter()


class StoreError(RuntimeError):
    """An error of an object store. Not an `OSError`: a store that does not answer must not pass for a missing file."""


class StoreAway(StoreError):
    """The object store does not answer, or answers with errors of its own. Finished work is kept."""


class StoreDenied(StoreError):
    """The object store refuses: there is no such bucket, no permission, or credentials are missing or expired."""


class StoreUnfit(StoreError):
    """The object store has no conditional writes: two drivers could both believe that they hold the lock of a run."""


def patience() -> float:
    """Seconds for which requests are repeated."""
    try:
        seconds = float(os.environ.get(PATIENCE, _PATIENCE_SECONDS))
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 86400:
        raise BadUrl(f"{PATIENCE} must be seconds between 0 and 86400, got {os.environ[PATIENCE]!r}.")
    return seconds


def check_installed(url: StoreUrl) -> None:
    """Raise `StoreUnfit` if obstore is not installed. What works with stores imports it, so this comes first."""
    if obstore is None:
        raise StoreUnfit(
            f'{url}: object stores need obstore. Install it, in a clone of pairloom, with: pip install -e ".[cloud]"'
        )


@functools.lru_cache(maxsize=64)
def open_store(url: StoreUrl, *, repeats: bool = True) -> Any:
    """The store of a URL, whose objects have names relative to its path. Nothing outside can be named.

    With ``repeats``, obstore repeats requests that the store answers with an error of its own.
    """
    check_installed(url)
    if url.scheme == "memory":
        return _memory_of(url)
    seconds = patience()
    timeout = f"{min(_REQUEST_SECONDS, seconds / 2):g}s"
    kind, environment = {
        "s3": (S3Store, "AWS"),
        "gs": (GCSStore, "GOOGLE"),
        "az": (AzureStore, "AZURE"),
    }[url.scheme]
    plain = os.environ.get(f"{environment}_ALLOW_HTTP", "").lower() in ("true", "1")
    with translated(url):
        return kind(
            url.bucket,
            prefix=url.path or None,
            client_options={"timeout": timeout, "connect_timeout": timeout, "allow_http": plain},
            retry_config={
                "max_retries": 10_000 if repeats else 0,  # limited by time, not by number
                "retry_timeout": timedelta(seconds=seconds),
                "backoff": _BACKOFF,
            },
        )


@functools.cache
def _memory_of(url: StoreUrl) -> Any:
    """A store for this URL alone, in memory; it lives as long as this process."""
    return MemoryStore()


@contextlib.contextmanager
def translated(url: StoreUrl) -> Iterator[None]:
    """Translate the errors of obstore into those above. `FileNotFoundError` stays, unless the bucket is missing."""
    try:
        yield
    except FileNotFoundError as error:
        if _names_no_bucket(error):
            raise _denied(url, "there is no such bucket") from None
        raise FileNotFoundError(f"{url}: no such object.") from None
    except (obstore.exceptions.PermissionDeniedError, obstore.exceptions.UnauthenticatedError) as error:
        raise _denied(url, _reason(error)) from None
    except (obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError):
        raise
    except obstore.exceptions.BaseError as error:
        if _names_no_bucket(error):
            raise _denied(url, "there is no such bucket") from None
        if re.search(r"status code: (301|307|400|401|403)|[Cc]redential|AccessDenied", str(error)):
            raise _denied(url, _reason(error)) from None
        if re.search(r"status code: (405|501)|\b(405 Method|501 Not)\b", str(error)):
            raise StoreUnfit(
                f"{url}: the store cannot do what runs need: {_reason(error)}. Use another store, or a folder."
            ) from None
        raise StoreAway(f"{url}: the store does not answer as it should: {_reason(error)}.") from None


def _names_no_bucket(error: Exception) -> bool:
    """Whether the bucket is missing, not only an object."""
    return any(code in str(error) for code in ("NoSuchBucket", "ContainerNotFound"))


def _denied(url: StoreUrl, reason: str) -> StoreDenied:
    return StoreDenied(
        f"{url}: the store refuses: {reason}. Check the bucket, its region, and the credentials in the environment."
    )


def _reason(error: Exception) -> str:
    """The message of an error, without addresses, whose queries may be signed, and without the store's XML page."""
    code = re.search(r"<Code>(\w+)</Code>", str(error))
    line = str(error).split("\n")[0].split("<?xml")[0]
    line = re.sub(r"https?://\S+", "its address", line).rstrip(": .")
    return f"{line} ({code[1]})" if code else line
