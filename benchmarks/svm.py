"""The two-class linear SVM against LIBSVM and LIBLINEAR, on pairs of real classes and on overlapping ones.

    python -m pairloom.benchmarks.svm [--quick]

One thread. Every time is the least of interleaved runs of a complete fit from float32 rows, kernels compiled
before. "over" is the largest excess of our primal objective, in float64, over LIBSVM's.
"""

import argparse
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

from pairloom.benchmarks.datasets import DataNotFound, load_features
from pairloom.pipeline.svm import fit_linear_svm, solve_rows

FEATURES = {
    "imagenette-efficientnet": (0.001, 0.01, 0.1, 1.0),
    "tinyimagenet50-efficientnet": (0.001, 0.01, 0.1, 1.0),
    "clinc150-minilm": (1.0, 10.0),
}
FOLDS = 4
TARGETS = {"libsvm": 25, "liblinear": 8, "libsvm on text": 10}


def primal(X, y, coef, intercept, C):
    X, w = X.astype(np.float64), np.ravel(coef).astype(np.float64)
    return 0.5 * w @ w + C * np.maximum(0, 1 - y * (X @ w + intercept)).sum()


def choose_pairs(X, labels, count, seed=0):
    """Half of them the pairs with the nearest class means, half drawn from the others."""
    classes = np.unique(labels)
    means = np.stack([X[labels == c].mean(axis=0) for c in classes])
    a, b = np.triu_indices(len(classes), 1)
    order = np.argsort(np.linalg.norm(means[a] - means[b], axis=1), kind="stable")
    near, others = np.split(order, [min(count, len(order)) // 2])
    drawn = np.random.default_rng(seed).permutation(others)[: count - len(near)]
    return [(classes[a[k]], classes[b[k]]) for k in np.concatenate([near, drawn])]


def rows_of(X, labels, pair):
    rows = np.isin(labels, pair)
    return X[rows], np.where(labels[rows] == pair[0], 1.0, -1.0)


def overlapping(n, D, error, seed=0):
    """Gaussian rows labelled by a hyperplane, with a part of the labels wrong."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D), dtype=np.float32)
    y = np.where(X @ rng.standard_normal(D) > 0, 1.0, -1.0)
    return X, np.where(rng.random(n) < error, -y, y)


def four_folds(X, y, C):
    return solve_rows(X, y, C * (np.arange(len(y)) % FOLDS != np.arange(FOLDS)[:, None]))


def time_once(run):
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


def compare(X, y, C, repeats):
    """Least times of ours, LIBSVM, LIBLINEAR and ours per fold; our excess; whether LIBLINEAR converged."""
    runs = {
        "ours": lambda: fit_linear_svm(X, y, C),
        "libsvm": lambda: SVC(kernel="linear", C=C).fit(X, y),
        "liblinear": lambda: LinearSVC(loss="hinge", C=C).fit(X, y),
        "fold": lambda: four_folds(X, y, C),
    }
    times = dict.fromkeys(runs, np.inf)
    results = {}
    for _ in range(repeats):
        for name, run in runs.items():
            seconds, results[name] = time_once(run)
            times[name] = min(times[name], seconds)
    times["fold"] /= FOLDS
    ours, peer = results["ours"], results["libsvm"]
    reached = primal(X, y, ours.coef, ours.intercept, C)
    over = reached / primal(X, y, peer.coef_, peer.intercept_, C) - 1
    return times, over, results["liblinear"].n_iter_ < 1000


def print_line(name, measured):
    times = [times for times, _, _ in measured]
    ours, libsvm, liblinear, fold = (
        sum(t[key] for t in times) for key in ("ours", "libsvm", "liblinear", "fold")
    )
    slowest = max(t["ours"] / t["libsvm"] for t in times)
    over = max(over for _, over, _ in measured)
    stopped = sum(not converged for _, _, converged in measured)
    per_fit = 1000 / len(measured)
    print(
        f"{name:34s} {len(measured):4d} {per_fit * ours:9.3f} {per_fit * libsvm:10.3f} {libsvm / ours:6.1f}x"
        f" {per_fit * liblinear:10.3f} {liblinear / ours:6.1f}x {stopped:4d} {over:+9.5f} {1 / slowest:6.1f}x"
        f" {per_fit * fold:8.3f} {libsvm / fold:6.1f}x",
        flush=True,
    )


def ratio(measured, peer):
    return sum(t[peer] for t, _, _ in measured) / sum(t["ours"] for t, _, _ in measured)


def print_verdicts(pairs, text):
    everything = pairs + text
    verdicts = [
        ("LIBSVM, all pairs", ratio(everything, "libsvm"), TARGETS["libsvm"]),
        ("LIBLINEAR, all pairs", ratio(everything, "liblinear"), TARGETS["liblinear"]),
        ("LIBSVM, text pairs", ratio(text, "libsvm"), TARGETS["libsvm on text"]),
        ("LIBSVM, worst single pair", min(t["libsvm"] / t["ours"] for t, _, _ in everything), 1),
    ]
    for name, value, target in verdicts:
        print(f"{name:28s} {value:6.1f}x, target {target}x: {'OK' if value >= target else 'missed'}")
    over = max(over for _, over, _ in everything)
    print(f"{'objective over LIBSVM':28s} {over:+.5f}, target +0.00100: {'OK' if over <= 1e-3 else 'missed'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="6 pairs of each set, smaller overlapping classes"
    )
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore", ConvergenceWarning)
    count, repeats = (6, 2) if quick else (60, 3)
    compare(*overlapping(100, 10, 0.1), 1.0, 1)  # compiles
    print(
        f"{'milliseconds per fit':34s} fits      ours     libsvm          liblinear         stop      over  worst"
    )
    pairs, text = [], []
    for name, Cs in FEATURES.items():
        try:
            X, labels = load_features(name)
        except DataNotFound as reason:
            print(f"{name}: skipped, {reason}")
            continue
        problems = [rows_of(X, labels, pair) for pair in choose_pairs(X, labels, count)]
        for C in Cs:
            measured = [compare(*problem, C, repeats) for problem in problems]
            print_line(f"{name} C={C:g}", measured)
            (text if name == "clinc150-minilm" else pairs).extend(measured)
    for n, D in [(1000, 100)] if quick else [(2000, 64), (5000, 512)]:
        print_line(f"overlapping {n} x {D} C=1", [compare(*overlapping(n, D, 0.1), 1.0, 1)])
    if pairs and text:
        print_verdicts(pairs, text)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
