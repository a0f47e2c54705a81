"""Speed of coupling, as ratios to its peers in one run.

Two threads, float32 logits, kernels compiled before, best time of several interleaved repetitions. Logits are u_i - u_j
plus antisymmetric noise, both normal; against LIBSVM, the logits of LIBSVM itself on six features. The benchmark fails
if the results disagree.
"""

import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from pairloom import couple
from pairloom.benchmarks.record import Ratio, Record, ratio_columns, summary
from pairloom.pipeline.accelerate import simd_kernel

THREADS = 2
#: The logits are u_i - u_j plus antisymmetric noise: normal, with these standard deviations.
SPREAD, NOISE = 3.0, 1.0
#: Largest difference allowed between the probabilities and the reference.
AGREEMENT = 1e-4


class Disagreement(ValueError):
    """Two computations of the same probabilities differ."""


class Sizes(NamedTuple):
    """(classes, samples) of each comparison; (classes, hubs, samples) for memory."""

    bandwidth: tuple[int, int]
    systems: tuple[tuple[int, int], ...]
    memory: tuple[int, int, int]
    repetitions: int


FULL = Sizes((200, 2000), ((50, 2500), (200, 500)), (1000, 5, 2000), 7)
SMALL = Sizes((40, 200), ((15, 60), (20, 40)), (60, 3, 100), 2)
#: Target speedups over numpy.linalg.solve, in the order of the sizes.
FASTER_THAN_SOLVE = (8, 15)

#: Linear systems, one per sample, and their common right-hand side.
Systems = tuple[NDArray[np.float64], NDArray[np.float64]]


def noisy_logits(n_classes: int, n_samples: int, seed: int = 0) -> NDArray[np.float32]:
    """(N, N, R) logits of machines that mostly agree."""
    rng = np.random.default_rng(seed)
    u = rng.normal(0, SPREAD, (n_classes, n_samples)).astype(np.float32)
    logits = np.zeros((n_classes, n_classes, n_samples), np.float32)
    for i in range(n_classes):
        for j in range(i + 1, n_classes):
            logits[i, j] = u[i] - u[j] + NOISE * rng.standard_normal(n_samples, np.float32)
            logits[j, i] = -logits[i, j]
    return logits


def best_times(functions: Mapping[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """Shortest time of each function in seconds.

    The functions take turns, so that other load on the machine affects all of them. The first turn is a warm-up.
    """
    best = dict.fromkeys(functions, float("inf"))
    for turn in range(repetitions + 1):
        for name, function in functions.items():
            began = time.perf_counter()
            function()
            if turn:
                best[name] = min(best[name], time.perf_counter() - began)
    return best


def _sum(values: NDArray[np.float32]) -> np.float32:
    total = np.float32(0)
    for k in range(values.shape[0]):
        total += values[k]
    return total


plain_sum: Callable[[NDArray[np.float32]], np.float32] = simd_kernel()(_sum)


def bandwidth(n_classes: int, n_samples: int, repetitions: int) -> Iterator[Ratio]:
    """`normal` compared with the sum of the same array with the same number of threads."""
    logits = noisy_logits(n_classes, n_samples)
    parts = np.array_split(logits.ravel(), THREADS)
    with ThreadPoolExecutor(THREADS) as pool:
        times = best_times(
            {
                "normal": lambda: couple(logits, "normal", n_jobs=THREADS),
                "sum": lambda: sum(pool.map(plain_sum, parts)),
            },
            repetitions,
        )
    rate = {name: logits.nbytes / seconds / 1e9 for name, seconds in times.items()}
    yield Ratio(
        f"normal, share of a parallel sum's bandwidth, N={n_classes} R={n_samples}",
        rate["normal"],
        rate["sum"],
        "GB/s",
        times["sum"] / times["normal"],
        ">=",
        0.7,
    )


def wlw2_systems(logits: NDArray[np.float32]) -> Systems:
    """[LW] Q p + b e = 0, e'p = 1, in float64: (R, N + 1, N + 1) and the right-hand side."""
    r = 1 / (1 + np.exp(-np.clip(logits.transpose(2, 0, 1).astype(np.float64), -16, 16)))
    n = r.shape[1]
    r[:, np.arange(n), np.arange(n)] = 0
    systems = np.ones((len(r), n + 1, n + 1))
    systems[:, :n, :n] = -r.transpose(0, 2, 1) * r
    systems[:, np.arange(n), np.arange(n)] = (r**2).sum(axis=1)
    systems[:, n, n] = 0
    return systems, np.eye(n + 1)[n][:, None]


def stratified_systems(logits: NDArray[np.float32]) -> Systems:
    """(M - I) p = 0 with its last equation replaced by e'p = 1, in float64."""
    L = logits.transpose(2, 0, 1).astype(np.float64)
    M = np.exp(L - L.max(axis=1, keepdims=True))
    systems = M / M.sum(axis=1, keepdims=True) - np.eye(L.shape[1])
    systems[:, -1] = 1
    return systems, np.eye(L.shape[1])[-1][:, None]


SYSTEMS = {"wlw2": wlw2_systems, "stratified": stratified_systems}


def build_and_solve(
    systems_of: Callable[[NDArray[np.float32]], Systems], logits: NDArray[np.float32]
) -> NDArray[np.floating]:
    """Build the linear systems of the logits and solve them."""
    systems, right = systems_of(logits)
    return np.linalg.solve(systems, right)


def against_solve(n_classes: int, n_samples: int, target: float, repetitions: int) -> Iterator[Ratio]:
    """From logits to p, compared with numpy: building and solving the linear systems, and only solving them."""
    logits = noisy_logits(n_classes, n_samples)
    for method, systems_of in SYSTEMS.items():
        systems, right = systems_of(logits)
        functions: dict[str, Callable[[], NDArray[np.floating]]] = {
            "ours": partial(couple, logits, method, n_jobs=THREADS),
            "solve": partial(np.linalg.solve, systems, right),
            "build and solve": partial(build_and_solve, systems_of, logits),
        }
        solved = functions["solve"]()[:, :n_classes, 0]
        check_agreement(f"{method}, N={n_classes}", functions["ours"](), solved, AGREEMENT)
        times = best_times(functions, repetitions)
        for theirs in ("build and solve", "solve"):
            yield Ratio(
                f"{method}, times faster than numpy's {theirs}, N={n_classes} R={n_samples}",
                times["ours"],
                times[theirs],
                "s",
                times[theirs] / times["ours"],
                ">=",
                target,
            )


def fitted_svc(n_classes: int, n_samples: int, seed: int = 0) -> tuple[SVC, NDArray[np.float64]]:
    """LIBSVM fitted on six features and many classes, and samples to predict."""
    rng = np.random.default_rng(seed)
    means = rng.normal(0, 2, (n_classes, 6))
    y = np.repeat(np.arange(n_classes), 10)
    X = means[y] + rng.normal(0, 1, (len(y), 6))
    new = means[rng.integers(n_classes, size=n_samples)] + rng.normal(0, 1, (n_samples, 6))
    svc = SVC(probability=True, decision_function_shape="ovo", random_state=0, cache_size=500)
    return svc.fit(X, y), new


def logits_of(svc: SVC, X: NDArray[np.float64]) -> NDArray[np.float32]:
    """(N, N, R) logits -(A f + B) of all pairs."""
    n = len(svc.classes_)
    first, second = np.triu_indices(n, 1)
    logits = np.zeros((n, n, len(X)), np.float32)
    logits[first, second] = -(svc.probA_ * svc.decision_function(X) + svc.probB_).T
    logits[second, first] = -logits[first, second]
    return logits


def against_libsvm(n_classes: int, n_samples: int, repetitions: int) -> Iterator[Ratio]:
    """Coupling the logits of LIBSVM. LIBSVM's time is the difference between predict_proba and predict."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # scikit-learn is about to remove `probability`
        svc, X = fitted_svc(n_classes, n_samples)
        logits = logits_of(svc, X)
        predict_proba = svc.predict_proba
        p = predict_proba(X)
        # LIBSVM stops at (Qp)_t within 0.005 / N of p'Qp.
        check_agreement(f"LIBSVM, N={n_classes}", couple(logits, "wlw2"), p, 0.01)
        functions = {method: partial(couple, logits, method, n_jobs=THREADS) for method in SYSTEMS}
        functions |= {"predict": partial(svc.predict, X), "predict_proba": partial(predict_proba, X)}
        times = best_times(functions, min(repetitions, 3))
    theirs = times["predict_proba"] - times["predict"]
    for method in SYSTEMS:
        yield Ratio(
            f"{method}, times faster than LIBSVM's coupling, N={n_classes} R={n_samples}",
            times[method],
            theirs,
            "s",
            theirs / times[method],
            ">=",
            4,
        )


def cost_of_bradley_terry(n_classes: int, n_samples: int, repetitions: int) -> Iterator[Ratio]:
    """Time of `bradley_terry` relative to `wlw2` on the same logits."""
    logits = noisy_logits(n_classes, n_samples)
    functions = {m: partial(couple, logits, m, n_jobs=THREADS) for m in ("bradley_terry", "wlw2")}
    times = best_times(functions, repetitions)
    yield Ratio(
        f"bradley_terry, times the cost of wlw2, N={n_classes} R={n_samples}",
        times["bradley_terry"],
        times["wlw2"],
        "s",
        times["bradley_terry"] / times["wlw2"],
        "<=",
        4,
    )


def memory(n_classes: int, hubs: int, n_samples: int) -> Iterator[Ratio]:
    """Peak memory of `normal` over a bipartite graph, in a separate process, relative to the size of the tensor."""
    sizes = map(str, (n_classes, hubs, n_samples))
    command = [sys.executable, "-m", "pairloom.benchmarks.memory", *sizes]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    _, peak = map(float, done.stdout.split())
    yield Ratio(
        f"normal over K({hubs}, {n_classes - hubs}), peak of a process beside the tensor, R={n_samples}",
        peak / 1e9,
        4 * n_classes**2 * n_samples / 1e9,
        "GB",
        peak / 1e9,
        "<=",
        2,
    )


def check_agreement(
    what: str, ours: NDArray[np.floating], theirs: NDArray[np.floating], within: float
) -> None:
    """Raise if two arrays of probabilities differ by more than `within`."""
    apart = float(abs(ours - theirs).max())
    if not apart <= within:
        raise Disagreement(f"{what}: probabilities differ by {apart:.1e}, more than {within:.0e}.")


def rows(sizes: Sizes) -> Iterator[Ratio]:
    """All lines of the table."""
    yield from memory(*sizes.memory)
    yield from bandwidth(*sizes.bandwidth, sizes.repetitions)
    for (n_classes, n_samples), target in zip(sizes.systems, FASTER_THAN_SOLVE, strict=True):
        yield from against_solve(n_classes, n_samples, target, sizes.repetitions)
    for n_classes, n_samples in sizes.systems:
        yield from against_libsvm(n_classes, n_samples, sizes.repetitions)
    yield from cost_of_bradley_terry(*sizes.systems[0], sizes.repetitions)


def compare(record: Record, small: bool) -> list[Ratio]:
    """The table of all ratios."""
    record.note(
        f"Logits u_i - u_j + antisymmetric noise, u ~ N(0, {SPREAD:g}), noise ~ N(0, {NOISE:g}), float32; "
        f"{THREADS} threads, best of several repetitions; probabilities agree with the solved systems within "
        f"{AGREEMENT:g}."
    )
    record.begin("coupling", ratio_columns(width=76))
    ratios = []
    with threadpool_limits(THREADS):
        for row in rows(SMALL if small else FULL):
            record.add(row)
            ratios.append(row)
    record.note(summary(ratios))
    return ratios
