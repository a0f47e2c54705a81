"""How fast coupling is, as ratios to its peers in one run: ``python -m pairloom.benchmarks.coupling [--quick]``.

Two threads, float32 logits, warmed kernels, the best of several repetitions in turn. Every ratio is printed with both
of its times, its target, and whether it is met; results that disagree are an error.
"""

import argparse
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from pairloom import couple, graphs
from pairloom.pipeline.accelerate import simd_kernel
from pairloom.pipeline.completion.complete import plan_completion
from pairloom.pipeline.completion.slab import couple_slab

THREADS = 2
#: The logits are u_i - u_j plus antisymmetric noise: normal, with these standard deviations.
SPREAD, NOISE = 3.0, 1.0
#: How far the probabilities may be from the reference's.
AGREEMENT = 1e-4


class Sizes(NamedTuple):
    """(classes, samples) of each comparison; (classes, hubs, samples) for memory."""

    bandwidth: tuple[int, int]
    systems: tuple[tuple[int, int], ...]
    memory: tuple[int, int, int]
    repetitions: int


FULL = Sizes((200, 2000), ((50, 2500), (200, 500)), (1000, 5, 2000), 7)
QUICK = Sizes((40, 200), ((15, 60), (20, 40)), (60, 3, 100), 2)
#: Times faster than numpy.linalg.solve, in the order of the sizes.
FASTER_THAN_SOLVE = (8, 15)


class Row(NamedTuple):
    """One line of the table: `figure` is to be at least, or at most, the target."""

    what: str
    ours: str
    theirs: str
    figure: float
    relation: str
    target: float

    @property
    def met(self):
        return self.figure >= self.target if self.relation == ">=" else self.figure <= self.target


def noisy_logits(n_classes, n_samples, seed=0):
    """(N, N, R) float32 logits of machines that agree on the whole."""
    rng = np.random.default_rng(seed)
    u = rng.normal(0, SPREAD, (n_classes, n_samples)).astype(np.float32)
    logits = np.zeros((n_classes, n_classes, n_samples), np.float32)
    for i in range(n_classes):
        for j in range(i + 1, n_classes):
            logits[i, j] = u[i] - u[j] + NOISE * rng.standard_normal(n_samples, np.float32)
            logits[j, i] = -logits[i, j]
    return logits


def best_times(functions, repetitions):
    """The shortest time of each function, taken in turn so that a busy moment meets them all; the first turn warms."""
    best = dict.fromkeys(functions, np.inf)
    for turn in range(repetitions + 1):
        for name, function in functions.items():
            began = time.perf_counter()
            function()
            if turn:
                best[name] = min(best[name], time.perf_counter() - began)
    return best


@simd_kernel()
def plain_sum(values):
    total = np.float32(0)
    for k in range(values.shape[0]):
        total += values[k]
    return total


def bandwidth(n_classes, n_samples, repetitions):
    """`normal` against the sum of the same array, by as many threads."""
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
    yield Row(
        f"normal, share of a parallel sum's bandwidth, N={n_classes} R={n_samples}",
        f"{milliseconds(times['normal'])}, {rate['normal']:.1f} GB/s",
        f"{milliseconds(times['sum'])}, {rate['sum']:.1f} GB/s",
        times["sum"] / times["normal"],
        ">=",
        0.7,
    )


def wlw2_systems(logits):
    """[LW] Q p + b e = 0, e'p = 1, in float64: (R, N + 1, N + 1) and the right-hand side."""
    r = 1 / (1 + np.exp(-np.clip(logits.transpose(2, 0, 1).astype(np.float64), -16, 16)))
    n = r.shape[1]
    r[:, np.arange(n), np.arange(n)] = 0
    systems = np.ones((len(r), n + 1, n + 1))
    systems[:, :n, :n] = -r.transpose(0, 2, 1) * r
    systems[:, np.arange(n), np.arange(n)] = (r**2).sum(axis=1)
    systems[:, n, n] = 0
    return systems, np.eye(n + 1)[n][:, None]


def stratified_systems(logits):
    """(M - I) p = 0 with its last equation replaced by e'p = 1, in float64."""
    L = logits.transpose(2, 0, 1).astype(np.float64)
    M = np.exp(L - L.max(axis=1, keepdims=True))
    systems = M / M.sum(axis=1, keepdims=True) - np.eye(L.shape[1])
    systems[:, -1] = 1
    return systems, np.eye(L.shape[1])[-1][:, None]


SYSTEMS = {"wlw2": wlw2_systems, "stratified": stratified_systems}


def against_solve(n_classes, n_samples, target, repetitions):
    """Our way from logits to p, against numpy's: all of it, and the solution alone of systems already there."""
    logits = noisy_logits(n_classes, n_samples)
    for method, systems_of in SYSTEMS.items():
        systems, right = systems_of(logits)
        p = {}

        def ours(method=method, p=p):
            p["ours"] = couple(logits, method, n_jobs=THREADS)

        def solve(systems=systems, right=right, p=p):
            p["solve"] = np.linalg.solve(systems, right)[:, :n_classes, 0]

        def build_and_solve(systems_of=systems_of):
            np.linalg.solve(*systems_of(logits))

        times = best_times({"ours": ours, "solve": solve, "build and solve": build_and_solve}, repetitions)
        check_agreement(f"{method}, N={n_classes}", p["ours"], p["solve"], AGREEMENT)
        for theirs in ("build and solve", "solve"):
            yield Row(
                f"{method}, times faster than numpy's {theirs}, N={n_classes} R={n_samples}",
                milliseconds(times["ours"]),
                milliseconds(times[theirs]),
                times[theirs] / times["ours"],
                ">=",
                target,
            )


def fitted_svc(n_classes, n_samples, seed=0):
    """LIBSVM on six features and many classes, and samples to predict."""
    rng = np.random.default_rng(seed)
    means = rng.normal(0, 2, (n_classes, 6))
    y = np.repeat(np.arange(n_classes), 10)
    X = means[y] + rng.normal(0, 1, (len(y), 6))
    new = means[rng.integers(n_classes, size=n_samples)] + rng.normal(0, 1, (n_samples, 6))
    svc = SVC(probability=True, decision_function_shape="ovo", random_state=0, cache_size=500)
    return svc.fit(X, y), new


def logits_of(svc, X):
    """-(A f + B) of every pair, float32."""
    n = len(svc.classes_)
    first, second = np.triu_indices(n, 1)
    logits = np.zeros((n, n, len(X)), np.float32)
    logits[first, second] = -(svc.probA_ * svc.decision_function(X) + svc.probB_).T
    logits[second, first] = -logits[first, second]
    return logits


def against_libsvm(n_classes, n_samples, repetitions):
    """Coupling the same logits as LIBSVM's predict_proba does, whose time is what it takes beyond predict's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # scikit-learn is about to remove `probability`
        svc, X = fitted_svc(n_classes, n_samples)
        logits = logits_of(svc, X)
        predict_proba = svc.predict_proba
        p = predict_proba(X)
        # LIBSVM stops at (Qp)_t within 0.005 / N of p'Qp.
        check_agreement(f"LIBSVM, N={n_classes}", couple(logits, "wlw2"), p, 0.01)
        functions = {method: lambda m=method: couple(logits, m, n_jobs=THREADS) for method in SYSTEMS}
        functions |= {"predict": lambda: svc.predict(X), "predict_proba": lambda: predict_proba(X)}
        times = best_times(functions, min(repetitions, 3))
    theirs = times["predict_proba"] - times["predict"]
    for method in SYSTEMS:
        yield Row(
            f"{method}, times faster than LIBSVM's coupling, N={n_classes} R={n_samples}",
            milliseconds(times[method]),
            milliseconds(theirs),
            theirs / times[method],
            ">=",
            4,
        )


def cost_of_bradley_terry(n_classes, n_samples, repetitions):
    logits = noisy_logits(n_classes, n_samples)
    times = best_times(
        {m: lambda m=m: couple(logits, m, n_jobs=THREADS) for m in ("bradley_terry", "wlw2")}, repetitions
    )
    yield Row(
        f"bradley_terry, times the cost of wlw2, N={n_classes} R={n_samples}",
        milliseconds(times["bradley_terry"]),
        milliseconds(times["wlw2"]),
        times["bradley_terry"] / times["wlw2"],
        "<=",
        4,
    )


def peak_bytes():
    """The most memory that this process has held, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss would count the parent's memory at the fork
        peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(peak.split()[1]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def complete_and_couple_bipartite(n_classes, hubs, n_samples):
    """In a process of its own: print the seconds and the bytes of `normal` over K(hubs, n_classes - hubs)."""
    completion = plan_completion(graphs.bipartite(n_classes, hubs))
    rng = np.random.default_rng(0)
    edge_logits = SPREAD * rng.standard_normal((len(completion.edges), n_samples), np.float32)
    began = time.perf_counter()
    p = couple_slab(edge_logits, completion, ["normal"])["normal"]
    seconds = time.perf_counter() - began
    assert abs(p.sum(axis=1) - 1).max() < 1e-5
    print(seconds, peak_bytes())


def memory(n_classes, hubs, n_samples):
    command = [sys.executable, "-m", __spec__.name, "--bipartite", *map(str, (n_classes, hubs, n_samples))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, peak = map(float, done.stdout.split())
    yield Row(
        f"normal over K({hubs}, {n_classes - hubs}), GB at the peak of a process, R={n_samples}",
        f"{milliseconds(seconds)}, {peak / 1e9:.2f} GB",
        f"tensor {4 * n_classes**2 * n_samples / 1e9:.2f} GB",
        peak / 1e9,
        "<=",
        2,
    )


def check_agreement(what, ours, theirs, within):
    apart = abs(ours - theirs).max()
    if not apart <= within:
        raise SystemExit(f"{what}: probabilities differ by {apart:.1e}, more than {within:.0e}.")


def milliseconds(seconds):
    return f"{1000 * seconds:.1f} ms"


def rows(sizes):
    yield from memory(*sizes.memory)
    yield from bandwidth(*sizes.bandwidth, sizes.repetitions)
    for (n_classes, n_samples), target in zip(sizes.systems, FASTER_THAN_SOLVE, strict=True):
        yield from against_solve(n_classes, n_samples, target, sizes.repetitions)
    for n_classes, n_samples in sizes.systems:
        yield from against_libsvm(n_classes, n_samples, sizes.repetitions)
    yield from cost_of_bradley_terry(*sizes.systems[0], sizes.repetitions)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m pairloom.benchmarks.coupling", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes: that it runs, not how fast it is")
    parser.add_argument("--bipartite", nargs=3, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.bipartite:
        complete_and_couple_bipartite(*options.bipartite)
        return
    print(
        f"Logits u_i - u_j + antisymmetric noise, u ~ N(0, {SPREAD:g}), noise ~ N(0, {NOISE:g}), float32;"
        f" against LIBSVM its own, of 6 features. {THREADS} threads, best of several turns."
        f" Agreement with the systems within {AGREEMENT:g} is checked."
    )
    print(f"{'':72} {'ours':>22} {'theirs':>22} {'figure':>8} {'target':>8}")
    missed = 0
    with threadpool_limits(THREADS):
        for row in rows(QUICK if options.quick else FULL):
            missed += not row.met
            print(
                f"{row.what:72} {row.ours:>22} {row.theirs:>22} {row.figure:8.2f} {row.relation} {row.target:<5g}"
                f" {'OK' if row.met else 'missed'}",
                flush=True,
            )
    print("All targets met." if not missed else f"{missed} missed.")


if __name__ == "__main__":
    main()
