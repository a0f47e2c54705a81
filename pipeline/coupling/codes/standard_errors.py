"""Standard errors of coupled probabilities, from the number of samples behind each machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairloom.graphs import check_code, code_identifies
from pairloom.pipeline.coupling.codes.couple_code import positive_per_machine


def standard_errors(p: ArrayLike, code: ArrayLike, counts: ArrayLike) -> NDArray[np.float64]:
    """Asymptotic standard errors of the probabilities that `couple_code` estimates by "bradley_terry".

    If machine q counts n_q independent outcomes, of which a share r_q falls to its positive side, and the couplings'
    weights are the counts, then for large counts the estimate of p is normal, with the covariance

        J F^-1 J,   F = sum_q n_q rho_q (1 - rho_q) d_q d_q',   J = diag p - p p'

    where rho_q = q+ / q is the machine's true probability and d_q is p / q+ on its positive and -p / q- on its negative
    side [HLW Theorem 2]_. F is the information on log p. It is singular along the constants; F^-1 is a pseudo-inverse.

    Parameters
    ----------
    p : array-like of shape (N,) or (R, N)
        Positive probabilities, of one or several samples. In practice, the estimate itself.
    code : array-like of shape (N, m)
        The code: see `pairloom.graphs.check_code`.
    counts : array-like of shape (m,) or (m, R)
        Number of outcomes behind each machine, or behind each machine and sample. All positive.

    Returns
    -------
    (N,) or (R, N) float64 array

    Raises
    ------
    ValueError
        If a shape is wrong, the probabilities or the counts are not positive, or the code cannot be used or does not
        identify the probabilities.

    References
    ----------
    .. [HLW] T.-K. Huang, C.-J. Lin and R. C. Weng (2005). "A generalized Bradley-Terry model: from group competition
       to individual skill". Advances in Neural Information Processing Systems 17, 601-608.

    Examples
    --------
    One machine on two classes: the standard error of a share, sqrt(0.2 * 0.8 / 400).

    >>> standard_errors([0.2, 0.8], [[1], [-1]], [400]).round(3)
    array([0.02, 0.02])
    """
    matrix = check_code(code, owner="standard_errors")
    x = _probabilities(p, len(matrix))
    n_q = positive_per_machine("standard_errors", "counts", counts, (matrix.shape[1], len(x)))
    if not code_identifies(matrix):
        raise ValueError(
            "standard_errors: code must identify the probabilities (see code_identifies), got one for which some"
            " changes of p change no machine. Add machines."
        )
    variance = np.diagonal(covariance(x, matrix, n_q), axis1=1, axis2=2)
    return np.sqrt(variance).reshape(np.shape(p))


def covariance(
    p: NDArray[np.float64], matrix: NDArray[np.int8], counts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(R, N, N) covariance of p (R, N), for counts (m, 1) or (m, R)."""
    positive, negative = p @ (matrix == 1), p @ (matrix == -1)
    rho = positive / (positive + negative)
    d = p[:, :, None] * ((matrix == 1) / positive[:, None, :] - (matrix == -1) / negative[:, None, :])
    weighted = d * (counts.T * rho * (1 - rho))[:, None, :]
    F = weighted @ d.transpose(0, 2, 1)
    J = np.eye(p.shape[1]) * p[:, None, :] - p[:, :, None] * p[:, None, :]
    # F is singular along the constants, which J maps to zero: add their projector in F's own scale.
    scale = np.trace(F, axis1=1, axis2=2)[:, None, None] / p.shape[1] ** 2
    C: NDArray[np.float64] = J @ np.linalg.solve(F + scale, J)
    return C


def _probabilities(p: ArrayLike, n: int) -> NDArray[np.float64]:
    """p as (R, N) positive probabilities."""
    try:
        x = np.asarray(p, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"standard_errors: p must be probabilities, got {p!r}.") from error
    if x.ndim not in (1, 2) or x.shape[-1] != n:
        raise ValueError(
            f"standard_errors: p must be ({n},) or (R, {n}) probabilities, one per row of code, got shape {x.shape}."
        )
    x = x.reshape(-1, n)
    if (wrong := ~(x > 0) | ~np.isfinite(x)).any():
        r, s = np.argwhere(wrong)[0]
        raise ValueError(
            f"standard_errors: p must be positive, got {x[r, s]} for class {s} of sample {r}. At the boundary the"
            " estimate is not normal."
        )
    if (off := np.abs(x.sum(axis=1) - 1) > 1e-3).any():
        r = int(off.argmax())
        raise ValueError(f"standard_errors: p must sum to one, got {x[r].sum()} for sample {r}.")
    return x
