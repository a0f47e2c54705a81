"""The choice among candidates of C and whitening, and among calibrations, by the out-of-fold coupled log loss of each.

Candidates are compared on a part of the training set, the probe: some tens of classes that are near each other, joined
as in the model, with some hundreds of samples each. That is enough to tell candidates apart. (The graph must not be
sparser: the best C of a sparse model is a tenth of the best C of a dense one.)

A trial trains machines with one C and one whitening. The first trials try every whitening with the middle C; the others
try the other values of C with the best whitening.

Calibrations and couplings are compared on the machines of the model itself, which serve all of them, and by all
held-out samples. The best calibration depends on the rows per pair, and pairs of the probe have fewer.

If the user does not set the number of neighbours in the graph `hub_neighbours`, it is chosen on the probe too. Machines
are trained for 20 neighbours per class; their loss is compared with the loss of those that 10 neighbours would have.
Where the second ten clearly improve the loss, every class is joined to 40 neighbours, otherwise to 20.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from pairloom import graphs
from pairloom.graphs.hubs import USUAL_NEIGHBOURS
from pairloom.pipeline.calibration.coupled_calibration import (
    FEW_SAMPLES,
    JudgedCalibration,
    PairSlopes,
    calibrate_scale,
)
from pairloom.pipeline.calibration.held_out import HeldOutSamples, OutOfFoldMachines, out_of_fold_edge_logits
from pairloom.pipeline.calibration.scale import ScaleChoice, clearly_more
from pairloom.pipeline.completion.couplers import Coupler, coupler_of
from pairloom.pipeline.completion.slab import DEFAULT_MEMORY
from pairloom.pipeline.machines.kernel_function import KernelFunction
from pairloom.pipeline.machines.kinds import TrainedMachines
from pairloom.pipeline.machines.normalisation import Normalisation, Shrinkage
from pairloom.pipeline.machines.settings import Calibration
from pairloom.pipeline.model.fit_progress import NO_PROGRESS, FitProgress, begin_training
from pairloom.pipeline.model.settings import Candidate, ModelSettings
from pairloom.pipeline.model.training_set import PROBE_SAMPLES, Probe, TrainingSet, plan_probe
from pairloom.pipeline.threads import in_threads, thread_count

__all__ = [
    "CalibratedSamples",
    "Draw",
    "DrawnLogits",
    "JudgedCandidate",
    "asks_for_neighbours",
    "best_candidate",
    "best_scale",
    "drawn_logits",
    "drawn_of_probe",
    "judge_calibrations",
    "judge_trial",
    "n_trials",
    "trial",
    "with_chosen_neighbours",
]


class JudgedCandidate(NamedTuple):
    """A candidate, its out-of-fold coupled log loss at its best scale, and the loss of every sample."""

    candidate: Candidate
    log_loss: float
    losses: NDArray[np.float64]

    def row(
        self, normalisation: Normalisation, kernel: KernelFunction | None, standardise: bool
    ) -> dict[str, Any]:
        """The row of a table of candidates, with C for the raw or standardised features."""
        C, whiten, calibration = self.candidate
        named = kernel is not None and not kernel.precomputed
        return {
            "kernel": "linear" if kernel is None else kernel.name,
            "gamma": kernel.gamma if kernel is not None and named else None,
            "standardise": standardise,
            "C": normalisation.outer_C(C),
            "whiten": whiten,
            "calibration": calibration,
            "log_loss": self.log_loss,
        }


def n_trials(candidates: Sequence[Candidate]) -> int:
    """The number of trials that the candidates need; 0 if there is nothing to choose."""
    Cs, whitenings, _ = _values(candidates)
    return 0 if len(candidates) == 1 else len(whitenings) + len(Cs) - 1


def trial(candidates: Sequence[Candidate], number: int, judged: Sequence[JudgedCandidate]) -> Candidate:
    """The candidate of trial ``number``, given the judged candidates of the trials before it."""
    others, whitenings, calibration = _values(candidates)
    middle = others.pop(len(others) // 2)
    if number < len(whitenings):
        return Candidate(middle, whitenings[number], calibration)
    best = best_candidate([one for one in judged if middle == one.candidate.C])
    return best._replace(C=others[number - len(whitenings)])


def _values(candidates: Sequence[Candidate]) -> tuple[list[float], list[Shrinkage], Calibration]:
    """The values of C, ascending, the values of the whitening, and the calibration that all share."""
    Cs, whitenings, calibrations = (dict.fromkeys(values) for values in zip(*candidates, strict=True))
    return sorted(Cs), list(whitenings), next(iter(calibrations))


def best_candidate(judged: Sequence[JudgedCandidate]) -> Candidate:
    """The preferred candidate among those whose log loss is about the least.

    Their loss exceeds the least by less than a standard error of the difference per sample. Preferred is no whitening,
    then the middle C. With few samples the least loss is a matter of luck, so the simplest candidate is taken: no
    whitening, and the smallest C.
    """
    least = min(judged, key=lambda one: one.log_loss)
    Cs = sorted({one.candidate.C for one in judged})
    if len(least.losses) < FEW_SAMPLES:
        like_it, usual = [one.candidate for one in judged], 0
    else:
        like_it, usual = [one.candidate for one in judged if not _clearly_more(one, least)], len(Cs) // 2
    return min(like_it, key=lambda one: (one.whiten != "none", abs(Cs.index(one.C) - usual)))


def _clearly_more(one: JudgedCandidate, least: JudgedCandidate) -> bool:
    return clearly_more(one.log_loss, one.losses, least.log_loss, least.losses)


def judge_trial(
    probe: TrainingSet,
    graph: nx.Graph | graphs.ModelCode,
    settings: ModelSettings,
    candidate: Candidate,
    *,
    n_jobs: int | None = None,
    memory_limit: int = DEFAULT_MEMORY,
    progress: FitProgress = NO_PROGRESS,
    draw: Draw | None = None,
) -> JudgedCandidate:
    """Train a candidate on the probe, and judge it by its coupled log loss on held-out samples.

    ``draw`` selects these samples; by default they suit all candidates of the settings.
    """
    sides, coupler = graphs.decomposition_of(graph), coupler_of(graph, settings.counts_of(probe.totals()))
    trained = _roughly_trained(probe, settings, sides, candidate, n_jobs, progress)
    drawn = drawn_of_probe(probe, trained, settings, draw)
    if candidate.calibration == "slopes":
        drawn = drawn.sloped(PairSlopes.of_profiles(trained.profile))
    choice = best_scale(
        drawn.held_out(coupler, settings, candidate.calibration, memory_limit), settings, n_jobs
    )
    return JudgedCandidate(candidate, choice.log_loss, choice.losses)


def _roughly_trained(
    probe: TrainingSet,
    settings: ModelSettings,
    sides: graphs.Decomposition,
    candidate: Candidate,
    n_jobs: int | None,
    progress: FitProgress,
) -> TrainedMachines:
    """The machines of a trial. Warnings about convergence are silenced, since the user did not set their tolerance."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return probe.train(settings.for_trials(), sides, candidate, n_jobs, progress)


class CalibratedSamples(NamedTuple):
    """Held-out samples scored with a calibration of the machines, and the judgement of that calibration."""

    judged: JudgedCalibration
    held_out: HeldOutSamples


def judge_calibrations(
    trained: TrainedMachines,
    drawn_by: Callable[[TrainedMachines], DrawnLogits],
    coupler: Coupler,
    settings: ModelSettings,
    calibrations: Sequence[Calibration],
    *,
    n_jobs: int | None = None,
    memory_limit: int = DEFAULT_MEMORY,
) -> list[CalibratedSamples]:
    """Judge some calibrations of the machines of a model, in their order.

    ``drawn_by(machines)`` returns the held-out samples scored by calibrated machines. Calibrations are judged in
    concurrent threads, because most of the work is on all pairs at once and cannot be divided further.
    """
    by: dict[Calibration, Calibration] = {
        calibration: "distance" if calibration == "slopes" else calibration for calibration in calibrations
    }
    n_threads, machines = thread_count(n_jobs, "PairwiseSVC"), list(dict.fromkeys(by.values()))

    def draw(calibration: Calibration) -> DrawnLogits:
        turned = settings.turns_into_distances(calibration)
        return drawn_by(trained.by_distance(settings.machines().scheme) if turned else trained)

    drawn = dict(zip(machines, in_threads(draw, machines, n_threads), strict=True))

    def judge(calibration: Calibration) -> CalibratedSamples:
        pairs = PairSlopes.of_profiles(trained.profile) if calibration == "slopes" else None
        samples = drawn[by[calibration]] if pairs is None else drawn[by[calibration]].sloped(pairs)
        held_out = samples.held_out(coupler, settings, calibration, memory_limit)
        choice = best_scale(held_out, settings, n_jobs)
        judged = JudgedCalibration(calibration, settings.coupling, choice, pairs)
        return CalibratedSamples(judged, held_out)

    return in_threads(judge, calibrations, n_threads)


def best_scale(held_out: HeldOutSamples, settings: ModelSettings, n_jobs: int | None = None) -> ScaleChoice:
    """The best scale for held-out samples with the coupling of the model, and their losses."""
    return calibrate_scale(held_out, settings.coupling, n_jobs)


class DrawnLogits(NamedTuple):
    """Out-of-fold edge logits (E, R) of drawn training samples, their classes and parts, and their weights if any.

    ``totals`` (N,) are the numbers of training samples per class, or the sums of their weights.
    """

    edge_logits: NDArray[np.float32]
    classes: NDArray[np.integer]
    parts: NDArray[np.integer]
    weight: NDArray[np.float64] | None
    totals: NDArray[np.float64]

    def held_out(
        self,
        coupler: Coupler,
        settings: ModelSettings,
        calibration: Calibration,
        memory_limit: int = DEFAULT_MEMORY,
    ) -> HeldOutSamples:
        """The samples, ready to be coupled by the model of these edges."""
        return HeldOutSamples.of_edges(
            self.edge_logits,
            self.classes,
            coupler,
            calibration=calibration,
            weight=self.weight,
            totals=self.totals,
            shortlist=settings.shortlist_of(coupler.n_classes),
            memory_limit=memory_limit,
        )

    def sloped(self, pairs: PairSlopes) -> DrawnLogits:
        """The same samples, whose logits are distances, with the slopes that were found without their parts."""
        return self._replace(edge_logits=pairs.slopes.of_parts(self.edge_logits, self.parts))

    def of_edges(self, edges: NDArray[np.bool_]) -> DrawnLogits:
        """The same samples with some of the edges."""
        return self._replace(edge_logits=self.edge_logits[edges])


class Draw(NamedTuple):
    """The maximum number of samples to draw, and whether they must suit whitened features."""

    most: int
    whitened: bool


def drawn_of_probe(
    probe: TrainingSet, trained: OutOfFoldMachines, settings: ModelSettings, draw: Draw | None = None
) -> DrawnLogits:
    """Out-of-fold logits of the samples on which candidates are compared. All candidates have the same samples."""
    draw = draw or Draw(min(PROBE_SAMPLES, settings.calibration_samples), settings.may_whiten)
    return drawn_logits(probe, trained, settings, *draw)


def drawn_logits(
    training: TrainingSet, trained: OutOfFoldMachines, settings: ModelSettings, most: int, whitened: bool
) -> DrawnLogits:
    """Out-of-fold logits of some training samples, drawn evenly from all classes."""
    rows, classes, folds, parts = training.drawn(settings, most, whitened)
    scheme = settings.machines().scheme
    logits = out_of_fold_edge_logits(trained, scheme, training.X[rows], folds, parts)
    weight = None if training.weight is None else training.weight[rows]
    return DrawnLogits(logits, classes, parts, weight, training.totals())


#: The decrease of the mean log loss that justifies twice as many neighbours.
WORTH = 0.005
FEW, USUAL, MANY = USUAL_NEIGHBOURS // 2, USUAL_NEIGHBOURS, 2 * USUAL_NEIGHBOURS

PartOf = Callable[[NDArray[np.int64]], TrainingSet]


def asks_for_neighbours(asked: object, n_classes: int) -> bool:
    """Whether a requested graph leaves the number of neighbours open, and there is a choice."""
    family = asked.get("family") if isinstance(asked, Mapping) else asked
    given = isinstance(asked, Mapping) and asked.get("neighbours") is not None
    return isinstance(family, str) and family == "hub_neighbours" and not given and n_classes - 1 > USUAL


def with_chosen_neighbours(
    asked: str | Mapping[str, Any],
    part_of: PartOf,
    distances: Callable[[], NDArray[np.float64] | graphs.PointDistances],
    settings: ModelSettings,
    counts: NDArray[np.integer],
    n_jobs: int | None = None,
    progress: FitProgress = NO_PROGRESS,
) -> dict[str, Any]:
    """The requested graph with the number of neighbours that was chosen.

    Parameters
    ----------
    asked : str or mapping
        A request for which `asks_for_neighbours` is true.
    part_of : callable
        ``part_of(classes)`` returns the training set of a probe of these classes, as `TrainingSet.part` does.
    settings : ModelSettings
        Machines are trained with the middle C of the candidates and their first whitening.
    distances : callable
        Returns the (N, N) distances between the classes.
    counts : (N,) int array
        The training rows of every class.
    n_jobs : int, optional
        Threads.
    progress : FitProgress
        Receives the progress of training.
    """
    request: dict[str, Any] = dict(asked) if isinstance(asked, Mapping) else {"family": asked}
    near, hubs = distances(), request.get("hubs")
    usual, few = (graphs.hub_neighbour_pairs(near, hubs, neighbours) for neighbours in (USUAL, FEW))
    probe = plan_probe(usual, near.__getitem__, settings.seed, counts, settings.folds)
    begin_training(progress, "neighbours", graphs.decomposition_of(probe.graph))
    with_usual, with_few = _judged(part_of(probe.classes), probe, few, settings, n_jobs, progress)
    return request | {
        "neighbours": min(MANY, len(near) - 1) if _clearly_less(with_usual, with_few) else USUAL
    }


def _judged(
    part: TrainingSet,
    probe: Probe,
    few: graphs.Pairs,
    settings: ModelSettings,
    n_jobs: int | None,
    progress: FitProgress,
) -> tuple[ScaleChoice, ScaleChoice]:
    """Train the probe, and judge all of its edges, and those of the graph with few neighbours."""
    calibration = settings.calibrations[0]  # distances, if they are among them
    candidate = trial(settings.candidates, 0, [])._replace(calibration=calibration)
    edges = graphs.edge_array(probe.graph)
    pairs = graphs.Pairs(edges, len(probe.classes))
    trained = _roughly_trained(part, settings, pairs, candidate, n_jobs, progress)
    drawn = drawn_of_probe(part, trained, settings)
    if calibration == "slopes":
        drawn = drawn.sloped(PairSlopes.of_profiles(trained.profile))
    kept = few.have(probe.classes[edges])
    fewer = graphs.model_graph(len(probe.classes), edges[kept].tolist(), "probe")
    counts = settings.counts_of(part.totals())
    usual_held_out = drawn.held_out(coupler_of(probe.graph, counts), settings, calibration)
    fewer_held_out = drawn.of_edges(kept).held_out(coupler_of(fewer, counts), settings, calibration)
    # Both use the unit of all edges, so that they differ in their edges and not in the prior of the scale.
    fewer_held_out = fewer_held_out._replace(unit=usual_held_out.unit)
    return best_scale(usual_held_out, settings, n_jobs), best_scale(fewer_held_out, settings, n_jobs)


def _clearly_less(one: ScaleChoice, other: ScaleChoice) -> bool:
    """Whether a loss is smaller by more than two standard errors, and by more than `WORTH`."""
    difference = one.losses - other.losses
    by_chance = 2 * difference.std() / np.sqrt(len(difference))
    return bool(other.log_loss - one.log_loss > max(by_chance, WORTH))
