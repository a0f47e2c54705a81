"""Coupling by a code: from the logits of machines on sets of classes to the probabilities of the classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairloom.graphs import check_code, closed_classes
from pairloom.graphs.text import listed
from pairloom.pipeline.coupling.arguments import (
    Diagnostics,
    Solution,
    not_negative,
    real_logits,
    real_numbers,
    solver_named,
)
from pairloom.pipeline.coupling.codes.solvers import (
    CodeProblem,
    StoredCode,
    is_one_vs_rest,
    solve_bradley_terry,
    solve_closed_form,
    solve_linear,
    solve_zadrozny,
)
from pairloom.pipeline.coupling.pairs.couple import normalise, softmax
from pairloom.pipeline.threads import in_threads, pieces, thread_count

Logits: TypeAlias = NDArray[np.floating]
CodeSolver: TypeAlias = Callable[[CodeProblem, int, int, Solution], None]

CODE_METHODS: dict[str, CodeSolver] = {
    "bradley_terry": solve_bradley_terry,
    "linear": solve_linear,
    "zadrozny": solve_zadrozny,
    "closed_form": solve_closed_form,
}
#: The methods whose problem has a weight per machine.
WEIGHTED = ("bradley_terry", "zadrozny")
#: The barrier of a code that is not connected, unless another is given.
BARRIER = 1e-6
#: Samples per piece of work. It does not depend on the number of threads, and no result depends on the pieces.
SLAB = 64


@overload
def couple_code(
    logits: ArrayLike,
    code: ArrayLike,
    method: str = ...,
    weights: ArrayLike | None = ...,
    barrier: float | None = ...,
    *,
    tol: float = ...,
    n_jobs: int | None = ...,
    return_diagnostics: Literal[False] = ...,
) -> NDArray[np.floating]: ...
@overload
def couple_code(
    logits: ArrayLike,
    code: ArrayLike,
    method: str = ...,
    weights: ArrayLike | None = ...,
    barrier: float | None = ...,
    *,
    tol: float = ...,
    n_jobs: int | None = ...,
    return_diagnostics: Literal[True],
) -> tuple[NDArray[np.floating], Diagnostics]: ...


def couple_code(
    logits: ArrayLike,
    code: ArrayLike,
    method: str = "bradley_terry",
    weights: ArrayLike | None = None,
    barrier: float | None = None,
    *,
    tol: float = 1e-6,
    n_jobs: int | None = None,
    return_diagnostics: bool = False,
) -> NDArray[np.floating] | tuple[NDArray[np.floating], Diagnostics]:
    """Probabilities of the classes from the log-odds of machines on sets of classes.

    Parameters
    ----------
    logits : array-like of shape (m, R)
        ``logits[q, r]`` is the log-odds of the positive side of machine q against its negative side, for sample r.
        Dtypes other than float32 and float64 are converted to float64.
    code : array-like of shape (N, m)
        The sides: +1, -1, or 0 for a class that the machine leaves out. See `pairloom.graphs.check_code`, and
        `one_vs_rest`, `one_vs_one`, `dense_code` and `sparse_code` there.
    method : {"bradley_terry", "linear", "zadrozny", "closed_form"}, default="bradley_terry"
        The problem that is solved:

        - "bradley_terry": maximum likelihood of the generalised Bradley-Terry model [HLW]_;
        - "linear": the softmax of linear decoding, in log odds (in [I]_, of probabilities), without iteration;
        - "zadrozny": a rule that need not converge [HLW eq. 9]_, for comparisons;
        - "closed_form": "bradley_terry" for one class against the rest, by one equation [HLW Theorem 3]_.

        The solvers in `pairloom.pipeline.coupling.codes.solvers` state the problem and when to choose it.
    weights : array-like of shape (m,) or (m, R), default=None
        Positive weight per machine, such as its number of training samples, or per machine and sample. For
        "bradley_terry" and "zadrozny" only. By default, all machines have equal weights.
    barrier : float, default=None
        The strength mu of the barrier -mu sum log p_s, for "bradley_terry" only. It keeps all probabilities positive
        if the code does not. By default 0 if the code is connected (`pairloom.graphs.code_is_connected`), and 1e-6
        otherwise.
    tol : float, default=1e-6
        Largest estimated distance of the probabilities from the limit of the iteration.
    n_jobs : int, default=None
        Number of threads. None means 1, and -1 means one per core. The result does not depend on it.
    return_diagnostics : bool, default=False
        Whether to return the convergence of each sample too.

    Returns
    -------
    p : (R, N) array
        Probabilities, in the dtype of the logits. Every row sums to one.
    diagnostics : Diagnostics
        Iterations, residual and convergence per sample. Only if `return_diagnostics` is True.

    Raises
    ------
    ValueError
        If the logits are not finite, a shape is wrong, the code cannot be used, it is not connected and `barrier` is 0,
        or another parameter is not allowed.
    TypeError
        If the logits or the code are not real numbers.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        If a sample did not reach `tol`.

    See Also
    --------
    couple : for machines on all pairs.
    pairloom.pipeline.coupling.codes.standard_errors : of probabilities from given numbers of samples.

    References
    ----------
    .. [HLW] T.-K. Huang, C.-J. Lin and R. C. Weng (2005). "A generalized Bradley-Terry model: from group competition
       to individual skill". Advances in Neural Information Processing Systems 17, 601-608.
    .. [I] S. Ikeda (2010). "Combining binary machines for multi-class: statistical model and parameter estimation"
       (in Japanese). Proceedings of the Institute of Statistical Mathematics 58, 157-166.
       https://www.ism.ac.jp/editsec/toukei/abstract/58-2j.html

    Examples
    --------
    Three machines, each on one class against the rest, which agree:

    >>> import numpy as np
    >>> from pairloom.graphs import one_vs_rest
    >>> r = np.array([[0.7], [0.2], [0.1]])
    >>> couple_code(np.log(r / (1 - r)), one_vs_rest(3)).round(3)
    array([[0.7, 0.2, 0.1]])
    """
    solver_named("couple_code", method, CODE_METHODS)
    stored = StoredCode.of(check_code(code, owner="couple_code"))
    L = check_machine_logits(logits, stored.matrix.shape[1], "couple_code")
    tol = not_negative("couple_code", "tol", tol)
    n_q = check_machine_weights(weights, method, L.shape)
    mu = resolved_barrier(barrier, method, stored.matrix)
    p, diagnostics = solve_code(L, stored, method, n_q, mu, tol, n_jobs)
    return (p, diagnostics) if return_diagnostics else p


def solve_code(
    L: Logits,
    stored: StoredCode,
    method: str,
    n_q: NDArray[np.float64],
    mu: float,
    tol: float = 1e-6,
    n_jobs: int | None = None,
) -> tuple[Logits, Diagnostics]:
    """Couple checked logits (m, R) with checked weights (m, 1) or (m, R) and the barrier mu."""
    solve = solver_named("couple_code", method, CODE_METHODS)
    n_threads = thread_count(n_jobs, "couple_code")
    problem = CodeProblem(L, stored, n_q, mu, tol)
    solution = Solution.empty(L.shape[1], len(stored.matrix), L.dtype)
    if len(stored.matrix) == 2 and not mu:
        solution.p[:] = softmax(stored.matrix[:, 0] * L[0, :, None] / 2)  # (r, 1 - r), whatever the method
    else:
        _check_one_vs_rest(method, stored.matrix)

        def work(samples: slice) -> None:
            solve(problem, samples.start, samples.stop, solution)

        in_threads(work, pieces(L.shape[1], SLAB), n_threads)
    normalise(solution.p)
    return solution.p, solution.diagnostics("couple_code", method, tol)


def check_machine_logits(logits: ArrayLike, n_machines: int, owner: str) -> Logits:
    """Logits as a contiguous, finite (m, R) float array."""
    condition = f"with m = {n_machines}, the columns of code"
    L = real_logits(owner, logits, ("m", "R"), condition)
    if len(L) != n_machines:
        raise ValueError(f"{owner}: logits must be (m, R) {condition}, got shape {L.shape}.")
    if not np.isfinite(L).all():
        q, r = np.argwhere(~np.isfinite(L))[0]
        raise ValueError(f"{owner}: logits must be finite, got logits[{q}, {r}] = {L[q, r]}.")
    return np.ascontiguousarray(L)


def check_machine_weights(
    weights: ArrayLike | None, method: str, shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Weights as a float64 (m, 1) or (m, R) array; ones by default."""
    if weights is None:
        return np.ones((shape[0], 1))
    if method not in WEIGHTED:
        raise ValueError(
            f"couple_code: weights must be None unless method is {' or '.join(WEIGHTED)},"
            f" got weights for method {method!r}."
        )
    return positive_per_machine("couple_code", "weights", weights, shape)


def positive_per_machine(
    owner: str, name: str, values: ArrayLike, shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Positive numbers per machine, (m,), or per machine and sample, (m, R), as (m, 1) or (m, R)."""
    n_q = real_numbers(owner, name, values)
    if n_q.shape not in (shape[:1], shape):
        raise ValueError(f"{owner}: {name} must have shape {shape[:1]} or {shape}, got {n_q.shape}.")
    if (wrong := ~(np.isfinite(n_q) & (n_q > 0))).any():
        where = np.argwhere(wrong)[0]
        raise ValueError(
            f"{owner}: {name} must be positive and finite,"
            f" got {name}[{', '.join(map(str, where))}] = {n_q[tuple(where)]}."
            f" Leave a machine that saw no samples out of the code."
        )
    return np.ascontiguousarray(n_q.reshape(shape[0], -1))


def resolved_barrier(barrier: float | None, method: str, matrix: NDArray[np.int8]) -> float:
    """The strength of the barrier, which a code that is not connected needs [HLW Assumption 1]."""
    if method != "bradley_terry":
        if barrier is not None:
            raise ValueError(
                f"couple_code: barrier must be None unless method is bradley_terry, got {barrier!r}"
                f" for method {method!r}."
            )
        return 0.0
    mu = None if barrier is None else not_negative("couple_code", "barrier", barrier)
    if mu:
        return mu
    closed = closed_classes(matrix)
    if closed and mu == 0:
        raise ValueError(
            "couple_code: barrier must be positive for a code that is not connected, got 0. No machine has exactly one"
            f" of its sides among the classes {listed(closed)}, so their probabilities may vanish. Leave barrier at"
            f" None for {BARRIER}, or add such a machine."
        )
    return BARRIER if closed else 0.0


def _check_one_vs_rest(method: str, matrix: NDArray[np.int8]) -> None:
    if method == "closed_form" and not is_one_vs_rest(matrix):
        raise ValueError(
            "couple_code: code must be one class against the rest, for each class, if method is closed_form; got"
            f" another code, of shape {matrix.shape}. Use method='bradley_terry'."
        )
