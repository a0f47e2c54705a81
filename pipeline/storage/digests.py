"""Digests: of files, of JSON values, and sealed JSON, which says when it is no longer what was written."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

__all__ = ["DamagedSeal", "digest_of", "file_digest", "sealed", "unsealed"]


class DamagedSeal(ValueError):
    """Sealed JSON that is cut short, or changed."""


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes in hexadecimal, as ``sha256sum`` prints it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of(value: Any) -> str:
    """Digest of a JSON value, the same for equal values whatever the order of their keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def sealed(content: dict[str, Any], indent: int | None = None) -> bytes:
    """A JSON object with the digest of all that it says: a damaged digit would be as good a number as the right one.

    Examples
    --------
    >>> unsealed(sealed({"scale": 3.5}))
    {'scale': 3.5}
    """
    return (json.dumps({**content, "seal": digest_of(content)}, indent=indent) + "\n").encode()


def unsealed(data: bytes) -> dict[str, Any]:
    """The content of sealed JSON, or raise `DamagedSeal`."""
    try:
        content: dict[str, Any] = json.loads(data)
        seal = content.pop("seal")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise DamagedSeal("not sealed JSON, or cut short") from error
    if seal != digest_of(content):
        raise DamagedSeal("its seal does not match its content")
    return content
