"""Fitting in one process: choose among the candidates, train the machines, calibrate the coupled model.

One set of machines serves every calibration and every coupling, so both are chosen without further training, as is the
length of the shortlist. Joining every class to more neighbours trains only the new pairs.

Twenty listed classes and twenty neighbours are enough if a sample could belong to a handful of classes. If hundreds of
classes overlap, the true class is often not in the list, and the listed classes are not joined with each other. A probe
of some tens of classes cannot show that. So the model is judged again with a list of twice the length. If that improves
the loss by two standard errors, every class is joined to its next neighbours, and both steps alternate while they help.

Limits are counts, not times, so that a fit is reproducible: lists of at most `list_length.LONGEST` classes, and at most
`MOST_NEIGHBOURS` neighbours, about three times as many pairs as usual, with weights of at most `MOST_BYTES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypedDict

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.graphs.hubs import USUAL_NEIGHBOURS
from pairloom.graphs.text import format_bytes
from pairloom.pipeline.calibration.coupled_calibration import (
    CoupledCalibration,
    JudgedCalibration,
    best_calibration,
    calibrate_coupled,
    calibrate_scale,
    judge_couplings,
)
from pairloom.pipeline.calibration.coupled_learning import sample_limit
from pairloom.pipeline.calibration.held_out import HeldOutSamples, draw_evenly
from pairloom.pipeline.calibration.held_out_scores import HeldOutScores, score_held_out
from pairloom.pipeline.calibration.list_length import is_clearly_better, misses_classes, next_length
from pairloom.pipeline.completion.couplers import Coupler, coupler_of
from pairloom.pipeline.machines.kinds import TrainedMachines
from pairloom.pipeline.machines.linear_machines import LinearModel
from pairloom.pipeline.machines.normalisation import Shrinkage, is_whitened
from pairloom.pipeline.machines.settings import Calibration, MachineSettings
from pairloom.pipeline.model.choice import (
    CalibratedSamples,
    DrawnLogits,
    JudgedCandidate,
    best_candidate,
    drawn_logits,
    judge_calibrations,
    judge_trial,
    n_trials,
    trial,
)
from pairloom.pipeline.model.fit_progress import FitProgress, begin_training
from pairloom.pipeline.model.fitted_model import KEPT_SETTINGS, ClassTable, FittedModel
from pairloom.pipeline.model.learning import DrawnRows, Learned, check_weights, learn_weights
from pairloom.pipeline.model.novelty import held_out_distances
from pairloom.pipeline.model.settings import ModelSettings
from pairloom.pipeline.model.training_set import TrainingSet, plan_probe
from pairloom.pipeline.process_memory import available_bytes
from pairloom.pipeline.user_warnings import warn_user

__all__ = [
    "MOST_BYTES",
    "MOST_NEIGHBOURS",
    "Fit",
    "JudgedModel",
    "MachineTraining",
    "Resources",
    "fit_model",
    "judge_model",
    "next_graphs",
    "widened",
    "within_memory",
]


#: Upper limit of the neighbours per class.
MOST_NEIGHBOURS = 3 * USUAL_NEIGHBOURS
#: Maximum size of the weights of all machines when neighbours are added.
MOST_BYTES = 2**30


class Resources(TypedDict):
    """Resources that a fit may use. They do not change its result."""

    n_jobs: int | None
    memory_limit: int


class MachineTraining(NamedTuple):
    """Trains machines on the samples of a fit: first some pairs, possibly more later."""

    samples: TrainingSet
    machines: MachineSettings
    whiten: Shrinkage
    resources: Resources
    progress: FitProgress

    def train(self, settings: ModelSettings, sides: graphs.Decomposition, phase: str) -> TrainedMachines:
        """The machines of some pairs, or of a code."""
        begin_training(self.progress, phase, sides)
        jobs = self.resources["n_jobs"]
        return self.samples.train_as(self.machines, settings, sides, self.whiten, jobs, self.progress)


class JudgedModel(NamedTuple):
    """Trained machines with their chosen calibration, coupling and shortlist.

    Attributes
    ----------
    how : MachineTraining
    graph : networkx.Graph or ModelCode
    coupler : Coupler
    settings : ModelSettings
        The settings with the chosen coupling and list.
    trained : TrainedMachines
        The machines, which still serve every calibration.
    best : JudgedCalibration
        The chosen calibration and coupling.
    judged : list of JudgedCalibration
        All compared calibrations and couplings.
    held_out : HeldOutSamples
        The held-out samples, scored with the chosen calibration.
    """

    how: MachineTraining
    graph: nx.Graph | graphs.ModelCode
    coupler: Coupler
    settings: ModelSettings
    trained: TrainedMachines
    best: JudgedCalibration
    judged: list[JudgedCalibration]
    held_out: HeldOutSamples

    @property
    def listed(self) -> int:
        """Number of classes that are coupled per sample."""
        return self.settings.shortlist_of(self.coupler.n_classes) or self.coupler.n_classes

    @property
    def next_length(self) -> int | None:
        """The number of classes to list next; None if the classes of held-out samples are rarely missing."""
        return next_length(self.listed, self.coupler.n_classes) if misses_classes(self.held_out) else None

    def with_list(self, size: int) -> JudgedModel:
        """The same machines with lists of this size."""
        logits, resources = self.held_out.edge_logits, self.how.resources
        assert logits is not None, "a fit has them"
        samples = self.coupler.scored(logits, size, resources["memory_limit"], self.best.calibration)
        held_out = self.held_out._replace(samples=samples)
        near = self.best.choice.scale
        choice = calibrate_scale(held_out, self.best.coupling, resources["n_jobs"], near)
        settings = replace(self.settings, shortlist=size)
        return self._replace(settings=settings, best=self.best._replace(choice=choice), held_out=held_out)

    def with_graph(self, graph: nx.Graph) -> JudgedModel:
        """The same model with a larger graph, which includes this one; the additional pairs are trained."""
        assert isinstance(self.trained, LinearModel)
        assert isinstance(self.graph, nx.Graph)
        before, after = graphs.edge_array(self.graph), graphs.edge_array(graph)
        new = after[[not self.graph.has_edge(*pair) for pair in after.tolist()]]
        added: Any = self.how.train(self.settings, graphs.Pairs(new, len(graph)), "neighbours")
        machines = self.trained.machines.followed_by(added.machines)
        machines = machines.of_edges(graphs.edge_order(np.concatenate([before, new])))
        trained = self.trained._replace(machines=machines)
        coupler = coupler_of(graph, self.settings.counts_of(self.how.samples.totals()))
        (found,) = _judge(self.how, coupler, self.settings, trained, (self.best.calibration,))
        return self._replace(
            graph=graph, coupler=coupler, trained=trained, best=found.judged, held_out=found.held_out
        )

    def calibrated(self) -> tuple[TrainedMachines, CoupledCalibration, HeldOutScores]:
        """The machines with the chosen calibration, the calibration of the coupled model, and its held-out scores."""
        best, settings, jobs = self.best, self.settings, self.how.resources["n_jobs"]
        level = settings.coupled_calibration
        assert level != "none", "otherwise nothing is judged"
        coupled = calibrate_coupled(
            self.held_out,
            self.coupler,
            best.coupling,
            level,
            calibration=best.calibration,
            pairs=best.pairs,
            choice=best.choice,
            n_jobs=jobs,
        )
        trained = self.trained
        if settings.turns_into_distances(best.calibration):
            trained = trained.by_distance(settings.machines().scheme)
        listed = settings.shortlist_of(self.coupler.n_classes)
        drawn = self.how.samples.drawn(settings, settings.calibration_samples, is_whitened(self.how.whiten))
        distances, places = held_out_distances(self.how.samples, trained, settings, drawn)
        scores = score_held_out(
            self.held_out,
            self.coupler,
            best.coupling,
            coupled,
            listed,
            jobs,
            distances=distances,
            places=places,
        )
        return trained.unprofiled(), coupled, scores


def judge_model(
    how: MachineTraining,
    graph: nx.Graph | graphs.ModelCode,
    coupler: Coupler,
    settings: ModelSettings,
    trained: TrainedMachines,
) -> JudgedModel:
    """Choose a calibration, then a coupling, on samples held out from the machines."""
    several = _judge(how, coupler, settings, trained, settings.calibrations)
    held_out = {one.judged.calibration: one.held_out for one in several}
    judged = judge_couplings(
        [one.judged for one in several],
        held_out.__getitem__,
        coupler,
        settings.couplings,
        how.resources["n_jobs"],
    )
    best = best_calibration(judged)
    chosen = replace(settings, coupling=best.coupling)
    return JudgedModel(how, graph, coupler, chosen, trained, best, judged, held_out[best.calibration])


def _judge(
    how: MachineTraining,
    coupler: Coupler,
    settings: ModelSettings,
    trained: TrainedMachines,
    calibrations: Sequence[Calibration],
) -> list[CalibratedSamples]:
    """Judge calibrations of machines with the coupling of the settings."""

    def drawn_by(machines: TrainedMachines) -> DrawnLogits:
        most, whitened = settings.calibration_samples, is_whitened(how.whiten)
        return drawn_logits(how.samples, machines, settings, most, whitened)

    return judge_calibrations(trained, drawn_by, coupler, settings, calibrations, **how.resources)


def widened(model: JudgedModel, wider: Iterator[nx.Graph]) -> JudgedModel:
    """Lengthen the list, then join classes to more neighbours, as long as each longer list improves the loss."""
    while (length := model.next_length) is not None:
        longer = _better(model, model.with_list(length))
        if longer is model:
            break
        graph = next(wider, None)
        model = longer if graph is None else _better(longer, longer.with_graph(graph))
    return model


def _better(model: JudgedModel, changed: JudgedModel) -> JudgedModel:
    """The changed model, if its log loss is clearly less."""
    return changed if is_clearly_better(changed.best.choice, model.best.choice) else model


def next_graphs(
    graph: nx.Graph,
    distances: Callable[[], NDArray[np.float64] | graphs.PointDistances],
    bytes_per_pair: float,
) -> Iterator[nx.Graph]:
    """Graphs with the same hubs and ever more neighbours per class, within the limits of neighbours and weights."""
    hubs, now = graph.graph["hubs"], graph.graph["neighbours"]
    for neighbours in range(now + USUAL_NEIGHBOURS, MOST_NEIGHBOURS + 1, USUAL_NEIGHBOURS):
        if neighbours >= len(graph):
            return
        wider = graphs.hub_neighbours(distances(), hubs, neighbours)
        if wider.number_of_edges() * bytes_per_pair > MOST_BYTES:
            return
        yield wider


def within_memory(wider: Iterator[nx.Graph], bytes_per_pair: float, n_samples: int) -> Iterator[nx.Graph]:
    """The graphs until one whose pairs memory cannot hold, which is said.

    The machines are copied twice when new ones join them, and held-out samples (so many) need the logits of all pairs.
    """
    for graph in wider:
        needed = graph.number_of_edges() * (3 * bytes_per_pair + 2 * 4 * n_samples)
        if needed > (available := available_bytes()):
            warn_user(
                f"PairwiseSVC: classes are not joined to {graph.graph['neighbours']} neighbours: that needs about"
                f" {format_bytes(needed)}, and {format_bytes(available)} are available. On a machine with more memory"
                " the model may become better.",
                UserWarning,
            )
            return
        yield graph


class Fit(NamedTuple):
    """A fitted model, a row per compared candidate and calibration, and the reason for its kernel."""

    model: FittedModel
    candidates: list[dict[str, Any]]
    calibrations: list[dict[str, Any]]
    why: str = ""


def fit_model(
    training: TrainingSet,
    classes: ClassTable,
    graph: nx.Graph | graphs.ModelCode,
    settings: ModelSettings,
    *,
    resources: Resources,
    progress: FitProgress,
    widens: bool = False,
    **facts: Any,
) -> Fit:
    """Fit a model over a graph or a code.

    Parameters
    ----------
    training, classes, graph, settings
    resources : Resources
    progress : FitProgress
        Receives the progress of the fit.
    widens : bool
        Whether classes may be joined to more neighbours, in a graph of hubs and neighbours.
    **facts
        Further fields of `FittedModel`.
    """
    if settings.learn == "coupled" and isinstance(graph, nx.Graph):
        check_weights(graph.number_of_edges(), training.X.shape[1], "PairwiseSVC: learn='coupled'")
    judged = _judged(training, graph, settings, resources, progress)
    chosen = best_candidate(judged) if judged else settings.candidates[0]
    how = MachineTraining(
        training, settings.machines_for_calibrations(chosen.C), chosen.whiten, resources, progress
    )
    trained = how.train(settings, graphs.decomposition_of(graph), "machines")
    coupler = coupler_of(graph, settings.counts_of(classes.totals))
    progress.begin("calibration", 1, "coupling")
    calibration, scores, compared = settings.calibrations[0], None, []
    if settings.coupled_calibration == "none":
        coupled = CoupledCalibration.scaled("none", 1.0, coupler, calibration, settings.coupling)
    else:
        found = _widened(judge_model(how, graph, coupler, settings, trained), widens)
        graph, coupler, settings = found.graph, found.coupler, found.settings
        trained, coupled, scores = found.calibrated()
        calibration, compared = found.best.calibration, found.judged
    if settings.learn == "coupled":
        progress.begin("learning", 1, "model")
    learned = _learned(training, coupler, settings, trained, coupled, resources)
    is_replaced = learned is not None and learned.logits is not None
    model = FittedModel(
        classes=classes,
        graph=graph,
        trained=trained,
        settings=settings.machines_as_chosen(chosen.C, calibration),
        whiten=chosen.whiten,
        coupled=coupled,
        learned=learned,
        held_out=None if is_replaced else scores,
        **{name: getattr(settings, name) for name in KEPT_SETTINGS},
        **facts,
    )
    standardised = model.normalisation.deviation is not None
    candidates = [one.row(model.normalisation, settings.kernel, standardised) for one in judged]
    return Fit(model, candidates, [one.row() for one in compared] if len(compared) > 1 else [])


def _widened(model: JudgedModel, neighbours: bool) -> JudgedModel:
    """The model with a longer list and, if ``neighbours``, more neighbours, if these lower the held-out log loss."""
    settings = model.settings
    if not settings.may_lengthen:
        return model
    wider: Iterator[nx.Graph] = iter(())
    if neighbours and isinstance(model.trained, LinearModel):
        bytes_per_pair = model.trained.machines.coef.nbytes / model.trained.n_edges
        wider = next_graphs(model.graph, model.how.samples.distances, bytes_per_pair)
        wider = within_memory(wider, bytes_per_pair, len(model.held_out.classes))
    return widened(model, wider)


def _judged(
    training: TrainingSet,
    graph: nx.Graph | graphs.ModelCode,
    settings: ModelSettings,
    resources: Resources,
    progress: FitProgress,
) -> list[JudgedCandidate]:
    """The judged candidates; none if there is no choice."""
    judged: list[JudgedCandidate] = []
    if len(settings.candidates) == 1:
        return judged
    counts = np.array([len(rows) for rows in training.members])
    probe = plan_probe(graph, training.distances_from, settings.seed, counts, settings.folds)
    part = training.part(probe.classes, settings.seed, probe.most_rows)
    times = n_trials(settings.candidates)
    begin_training(progress, "candidates", graphs.decomposition_of(probe.graph), times)
    for number in range(times):
        candidate = trial(settings.candidates, number, judged)
        judged.append(judge_trial(part, probe.graph, settings, candidate, **resources, progress=progress))
    return judged


def _learned(
    training: TrainingSet,
    coupler: Coupler,
    settings: ModelSettings,
    trained: TrainedMachines,
    coupled: CoupledCalibration,
    resources: Resources,
) -> Learned | None:
    """Learn the weights of the calibrated machines through the coupling, if requested."""
    if settings.learn == "machines":
        return None
    assert isinstance(trained, LinearModel), "check_learnable has made sure"
    drawn = draw_evenly(training.classes, sample_limit(trained.n_edges), settings.folds, settings.seed)
    weight = None if training.weight is None else training.weight[drawn.rows]
    samples = DrawnRows(drawn, training.X[drawn.rows], weight)
    return learn_weights(samples, trained, settings, coupled, coupler.completion, n_jobs=resources["n_jobs"])
