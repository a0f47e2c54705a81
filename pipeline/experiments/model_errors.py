"""Errors of models on the same draws of classes: their means, their order, and a figure.

Every model is there twice, with its machines calibrated by Platt, as in the paper, and by distance.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, pairwise
from math import comb
from typing import NamedTuple, TypeAlias

import networkx as nx
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.experiments.experiment import mean_and_standard_error
from pairloom.pipeline.experiments.finding import OURS, PAPER, Finding, compared
from pairloom.pipeline.experiments.paired_bootstrap import Resampled
from pairloom.pipeline.experiments.trained_tensor import CALIBRATIONS, COUPLINGS, TrainedTensor

#: The name of the complete graph's model, and the coupling of a tree: all couplings give one model.
MAXIMAL, ANY = "maximal", "any"
#: Errors of couplings differ negligibly up to here, a limit of ours. The published ones differ by up to 0.9%.
NEGLIGIBLE = 0.01

#: Calibration, model and coupling.
Key: TypeAlias = tuple[str, str, str]
#: Which samples the models get wrong in each draw, (draws, samples): 1 or 0, and NaN for samples of other classes.
Wrong: TypeAlias = Mapping[Key, NDArray[np.float32]]
#: ``trees(dprime)`` returns minimal models by name.
Trees: TypeAlias = Callable[[NDArray[np.float64]], Mapping[str, nx.Graph]]

_COLOURS = {"platt": "#a40000", "distance": "#3465a4", "": "#2e3436"}


class ModelError(NamedTuple):
    """Mean error of a model over draws of classes. The coupling of a tree is `any`, as all couplings give one model.

    The standard error is that of the difference between the error and its mean over the models in the same draw, since
    the draws of classes differ much more than the models.
    """

    calibration: str
    model: str
    coupling: str
    error: float
    standard_error: float


def class_draws(n_classes: int, size: int, repetitions: int, seed: int) -> list[NDArray[np.int64]]:
    """Random draws of `size` classes in random order, or every set of classes once if there are no more sets."""
    if comb(n_classes, size) > repetitions:
        return ordered_draws(n_classes, size, repetitions, seed)
    rng = np.random.default_rng(seed)
    return [rng.permutation(chosen) for chosen in combinations(range(n_classes), size)]


def ordered_draws(n_classes: int, size: int, repetitions: int, seed: int) -> list[NDArray[np.int64]]:
    """Random draws of `size` classes in random order. A set of classes may come again, as a rule in another order."""
    rng = np.random.default_rng(seed)
    return [rng.choice(n_classes, size, replace=False) for _ in range(repetitions)]


def wrong_on(
    trained: TrainedTensor, chosen: NDArray[np.int64], trees: Trees
) -> dict[Key, NDArray[np.float32]]:
    """Which test samples are wrong by the trees and by the complete graph on the chosen classes; see `Wrong`."""
    part, samples = trained.of_classes(chosen.tolist()), trained.samples_of(chosen.tolist())
    wrong = {}
    for calibration in CALIBRATIONS:
        for (model, coupling), p in _coupled(part.calibrated(calibration), trees).items():
            own = wrong[calibration, model, coupling] = np.full(len(trained.labels), np.nan, np.float32)
            own[samples] = p.argmax(axis=1) != part.labels
    return wrong


def _coupled(part: TrainedTensor, trees: Trees) -> dict[tuple[str, str], NDArray[np.float32]]:
    """{(model, coupling): probabilities} of the trees and of the complete graph."""
    minimal = {
        (name, ANY): part.probabilities(tree, ["normal"])["normal"]
        for name, tree in trees(part.dprime).items()
    }
    maximal = part.probabilities(graphs.complete(part.n_classes))
    return minimal | {(MAXIMAL, coupling): p for coupling, p in maximal.items()}


def stacked(draws: Sequence[Mapping[Key, NDArray[np.float32]]]) -> dict[Key, NDArray[np.float32]]:
    """The outcomes of all draws as (draws, samples) arrays."""
    return {key: np.array([wrong[key] for wrong in draws]) for key in draws[0]}


def mean_errors(wrong: Wrong) -> list[ModelError]:
    """Mean error of each model over the draws."""
    errors = np.array([np.nanmean(own, axis=1, dtype=np.float64) for own in wrong.values()]).T
    _, spreads = mean_and_standard_error(errors - errors.mean(axis=1, keepdims=True))
    found = zip(wrong, errors.mean(axis=0).tolist(), spreads.tolist(), strict=True)
    return [ModelError(*key, mean, spread) for key, mean, spread in found]


def percent_errors(rows: Iterable[ModelError], calibration: str) -> dict[str, float]:
    """{model: error in percent} of one calibration; of the maximal model, {coupling: error}."""
    return {
        row.coupling if row.model == MAXIMAL else row.model: 100 * row.error
        for row in rows
        if row.calibration in (calibration, "")
    }


def ordering(
    error: Mapping[Key, Resampled],
    models: Sequence[str],
    published: Mapping[str, str],
    table: Sequence[NamedTuple],
) -> list[Finding]:
    """Compare the errors with the paper's order of the models, largest error first; one finding per step.

    Parameters
    ----------
    error : mapping
        Resampled mean errors.
    models : sequence of str
        Minimal models in the paper's order; the maximal ones come last.
    published : mapping
        {model: its column in the table}.
    table : sequence
        The published table, to say in how many of its rows the order is the same.
    """
    steps = [
        compared(
            PAPER,
            f"{high} errs more than {low} ({in_the_paper(table, published[high], (published[low],))})",
            {"": error["platt", high, ANY] - error["platt", low, ANY]},
            above=0,
        )
        for high, low in pairwise(models)
    ]
    last = models[-1]
    return [
        *steps,
        compared(
            PAPER,
            f"{last} errs more than maximal models ({in_the_paper(table, published[last], COUPLINGS)})",
            {c: error["platt", last, ANY] - error["platt", MAXIMAL, c] for c in COUPLINGS},
            above=0,
        ),
    ]


def in_the_paper(table: Sequence[NamedTuple], high: str, low: Sequence[str]) -> str:
    """In how many rows of a published table one model errs more than all of some others, as printed."""
    pairs = [(getattr(row, high), max(getattr(row, column) for column in low)) for row in table]
    known = [(more, less) for more, less in pairs if more is not None]
    return f"in {sum(more > less for more, less in known)} of {len(known)} published rows"


def between_couplings(error: Mapping[Key, Resampled], table: Sequence[NamedTuple]) -> Finding:
    """The differences among the couplings are negligible on maximal models."""
    published = max(
        abs(getattr(row, first) - getattr(row, second))
        for row in table
        for first, second in combinations(COUPLINGS, 2)
    )
    own = {coupling: error["platt", MAXIMAL, coupling] for coupling in COUPLINGS}
    return compared(
        PAPER,
        "the differences among the couplings are negligible on maximal models",
        {f"{a} less {b}": own[a] - own[b] for a, b in combinations(COUPLINGS, 2)},
        above=-NEGLIGIBLE,
        below=NEGLIGIBLE,
        aside=f"{NEGLIGIBLE:.0%} allowed, {published:.1f}% at most in the published rows",
    )


def between_calibrations(error: Mapping[Key, Resampled], trees: Sequence[str]) -> list[Finding]:
    """Whether distances beat sigmoids, as "Platt's method may not be optimal" [S]: on trees, and on all pairs."""
    gain = {key[1:]: error[key] - error["distance", *key[1:]] for key in error if key[0] == "platt"}
    models = {
        "minimal": {tree: gain[tree, ANY] for tree in trees},
        "maximal": {coupling: gain[MAXIMAL, coupling] for coupling in COUPLINGS},
    }
    return [
        compared(
            OURS,
            f"{kind} models err less with machines calibrated by distance than by Platt",
            quantities,
            above=0,
        )
        for kind, quantities in models.items()
    ]


def draw_errors(trained: TrainedTensor, rows: Sequence[ModelError], title: str) -> Figure:
    """Errors with their standard errors: one line per model, one mark per calibration."""
    names = list(dict.fromkeys(map(_name, rows)))
    figure = Figure(figsize=(6.8, 0.42 * len(names) + 1.9), layout="constrained")
    axes = figure.subplots()
    for calibration in dict.fromkeys(row.calibration for row in rows):
        own = [row for row in rows if row.calibration == calibration]
        shift = {"platt": -0.12, "distance": 0.12}.get(calibration, 0.0)
        axes.errorbar(
            [100 * row.error for row in own],
            [names.index(_name(row)) + shift for row in own],
            xerr=None if np.isnan(own[0].standard_error) else [100 * row.standard_error for row in own],
            fmt="o",
            capsize=3,
            color=_COLOURS[calibration],
            label=calibration or own[0].model,
        )
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.margins(y=0.08)
    axes.grid(axis="x", alpha=0.3)
    alone = np.isnan(rows[0].standard_error)
    axes.set(xlabel="error, %" + ("" if alone else " (with its standard error within a draw of classes)"))
    axes.set_title(title)
    figure.legend(frameon=False, fontsize=8, loc="outside lower center", ncols=3)
    return figure


def _name(row: ModelError) -> str:
    return f"{row.model}, {row.coupling}" if row.model == MAXIMAL else row.model
