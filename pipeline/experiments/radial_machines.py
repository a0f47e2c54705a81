"""The radial machines of [S]: `e1071::svm(x, y, kernel = "radial", probability = TRUE)` on one fold, gamma = 1 / D.

As those of `machines.fold_alone` they standardise their columns by their own fold, so no two of them share a kernel
matrix. That makes them slow to apply, and the product does not have them: here every machine is applied to the test
samples when it has been trained, and forgotten.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.machines.fold_alone import standardisation
from pairloom.pipeline.machines.folds import INNER_FOLDS, NEVER_HELD_OUT
from pairloom.pipeline.machines.linear_machines import Advance
from pairloom.pipeline.machines.platt import fit_platt, separation
from pairloom.pipeline.machines.settings import MachineSettings, split_class, stacked
from pairloom.pipeline.machines.svm import solve_gram

Floats = NDArray[np.float32]


def radial_logits(
    class_rows: Mapping[int, Floats],
    edges: NDArray[np.integer],
    settings: MachineSettings,
    X_test: Floats,
    progress: Advance | None = None,
) -> tuple[Floats, NDArray[np.float64]]:
    """(E, R) logits of test samples, and (E,) d', of radial machines on one fold each; `progress(1)` per pair."""
    logits, dprime = np.zeros((len(edges), len(X_test)), np.float32), np.empty(len(edges))
    for e, pair in enumerate(edges.tolist()):
        classes = [split_class(class_rows[c], c, settings) for c in pair]
        rows, C, weight, folds, inner = stacked(classes)
        y = np.where(np.arange(len(rows)) < len(classes[0].rows), 1.0, -1.0)
        platt, f = np.empty((settings.folds, 2)), np.empty((settings.folds, len(rows)))
        for k in range(settings.folds):
            own = (folds == k) | (folds == NEVER_HELD_OUT)
            scored = np.concatenate([rows, X_test])
            values, platt[k] = _decided(rows[own], y[own], C[own], weight[own], inner[own], scored, settings)
            f[k] = values[: len(rows)]
            logits[e] -= (platt[k, 0] * values[len(rows) :] + platt[k, 1]) / settings.folds
        dprime[e] = separation(f, y, folds, inner, settings.scheme, platt)
        if progress is not None:
            progress(1)
    return logits, dprime


def _decided(
    rows: Floats,
    y: NDArray[np.float64],
    C: NDArray[np.float64],
    weight: NDArray[np.float64],
    inner: NDArray[np.int64],
    scored: Floats,
    settings: MachineSettings,
) -> tuple[NDArray[np.float64], tuple[float, float]]:
    """Decision values of some samples by the machine of one fold, and its sigmoid; see `fold_alone.fit_alone`."""
    mean, deviation = standardisation(rows)
    own, others = (((some - mean) / deviation).astype(np.float32) for some in (rows, scored))
    gram = radial_kernel(own, own)
    upper = np.where(np.vstack([inner == np.arange(INNER_FOLDS)[:, None], np.zeros(len(y), bool)]), 0.0, C)
    solution = solve_gram(gram, y, upper, settings.tol, settings.max_iterations)
    beta = solution.alpha * y
    f = beta @ gram + solution.intercept[:, None]
    by = np.where(inner == NEVER_HELD_OUT, INNER_FOLDS, inner)
    sigmoid = fit_platt(f[by, np.arange(len(y))], y, weight)
    return radial_kernel(others, own) @ beta[-1] + solution.intercept[-1], (sigmoid.A, sigmoid.B)


def radial_kernel(a: Floats, b: Floats) -> Floats:
    """(m, n) exp(-|a - b|^2 / D)."""
    squares = (a * a).sum(axis=1)[:, None] - 2 * (a @ b.T) + (b * b).sum(axis=1)
    return np.asarray(np.exp(np.maximum(squares, 0) * np.float32(-1 / a.shape[1])))
