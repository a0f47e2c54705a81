"""Fit and predict with one classifier in a separate process.

The clocks are inside that process and start after its warm-up, a fit and a prediction of a few rows of the same data.
So start-up, imports and compilation do not count, and the time limit starts then.
"""

import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from pairloom.benchmarks.classifiers import PEERS
from pairloom.benchmarks.datasets import Split
from pairloom.benchmarks.memory import array_bytes, peak_bytes

SINGLE_ROWS = 50
#: Maximum classes and rows of the warm-up: more classes than the limit for shortlists, and enough rows per class for
#: the folds and neighbours of a tuned peer.
WARM_CLASSES, WARM_ROWS = 60, 480


def fit_elsewhere(peer: str, threads: int, folder: Path, limit: float) -> str:
    """Run `measure` in a separate process. Return the reason why there is no result; empty if there is one."""
    command = [sys.executable, "-m", "pairloom.benchmarks.fit_process", peer, str(threads), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()  # the warm-up has ended
            errors = child.communicate(timeout=limit)[1]
        except subprocess.TimeoutExpired:
            return f"not ended in {limit:g} s"
        finally:
            child.kill()
    if child.returncode == 0:
        return ""
    return "failed: " + (errors.strip() or f"exit {child.returncode}").splitlines()[-1]


def measure(name: str, threads: int, folder: Path) -> None:
    """Fit and predict the data in `folder`, and write probabilities, times and sizes there.

    A line is printed when the clock starts.
    """
    with np.load(folder / "split.npz") as data:
        split = Split(**data)
    variance = float(split.X.var(axis=0, dtype=np.float64).sum())
    with threadpool_limits(threads), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit_and_predict(PEERS[name].make(variance), few_rows(split))
        caught.clear()
        print("warm", flush=True)
        model = PEERS[name].make(variance)
        measured = fit_and_predict(model, split)
    converged = not any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    np.savez(
        folder / "found.npz",
        note="" if converged else "not converged",
        model_bytes=array_bytes(model),
        **measured,
    )


def fit_and_predict(model: Any, split: Split) -> dict[str, Any]:
    """Probabilities of the test rows, the times of fit and prediction, and the peak memory until then."""
    start, start_cpu = time.perf_counter(), time.process_time()
    model.fit(split.X, split.y)
    middle, middle_cpu = time.perf_counter(), time.process_time()
    p = model.predict_proba(split.X_new)
    end, end_cpu = time.perf_counter(), time.process_time()
    row_ms = 1000 * np.median([single_row(model, split.X_new, k) for k in range(SINGLE_ROWS)])
    times = {"fit_s": middle - start, "predict_s": end - middle, "row_ms": row_ms}
    cpu = {"fit_cpu_s": middle_cpu - start_cpu, "predict_cpu_s": end_cpu - middle_cpu}
    return {"p": p, "peak_bytes": peak_bytes(), **times, **cpu}


def single_row(model: Any, X: NDArray[np.floating], k: int) -> float:
    """Seconds to predict one row."""
    row = X[[k % X.shape[0]]]
    start = time.perf_counter()
    model.predict_proba(row)
    return time.perf_counter() - start


def few_rows(split: Split) -> Split:
    """Some rows of the largest classes for the warm-up: the same features and type, but little work."""
    largest = np.argsort(-np.bincount(split.y), kind="stable")[:WARM_CLASSES]
    each = WARM_ROWS // len(largest)
    rows = np.concatenate([np.flatnonzero(split.y == c)[:each] for c in largest])
    y = np.unique(split.y[rows], return_inverse=True)[1]
    return Split(split.X[rows], split.X[rows], y, y)


if __name__ == "__main__":
    measure(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
