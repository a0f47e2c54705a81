"""How often prediction sets contain the true class, and their sizes, over random splits of data sets.

Half of the rows (at most 1000) are for training, and the others (at most 1000) for tests; of embedded sets, three
quarters are for training and a quarter for tests. For each coverage the table has the mean share of sets that contain
the true class, the number of splits in which that share lies in its interval, and the mean size of the sets. The
interval has three standard deviations on either side, from the random choice of test and held-out samples.

With sets per class (``by="class"``), "pools" is the number of pools of classes, and "in their intervals" the share of
pools whose coverage lies in the interval of their own test and held-out samples.

With peers, MAPIE and crepes get the same `PairwiseSVC`: MAPIE split, which takes a quarter of the training rows for
conformalisation; MAPIE cross, which fits five times; and crepes, again with a quarter of the rows. All use the score of
the least ambiguous sets and the same splits. Sets with a larger coverage are larger, so "size at" is the size
at exactly the requested coverage, interpolated between several coverages. They need ``pip install mapie crepes``.
`measure_costs` measures the CPU time and the peak memory of each on embedded sets, in separate processes.
"""

import importlib.util
import json
import math
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_blobs,
    make_classification,
)
from sklearn.model_selection import train_test_split

from pairloom import PairwiseSVC
from pairloom.benchmarks.datasets import DataNotFound, data_folder, load
from pairloom.benchmarks.memory import peak_bytes
from pairloom.benchmarks.record import Column, Record
from pairloom.pipeline.model.prediction_sets import SetBy, SetScore

__all__ = ["COST_SETS", "EMBEDDED", "METHODS", "SETS", "cost_of_sets", "measure_costs", "measure_sets"]

_Loader = Callable[[], tuple[NDArray[Any], NDArray[Any]]]


def _table(name: str) -> _Loader:
    def read() -> tuple[NDArray[Any], NDArray[Any]]:
        with np.load(data_folder() / f"{name}.npz") as data:
            return data["X"].astype(np.float32), data["y"]

    return read


def _blobs() -> tuple[NDArray[Any], NDArray[Any]]:
    """Twelve classes that overlap."""
    X, y = make_blobs(2400, n_features=6, centers=12, cluster_std=4.0, random_state=0)[:2]
    return X, y


def _clusters() -> tuple[NDArray[Any], NDArray[Any]]:
    """Five classes of several clusters; one row in twenty has a wrong label."""
    how: dict[str, Any] = {"n_features": 20, "n_informative": 8, "n_classes": 5, "n_clusters_per_class": 2}
    X, y = make_classification(2400, **how, flip_y=0.05, random_state=0)
    return X, y


def _embedded(name: str) -> _Loader:
    def read() -> tuple[NDArray[Any], NDArray[Any]]:
        split = load(name)
        return np.concatenate([split.X, split.X_new]), np.concatenate([split.y, split.y_new])

    return read


#: The sets: synthetic, from scikit-learn, or from the data folder; the latter are left out if missing.
SETS: dict[str, _Loader] = {
    "wine": lambda: load_wine(return_X_y=True),
    "iris": lambda: load_iris(return_X_y=True),
    "breast_cancer": lambda: load_breast_cancer(return_X_y=True),
    "digits": lambda: load_digits(return_X_y=True),
    "blobs": _blobs,
    "clusters": _clusters,
    **{name: _table(name) for name in ("segment", "satimage", "letter", "usps", "dna", "waveform")},
}
COVERAGES = (0.8, 0.9, 0.95, 0.99)
#: Coverages between and beyond which sizes are compared with those of peers.
BETWEEN = (0.75, 0.85, 0.925, 0.97, 0.98, 0.995)
MOST_ROWS = 1000
#: Embedded sets, on which costs are measured too, with their own splits.
COST_SETS = ("clinc150", "icd10cm")
EMBEDDED: dict[str, _Loader] = {name: _embedded(name) for name in COST_SETS}
OURS = "PairwiseSVC"

#: (n, N) mask of the classes in the set of each sample, by coverage.
Sets = dict[float, NDArray[np.bool_]]


@dataclass(frozen=True)
class Row:
    """Prediction sets of one coverage over the splits of one set."""

    data: str
    method: str
    coverage: float
    held: float
    inside: int
    splits: int
    size: float
    size_at: float  # NaN without peers, or where no coverage holds so many
    pools: float
    pools_inside: float  # both NaN unless sets are for every class


class SplitOutcome(NamedTuple):
    """Sets of one coverage on one split, with the fields of `Row`."""

    held: float
    inside: bool
    size: float
    pools: float
    pools_inside: float


@dataclass(frozen=True)
class CostRow:
    """The cost of sets with a coverage of 95%."""

    data: str
    method: str
    held: float
    size: float
    seconds: float
    peak: float


def _unless_nan(value: float, form: str) -> str:
    return "" if math.isnan(value) else format(value, form)


COLUMNS = (
    Column("set", lambda row: row.data, 14, left=True),
    Column("sets by", lambda row: row.method, 14, left=True),
    Column("coverage", lambda row: f"{row.coverage:.0%}"),
    Column("held", lambda row: f"{row.held:.3f}", 7),
    Column("in its interval", lambda row: f"{row.inside} of {row.splits}"),
    Column("mean size", lambda row: f"{row.size:.2f}"),
    Column("size at", lambda row: _unless_nan(row.size_at, ".2f"), 7),
    Column("pools", lambda row: _unless_nan(row.pools, ".0f")),
    Column("in their intervals", lambda row: _unless_nan(row.pools_inside, ".1%")),
)
COST_COLUMNS = (
    Column("set", lambda row: row.data, 14, left=True),
    Column("sets by", lambda row: row.method, 14, left=True),
    Column("held", lambda row: f"{row.held:.3f}", 7),
    Column("mean size", lambda row: f"{row.size:.2f}"),
    Column("CPU s", lambda row: f"{row.seconds:.1f}", 7),
    Column("peak MB", lambda row: f"{row.peak / 1e6:.0f}", 8),
)


def ours(
    model: PairwiseSVC,
    X: Any,
    y: Any,
    new: Any,
    coverages: Sequence[float],
    score: SetScore = "lac",
    by: SetBy = "all",
) -> Sets:
    """Sets of the model itself, which is trained on all rows."""
    model.fit(X, y)
    return {
        coverage: model.predict_set(new, coverage, score=score, by=by).toarray() for coverage in coverages
    }


def mapie_split(model: PairwiseSVC, X: Any, y: Any, new: Any, coverages: Sequence[float]) -> Sets:
    """MAPIE, with a quarter of the rows for conformalisation."""
    from mapie.classification import SplitConformalClassifier

    fitting, conforming = _quartered(y)
    conformal = SplitConformalClassifier(
        model, confidence_level=list(coverages), conformity_score="lac", prefit=False
    )
    conformal.fit(X[fitting], y[fitting]).conformalize(X[conforming], y[conforming])
    return _by_coverage(conformal.predict_set(new)[1], coverages)


def mapie_cross(model: PairwiseSVC, X: Any, y: Any, new: Any, coverages: Sequence[float]) -> Sets:
    """MAPIE, with five fits."""
    from mapie.classification import CrossConformalClassifier

    conformal = CrossConformalClassifier(
        model, confidence_level=list(coverages), conformity_score="lac", cv=5
    )
    return _by_coverage(conformal.fit_conformalize(X, y).predict_set(new)[1], coverages)


def crepes(model: PairwiseSVC, X: Any, y: Any, new: Any, coverages: Sequence[float]) -> Sets:
    """crepes, with a quarter of the rows for calibration."""
    from crepes import WrapClassifier

    fitting, calibrating = _quartered(y)
    wrapped = WrapClassifier(model)
    wrapped.fit(X[fitting], y[fitting])
    wrapped.calibrate(X[calibrating], y[calibrating])
    return {
        coverage: np.asarray(
            wrapped.predict_set(new, labels=False, confidence=coverage, smoothing=False), bool
        )
        for coverage in coverages
    }


#: The methods that make the sets.
METHODS: dict[str, Callable[..., Sets]] = {
    OURS: ours,
    "MAPIE split": mapie_split,
    "MAPIE cross": mapie_cross,
    "crepes": crepes,
}


def _quartered(y: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Three quarters of the rows, and the others. Classes with fewer than four rows are only in the first part."""
    counts = np.unique(y, return_inverse=True, return_counts=True)
    common = counts[2][counts[1]] >= 4
    rows = np.flatnonzero(common)
    fitting, others = train_test_split(rows, test_size=0.25, stratify=y[rows], random_state=0)
    return np.concatenate([fitting, np.flatnonzero(~common)]), others


def _by_coverage(sets: NDArray[np.bool_], coverages: Sequence[float]) -> Sets:
    return {coverage: sets[:, :, place] for place, coverage in enumerate(coverages)}


def methods_with(peers: bool) -> list[str]:
    """The methods to measure, or an error if a peer is not installed."""
    if not peers:
        return [OURS]
    for package in ("mapie", "crepes"):
        if importlib.util.find_spec(package) is None:
            raise ValueError(f"--peers needs {package}: pip install {package}.")
    return list(METHODS)


def split_outcomes(
    method: str, X: Any, y: Any, sizes: tuple[int, int], number: int, how: Mapping[str, Any]
) -> dict[float, SplitOutcome]:
    """The outcome for each coverage on one random split; ``sizes`` are the numbers of training and test rows."""
    n_train, n = sizes
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, train_size=n_train, test_size=n, stratify=y, random_state=number
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about columns, a scale at its bound, classes with few rows
        model = PairwiseSVC(random_state=number)
        sets = METHODS[method](model, X_train, y_train, X_test, **how)
    places = np.searchsorted(np.unique(y_train), y_test)
    outcomes = {}
    for coverage, in_set in sets.items():
        held = in_set[np.arange(n), places]
        inside = _is_inside(held, coverage, _calibrating(method, model, n_train))
        pools = (math.nan, math.nan)
        if how.get("by") == "class":
            pools = _pools_inside(model, held, y_test, coverage)
        size = float(in_set.sum(axis=1).mean())
        outcomes[coverage] = SplitOutcome(float(held.mean()), inside, size, *pools)
    return outcomes


def _is_inside(held: NDArray[np.bool_], coverage: float, n_held_out: int) -> bool:
    """Whether the share of true values is within three standard deviations of the coverage."""
    deviation = np.sqrt(coverage * (1 - coverage) * (1 / len(held) + 1 / n_held_out))
    return bool(abs(held.mean() - coverage) <= 3 * deviation)


def _pools_inside(
    model: PairwiseSVC, held: NDArray[np.bool_], y_test: NDArray[Any], coverage: float
) -> tuple[float, float]:
    """How many pools of classes there are, and the share of them whose coverage lies in its interval."""
    pools = [
        (held[np.isin(y_test, labels)], n_held_out) for labels, n_held_out in model.pooled_classes(coverage)
    ]
    inside = [_is_inside(tested, coverage, n) for tested, n in pools if len(tested) and n]
    return float(len(pools)), float(np.mean(inside))


def _calibrating(method: str, model: PairwiseSVC, n: int) -> int:
    """Number of samples with which a method calibrates its sets."""
    if method != OURS:
        return n if method == "MAPIE cross" else n // 4
    scores = model.model_.held_out
    assert scores is not None, "this fit holds samples out"
    return len(scores.classes)


def measure_sets(
    record: Record,
    names: Iterable[str],
    splits: int,
    *,
    peers: bool = False,
    score: SetScore = "lac",
    by: SetBy = "all",
) -> list[Row]:
    """The table of coverages and sizes. Missing sets are left out."""
    record.begin("prediction sets", COLUMNS, f"{splits} splits, score {score}, by {by}")
    measured = []
    for name in names:
        try:
            X, y = (SETS | EMBEDDED)[name]()
        except (FileNotFoundError, DataNotFound) as missing:
            record.note(f"{name} is left out: {missing}")
            continue
        sizes = (3 * len(y) // 4, len(y) // 4) if name in EMBEDDED else (min(MOST_ROWS, len(y) // 2),) * 2
        for method in methods_with(peers):
            how: dict[str, Any] = {"coverages": sorted({*COVERAGES, *(BETWEEN if peers else ())})}
            if method == OURS:
                how |= {"score": score, "by": by}
            try:
                outcomes = [split_outcomes(method, X, y, sizes, number, how) for number in range(splits)]
            except ValueError as error:
                if method == OURS:
                    raise
                record.note(f"{name}, {method}: {' '.join(str(error).split())}")
                continue
            for row in _rows(name, method, outcomes):
                measured.append(row)
                record.add(row)
    for method in dict.fromkeys(row.method for row in measured):
        rows = [row for row in measured if row.method == method]
        kept, total = sum(row.inside for row in rows), sum(row.splits for row in rows)
        record.note(f"in their interval: {kept} of {total} splits and coverages ({method})")
    return measured


def _rows(name: str, method: str, outcomes: Sequence[dict[float, SplitOutcome]]) -> Iterator[Row]:
    """The means of the splits."""
    means = {
        coverage: SplitOutcome(*np.mean([one[coverage] for one in outcomes], axis=0).tolist())
        for coverage in outcomes[0]
    }
    held, sizes = ([getattr(mean, field) for mean in means.values()] for field in ("held", "size"))
    for coverage in COVERAGES:
        mean, inside = means[coverage], sum(one[coverage].inside for one in outcomes)
        between = len(held) > len(COVERAGES)
        size_at = np.interp(coverage, held, sizes, math.nan, math.nan) if between else math.nan
        yield Row(
            name,
            method,
            coverage,
            mean.held,
            inside,
            len(outcomes),
            mean.size,
            float(size_at),
            mean.pools,
            mean.pools_inside,
        )


def cost_of_sets(name: str, method: str) -> dict[str, float]:
    """The share of sets for 95% with the true class, their mean size, CPU seconds and peak memory."""
    split = load(name)
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sets = METHODS[method](PairwiseSVC(random_state=0), split.X, split.y, split.X_new, (0.95,))[0.95]
    seconds = time.process_time() - begun
    held = float(sets[np.arange(len(sets)), split.y_new].mean())
    return {
        "held": held,
        "size": float(sets.sum(axis=1).mean()),
        "seconds": seconds,
        "peak": float(peak_bytes()),
    }


def measure_costs(record: Record, names: Iterable[str]) -> list[CostRow]:
    """The table of costs, with each method in a separate process."""
    record.begin("costs of prediction sets", COST_COLUMNS, "sets for 95%")
    measured = []
    for name in names:
        for method in methods_with(peers=True):
            command = [sys.executable, "-m", "pairloom.benchmarks.prediction_sets", name, method]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                record.note(
                    f"{name}, {method}: failed: {(done.stderr.strip() or 'no reason').splitlines()[-1]}"
                )
                continue
            measured.append(CostRow(name, method, **json.loads(done.stdout.splitlines()[-1])))
            record.add(measured[-1])
    return measured


if __name__ == "__main__":
    print(json.dumps(cost_of_sets(*sys.argv[1:])))
