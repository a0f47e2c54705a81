"""Synthetic features that behave like a network's last layer.

They are drawn from a model that shares the properties of a ResNet-18's pooled last layer that matter to a pairwise
classifier: 512 non-negative features, classes that cluster in super-classes and are confused within them, and a
within-class covariance of low rank.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["FEATURES", "SyntheticLayer"]

FEATURES = 512
_RANK = 24
_BASELINE = -0.3
_WITHIN_SPREAD = 3.0
_NOISE = 0.78

# First words of the seed sequences, so that no two draws share a stream.
_LAYER, _SUPERCLASS, _CLASS, _TRAIN, _TEST = range(5)


class SyntheticLayer(NamedTuple):
    """A generator of features. Whoever changes a parameter changes the data, and must change their version too.

    Parameters
    ----------
    seed : int
    superclass_spread, class_spread : float
        How far the centres of super-classes are from each other, and those of classes from their super-class.
    """

    seed: int
    superclass_spread: float
    class_spread: float

    def rows_of_class(
        self, label: int, superclass: int, rows: int, *, test: bool = False
    ) -> NDArray[np.float32]:
        """(rows, 512) features of a class: non-negative, about half of them zero, as after a rectifier.

        A shorter draw is the beginning of a longer one.
        """
        stream = self._draw(_TEST if test else _TRAIN, label)
        latent = stream.standard_normal((rows, _RANK + FEATURES))
        within = latent[:, :_RANK] @ _within_class_factor(self.seed)
        activation = self._centre(label, superclass) + within + _NOISE * latent[:, _RANK:]
        return np.maximum(activation, 0.0).astype(np.float32)

    def _centre(self, label: int, superclass: int) -> NDArray[np.float64]:
        return (
            _BASELINE
            + self.superclass_spread * self._draw(_SUPERCLASS, superclass).standard_normal(FEATURES)
            + self.class_spread * self._draw(_CLASS, label).standard_normal(FEATURES)
        )

    def _draw(self, *key: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, *key))


@functools.cache
def _within_class_factor(seed: int) -> NDArray[np.float64]:
    """Rank-24 factor of the within-class covariance, shared by all classes, with falling singular values."""
    directions = np.random.default_rng((seed, _LAYER)).standard_normal((_RANK, FEATURES)) / np.sqrt(_RANK)
    factor: NDArray[np.float64] = directions * _WITHIN_SPREAD / np.sqrt(1 + np.arange(_RANK))[:, None]
    return factor
