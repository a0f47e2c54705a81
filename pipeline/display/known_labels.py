"""Labels of samples that are to be compared with predictions, as indices of the classes that a model knows."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairloom.graphs.labels import listed

__all__ = ["indices_of"]


def indices_of(y: ArrayLike, labels: NDArray[np.generic], owner: str) -> NDArray[np.intp]:
    """(R,) the places of labels among the classes, or an error that names those which are none of them.

    Examples
    --------
    >>> indices_of(["b", "a"], np.array(["a", "b"]), "y")
    array([1, 0])
    """
    given, place = np.asarray(y), {label: at for at, label in enumerate(labels.tolist())}
    strangers = sorted({label for label in given.tolist() if label not in place}, key=str)
    if strangers:
        raise ValueError(
            f"{owner} must hold classes of the model, {listed(labels)}, got {listed(strangers)}:"
            " leave out samples of other classes."
        )
    return np.array([place[label] for label in given.tolist()], dtype=np.intp)
