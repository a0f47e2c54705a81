"""The gain of learning through the coupling: PairwiseSVC with learn="machines" and with learn="coupled", set by set.

Both have two threads and defaults otherwise. "difference" is the change of the log loss on test samples, negative if
learning is better, with the standard error of the paired difference. "held out" is the log loss of the held-out
training samples, before and at its best. "steps" are those of L-BFGS: zero if the held-out log loss did not improve and
the machines were kept. A second table has the times of gradients: seconds for one value and one gradient of the loss of
1000 samples, with shortlists of 20 classes.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairloom import PairwiseSVC, graphs
from pairloom.benchmarks.classifiers import THREADS
from pairloom.benchmarks.datasets import DataNotFound, Split, load
from pairloom.benchmarks.record import Column, Record
from pairloom.pipeline.calibration.held_out import log_losses
from pairloom.pipeline.calibration.shortlist_gradient import (
    gradient_through_shortlists,
    log_probabilities_of_lists,
)
from pairloom.pipeline.completion.complete import plan_completion
from pairloom.pipeline.coupling.pairs.gradient import GRADIENTS
from pairloom.pipeline.features.moments import distances_between

#: The default sets: embeddings, then tables with few features.
USUAL_SETS = ("clinc150", "tinyimagenet50", "letter", "satimage", "usps", "segment", "digits")
GRADIENT_SAMPLES, GRADIENT_CLASSES, LISTED = 1000, 150, 20


@dataclass(frozen=True)
class Row:
    """One set: both models, and the gain."""

    data: str
    classes: int
    features: int
    rows: int
    accuracy_before: float
    accuracy_after: float
    log_loss_before: float
    log_loss_after: float
    difference: float
    standard_error: float
    held_out_before: float
    held_out_after: float
    steps: int
    fit_before_s: float
    fit_after_s: float


COLUMNS = (
    Column("set", lambda row: row.data, 14, left=True),
    Column("classes", lambda row: str(row.classes)),
    Column("features", lambda row: str(row.features)),
    Column("rows", lambda row: str(row.rows), 6),
    Column("accuracy", lambda row: f"{row.accuracy_before:.4f}"),
    Column("learned", lambda row: f"{row.accuracy_after:.4f}"),
    Column("log loss", lambda row: f"{row.log_loss_before:.4f}"),
    Column("learned", lambda row: f"{row.log_loss_after:.4f}"),
    Column("difference", lambda row: f"{row.difference:+.4f} ± {row.standard_error:.4f}", 16),
    Column("held out", lambda row: f"{row.held_out_before:.4f}"),
    Column("learned", lambda row: f"{row.held_out_after:.4f}"),
    Column("steps", lambda row: str(row.steps)),
    Column("fit s", lambda row: f"{row.fit_before_s:.1f}", 6),
    Column("learned", lambda row: f"{row.fit_after_s:.1f}"),
)


def compare(name: str, split: Split) -> Row:
    """Fit both on a set."""
    y_new = split.y_new
    fits = [_fitted(split, learn) for learn in ("machines", "coupled")]
    (before, _, before_s), (after, model, after_s) = fits
    losses, learned = log_losses(before, y_new), log_losses(after, y_new)
    difference = learned - losses
    assert model.learned_ is not None
    return Row(
        name,
        len(model.classes_),
        split.X.shape[1],
        len(split.y),
        _accuracy(before, y_new),
        _accuracy(after, y_new),
        float(losses.mean()),
        float(learned.mean()),
        float(difference.mean()),
        float(difference.std(ddof=1)) / np.sqrt(len(difference)),
        model.learned_.held_out_before,
        model.learned_.held_out_after,
        model.learned_.iterations,
        before_s,
        after_s,
    )


def _fitted(split: Split, learn: str) -> tuple[NDArray[Any], PairwiseSVC, float]:
    began = time.perf_counter()
    model = PairwiseSVC(learn=learn, random_state=0, n_jobs=THREADS).fit(split.X, split.y)
    seconds = time.perf_counter() - began
    return model.predict_proba(split.X_new), model, seconds


def _accuracy(p: NDArray[Any], y: NDArray[Any]) -> float:
    return float((p.argmax(axis=1) == y).mean())


@dataclass(frozen=True)
class GradientCost:
    """Seconds of the loss of some samples, and of its value and gradient together."""

    coupling: str
    loss_s: float
    gradient_s: float
    ratio: float


GRADIENT_COLUMNS = (
    Column("coupling", lambda row: row.coupling, 14, left=True),
    Column("loss ms", lambda row: f"{1000 * row.loss_s:.1f}", 8),
    Column("with gradient ms", lambda row: f"{1000 * row.gradient_s:.1f}"),
    Column("ratio", lambda row: f"{row.ratio:.2f}"),
)


def gradient_cost(coupling: str, n_samples: int = GRADIENT_SAMPLES) -> GradientCost:
    """Time a coupling on synthetic logits of the default graph's size, and take the best of three."""
    n = GRADIENT_CLASSES
    rng = np.random.default_rng(0)
    completion = plan_completion(graphs.hub_neighbours(distances_between(rng.random((n, 8)))))
    u = rng.normal(0, 2, (n_samples, n))
    i, j = completion.edges.T
    logits = (u[:, i] - u[:, j] + rng.normal(0, 1, (n_samples, len(i)))).astype(np.float32)
    arguments = (logits, u.argmax(axis=1), completion, coupling, LISTED)
    loss_s, gradient_s = (
        _best_of_three(function, arguments)
        for function in (log_probabilities_of_lists, gradient_through_shortlists)
    )
    return GradientCost(coupling, loss_s, gradient_s, gradient_s / loss_s)


def _best_of_three(function: Any, arguments: tuple[Any, ...]) -> float:
    function(*arguments)  # compiles
    times = []
    for _ in range(3):
        began = time.perf_counter()
        function(*arguments)
        times.append(time.perf_counter() - began)
    return min(times)


def compare_sets(record: Record, sets: Iterable[str], n_samples: int = GRADIENT_SAMPLES) -> list[Row]:
    """The tables of sets and of gradients. A missing set is skipped with a note."""
    record.begin("learning", COLUMNS, "machines, and learned through the coupling")
    measured = []
    for name in sets:
        try:
            split = load(name)
        except DataNotFound as reason:
            record.note(f"{name}: skipped. {reason}")
            continue
        measured.append(compare(name, split))
        record.add(measured[-1])
    title = f"{n_samples} samples of {GRADIENT_CLASSES} classes, {LISTED} listed, one thread"
    record.begin("gradients", GRADIENT_COLUMNS, title)
    for coupling in GRADIENTS:
        record.add(gradient_cost(coupling, n_samples))
    return measured
