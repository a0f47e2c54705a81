"""Models on three, five and ten classes: minimal models against each other and against all pairs [S Tables 3 to 5].

- Table 3, three classes, two machines. The metrical finding: keep the pairs with small d', the confusable ones. MIN1
  leaves out the pair with the largest d', MIN2 the middle one, MIN3 the smallest.
- Table 4, five classes, four machines. The topological finding: of all trees on five classes, the star has the smallest
  diameter and the smallest error. As in the paper, five classes are drawn 500 times and assigned to the vertices at
  random, even if there are fewer sets of five.
- Table 5, ten classes: best star, minimum spanning tree, complete graph by three couplings, and the network, or a
  softmax layer in its place (`network_answers`). If a network has more classes, the likeliest of the ten counts.

All models of a table are compared on the same draws of classes. With our machines there are three versions of every
model: calibrated by Platt, as in the paper, by distance, and by two Gaussians. The published rows are for other sets
and other networks: the order within a row can be compared, the numbers cannot.

[S] *Bridging performance gap between minimal and maximal SVM models*.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations, pairwise
from math import comb
from typing import NamedTuple, TypeAlias

import networkx as nx
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.experiments.experiment import (
    AS_LARGE_AS_THE_PAPERS,
    Each,
    Experiment,
    Row,
    in_turn,
    mean_and_standard_error,
)
from pairloom.pipeline.experiments.finding import OURS, PAPER, Finding, compared
from pairloom.pipeline.experiments.paired_bootstrap import Resampled, interval, resampled_means
from pairloom.pipeline.experiments.trained_tensor import COUPLINGS, TrainedTensor

#: The name of the complete graph's model, and the coupling of a tree: all couplings give one model.
MAXIMAL, ANY = "maximal", "any"
#: Smaller differences between the errors of couplings are negligible: [S] calls 0.4 to 0.5 points noticeable. The
#: differences that it prints go up to 0.9.
NEGLIGIBLE = 0.004

#: The network of Table 5, or the layer that stands in for it.
NETWORK, STAND_IN = "network", "softmax layer"

#: Calibration, model and coupling.
Key: TypeAlias = tuple[str, str, str]
#: Errors of the models in each draw, (draws, samples): 1 if a sample is wrong, else 0, and NaN for other classes.
Wrong: TypeAlias = Mapping[Key, NDArray[np.float32]]
#: ``trees(dprime)`` returns minimal models by name.
Trees: TypeAlias = Callable[[NDArray[np.float64]], Mapping[str, nx.Graph]]

_COLOURS = {"platt": "#a40000", "distance": "#3465a4", "gaussian": "#4e9a06", "": "#2e3436"}
_BY = {"distance": "distance", "gaussian": "two Gaussians"}
#: An error in percent as the paper prints it, or None where it prints none; ours as text, with an interval.
Percent: TypeAlias = float | str | None


class Triplets(NamedTuple):
    """A row of Table 3: errors of models on three classes, from two pairs, or from all three by three couplings."""

    errors_of: str
    MIN3: Percent
    MIN2: Percent
    MIN1: Percent
    wlw2: Percent
    stratified: Percent
    normal: Percent


class Quintets(NamedTuple):
    """A row of Table 4: errors of models on five classes, the trees and all pairs by three couplings."""

    errors_of: str
    path_G4: Percent
    fork_G3: Percent
    star_G2: Percent
    wlw2: Percent
    stratified: Percent
    normal: Percent


class TenClasses(NamedTuple):
    """A row of Table 5: errors of models on ten classes, and of the network."""

    errors_of: str
    star: Percent
    MST: Percent
    wlw2: Percent
    stratified: Percent
    normal: Percent
    network: Percent


def printed(row: Row, decimals: int) -> Row:
    """A row with its errors as text.

    Examples
    --------
    >>> printed(TABLE_4[0], 1)[:3]
    ("CIFAR-10, Page's", '', '4.4')
    """
    return row._make(
        value if isinstance(value, str) else "" if value is None else f"{value:.{decimals}f}" for value in row
    )


#: The error of the path on CIFAR-10, which Table 4 leaves blank, from the authors' released result files (test5).
RELEASED_PATH = "(4.7)"


TABLE_3 = (
    Triplets("CIFAR-10, Page's", 2.3, 2.1, 2.0, 1.9, 1.9, 1.9),
    Triplets("imagenette, resnet18, whole", 3.8, 3.2, 2.8, 2.6, 2.6, 2.6),
    Triplets("imagenette, resnet18, fresh", 4.8, 4.7, 4.5, 4.4, 4.4, 4.3),
    Triplets("imagenette, resnet18, adapt", 1.1, 1.1, 1.0, 0.9, 0.9, 0.9),
    Triplets("imagenette, resnet34, whole", 3.3, 2.8, 2.5, 2.4, 2.3, 2.3),
    Triplets("imagenette, resnet34, fresh", 5.5, 5.4, 5.2, 4.9, 4.9, 5.0),
    Triplets("imagenette, resnet34, adapt", 1.1, 1.1, 0.9, 0.8, 0.8, 0.8),
    Triplets("imagewoof, resnet18, whole", 11.5, 10.7, 10.2, 9.8, 9.8, 9.7),
    Triplets("imagewoof, resnet18, fresh", 8.0, 7.6, 7.5, 7.3, 7.2, 7.2),
    Triplets("imagewoof, resnet18, adapt", 3.5, 3.5, 3.4, 3.2, 3.2, 3.2),
    Triplets("imagewoof, resnet34, whole", 11.0, 10.5, 10.0, 9.7, 9.7, 9.5),
    Triplets("imagewoof, resnet34, fresh", 10.0, 9.4, 9.1, 8.9, 8.9, 8.9),
    Triplets("imagewoof, resnet34, adapt", 3.3, 3.4, 3.4, 3.1, 3.1, 3.1),
)

TABLE_4 = (
    Quintets("CIFAR-10, Page's", None, 4.4, 4.0, 3.4, 3.4, 3.4),
    Quintets("imagenette, resnet18, whole", 7.1, 6.7, 6.2, 4.3, 4.2, 4.3),
    Quintets("imagenette, resnet18, fresh", 7.8, 7.6, 7.2, 6.4, 6.4, 6.3),
    Quintets("imagenette, resnet18, adapt", 2.6, 2.2, 1.9, 1.4, 1.4, 1.4),
    Quintets("imagenette, resnet34, whole", 6.4, 6.0, 5.5, 3.9, 3.9, 3.8),
    Quintets("imagenette, resnet34, fresh", 9.2, 8.9, 8.5, 7.4, 7.4, 7.4),
    Quintets("imagenette, resnet34, adapt", 3.0, 2.4, 1.9, 1.2, 1.2, 1.2),
    Quintets("imagewoof, resnet18, whole", 19.7, 19.3, 18.6, 15.8, 15.8, 15.4),
    Quintets("imagewoof, resnet18, fresh", 13.8, 13.5, 13.1, 11.9, 11.9, 11.8),
    Quintets("imagewoof, resnet18, adapt", 6.3, 6.1, 5.8, 5.3, 5.3, 5.2),
    Quintets("imagewoof, resnet34, whole", 18.8, 18.3, 17.7, 15.3, 15.3, 14.8),
    Quintets("imagewoof, resnet34, fresh", 16.8, 16.4, 16.0, 14.1, 14.1, 14.2),
    Quintets("imagewoof, resnet34, adapt", 6.4, 6.1, 5.7, 5.1, 5.1, 5.1),
)

TABLE_5 = (
    TenClasses("CIFAR-10, Page's", 6.6, 6.5, 6.1, 6.1, 6.2, 5.9),
    TenClasses("imagenette, resnet18, whole", 9.5, 9.8, 7.1, 7.0, 7.5, 9.5),
    TenClasses("imagenette, resnet18, fresh", 10.7, 11.1, 9.4, 9.3, 9.2, 8.6),
    TenClasses("imagenette, resnet18, adapt", 2.5, 4.8, 2.1, 2.0, 2.1, 1.9),
    TenClasses("imagenette, resnet34, whole", 8.4, 9.1, 6.6, 6.5, 6.5, 8.7),
    TenClasses("imagenette, resnet34, fresh", 12.3, 13.0, 10.9, 10.8, 11.2, 10.4),
    TenClasses("imagenette, resnet34, adapt", 2.6, 5.6, 1.8, 1.8, 1.8, 1.7),
    TenClasses("imagewoof, resnet18, whole", 28.4, 28.4, 25.3, 25.2, 24.6, 27.2),
    TenClasses("imagewoof, resnet18, fresh", 20.9, 21.6, 19.8, 19.8, 19.8, 19.4),
    TenClasses("imagewoof, resnet18, adapt", 9.8, 12.9, 9.2, 9.2, 9.0, 9.3),
    TenClasses("imagewoof, resnet34, whole", 26.9, 27.0, 23.8, 23.8, 22.9, 26.7),
    TenClasses("imagewoof, resnet34, fresh", 25.6, 25.4, 22.8, 22.8, 23.2, 22.6),
    TenClasses("imagewoof, resnet34, adapt", 10.3, 15.4, 8.9, 8.9, 8.8, 8.9),
)


class ModelError(NamedTuple):
    """Mean error of a model over draws of classes. The coupling of a tree is `any`, as all couplings give one model.

    The standard error is that of the difference from the mean error of all models in the same draw, because draws of
    classes differ much more than models. From low to high is the 95% interval of the error itself, over draws of
    classes and of test samples.
    """

    calibration: str
    model: str
    coupling: str
    error: float
    standard_error: float
    low: float
    high: float


def class_draws(n_classes: int, size: int, repetitions: int, seed: int) -> list[NDArray[np.int64]]:
    """Random draws of `size` classes in random order, or every set of classes once if there are no more sets."""
    if comb(n_classes, size) > repetitions:
        return ordered_draws(n_classes, size, repetitions, seed)
    rng = np.random.default_rng(seed)
    return [rng.permutation(chosen) for chosen in combinations(range(n_classes), size)]


def ordered_draws(n_classes: int, size: int, repetitions: int, seed: int) -> list[NDArray[np.int64]]:
    """Random draws of `size` classes in random order. A set of classes may repeat, usually in another order."""
    rng = np.random.default_rng(seed)
    return [rng.choice(n_classes, size, replace=False) for _ in range(repetitions)]


def wrong_on(
    trained: TrainedTensor, chosen: NDArray[np.int64], trees: Trees
) -> dict[Key, NDArray[np.float32]]:
    """The errors of the trees and of the complete graph on test samples of the chosen classes; see `Wrong`."""
    part, samples = trained.of_classes(chosen.tolist()), trained.samples_of(chosen.tolist())
    wrong = {}
    for calibration in part.calibrations:
        for (model, coupling), p in _coupled(part.calibrated(calibration), trees).items():
            of_model = wrong[calibration, model, coupling] = np.full(len(trained.labels), np.nan, np.float32)
            of_model[samples] = p.argmax(axis=1) != part.labels
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
    errors = np.array([np.nanmean(of_model, axis=1, dtype=np.float64) for of_model in wrong.values()]).T
    _, spreads = mean_and_standard_error(errors - errors.mean(axis=1, keepdims=True))
    intervals = (interval(resampled) for resampled in resampled_means(wrong).values())
    summaries = zip(wrong, errors.mean(axis=0).tolist(), spreads.tolist(), intervals, strict=True)
    return [ModelError(*key, mean, spread, *limits) for key, mean, spread, limits in summaries]


def percent_errors(rows: Iterable[ModelError], calibration: str) -> dict[str, str]:
    """{model: error in percent, with its interval} of one calibration; of the maximal model, {coupling: error}."""
    return {
        row.coupling if row.model == MAXIMAL else row.model: _percent(row)
        for row in rows
        if row.calibration in (calibration, "")
    }


def _percent(row: ModelError) -> str:
    """Such as "3.79 (3.42 to 4.15)"; the error alone where nothing can be said of others."""
    error = f"{100 * row.error:.2f}"
    return error if np.isnan(row.low) else f"{error} ({100 * row.low:.2f} to {100 * row.high:.2f})"


def ordering(
    error: Mapping[Key, Resampled], models: Mapping[str, str], table: Sequence[NamedTuple]
) -> list[Finding]:
    """Compare the errors with the paper's order of the models, largest error first; one finding per step.

    Parameters
    ----------
    error : mapping
        Resampled mean errors.
    models : mapping
        {minimal model: its column in the table}, in the paper's order; the maximal ones come last.
    table : sequence
        The published table; the text says in how many of its rows the order is the same.
    """
    steps = [
        compared(
            PAPER,
            f"{high} errs more than {low} ({in_the_paper(table, models[high], (models[low],))})",
            {"": error["platt", high, ANY] - error["platt", low, ANY]},
            above=0,
        )
        for high, low in pairwise(models)
    ]
    last = list(models)[-1]
    return [*steps, _errs_more_than_maximal(error, last, models[last], table)]


def _errs_more_than_maximal(
    error: Mapping[Key, Resampled], model: str, column: str, table: Sequence[NamedTuple]
) -> Finding:
    return compared(
        PAPER,
        f"{model} errs more than maximal models ({in_the_paper(table, column, COUPLINGS)})",
        {c: error["platt", model, ANY] - error["platt", MAXIMAL, c] for c in COUPLINGS},
        above=0,
    )


def _star_beats_tree(error: Mapping[Key, Resampled], table: Sequence[NamedTuple]) -> Finding:
    """[S 3.3] The star is better overall than the minimum spanning tree."""
    return compared(
        PAPER,
        f"MST errs more than star ({in_the_paper(table, 'MST', ('star',))})",
        {"": error["platt", "MST", ANY] - error["platt", "star", ANY]},
        above=0,
    )


def _network_beats_maximal(error: Mapping[Key, Resampled], table: Sequence[NamedTuple]) -> list[Finding]:
    """[S 3.3] The network beats maximal models in most cases; no finding if a layer stands in for the network."""
    if ("", NETWORK, ANY) not in error:
        return []
    rows = sum(row.network < min(getattr(row, c) for c in COUPLINGS) for row in table)  # type: ignore[attr-defined]
    return [
        compared(
            PAPER,
            f"the network errs less than maximal models (in {rows} of {len(table)} published rows)",
            {c: error["platt", MAXIMAL, c] - error["", NETWORK, ANY] for c in COUPLINGS},
            above=0,
        )
    ]


def in_the_paper(table: Sequence[NamedTuple], high: str, low: Sequence[str]) -> str:
    """The number of rows of a published table in which one model errs more than all of ``low``, as text."""
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
    ours = {coupling: error["platt", MAXIMAL, coupling] for coupling in COUPLINGS}
    return compared(
        PAPER,
        "the differences among the couplings are negligible on maximal models",
        {f"{a} less {b}": ours[a] - ours[b] for a, b in combinations(COUPLINGS, 2)},
        above=-NEGLIGIBLE,
        below=NEGLIGIBLE,
        aside=f"{NEGLIGIBLE:.1%} allowed, {published:.1f}% at most in the published rows",
    )


def between_calibrations(error: Mapping[Key, Resampled], trees: Sequence[str]) -> list[Finding]:
    """Whether other calibrations beat sigmoids, as "Platt's method may not be optimal" [S]: on trees and on all pairs.

    No finding for machines that have only sigmoids.
    """
    others = dict.fromkeys(key[0] for key in error if key[0] in _BY)
    kinds = {
        "minimal": {tree: (tree, ANY) for tree in trees},
        "maximal": {coupling: (MAXIMAL, coupling) for coupling in COUPLINGS},
    }
    return [
        compared(
            OURS,
            f"{kind} models err less with machines calibrated by {_BY[other]} than by Platt",
            {name: error["platt", *model] - error[other, *model] for name, model in models.items()},
            above=0,
        )
        for other in others
        for kind, models in kinds.items()
    ]


def draw_errors(trained: TrainedTensor, rows: Sequence[ModelError], title: str) -> Figure:
    """Errors with their standard errors: one line per model, one mark per calibration."""
    names = list(dict.fromkeys(map(_name, rows)))
    figure = Figure(figsize=(6.8, 0.42 * len(names) + 1.9), layout="constrained")
    axes = figure.subplots()
    for calibration in dict.fromkeys(row.calibration for row in rows):
        marks = [row for row in rows if row.calibration == calibration]
        shift = {"platt": -0.2, "gaussian": 0.2}.get(calibration, 0.0)
        axes.errorbar(
            [100 * row.error for row in marks],
            [names.index(_name(row)) + shift for row in marks],
            xerr=None if np.isnan(marks[0].standard_error) else [100 * row.standard_error for row in marks],
            fmt="o",
            capsize=3,
            color=_COLOURS[calibration],
            label=calibration or marks[0].model,
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


def minimal_models(dprime: NDArray[np.float64]) -> dict[str, nx.Graph]:
    """The three trees on three classes, with the paper's names."""
    pairs = graphs.edge_array(graphs.complete(3))
    farthest_first = pairs[np.argsort(-dprime[pairs[:, 0], pairs[:, 1]], kind="stable")]
    models = {}
    for rank, left_out in enumerate(farthest_first.tolist(), start=1):
        models[f"MIN{rank}"] = graphs.complete(3)
        models[f"MIN{rank}"].remove_edge(*left_out)
    return models


def trees_by_shape(dprime: NDArray[np.float64]) -> dict[str, nx.Graph]:
    """The trees on five classes, with class c at vertex c. They do not depend on d'."""
    trees = graphs.five_vertex_trees()
    return {"path (G4)": trees["G4"], "fork (G3)": trees["G3"], "star (G2)": trees["G2"]}


def trees_by_dprime(dprime: NDArray[np.float64]) -> dict[str, nx.Graph]:
    """The best star and the minimum spanning tree."""
    return {"star": graphs.star_of_least_distance(dprime), "MST": graphs.spanning_tree(dprime)}


def wrong_with_network(trained: TrainedTensor, chosen: NDArray[np.int64]) -> dict[Key, NDArray[np.float32]]:
    """The errors of the models of Table 5 and of the network; see `Wrong`."""
    part, samples = trained.of_classes(chosen.tolist()), trained.samples_of(chosen.tolist())
    network = np.full(len(trained.labels), np.nan, np.float32)
    network[samples] = part.network.argmax(axis=1) != part.labels
    name = STAND_IN if trained.stand_in else NETWORK
    return {**wrong_on(trained, chosen, trees_by_dprime), ("", name, ANY): network}


def _measure(
    trained: TrainedTensor,
    repetitions: int,
    seed: int = 0,
    each: Each = in_turn,
    *,
    size: int,
    wrong: Callable[[TrainedTensor, NDArray[np.int64]], dict[Key, NDArray[np.float32]]],
    draws: Callable[[int, int, int, int], list[NDArray[np.int64]]] = class_draws,
) -> dict[Key, NDArray[np.float32]]:
    """The errors of the minimal and the maximal models on draws of `size` classes; see `Wrong`."""
    n = trained.n_classes
    return stacked(each(wrong, trained, draws(n, min(size, n), repetitions, seed)))


def _findings(
    wrong: Wrong, *, models: Mapping[str, str], table: Sequence[NamedTuple], ranked: bool
) -> list[Finding]:
    """The claims on the order of the errors, with models {name: column of the table}, and on the couplings.

    If the paper does not rank the minimal models, each of them is compared with the maximal ones.
    """
    error = resampled_means(wrong)
    order = (
        ordering(error, models, table)
        if ranked
        else [
            *(_errs_more_than_maximal(error, model, models[model], table) for model in models),
            _star_beats_tree(error, table),
            *_network_beats_maximal(error, table),
        ]
    )
    return [*order, between_couplings(error, table), *between_calibrations(error, list(models))]


def _summary(
    rows: Sequence[ModelError], *, models: Mapping[str, str], table: Sequence[NamedTuple]
) -> list[NamedTuple]:
    """Rows with the columns of the paper's table, one per calibration. A stand-in for the network is named."""
    kind, summaries = type(table[0]), []
    for calibration in dict.fromkeys(row.calibration for row in rows if row.calibration):
        errors = percent_errors(rows, calibration)
        if STAND_IN in errors:
            errors[NETWORK] = f"{errors.pop(STAND_IN)}, {STAND_IN}"
        columns = {"errors_of": calibration} | {
            models.get(model, model): error for model, error in errors.items()
        }
        summaries.append(kind._make(columns[field] for field in kind._fields))
    return summaries


def _filled(row: Row) -> Row:
    """A printed row of the paper with its blank cell filled."""
    return row._make(value or RELEASED_PATH for value in row)


def _experiment(
    name: str,
    shows: str,
    models: Mapping[str, str],
    table: Sequence[NamedTuple],
    measure: Callable[..., dict[Key, NDArray[np.float32]]],
    *,
    ranked: bool,
    repetitions: int,
    full: int,
) -> Experiment[ModelError]:
    return Experiment(
        name=name,
        shows=f"{shows}; errors in percent",
        row=ModelError,
        measure=measure,
        rows=mean_errors,
        findings=partial(_findings, models=models, table=table, ranked=ranked),
        draw=draw_errors,
        summary=partial(_summary, models=models, table=table),
        published=tuple(_filled(printed(row, 1)) for row in table),
        repetitions=repetitions,
        full=full,
        full_data=AS_LARGE_AS_THE_PAPERS,
    )


TRIPLETS = _experiment(
    "triplets",
    "Table 3: two machines for three classes, the pair left out chosen by d'",
    {"MIN3": "MIN3", "MIN2": "MIN2", "MIN1": "MIN1"},
    TABLE_3,
    partial(_measure, size=3, wrong=partial(wrong_on, trees=minimal_models)),
    ranked=True,
    repetitions=500,
    full=1000,
)
QUINTETS = _experiment(
    "quintets",
    "Table 4: the three trees on five classes",
    {"path (G4)": "path_G4", "fork (G3)": "fork_G3", "star (G2)": "star_G2"},
    TABLE_4,
    partial(_measure, size=5, wrong=partial(wrong_on, trees=trees_by_shape), draws=ordered_draws),
    ranked=True,
    repetitions=500,
    full=500,
)
TEN_CLASS = _experiment(
    "ten-class",
    "Table 5: star, minimum spanning tree, complete graph and network on ten classes",
    {"star": "star", "MST": "MST"},
    TABLE_5,
    partial(_measure, size=10, wrong=wrong_with_network),
    ranked=False,
    repetitions=20,
    full=200,
)
