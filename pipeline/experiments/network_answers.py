"""The answers of the network that made the features: for the Network column of [S Table 5] and the confusion cost."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["NetworkAnswers"]


class NetworkAnswers(NamedTuple):
    """The answers of a network, or of a layer in its place, on the classes of a set.

    Attributes
    ----------
    probabilities : (R, N) float32 array
        Of the test samples.
    confusion : (N, N) int array
        Counts (true class, predicted class) on training samples.
    stand_in : bool
        Whether the answers are those of a softmax layer on the features.
    """

    probabilities: NDArray[np.float32]
    confusion: NDArray[np.int64]
    stand_in: bool
