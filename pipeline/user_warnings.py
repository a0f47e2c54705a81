"""Warnings that name the line of the user's program, however deep in the package they are found."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

__all__ = ["warn_user"]

_ROOMS = tuple(str(Path(__file__).parents[1] / room) for room in ("graphs", "pipeline", "cluster"))


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn as if from the first line outside of the package: `skip_file_prefixes` of Python 3.12."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_ROOMS):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
