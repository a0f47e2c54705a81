"""Whitening of rows in memory."""

import numpy as np

from pairloom.pipeline.machines.normalisation import centring, within_classes_of


def whitening_of(X, y, shrinkage="none", held_out=None):
    """The whitening of rows X with classes y, found without the rows that are held out; "none" centres only."""
    if shrinkage == "none":
        return centring(X)
    members = [np.flatnonzero(y == c) for c in range(int(y.max()) + 1)]
    return within_classes_of(X, members, held_out).whitening(shrinkage)
