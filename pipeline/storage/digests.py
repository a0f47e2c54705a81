"""Digests of files and of JSON values, and sealed JSON, which contains its own digest."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

__all__ = ["DamagedSeal", "digest_of", "file_digest", "sealed", "unsealed"]


class DamagedSeal(ValueError):
    """Sealed JSON that was truncated or modified."""


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes in hexadecimal, as ``sha256sum`` prints it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of(value: Any) -> str:
    """Digest of a JSON value. It does not depend on the order of keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def sealed(content: dict[str, Any], indent: int | None = None) -> bytes:
    """A JSON object with a digest of its content, so that a damaged digit does not pass for a valid number.

    Examples
    --------
    >>> unsealed(sealed({"scale": 3.5}))
    {'scale': 3.5}
    """
    plain = json.loads(json.dumps(content))  # keys become strings, which sort differently from numbers
    return (json.dumps({**plain, "seal": digest_of(plain)}, indent=indent) + "\n").encode()


def unsealed(data: bytes) -> dict[str, Any]:
    """The content of sealed JSON. Raises `DamagedSeal` if it is damaged."""
    try:
        content: dict[str, Any] = json.loads(data)
        seal = content.pop("seal")
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise DamagedSeal("it is truncated, or not sealed JSON") from error
    if seal != digest_of(content):
        raise DamagedSeal("its digest does not match its content")
    return content
