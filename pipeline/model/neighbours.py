"""How many neighbours `hub_neighbours` joins to every class, where a user does not say: chosen by honest loss.

Neighbours are worth their training where classes have many that they are confused with. On the probe, machines are
trained for 20 neighbours of every class, and judged beside the part of them that 10 neighbours would have. Where the
second ten made the model clearly better, there is more to be had, and every class is joined to 40; else to 20.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairloom import graphs
from pairloom.graphs.hub_neighbours import USUAL_NEIGHBOURS
from pairloom.pipeline.calibration.scale import ScaleChoice
from pairloom.pipeline.completion.uncoupled import wiring_of
from pairloom.pipeline.model.choice import Candidate, Probe, plan_probe, trial
from pairloom.pipeline.model.judging import Train, best_scale, drawn_of_probe
from pairloom.pipeline.model.model_settings import ModelSettings
from pairloom.pipeline.model.phases import UNWATCHED, Phases, begin_training
from pairloom.pipeline.model.training_set import TrainingSet

__all__ = ["asks_for_neighbours", "with_chosen_neighbours"]

#: The decrease of the mean log loss that is worth twice the neighbours.
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
    distances: Callable[[], ArrayLike],
    settings: ModelSettings,
    train: Train,
    n_jobs: int | None = None,
    phases: Phases = UNWATCHED,
) -> dict[str, Any]:
    """The requested graph with the number of neighbours that was chosen.

    Parameters
    ----------
    asked : str or mapping
        A request for which `asks_for_neighbours` is true.
    part_of : callable
        ``part_of(classes)`` is the part of the training set that a probe of these classes has, `TrainingSet.part`.
    settings, train
        As in `judging.judge_trial`. Machines have the middle C of the candidates and their first whitening.
    distances : callable
        Returns the (N, N) distances between the classes.
    n_jobs : int, optional
        Threads.
    phases : Phases
        Is told that training begins.
    """
    request: dict[str, Any] = dict(asked) if isinstance(asked, Mapping) else {"family": asked}
    near, hubs = np.asarray(distances()), request.get("hubs")
    usual, few = (graphs.hub_neighbours(near, hubs, neighbours) for neighbours in (USUAL, FEW))
    probe = plan_probe(usual, near.__getitem__, settings.seed)
    begin_training(phases, "neighbours", graphs.edge_array(probe.graph))
    with_usual, with_few = _judged(part_of(probe.classes), probe, few, settings, train, n_jobs)
    return request | {
        "neighbours": min(MANY, len(near) - 1) if _clearly_less(with_usual, with_few) else USUAL
    }


def _judged(
    part: TrainingSet,
    probe: Probe,
    few: nx.Graph,
    settings: ModelSettings,
    train: Train,
    n_jobs: int | None,
) -> tuple[ScaleChoice, ScaleChoice]:
    """Train the probe, and judge it and the part of its edges that the graph of few neighbours has."""
    C, whiten, calibrations = trial(settings.candidates, 0, [])
    calibration = min(calibrations)  # distances, if they are a candidate
    edges = graphs.edge_array(probe.graph)
    trained = train(settings.for_trials(), part, edges, Candidate(C, whiten, calibration))
    drawn = drawn_of_probe(part, trained, settings)
    kept = np.array([few.has_edge(*pair) for pair in probe.classes[edges].tolist()])
    fewer = graphs.model_graph(len(probe.classes), edges[kept].tolist(), "probe")
    counts = settings.counts_of(part.totals())
    usual_held_out = drawn.held_out(wiring_of(probe.graph, counts), settings, calibration)
    fewer_held_out = drawn.of_edges(kept).held_out(wiring_of(fewer, counts), settings, calibration)
    # The unit is that of all edges: the two differ in their edges, not in their prior.
    fewer_held_out = fewer_held_out._replace(unit=usual_held_out.unit)
    return best_scale(usual_held_out, settings, n_jobs), best_scale(fewer_held_out, settings, n_jobs)


def _clearly_less(one: ScaleChoice, other: ScaleChoice) -> bool:
    """Whether a loss is smaller by more than chance would have it (two standard errors), and by what is worth it."""
    difference = one.losses - other.losses
    by_chance = 2 * difference.std() / np.sqrt(len(difference))
    return bool(other.log_loss - one.log_loss > max(by_chance, WORTH))
