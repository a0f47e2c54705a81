"""Whether a value that a user gave is a number of some kind. True and False are not."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["MOST", "is_count", "is_finite", "is_positive", "is_share"]

#: The largest number of samples: numpy's integers hold it, and its products with numbers of classes.
MOST = 2**31 - 1


def is_count(value: Any, least: int) -> bool:
    """Whether a value is an integer of at least `least`."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= least


def is_positive(value: Any) -> bool:
    """Whether a value is a number above zero that a float can hold."""
    try:
        return _is_number(value) and 0 < float(value) < np.inf
    except OverflowError:  # of an integer
        return False


def is_finite(value: Any) -> bool:
    """Whether a value is a number that a float can hold."""
    try:
        return _is_number(value) and bool(np.isfinite(float(value)))
    except OverflowError:  # of an integer
        return False


def is_share(value: Any) -> bool:
    """Whether a value is a number from 0 to 1."""
    return _is_number(value) and 0 <= value <= 1


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
