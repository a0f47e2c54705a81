"""The fitted model and its classes: everything that prediction, saving and later changes need. It is immutable. Its
`Predictor` predicts with the machines: one map from samples to logits, and their coupling.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pairloom import graphs
from pairloom.graphs.text import did_you_mean, listed, quoted
from pairloom.pipeline.calibration.coupled_calibration import CoupledCalibration
from pairloom.pipeline.calibration.held_out_scores import HeldOutScores
from pairloom.pipeline.completion.complete import Completion
from pairloom.pipeline.completion.couplers import Coupler, ScoredSamples, coupler_of
from pairloom.pipeline.completion.shortlist import (
    FEW_CLASSES,
    ONE_SCALE,
    ListMass,
    Shortlists,
    affine_shortlists,
    shortlists,
    with_mass,
)
from pairloom.pipeline.completion.slab import DEFAULT_MEMORY
from pairloom.pipeline.coupling.model_coupling import MachineWeight, prior_odds
from pairloom.pipeline.machines.compact_machines import CompactMachines
from pairloom.pipeline.machines.estimator_machines import EstimatorModel
from pairloom.pipeline.machines.kinds import Logits, TrainedMachines
from pairloom.pipeline.machines.linear_machines import AffineLogits
from pairloom.pipeline.machines.normalisation import Normalisation, Shrinkage
from pairloom.pipeline.machines.settings import MachineSettings
from pairloom.pipeline.model.learning import Learned
from pairloom.pipeline.model.settings import ModelSettings

__all__ = [
    "KEPT_SETTINGS",
    "PREDICTION_BATCH",
    "ClassTable",
    "FittedModel",
    "Predictor",
    "SavedModel",
    "applies_listed_pairs",
    "check_finite",
    "checksum",
]


_ListsOf = Callable[[NDArray[np.intp], NDArray[np.float32], int], Shortlists]


#: Samples per batch of a prediction, whatever the number of threads, so that products have the same shape and bits.
PREDICTION_BATCH = 256
#: Applying an edge to a single sample takes this many times as long as in a matrix product with a batch of samples.
_COST_OF_ONE = 6


@dataclass(frozen=True, eq=False)
class Predictor:
    """The machines as one map from prepared samples to logits, and the coupling of the logits."""

    logits: Logits
    coupler: Coupler
    mass: ListMass = ONE_SCALE
    known_ranking: AffineLogits | None = None

    def calibrated(self, coupled: CoupledCalibration) -> Predictor:
        """The same with calibrated logits, by the slope and shift of each machine, and with the mass of lists."""
        return Predictor(self.logits.calibrated(coupled.slope, coupled.shift), self.coupler, coupled.mass)

    @cached_property
    def ranking(self) -> AffineLogits | None:
        """The ranking of the classes as an affine map of samples, with a row of weights per class, if it is one."""
        if self.known_ranking is not None:
            return self.known_ranking
        ranking: AffineLogits | None = self.logits.ranking(self.coupler.completion.ranking.potentials)
        return ranking

    def samples(
        self, X: Any, shortlist: int | None, memory_limit: int = DEFAULT_MEMORY, first: int = 0
    ) -> ScoredSamples:
        """Prepared samples, ready for coupling. ``first`` is the number of the first sample, for errors.

        Machines on sets of classes have no shortlists: ``shortlist`` must be None.
        """
        if shortlist is not None and self.ranking is not None:
            lists = self._shortlists(self.ranking, np.ascontiguousarray(X, np.float32), shortlist, first)
            return with_mass(lists, self.mass)
        logits = self.logits(X)
        check_finite(logits.T, first)
        return with_mass(self.coupler.scored(logits, shortlist, memory_limit), self.mass)

    def _shortlists(
        self, ranking: AffineLogits, rows: NDArray[np.float32], size: int, first: int
    ) -> Shortlists:
        """Rank the classes first; then apply only the pairs of the lists, if that is cheaper."""
        potentials = ranking.by_sample(rows)
        check_finite(potentials, first)
        return self._affine_shortlists(rows, potentials, size)

    def _affine_shortlists(
        self, rows: NDArray[np.float32], potentials: NDArray[np.float32], size: int
    ) -> Shortlists:
        assert isinstance(self.logits, AffineLogits), "so are those that are ranked by an affine map"
        completion = self.coupler.completion
        if applies_listed_pairs(completion.n_classes, len(completion.edges), size) or len(rows) == 1:
            return affine_shortlists(rows, *self.logits, potentials, completion, size)
        return shortlists(self.logits.by_sample(rows), potentials, completion, size)

    def couple_among(
        self, X: Any, possible: NDArray[np.bool_], sizes: NDArray[np.integer], method: str, first: int = 0
    ) -> NDArray[np.float32]:
        """(R, N) probabilities of prepared samples if only some classes (R, N) are possible, at least one per sample.
        The pairs among this many of the possible classes (R,) are coupled as if there were no others: see
        `list_sizes_among`.
        """
        potentials, lists_of = self._ranked(X, first)
        potentials = np.where(possible, potentials, np.float32(-np.inf))
        p = possible.astype(np.float32)  # stays 1 if only one class is possible
        for size in np.unique(sizes[sizes > 1]).tolist():
            rows = np.flatnonzero(sizes == size)
            lists = with_mass(lists_of(rows, potentials[rows], size), self.mass)
            # Impossible classes have no potential, so the ranking gives them nothing.
            p[rows] = lists.couple(method)
        return p

    def _ranked(self, X: Any, first: int) -> tuple[NDArray[np.float32], _ListsOf]:
        """The ranking of all classes for samples, and a function that makes the lists of some samples."""
        completion = self.coupler.completion
        if self.ranking is not None:
            rows = np.ascontiguousarray(X, np.float32)
            potentials = self.ranking.by_sample(rows)
            check_finite(potentials, first)
            return potentials, lambda some, ranked, size: self._affine_shortlists(rows[some], ranked, size)
        logits = self.logits(X)
        check_finite(logits.T, first)
        by_sample = np.ascontiguousarray(logits.T)
        return completion.ranking.of_samples(by_sample), lambda some, ranked, size: shortlists(
            by_sample[some], ranked, completion, size
        )


def applies_listed_pairs(n_classes: int, n_edges: int, shortlist: int) -> bool:
    """Whether it is cheaper to apply only the pairs that a sample's shortlist needs than all pairs to a batch."""
    degree = 2 * n_edges / n_classes
    needed = min(shortlist * degree, shortlist * (shortlist - 1) / 2 + shortlist * degree / 2)
    return _COST_OF_ONE * needed < n_edges


def check_finite(values: NDArray[np.float32], first: int) -> None:
    """Raise unless the values (R, ...) of all samples are finite."""
    if not (finite := np.isfinite(values).all(axis=1)).all():
        row = first + int(np.argmin(finite))
        raise ValueError(
            f"PairwiseSVC: X must have features of the size of the fit's, got larger ones in row {row}."
        )


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A model that was fitted by an estimator or a run. Functions that change a model (add a class, retrain a pair,
    grow) return a new one, so a change that fails leaves the old model unchanged.

    Attributes
    ----------
    classes : ClassTable
    graph : networkx.Graph or ModelCode
        On the indices of the classes: the graph of the trained pairs, or the code of machines on sets of classes.
    trained : TrainedMachines
        The machines, in the order of `edges` or of the columns of the code.
    settings : MachineSettings
        How the machines were trained, including C on normalised features.
    whiten : float or "none"
        The shrinkage of the whitening that they were trained with.
    coupling : str
        The coupling through which the model was calibrated.
    coupled : CoupledCalibration
    calibration_samples : int
        Maximum number of training samples that calibrated it.
    shortlist : int, "auto" or "none"
        Number of classes that are coupled per sample, as requested.
    normalisation : Normalisation
        Of the features; classifiers of scikit-learn get raw features.
    weighted : str
        The kind of weights of the fit, which are not stored and which later changes would need: "sample_weight",
        "class_weight" or "".
    n_features : int
    machine_weight : {"none", "counts"}
        Whether machines have equal weights in the coupling, or their numbers of training samples.
    learned : Learned, optional
        Logits that were learned through the coupling, which replace those of the machines.
    held_out : HeldOutScores, optional
        The model's scores of its held-out samples. None if none were scored, or if the model was changed since.
    """

    classes: ClassTable
    graph: nx.Graph | graphs.ModelCode
    trained: TrainedMachines
    settings: MachineSettings
    whiten: Shrinkage
    coupling: str
    coupled: CoupledCalibration
    calibration_samples: int
    shortlist: int | Literal["auto", "none"]
    normalisation: Normalisation
    weighted: str
    n_features: int
    machine_weight: MachineWeight = "none"
    learned: Learned | None = None
    held_out: HeldOutScores | None = None

    def method_named(self, asked: str, owner: str) -> str:
        """The method for a value of the parameter `coupling`; "auto" is the one that the model was calibrated for."""
        asked = self.coupling if asked == "auto" else asked
        return self.coupler.method_named(asked, self.machine_weight, owner)

    def list_size(self, asked: int | Literal["auto", "none"]) -> int | None:
        """Number of classes listed per sample; "auto" is the number that the model was calibrated for."""
        return self.coupler.shortlist_size(self.shortlist if asked == "auto" else asked)

    def list_sizes_among(
        self, asked: int | Literal["auto", "none"], n_possible: NDArray[np.integer]
    ) -> NDArray[np.int64]:
        """(R,) number of classes listed per sample if only some are possible. "auto" lists all of a few classes, as a
        model of these alone does.
        """
        size = self.list_size(asked)
        sizes = n_possible if size is None else np.minimum(n_possible, size)
        if asked == "auto":
            sizes = np.where(n_possible <= FEW_CLASSES, n_possible, sizes)
        return np.asarray(sizes, np.int64)

    @property
    def C(self) -> float:
        """The C that the machines were trained with, for raw features."""
        return self.normalisation.outer_C(self.settings.C)

    @cached_property
    def decomposition(self) -> graphs.Decomposition:
        """The classes that each machine is trained on."""
        return graphs.decomposition_of(self.graph)

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        """(E, 2) pairs of classes, sorted: the order of the machines."""
        return graphs.edge_array(self.pairs)

    @property
    def code(self) -> graphs.ModelCode | None:
        """The code of machines on sets of classes; None for machines on pairs."""
        return self.graph if isinstance(self.graph, graphs.ModelCode) else None

    @property
    def pairs(self) -> nx.Graph:
        """The graph of the trained pairs. Raise if machines are on sets of classes."""
        if isinstance(self.graph, graphs.ModelCode):
            raise AttributeError(
                "PairwiseSVC: this model has no pairs, its machines are on sets of classes: see code_."
            )
        return self.graph

    @cached_property
    def coupler(self) -> Coupler:
        """How the logits of the machines become probabilities."""
        return coupler_of(self.graph, self.classes.totals if self.machine_weight == "counts" else None)

    @property
    def completion(self) -> Completion:
        """How pairs that were not trained are completed."""
        return self.coupler.completion

    @cached_property
    def by_decision_value(self) -> FittedModel:
        """The same machines with decision values as logits, so that no calibration changes a sign. With several
        machines per pair, the mean of their decision values is used.
        """
        uncalibrated = CoupledCalibration.uniform("none", 1.0, len(self.edges))
        return replace(self, trained=self.trained.by_decision_value(), coupled=uncalibrated, learned=None)

    @cached_property
    def predictor(self) -> Predictor:
        """The calibrated machines, or the logits learned in their place, as prediction needs them."""
        if self.learned is not None and self.learned.logits is not None:
            return Predictor(self.learned.logits, self.coupler, self.coupled.mass)
        raw = Predictor(self.trained.collapsed(self.settings.scheme.shares), self.coupler)
        calibrated = raw.calibrated(self.coupled)
        if isinstance(self.trained, CompactMachines):
            return replace(calibrated, known_ranking=self.trained.ranking)
        return calibrated

    @property
    def is_compact(self) -> bool:
        """Whether only what prediction needs is left of the machines."""
        return isinstance(self.trained, CompactMachines)

    def compacted(self) -> FittedModel:
        """The same model with only those parts of its machines that prediction needs; it predicts the same bits."""
        if self.is_compact or isinstance(self.trained, EstimatorModel):
            return self
        return replace(
            self,
            classes=self.classes._replace(checksums=np.empty(0, np.int64)),
            trained=CompactMachines.of(self.predictor.logits, self.trained.machines),
            coupled=self.coupled.applied(),
            learned=None if self.learned is None else self.learned._replace(logits=None),
        )

    def prepared(self, X: Any) -> Any:
        """Samples as input of the machines."""
        return self.trained.prepared(X, self.normalisation)


class SavedModel(NamedTuple):
    """A fitted model with the parameters of its estimator, the compared candidates, and the names of its features.

    ``support_ids`` are the names of the training rows that are its support vectors, if it has any.
    """

    model: FittedModel
    parameters: dict[str, Any]
    candidates: list[dict[str, Any]]
    calibrations: list[dict[str, Any]]
    kernel_choice: str
    feature_names: list[str]
    support_ids: Sequence[Any] = ()


#: Settings of a fit that prediction and later changes also need, and that a model has under the same names.
KEPT_SETTINGS = tuple(
    field.name for field in fields(FittedModel) if field.name in {one.name for one in fields(ModelSettings)}
)


class ClassTable(NamedTuple):
    """One entry per class, in the order of the sorted labels.

    Attributes
    ----------
    labels : (N,) array
    totals : (N,) float64
        The training samples of each class, or the sum of their weights.
    keys : (N,) int64
        The number that seeds the folds of each class: it stays the same when other classes are added or removed.
    checksums : (N,) int64
        Of the training rows of each class, in their order; empty if they are not needed.
    """

    labels: NDArray[Any]
    totals: NDArray[np.float64]
    keys: NDArray[np.int64]
    checksums: NDArray[np.int64]

    @property
    def shares(self) -> NDArray[np.float64]:
        """The share of each class in the training samples."""
        return np.asarray(self.totals / self.totals.sum())

    def odds(self, priors: Any) -> NDArray[np.float64] | None:
        """(N,) the factors by which priors change the odds of the classes; None without priors."""
        return None if priors is None else prior_odds(priors, self.labels.tolist(), self.shares)

    def index_of(self, label: object, owner: str) -> int:
        """The index of a label. The error for an unknown label suggests the nearest one."""
        places = np.flatnonzero(_same_kind(self.labels, label) and self.labels == label)
        if not len(places):
            raise ValueError(
                f"{owner}: label must be one of {listed(self.labels)}, got {quoted(label)}."
                f"{did_you_mean(label, self.labels)}"
            )
        return int(places[0])

    def with_class(self, label: Any, n_samples: int, sum_of_rows: int) -> tuple[ClassTable, int]:
        """The table with one more class, and the index of that class."""
        place = int(np.searchsorted(self.labels, label))
        # Labels of strings may be longer than those before: concatenation widens the dtype, insertion would cut them.
        new = np.array([label], dtype=self.labels.dtype if self.labels.dtype.kind == "O" else None)
        table = ClassTable(
            labels=np.concatenate([self.labels[:place], new, self.labels[place:]]),
            totals=np.insert(self.totals, place, n_samples),
            keys=np.insert(self.keys, place, self.keys.max() + 1),
            checksums=np.insert(self.checksums, place, sum_of_rows),
        )
        return table, place

    def without(self, c: int) -> ClassTable:
        """The table without one class."""
        return ClassTable(*(np.delete(values, c) for values in self))

    def check_new_label(self, label: Any, owner: str) -> None:
        """Raise unless a label is of the type of the others, and not one of them."""
        if not _same_kind(self.labels, label):
            raise TypeError(
                f"{owner}: label must be of the type of the model's labels, such as {quoted(self.labels[0])},"
                f" got {quoted(label)} of type {type(label).__name__}."
            )
        if (self.labels == label).any():
            raise ValueError(f"{owner}: label must be new, got {quoted(label)}, which is a class already.")


def _same_kind(labels: NDArray[Any], label: Any) -> bool:
    """Whether a label belongs among these: strings among strings, integers among integers, and no NaN."""
    value = np.asarray(label)
    if value.ndim or value != value:
        return False
    if labels.dtype.kind == "O":
        return isinstance(label, type(labels[0]))
    if isinstance(label, (str, int)) and value.item() != label:  # numpy drops NUL at the end of a string
        return False
    kinds = {"i": "iu", "u": "iu", "f": "fiu"}.get(labels.dtype.kind, labels.dtype.kind)
    if value.dtype.kind not in kinds:
        return False
    # Not an integer that makes floats of the others, as 2**64 - 1 does among signed ones.
    return np.concatenate([labels[:1], value[None]]).dtype.kind in kinds


def checksum(rows: Any, before: int = 0) -> int:
    """A checksum of the rows of a class, in their order, as float32; ``before`` is that of the rows before them.

    Sparse rows are canonical CSR: the checksum is of their entries and of the places of these.
    """
    if sparse.issparse(rows):
        sizes, columns = np.diff(rows.indptr).astype(np.int64), rows.indices.astype(np.int64)
        for values in (sizes, columns, rows.data.astype(np.float32)):
            before = zlib.crc32(np.ascontiguousarray(values).tobytes(), before)
        return before
    return zlib.crc32(np.ascontiguousarray(rows, np.float32).tobytes(), before)
