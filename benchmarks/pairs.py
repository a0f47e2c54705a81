"""The two-class linear SVM compared with LIBSVM and LIBLINEAR, on pairs of real classes and on overlapping ones.

One thread. Times are the shortest CPU time of several interleaved fits from float32 rows, with kernels compiled before.

- "stop": number of fits that LIBLINEAR ended at its iteration limit.
- "over": largest relative excess of our primal objective, in float64, over LIBSVM's.
- "worst": smallest speedup over LIBSVM of a single fit.
- "four": time to train a pair with four fits, each on three quarters of the rows. Ours are trained together, LIBSVM's
  one after another.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

from pairloom.benchmarks.datasets import DataNotFound, training_rows
from pairloom.benchmarks.record import Column, Ratio, Record, add_ratios, summary
from pairloom.pipeline.machines.svm import fit_linear_svm, solve_rows

#: Rows, and labels of 1 and -1.
Problem = tuple[NDArray[np.float32], NDArray[np.float64]]

FEATURES = {
    "imagenette-efficientnet": (0.001, 0.01, 0.1, 1.0),
    "tinyimagenet50-efficientnet": (0.001, 0.01, 0.1, 1.0),
    "clinc150-minilm": (1.0, 10.0),
}
FOLDS = 4
TARGETS = {"libsvm": 25, "liblinear": 8, "libsvm on text": 10}


class Comparison(NamedTuple):
    """Shortest time of each solver on one problem, our primal and LIBSVM's, and whether LIBLINEAR converged."""

    times: dict[str, float]
    objectives: tuple[float, float]
    converged: bool

    @property
    def over(self) -> float:
        """Relative excess of our primal objective over LIBSVM's."""
        return self.objectives[0] / self.objectives[1] - 1


def primal(
    X: NDArray[np.float32],
    y: NDArray[np.float64],
    coef: NDArray[np.floating],
    intercept: float | NDArray[np.floating],
    C: float,
) -> float:
    """Primal objective of a linear SVM, in float64."""
    w = np.ravel(coef).astype(np.float64)
    margins = y * (X.astype(np.float64) @ w + intercept)
    return float(0.5 * w @ w + C * np.maximum(0, 1 - margins).sum())


def choose_pairs(
    X: NDArray[np.float32], labels: NDArray[np.int64], count: int, seed: int = 0
) -> list[tuple[np.int64, np.int64]]:
    """Pairs of classes: half of them have the nearest means, half are drawn from the others."""
    classes = np.unique(labels)
    means = np.stack([X[labels == c].mean(axis=0) for c in classes])
    a, b = np.triu_indices(len(classes), 1)
    order = np.argsort(np.linalg.norm(means[a] - means[b], axis=1), kind="stable")
    near, others = np.split(order, [min(count, len(order)) // 2])
    drawn = np.random.default_rng(seed).permutation(others)[: count - len(near)]
    return [(classes[a[k]], classes[b[k]]) for k in np.concatenate([near, drawn])]


def rows_of(X: NDArray[np.float32], labels: NDArray[np.int64], pair: tuple[np.int64, np.int64]) -> Problem:
    """The rows of two classes, with labels 1 and -1."""
    rows = np.isin(labels, pair)
    return X[rows], np.where(labels[rows] == pair[0], 1.0, -1.0)


def overlapping(n: int, D: int, error: float, seed: int = 0) -> Problem:
    """Gaussian rows labelled by a hyperplane, with a share `error` of the labels wrong."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D), dtype=np.float32)
    y = np.where(X @ rng.standard_normal(D) > 0, 1.0, -1.0)
    return X, np.where(rng.random(n) < error, -y, y)


def in_folds(y: NDArray[np.float64]) -> NDArray[np.bool_]:
    """(FOLDS, n) mask of the rows on which each machine of a pair is trained."""
    fitted: NDArray[np.bool_] = np.arange(len(y)) % FOLDS != np.arange(FOLDS)[:, None]
    return fitted


def libsvm(X: NDArray[np.float32], y: NDArray[np.float64], C: float) -> SVC:
    return SVC(kernel="linear", C=C).fit(X, y)


def four_folds(X: NDArray[np.float32], y: NDArray[np.float64], C: float) -> object:
    return solve_rows(X, y, C * in_folds(y))


def libsvm_four_folds(X: NDArray[np.float32], y: NDArray[np.float64], C: float) -> list[SVC]:
    return [libsvm(X[rows], y[rows], C) for rows in in_folds(y)]


#: Each solver returns a fitted machine of its own type, or several.
SOLVERS: dict[str, Callable[[NDArray[np.float32], NDArray[np.float64], float], Any]] = {
    "ours": fit_linear_svm,
    "libsvm": libsvm,
    "liblinear": lambda X, y, C: LinearSVC(loss="hinge", C=C).fit(X, y),
    "four": four_folds,
    "libsvm four": libsvm_four_folds,
}


def compare(problems: Sequence[Problem], C: float, repeats: int) -> list[Comparison]:
    """Compare the solvers on every problem."""
    times = {name: np.full(len(problems), np.inf) for name in SOLVERS}
    results: dict[str, list[Any]] = {}
    # Each solver runs on all problems before the next solver, as in training.
    for _ in range(repeats):
        for name, solve in SOLVERS.items():
            results[name] = []
            for k, (X, y) in enumerate(problems):
                start = time.thread_time()
                results[name].append(solve(X, y, C))
                times[name][k] = min(times[name][k], time.thread_time() - start)
    measured = []
    for k, (X, y) in enumerate(problems):
        ours, libsvm, liblinear = (results[name][k] for name in ("ours", "libsvm", "liblinear"))
        objectives = (
            primal(X, y, ours.coef, ours.intercept, C),
            primal(X, y, libsvm.coef_, libsvm.intercept_, C),
        )
        own = {name: float(times[name][k]) for name in SOLVERS}
        measured.append(Comparison(own, objectives, bool(liblinear.n_iter_ < 1000)))
    return measured


@dataclass(frozen=True)
class SetRow:
    """Seconds per fit on the pairs of one set at one C: means over the fits of their shortest times."""

    data: str
    C: float
    fits: int
    ours_s: float
    libsvm_s: float
    liblinear_s: float
    libsvm_ratio: float
    liblinear_ratio: float
    liblinear_stopped: int
    objective_over_libsvm: float
    worst_libsvm_ratio: float
    folds_s: float
    libsvm_folds_s: float
    folds_ratio: float


COLUMNS = (
    Column("milliseconds per fit", lambda row: f"{row.data} C={row.C:g}", 36, left=True),
    Column("fits", lambda row: str(row.fits)),
    Column("ours", lambda row: f"{1000 * row.ours_s:.3f}", 6),
    Column("libsvm", lambda row: f"{1000 * row.libsvm_s:.2f}", 7),
    Column("ratio", lambda row: f"{row.libsvm_ratio:.1f}x"),
    Column("liblinear", lambda row: f"{1000 * row.liblinear_s:.2f}"),
    Column("ratio", lambda row: f"{row.liblinear_ratio:.1f}x"),
    Column("stop", lambda row: str(row.liblinear_stopped)),
    Column("over", lambda row: f"{row.objective_over_libsvm:+.4f}", 7),
    Column("worst", lambda row: f"{row.worst_libsvm_ratio:.1f}x"),
    Column("four", lambda row: f"{1000 * row.folds_s:.3f}", 6),
    Column("libsvm four", lambda row: f"{1000 * row.libsvm_folds_s:.2f}"),
    Column("ratio", lambda row: f"{row.folds_ratio:.1f}x"),
)


def row_of(data: str, C: float, measured: Sequence[Comparison]) -> SetRow:
    """The row of some pairs of one set."""
    mean = {name: sum(pair.times[name] for pair in measured) / len(measured) for name in SOLVERS}
    return SetRow(
        data,
        C,
        fits=len(measured),
        ours_s=mean["ours"],
        libsvm_s=mean["libsvm"],
        liblinear_s=mean["liblinear"],
        libsvm_ratio=mean["libsvm"] / mean["ours"],
        liblinear_ratio=mean["liblinear"] / mean["ours"],
        liblinear_stopped=sum(not pair.converged for pair in measured),
        objective_over_libsvm=max(pair.over for pair in measured),
        worst_libsvm_ratio=min(pair.times["libsvm"] / pair.times["ours"] for pair in measured),
        folds_s=mean["four"],
        libsvm_folds_s=mean["libsvm four"],
        folds_ratio=mean["libsvm four"] / mean["four"],
    )


def against(what: str, measured: Sequence[Comparison], ours: str, theirs: str, target: float) -> Ratio:
    """The ratio of a peer's total time to ours."""
    times = [sum(pair.times[name] for pair in measured) for name in (ours, theirs)]
    return Ratio(what, times[0], times[1], "s", times[1] / times[0], ">=", target)


def verdicts(pairs: list[Comparison], text: list[Comparison]) -> list[Ratio]:
    """The ratios over all pairs, with their targets."""
    everything = pairs + text
    worst = min(everything, key=lambda pair: pair.times["libsvm"] / pair.times["ours"])
    far = max(everything, key=lambda pair: pair.over)
    return [
        against("LIBSVM, all pairs", everything, "ours", "libsvm", TARGETS["libsvm"]),
        against("LIBLINEAR, all pairs", everything, "ours", "liblinear", TARGETS["liblinear"]),
        against("LIBSVM, four folds of all pairs", everything, "four", "libsvm four", TARGETS["libsvm"]),
        against("LIBSVM, text pairs", text, "ours", "libsvm", TARGETS["libsvm on text"]),
        against("LIBSVM, four folds of text pairs", text, "four", "libsvm four", TARGETS["libsvm on text"]),
        against("LIBSVM, worst single pair", [worst], "ours", "libsvm", 1),
        Ratio("primal objective over LIBSVM's", *far.objectives, "", far.over, "<=", 1e-3),
    ]


def compare_solvers(record: Record, small: bool) -> list[Ratio]:
    """The table of all sets, and the ratios over all of their pairs."""
    count, repeats = (6, 2) if small else (60, 3)
    pairs: list[Comparison] = []
    text: list[Comparison] = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        compare([overlapping(100, 10, 0.1)], 1.0, 1)  # compiles
        record.begin("sets", COLUMNS)
        for name, Cs in FEATURES.items():
            try:
                X, labels = training_rows(name)
            except DataNotFound as reason:
                record.note(f"{name}: skipped. {reason}")
                continue
            problems = [rows_of(X, labels, pair) for pair in choose_pairs(X, labels, count)]
            for C in Cs[-1:] if small else Cs:
                measured = compare(problems, C, repeats)
                record.add(row_of(name, C, measured))
                (text if name == "clinc150-minilm" else pairs).extend(measured)
        for n, D in [(300, 30)] if small else [(2000, 64), (5000, 512)]:
            record.add(row_of(f"overlapping {n} x {D}", 1.0, compare([overlapping(n, D, 0.1)], 1.0, 1)))
    ratios = verdicts(pairs, text) if pairs and text else []
    if ratios:
        add_ratios(record, "targets", ratios, "CPU seconds of all fits; figure: theirs over ours")
        record.note(summary(ratios))
    return ratios
