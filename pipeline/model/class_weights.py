"""Class weights: one per class, from "balanced" or from weights by label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight

from pairloom.graphs.labels import did_you_mean, listed, quoted
from pairloom.pipeline.model.number_checks import is_positive

__all__ = ["class_weights"]


def class_weights(
    class_weight: Any, labels: Sequence[Any], classes: NDArray[np.integer], owner: str, source: str
) -> NDArray[np.float64]:
    """The weight of each class; one that is not named has weight 1.

    Parameters
    ----------
    class_weight : mapping of labels to positive numbers, or "balanced"
    labels : the labels of all classes
    classes : (n,) int array
        The class of every sample.
    owner, source : str
        The parameter, and where the labels are from, for the messages.
    """
    if isinstance(class_weight, str) and class_weight == "balanced":
        return np.asarray(compute_class_weight("balanced", classes=np.arange(len(labels)), y=classes))
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            f"{owner} must be a mapping of labels to weights, 'balanced' or None, got {class_weight!r}."
        )
    known = set(labels)
    if unknown := [label for label in class_weight if label not in known]:
        raise ValueError(
            f"{owner} must name classes of {source}, got {listed(unknown)}.{did_you_mean(unknown[0], labels)}"
        )
    for label, weight in class_weight.items():
        if not is_positive(weight):
            shown = f"{weight:g}" if isinstance(weight, float) else repr(weight)
            raise ValueError(f"{owner} must be positive, got {shown} for class {quoted(label)}.")
    return np.array([class_weight.get(label, 1.0) for label in labels], np.float64)
