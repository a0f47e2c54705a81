"""Features: where samples come from, how they are checked and recognised, and how far apart the classes are.

The first step of the data's way. `OpenFeatures` is the form in which a run takes its samples, which may be more than
memory holds; `FeatureSet` holds them. The embedded sets are here.
"""

from pairloom.pipeline.features.class_distances import class_means, kernel_mean_distances, mean_distances
from pairloom.pipeline.features.feature_set import (
    FeatureSet,
    OpenFeatures,
    load_features,
    load_samples,
    open_features,
)

__all__ = [
    "FeatureSet",
    "OpenFeatures",
    "class_means",
    "kernel_mean_distances",
    "load_features",
    "load_samples",
    "mean_distances",
    "open_features",
]
