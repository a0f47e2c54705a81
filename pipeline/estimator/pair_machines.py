"""Pairs of classes by their labels, and what their machines say."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np


class PairMachine(NamedTuple):
    """The logit of one class against another is ``weights @ x + bias``."""

    weights: np.ndarray
    bias: float
    dprime: float


class PairMachines(Mapping):
    """Pairs of class labels, either way round, and what their machines say."""

    def __init__(self, classes, edges, weights, bias, dprime):
        self._weights, self._bias, self._dprime = weights, bias, dprime
        self._edge = {(classes[i], classes[j]): e for e, (i, j) in enumerate(edges.tolist())}

    def __getitem__(self, pair):
        a, b = pair
        if (a, b) not in self._edge and (b, a) not in self._edge:
            raise KeyError(pair)
        e, sign = (self._edge[a, b], 1) if (a, b) in self._edge else (self._edge[b, a], -1)
        return PairMachine(sign * self._weights[e], float(sign * self._bias[e]), float(self._dprime[e]))

    def __iter__(self):
        return iter(self._edge)

    def __len__(self):
        return len(self._edge)
