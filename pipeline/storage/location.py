"""Locations of runs, models and data: a path of the file system, or the URL of a prefix in an object store.

URLs never contain credentials, which would end up in plans, logs, reports and errors: these come from the environment.
"""

from __future__ import annotations

import re
import urllib.parse
from dataclasses import dataclass
from pathlib import Path
from urllib.request import url2pathname

__all__ = [
    "URL_ADVICE",
    "BadUrl",
    "Location",
    "NotLocal",
    "StoreUrl",
    "check_local",
    "location_of",
    "looks_like_url",
    "without_credentials",
]


# One slash, since a `Path` drops the other. A scheme has two letters or more: C:/data is a drive of Windows.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
URL_ADVICE = "Mount the storage, or copy the files, and give their path."


class NotLocal(ValueError):
    """A URL where a path is needed."""


def looks_like_url(path: str | Path) -> bool:
    """Whether a path begins like a URL.

    Examples
    --------
    >>> [looks_like_url(path) for path in ("s3://bucket/run", "file:///run", "C:/runs", "runs/s3:/x", "runs")]
    [True, True, False, False, False]
    """
    return _URL.match(str(path)) is not None


def without_credentials(text: str) -> str:
    """A value for messages: a URL without user, password, query and fragment, which may be secret.

    Examples
    --------
    >>> without_credentials("s3://me:secret@bucket/run?signature=secret"), without_credentials("x@y.npz")
    ('s3://bucket/run', 'x@y.npz')
    >>> without_credentials("s3://me:se/cret@bucket/run"), without_credentials("s3://me:se?cret@bucket/run")
    ('s3://bucket/run', 's3://')
    """
    begin = _URL.match(text)
    if begin is None:
        return text
    slashes = len(text) - len(text[begin.end() :].lstrip("/"))
    plain, *query = re.split(r"[?#]", text[slashes:], maxsplit=1)
    if query and "@" in query[0]:  # of a password, perhaps
        return text[:slashes]
    return text[:slashes] + plain.rpartition("@")[2]


def check_local(parameter: str, path: str | Path) -> None:
    """Raise `NotLocal` if a path looks like a URL, which would silently become a folder of that name."""
    if looks_like_url(path):
        raise NotLocal(
            f"{parameter} must be a path, not a URL, got {without_credentials(str(path))!r}. {URL_ADVICE}"
        )


_SCHEMES = ("s3", "gs", "az", "memory")
_KNOWN = "s3://, gs://, az://, memory:// or file://"
# Names without characters that are special in a URL, a shell or a store.
_NAME = re.compile(r"[^\x00-\x1f\x7f\\%#?*\[\]{}^~<>|\"`:@]+")


class BadUrl(ValueError):
    """A URL that cannot be the location of a run, a model or data."""


@dataclass(frozen=True)
class StoreUrl:
    """A prefix of an object store: all objects of a bucket whose names begin with a path, as in a folder.

    It has the part of the interface of `pathlib.Path` that makes sense without a file system.

    Examples
    --------
    >>> url = StoreUrl("s3", "bucket", "runs/a")
    >>> print(url, url / "run.json", url.name)
    s3://bucket/runs/a s3://bucket/runs/a/run.json a
    """

    scheme: str
    bucket: str
    path: str = ""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.path}".rstrip("/")

    def __truediv__(self, name: str) -> StoreUrl:
        return StoreUrl(self.scheme, self.bucket, f"{self.path}/{name}".strip("/"))

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> StoreUrl:
        """The URL without the last part of its path."""
        return StoreUrl(self.scheme, self.bucket, self.path.rpartition("/")[0])

    def absolute(self) -> StoreUrl:
        """The same: a URL does not depend on a working directory."""
        return self

    def resolve(self) -> StoreUrl:
        """The same: a store has no links."""
        return self

    def lies_in(self, other: StoreUrl) -> bool:
        """Whether it is the other URL or below it."""
        return f"{self}/".startswith(f"{other}/")


#: The location of a run, a model or data.
Location = Path | StoreUrl


def location_of(text: str | Path | StoreUrl, parameter: str) -> Location:
    """The location that a user gave.

    Parameters
    ----------
    parameter
        Its name, for errors.

    Raises
    ------
    BadUrl
        If it is a URL of an unknown form, or with credentials, which the message does not repeat.

    Examples
    --------
    >>> location_of("s3://bucket/runs/a", "directory").name, location_of("file:///runs/a", "directory").as_posix()
    ('a', '/runs/a')
    """
    if isinstance(text, StoreUrl) or not looks_like_url(text):
        return text if isinstance(text, StoreUrl) else Path(text)
    scheme, _, rest = str(text).partition(":")
    scheme, rest = scheme.lower(), rest.lstrip("/") if isinstance(text, Path) else rest.removeprefix("//")
    host, _, path = rest.partition("/")
    # Secret keys often have slashes, so the @ that ends a password may come after the first of them.
    if "@" in (host if scheme == "file" else rest) or {"?", "#"} & set(rest):
        raise BadUrl(
            f"{parameter} must be a URL without user, password, query or fragment, got one with some at"
            f" {without_credentials(str(text))}. Credentials are taken from the environment (AWS_ACCESS_KEY_ID and so"
            " on)."
        )
    if scheme == "file":
        return _local_path(parameter, host, path, str(text))
    if scheme not in _SCHEMES:
        raise BadUrl(f"{parameter} must be a path or a URL that begins with {_KNOWN}, got {str(text)!r}.")
    parts = path.rstrip("/").split("/") if path.rstrip("/") else []
    if not all(_NAME.fullmatch(part) and part not in (".", "..") for part in (host, *parts)):
        raise BadUrl(
            f"{parameter} must be {scheme}://BUCKET/PATH, with parts that are plain names, got {str(text)!r}."
        )
    return StoreUrl(scheme, host, "/".join(parts))


def _local_path(parameter: str, host: str, path: str, text: str) -> Path:
    """The path of a file:// URL, which must be absolute and of this host."""
    if host not in ("", "localhost"):
        raise BadUrl(f"{parameter} must be file:///PATH, with three slashes, got {text!r}.")
    return Path(url2pathname(f"/{urllib.parse.quote(urllib.parse.unquote(path))}"))
