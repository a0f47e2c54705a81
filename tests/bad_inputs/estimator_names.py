"""The names that a row of `estimator/` may use: small samples and odd ones, and what can be done with them."""

from __future__ import annotations

import networkx as nx  # noqa: F401
import numpy as np
import pandas as pd
from scipy import sparse  # noqa: F401
from sklearn.datasets import make_blobs
from sklearn.linear_model import LinearRegression, LogisticRegression  # noqa: F401
from sklearn.svm import SVC  # noqa: F401

from pairloom import PairwiseSVC, complete_logits, couple, graphs  # noqa: F401

SMALL = {"whiten": "none", "folds": 2, "random_state": 0}

X, y = make_blobs([12] * 4, 3, cluster_std=2.0, random_state=0)
X_new = X[:6] + 1
words, dates = np.array(list("abcd"))[y], np.array("2026-01-01", "M8[D]") + y
table = pd.DataFrame(X, columns=list("uvw"))
u = np.log([[0.7, 0.2], [0.2, 0.5], [0.1, 0.3]])
L = u[:, None] - u[None]
distances = np.array([[0.0, 1, 4], [1, 0, 2], [4, 2, 0]])
nan, inf = np.nan, np.inf


def with_entry(values, place, entry):
    """A copy of an array with one entry replaced."""
    changed = np.array(values)
    changed[place] = entry
    return changed


def failing(*arguments):
    """A cost that fails."""
    raise LookupError("no cost is known")


NAMES = dict(globals())
