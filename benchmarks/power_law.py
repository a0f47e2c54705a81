"""How a cost grows: seconds = factor * size ** power, by least squares in the logarithms."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Shorter times are noise: the system counts CPU time in hundredths of a second.
LEAST_SECONDS = 0.03


class PowerLaw(NamedTuple):
    """The power over all sizes, and over the last three at most, which says more of sizes to come."""

    power: float
    last: float


def fit_power(sizes: Sequence[float], seconds: Sequence[float]) -> PowerLaw | None:
    """The powers of a series, or None if fewer than two of its times are long enough to be measured."""
    usable = [(n, s) for n, s in zip(sizes, seconds, strict=True) if s >= LEAST_SECONDS]
    if len(usable) < 2:
        return None
    log_n, log_s = np.log(usable).T
    return PowerLaw(_slope(log_n, log_s), _slope(log_n[-3:], log_s[-3:]))


def _slope(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    return float(np.polyfit(x, y, 1)[0])
