"""Synthetic classes of any number and size that are about as hard to tell apart whatever their number.

Class means are standard normal in a subspace of 64 dimensions (or a sixth of all, if that is less), which an
orthonormal basis lifts to all dimensions; noise is normal in all of them. With 40 rows of 384 features per class its
standard deviation, 1.95 - 0.20 log10(N), makes the nearest mean right for 0.91 to 0.93 of the test rows, for N from 100
to 5000.
"""

import math

import numpy as np
from numpy.typing import NDArray

from pairloom.benchmarks.datasets import Split


def synthetic_classes(classes: int, rows: int = 40, features: int = 384, tests: int = 2000) -> Split:
    """Training rows of each class and test rows of all, the same for the same sizes."""
    rng = np.random.default_rng(0)
    subspace = max(2, min(64, features // 6))
    basis = np.linalg.qr(rng.standard_normal((features, subspace)))[0].T.astype(np.float32)
    # Means in a smaller subspace are farther from the centre, so that classes are as far apart in any of them.
    means = np.float32(math.sqrt(64 / subspace)) * (
        rng.standard_normal((classes, subspace), np.float32) @ basis
    )
    noise = np.float32(1.95 - 0.20 * math.log10(classes))

    def drawn(y: NDArray[np.int64]) -> NDArray[np.float32]:
        return means[y] + noise * rng.standard_normal((len(y), features), np.float32)

    y, y_new = np.repeat(np.arange(classes), rows), np.arange(tests) % classes
    return Split(drawn(y), drawn(y_new), y, y_new)
