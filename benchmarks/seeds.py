"""How much probabilities change with the seed, which draws the folds and the held-out samples.

    python -m pairloom.benchmarks.seeds [--sets digits satimage letter clinc150] [--seeds 3]

Every set is fitted with several seeds, on the default graph, on a sparse graph (2 hubs, 3 neighbours per class), and on
the sparse graph with eight folds, which averages twice as many machines. "mean" is the mean of |p - q| over all pairs
of seeds and all test rows, where p and q are the probabilities of the class that the first seed predicts; "99%" is the
quantile, and "largest" the largest change of any class of any row. "log loss" is the range over the seeds, "fit s" the
mean CPU time.
"""

import argparse
import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from pairloom import PairwiseSVC
from pairloom.benchmarks.classifiers import THREADS
from pairloom.benchmarks.datasets import Split, load
from pairloom.benchmarks.record import Column, Record
from pairloom.pipeline.calibration.held_out import mean_log_loss

SPARSE = {"family": "hub_neighbours", "hubs": 2, "neighbours": 3}
MODELS: dict[str, dict[str, Any]] = {
    "default": {},
    "sparse": {"graph": SPARSE},
    "sparse, 8 folds": {"graph": SPARSE, "folds": 8},
}
USUAL_SETS = ("digits", "satimage", "letter", "clinc150")


@dataclass(frozen=True)
class Row:
    """One model of one set: changes between seeds, the range of the log losses, and CPU seconds."""

    data: str
    model: str
    mean: float
    quantile: float
    largest: float
    least_loss: float
    most_loss: float
    fit_cpu_s: float


COLUMNS = (
    Column("set", lambda row: row.data, 10, left=True),
    Column("model", lambda row: row.model, 16, left=True),
    Column("mean", lambda row: f"{row.mean:.4f}", 8),
    Column("99%", lambda row: f"{row.quantile:.3f}", 7),
    Column("largest", lambda row: f"{row.largest:.2f}", 8),
    Column("log loss", lambda row: f"{row.least_loss:.4f} to {row.most_loss:.4f}", 18),
    Column("fit s", lambda row: f"{row.fit_cpu_s:.1f}", 6),
)


def compare_seeds(record: Record, data: str, split: Split, models: Iterable[str], seeds: int) -> list[Row]:
    """The rows of one set."""
    rows = []
    for name in models:
        began = time.process_time()
        fitted = [
            PairwiseSVC(random_state=seed, n_jobs=THREADS, **MODELS[name]).fit(split.X, split.y)
            for seed in range(seeds)
        ]
        seconds = (time.process_time() - began) / seeds
        found = [model.predict_proba(split.X_new) for model in fitted]
        rows.append(Row(data, name, *_changes(found), *_range(found, split), seconds))
        record.add(rows[-1])
    return rows


def _changes(found: list[Any]) -> tuple[float, float, float]:
    """The mean change of the predicted class, its 99% quantile, and the largest change of any."""
    changes = [np.abs(p - q) for p, q in combinations(found, 2)]
    top = found[0].argmax(axis=1)[:, None]
    of_top = np.concatenate([np.take_along_axis(change, top, axis=1) for change in changes])
    return float(of_top.mean()), float(np.quantile(of_top, 0.99)), float(max(map(np.max, changes)))


def _range(found: list[Any], split: Split) -> tuple[float, float]:
    losses = [float(mean_log_loss(p, split.y_new)) for p in found]
    return min(losses), max(losses)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=list(USUAL_SETS))
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    command = f"python -m pairloom.benchmarks.seeds --sets {' '.join(asked.sets)} --seeds {asked.seeds}"
    record = Record("seeds", command, {"seeds": asked.seeds})
    record.begin("seeds", COLUMNS)
    for name in asked.sets:
        compare_seeds(record, name, load(name), MODELS, asked.seeds)


if __name__ == "__main__":
    main()
