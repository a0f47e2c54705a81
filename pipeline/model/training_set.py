"""The training samples of a fit: their classes, moments, distances and whitening, and the machines trained on them.

Also the probe: the part of the samples on which candidates for the settings are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pairloom import graphs
from pairloom.pipeline.calibration.held_out import DrawnSamples, draw_samples, members_of
from pairloom.pipeline.features.moments import (
    class_means,
    distances_between,
    distances_from,
    kernel_mean_distances,
)
from pairloom.pipeline.machines.kinds import TrainedMachines
from pairloom.pipeline.machines.normalisation import (
    NormalisedMoments,
    Shrinkage,
    Whitening,
    WithinClasses,
    centred_at,
    centring,
    unwhitened,
    within_classes_of,
)
from pairloom.pipeline.machines.settings import MachineSettings
from pairloom.pipeline.model.fit_progress import NO_PROGRESS, FitProgress
from pairloom.pipeline.model.settings import Candidate, ModelSettings
from pairloom.pipeline.threads import thread_count

__all__ = [
    "MOST_PROBE_ROWS",
    "PROBE_SAMPLES",
    "DistancesFrom",
    "Probe",
    "TrainingSet",
    "plan_probe",
    "probe_rows",
]


#: The probe has at least this many classes, if the model has, and at most this many out-of-fold samples.
PROBE_CLASSES, PROBE_SAMPLES = 30, 1000

#: Maximum number of samples per class in the probe. With 100 of 200 the best C could no longer be found
#: (tinyimagenet50).
MOST_PROBE_ROWS = 256

#: Minimum number of samples per class in the probe of a model whose machines need all classes.
_LEAST_PROBE_ROWS = 16

#: The probe consists of neighbourhoods of this many classes: classes far apart would not be confused.
_NEIGHBOURHOOD = 15

DistancesFrom = Callable[[int], NDArray[np.float64]]


class TrainingSet:
    """Samples X, their classes counted from 0, the rows of each class, and weights or None.

    `precomputed` says that X is the kernel matrix of the samples. `moments` are those of X, if they were computed
    before, as by a run, which never holds X.
    """

    def __init__(
        self,
        X: Any,
        classes: NDArray[np.int64],
        n_classes: int,
        weight: NDArray[np.float64] | None,
        precomputed: bool = False,
        moments: NormalisedMoments | None = None,
    ) -> None:
        self.X, self.classes, self.weight, self.precomputed = X, classes, weight, precomputed
        self._moments = moments
        self.members = members_of(classes, n_classes)
        self._within: WithinClasses | None = None

    @cached_property
    def means(self) -> Any:
        """(N, D) means of the classes; CSR if X is sparse."""
        if self._moments is not None:
            return self._moments.class_means
        return class_means(self.X, self.classes, len(self.members))

    def distances(self) -> NDArray[np.float64] | graphs.PointDistances:
        """(N, N) distances between the classes, computed once."""
        return self._distances

    @cached_property
    def _distances(self) -> NDArray[np.float64] | graphs.PointDistances:
        if self.precomputed:
            return kernel_mean_distances(self.X, self.classes, len(self.members))
        return distances_between(self.means)

    def distances_from(self, c: int) -> NDArray[np.float64]:
        """(N,) distances of the classes from class c, if possible without computing all distances."""
        return self._distances[c] if self.precomputed else distances_from(self.means, c)

    def totals(self) -> NDArray[np.float64]:
        """Number of samples per class, or the sum of their weights."""
        return np.bincount(self.classes, self.weight, len(self.members)).astype(np.float64)

    def whitening(self, shrinkage: Shrinkage, settings: ModelSettings) -> Whitening:
        """The whitening at a shrinkage, found without the calibration samples: see `held_out.draws_by_class`."""
        if sparse.issparse(self.X):
            return unwhitened()
        if shrinkage == "none":
            return centring(self.X) if self._moments is None else centred_at(self._moments.mean)
        return self.within(settings).whitening(shrinkage)

    def within(self, settings: ModelSettings) -> WithinClasses:
        """The covariance within the classes, without the calibration samples, computed once."""
        if self._within is None:
            calibrating = self.drawn(settings, settings.calibration_samples, whitened=True).rows
            self._within = within_classes_of(self.X, self.members, calibrating)
        return self._within

    def train(
        self,
        settings: ModelSettings,
        sides: graphs.Decomposition,
        candidate: Candidate,
        n_jobs: int | None = None,
        progress: FitProgress = NO_PROGRESS,
    ) -> TrainedMachines:
        """The machines of some pairs, or of a code, trained with one candidate and only for its calibration."""
        machines = settings.machines(candidate.C, candidate.calibration)
        return self.train_as(machines, settings, sides, candidate.whiten, n_jobs, progress)

    def train_as(
        self,
        machines: MachineSettings,
        settings: ModelSettings,
        sides: graphs.Decomposition,
        whiten: Shrinkage,
        n_jobs: int | None = None,
        progress: FitProgress = NO_PROGRESS,
    ) -> TrainedMachines:
        """The machines of some pairs, or of a code, trained with the settings ``machines``."""
        return settings.kind.train(
            self,
            sides,
            machines,
            lambda: self.whitening(whiten, settings),
            thread_count(n_jobs, "PairwiseSVC"),
            progress.advance,
        )

    def drawn(self, settings: ModelSettings, most: int, whitened: bool) -> DrawnSamples:
        """Training samples that calibrate the coupled model, with their classes, folds and parts."""
        return draw_samples(self.classes, most, settings.folds, settings.seed, whitened)

    def part(self, classes: NDArray[np.int64], seed: int, most_rows: int = MOST_PROBE_ROWS) -> TrainingSet:
        """The training set of the probe: some classes, renumbered from 0, and some samples of each."""
        rows, of_class = probe_rows(classes, self.members.__getitem__, seed, most_rows)
        X = self.X[np.ix_(rows, rows)] if self.precomputed else self.X[rows]
        weight = None if self.weight is None else self.weight[rows]
        return TrainingSet(X, of_class, len(classes), weight, self.precomputed)


class Probe(NamedTuple):
    """The part of a training set on which candidates are compared.

    It has some classes, a graph on their positions (or the code of the model), and the maximum of samples per class.
    """

    classes: NDArray[np.int64]
    graph: nx.Graph | graphs.ModelCode
    most_rows: int = MOST_PROBE_ROWS


def plan_probe(
    graph: nx.Graph | graphs.Decomposition,
    distances_from: DistancesFrom,
    seed: int,
    counts: NDArray[np.integer],
    folds: int,
) -> Probe:
    """The probe of a model: all of its classes if they are few, else some neighbourhoods and the hubs of the graph.

    ``distances_from(c)`` returns the (N,) distances of the classes from class c: for tens of thousands of classes the
    matrix of all distances would take too much memory. Neighbourhoods consist of classes with at least as many rows
    (``counts``) as folds, if there are enough: samples of smaller classes are never held out, so they judge nothing.

    Machines on sets of classes need all classes, since they would have easier problems without some of them. The probe
    then has fewer samples per class, so that it is no larger.
    """
    if isinstance(graph, graphs.ModelCode):
        n = graph.n_classes
        most = max(_LEAST_PROBE_ROWS, PROBE_CLASSES * MOST_PROBE_ROWS // n)
        return Probe(np.arange(n), graph, min(most, MOST_PROBE_ROWS))
    pairs = graphs.decomposition_of(graph)
    assert isinstance(pairs, graphs.Pairs), "machines on sets of classes are a code"
    n, edges = pairs.n_classes, pairs.edges
    if n <= PROBE_CLASSES + _NEIGHBOURHOOD:
        return Probe(np.arange(n), graph if isinstance(graph, nx.Graph) else pairs.graph())
    hubs = pairs.label.get("hubs", ())
    classes = np.union1d(
        _neighbourhoods(counts >= folds, distances_from, seed), np.asarray(hubs, dtype=np.int64)
    )
    among = np.searchsorted(classes, edges[np.isin(edges, classes).all(axis=1)])
    part = graphs.model_graph(len(classes), among.tolist(), "probe")
    if not nx.is_connected(part):
        part = graphs.hub_neighbours([distances_from(c)[classes] for c in classes.tolist()])
    return Probe(classes, part)


def _neighbourhoods(
    held_out: NDArray[np.bool_], distances_from: DistancesFrom, seed: int
) -> NDArray[np.int64]:
    """Classes drawn at random, those that are held out first, each with its nearest, until there are enough."""
    chosen, n = set[int](), len(held_out)
    drawn = np.random.default_rng([seed, n]).permutation(n)
    for centre in np.concatenate([drawn[held_out[drawn]], drawn[~held_out[drawn]]]).tolist():
        nearest = np.argsort(distances_from(centre), kind="stable")[:_NEIGHBOURHOOD]
        chosen |= set(nearest.tolist())
        if len(chosen) >= PROBE_CLASSES:
            break
    return np.array(sorted(chosen), dtype=np.int64)


def probe_rows(
    classes: NDArray[np.int64],
    rows_of: Callable[[int], NDArray[np.int64]],
    seed: int,
    most_rows: int = MOST_PROBE_ROWS,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The training rows of a probe of some classes, and the class of each, counted from 0 in the probe.

    ``rows_of(c)`` returns all rows of class c. At most ``most_rows`` are drawn, depending only on (seed, class).
    """
    rows = []
    for c in classes.tolist():
        of_class = rows_of(c)
        if len(of_class) > most_rows:
            drawn = np.random.default_rng([seed, c, 2]).permutation(len(of_class))[:most_rows]
            of_class = of_class[np.sort(drawn)]
        rows.append(of_class)
    return np.concatenate(rows), np.repeat(np.arange(len(classes)), [len(of_class) for of_class in rows])
