"""A matrix of levels as a gray PNG file, a compact form of a heat map."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

__all__ = ["gray_png"]


def gray_png(levels: NDArray[np.uint8]) -> bytes:
    """Levels (row, column), 0 to 255, as a PNG file of eight bits per pixel, without a colour profile or a date."""
    height, width = levels.shape
    rows = np.zeros((height, width + 1), np.uint8)  # every row begins with its filter, 0 for none
    rows[:, 1:] = levels
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
