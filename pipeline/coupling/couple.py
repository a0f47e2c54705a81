"""Coupling: from the logits of all pairs of classes to the probabilities of the classes."""

import numbers
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from pairloom.graphs.labels import did_you_mean
from pairloom.pipeline.coupling import bradley_terry, normal, stratified, vote, wlw2
from pairloom.pipeline.coupling.normal import normalise
from pairloom.pipeline.coupling.tensor_kernels import BLOCK, row_sums
from pairloom.pipeline.pieces import thread_count

METHODS = {
    "normal": normal.solve,
    "wlw2": wlw2.solve,
    "stratified": stratified.solve,
    "bradley_terry": bradley_terry.solve,
    "vote": vote.solve,
}
#: The methods whose problem has a weight for each pair.
WEIGHTED = ("normal", "bradley_terry")
#: How far L_ij + L_ji may be from zero, as a share of 1 + |L_ij|: the rounding of float32 logits found separately.
ANTISYMMETRY = 1e-4


class Diagnostics(NamedTuple):
    """What an iterative coupling did, sample by sample.

    Attributes
    ----------
    iterations : (R,) int array
        Sweeps or Newton steps; 0 where a sample was solved directly, 1 where the method does not iterate.
    residual : (R,) float array
        The estimated distance in probability from the limit.
    converged : (R,) bool array
    """

    iterations: np.ndarray
    residual: np.ndarray
    converged: np.ndarray


def couple(
    logits,
    method="stratified",
    weights=None,
    *,
    start=None,
    tol=1e-6,
    n_jobs=None,
    return_diagnostics=False,
):
    """Probabilities of the classes from the log-odds of all their pairs.

    Parameters
    ----------
    logits : (N, N, R) float32 or float64 array
        ``logits[i, j, r]`` is log(p_i / p_j) for sample r: antisymmetric, finite, every pair present
        (`complete_logits` fills missing ones).
    method : {"stratified", "wlw2", "normal", "bradley_terry", "vote"}
        See the module of that name for the problem that each of them solves.
    weights : (N, N) array, optional
        A positive weight for each pair, symmetric; for `normal` and `bradley_terry`.
    start : (R, N) array, optional
        Probabilities to start from, of a model much like this one: methods that iterate need fewer steps.
    tol : float
        How far from its limit a probability may be left.
    n_jobs : int, optional
        Threads; None is one, -1 as many as there are cores. The result does not depend on it.
    return_diagnostics : bool
        Also return iterations and residual of each sample.

    Returns
    -------
    (R, N) array of the logits' dtype, rows sum to one; with `return_diagnostics` also a `Diagnostics`.

    Examples
    --------
    >>> import numpy as np
    >>> u = np.log([[0.7], [0.2], [0.1]])
    >>> couple(u[:, None] - u[None, :], "normal").round(3)
    array([[0.7, 0.2, 0.1]])
    """
    solve = method_named(method)
    L = check_tensor(logits)
    tol = check_tolerance(tol)
    n_threads = thread_count(n_jobs, "couple")
    weights = check_weights(weights, method, len(L))
    n_classes, _, n_samples = L.shape
    p = np.empty((n_samples, n_classes), L.dtype)
    iterations = np.zeros(n_samples, np.int64)
    residual = np.zeros(n_samples)
    with ThreadPoolExecutor(n_threads) as pool:
        potentials = _checked_potentials(L, pool)
        if n_classes == 2 and method != "vote":
            p[:] = normal.softmax(potentials)  # (r, 1 - r), whatever the method
        else:
            guess = potentials if start is None or method == "normal" else _log_odds(start, p)

            def work(samples):
                solve(L, *samples, guess, weights, tol, p, iterations, residual)

            # More stretches than threads: samples differ in how long they take.
            list(pool.map(work, _stretches(n_samples, 4 * n_threads)))
    if method != "vote":
        normalise(p)
    diagnostics = Diagnostics(iterations, residual, residual <= tol)
    _warn_unconverged(diagnostics, method)
    return (p, diagnostics) if return_diagnostics else p


def method_named(method):
    """The solver of a coupling method, or an error that names the nearest one."""
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(
            f"couple: method must be one of {', '.join(METHODS)}, got {method!r}.{did_you_mean(str(method), METHODS)}"
        )
    return METHODS[method]


def check_tensor(logits, owner="couple"):
    """The logits as a contiguous (N, N, R) float array; its entries are checked where they are read."""
    L = np.asarray(logits)
    if L.ndim != 3 or L.shape[0] != L.shape[1] or len(L) < 2:
        raise ValueError(f"{owner}: logits must be (N, N, R) with N at least 2 classes, got shape {L.shape}.")
    if L.dtype not in (np.float32, np.float64):
        if not (np.issubdtype(L.dtype, np.number) and np.isrealobj(L)):
            raise TypeError(f"{owner}: logits must be real numbers, got dtype {L.dtype}.")
        L = L.astype(np.float64)
    return np.ascontiguousarray(L)


def check_weights(weights, method, n_classes):
    """The weights as a float64 (N, N) array with a zero diagonal, or None."""
    if weights is None:
        return None
    if method not in WEIGHTED:
        raise ValueError(
            f"couple: weights are for the methods {' and '.join(WEIGHTED)}, got method {method!r}."
        )
    weights = np.array(weights, dtype=np.float64)
    if weights.shape != (n_classes, n_classes):
        raise ValueError(f"couple: weights must have shape {(n_classes, n_classes)}, got {weights.shape}.")
    np.fill_diagonal(weights, 0)
    wrong = ~(np.isfinite(weights) & (weights > 0) & (weights == weights.T)) & ~np.eye(n_classes, dtype=bool)
    if wrong.any():
        i, j = np.argwhere(wrong)[0]
        raise ValueError(
            "couple: weights must be positive, finite and symmetric,"
            f" got weights[{i}, {j}] = {weights[i, j]} and weights[{j}, {i}] = {weights[j, i]}."
        )
    return weights


def check_tolerance(tol):
    """The tolerance as a float."""
    if not (isinstance(tol, numbers.Real) and 0 <= tol < np.inf):
        raise ValueError(f"couple: tol must be a number of at least 0, got {tol!r}.")
    return float(tol)


def _stretches(n_samples, pieces):
    """Cut the samples into about so many ranges of whole blocks."""
    length = -(-n_samples // (pieces * BLOCK)) * BLOCK or BLOCK
    return [(low, min(low + length, n_samples)) for low in range(0, n_samples, length)]


def _bands(n_classes):
    """Cut the classes into bands of equally many pairs: from their number alone, so that sums keep their bits."""
    pieces = 4 if n_classes >= 64 else 1
    # The pairs of the first k classes with later ones are k n - k^2 / 2.
    share = np.arange(pieces + 1) / pieces
    ends = np.round(n_classes * (1 - np.sqrt(1 - share))).astype(int).tolist()
    return list(pairwise(ends))


def _checked_potentials(L, pool):
    """(R, N) array of (1/N) sum_j L_ij, with an error where L is not antisymmetric and finite."""
    bands = _bands(len(L))
    parts = np.zeros((len(bands), *L.shape[1:]), L.dtype)
    tol = L.dtype.type(ANTISYMMETRY)
    offences = pool.map(lambda band, part: row_sums(L, *band, tol, part), bands, parts)
    if sum(offences) > 0:
        raise ValueError(_first_offence(L))
    sums = parts.sum(axis=0)
    if not np.isfinite(sums).all():
        i, r = np.argwhere(~np.isfinite(sums))[0]
        raise ValueError(
            f"couple: logits must have sums that {L.dtype} holds, L[{i}, :, {r}] adds up to {sums[i, r]}."
        )
    return np.ascontiguousarray(sums.T) / L.dtype.type(len(L))


def _log_odds(start, p):
    """A start as the potentials it would come from; what is all but impossible in it may still come up."""
    start = np.asarray(start, p.dtype)
    if start.shape != p.shape or not (start >= 0).all():
        raise ValueError(
            f"couple: start must be {p.shape} probabilities, got an array of shape {start.shape}."
        )
    return np.log(np.maximum(start, 1e-6))


def _first_offence(L):
    """Say where the logits are not finite or not antisymmetric, in the order (i, j, r)."""
    for i in range(len(L)):
        for j in range(i, len(L)):
            finite = np.isfinite(L[i, j]) & np.isfinite(L[j, i])
            with np.errstate(invalid="ignore", over="ignore"):
                symmetric = np.abs(L[i, j] + L[j, i]) <= ANTISYMMETRY * (1 + np.abs(L[i, j]) * (i != j))
            if not (finite & symmetric).all():
                r = np.argmin(finite & symmetric)
                must = "antisymmetric (L[i, j] = -L[j, i], zero where i = j)" if finite[r] else "finite"
                return (
                    f"couple: logits must be {must}, got"
                    f" L[{i}, {j}, {r}] = {L[i, j, r]} and L[{j}, {i}, {r}] = {L[j, i, r]}."
                )
    raise AssertionError("the kernel counted an offence that cannot be found")


def _warn_unconverged(diagnostics, method):
    left = int((~diagnostics.converged).sum())
    if left:
        warnings.warn(
            f"couple: method {method!r} did not converge for {left} of {len(diagnostics.converged)} samples"
            f" (largest residual {diagnostics.residual.max():.1e} after {diagnostics.iterations.max()} iterations).",
            ConvergenceWarning,
            stacklevel=3,
        )
