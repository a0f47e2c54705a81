"""A thousand classes with synthetic features, as many as ImageNet has: a run of half a million pairs without data.

The classes have no names of their own: ten of them make a super-class. See `synthetic_layer` for the features. They are
no evidence of a method's accuracy on images.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.features.synthetic_layer import SyntheticLayer

__all__ = ["NAMES", "synthetic_class"]

NAMES = [f"class {number:04d}" for number in range(1, 1001)]

# With these, a pairwise model of 100 rows per class is right for five test rows in six, where the nearest class mean is
# right for one in four. Whoever changes one of them changes the data, and must change GENERATOR_VERSION too.
GENERATOR_VERSION = 1
_CLASSES_PER_SUPERCLASS = 10
_LAYER = SyntheticLayer(seed=1000, superclass_spread=0.3, class_spread=0.2)


def synthetic_class(label: int, rows: int, *, test: bool = False) -> NDArray[np.float32]:
    """Draw synthetic features (rows, 512) of the class with this index into `NAMES`, for training or for tests."""
    return _LAYER.rows_of_class(label, label // _CLASSES_PER_SUPERCLASS, rows, test=test)
