"""Errors as `PairwiseSVC.explain` explains them: the pair's own odds, and the machines that moved the coupled ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.completion.shortlist import shortlist_size
from pairloom.pipeline.model.contributions import Contributions
from pairloom.pipeline.model.explaining import explain
from pairloom.pipeline.model.explanation import Explanation, MachineEffects, Route
from pairloom.pipeline.model.fitted_model import FittedModel
from pairloom.pipeline.report.critical_machine import EXPLAINING_BYTES, raw_samples
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_model import read_run_model

__all__ = [
    "ExplainedError",
    "MovedOdds",
    "SupportVector",
    "affordable_explanations",
    "explained_errors",
    "explaining_work",
    "most_explained",
]

#: Machines, and support vectors, that are named.
_NAMED = 6
#: Multiplications that explaining may take, some seconds of them: of many samples, the first are explained.
_MOST_WORK = 2e10


class MovedOdds(NamedTuple):
    """A machine that moved the coupled odds: what it is on, its logit, and its effect.

    ``sides`` are the two classes of a pair, that of the logit first, or the name of a machine on sets of classes.
    """

    sides: tuple[int, int] | str
    logit: float
    effect: float


class SupportVector(NamedTuple):
    """A training sample that a machine with a kernel compares with: its name, the kernel, and its contribution."""

    name: str
    kernel: float
    logit: float


class ExplainedError(NamedTuple):
    """Why a sample is predicted as one class and not as its own. All odds are logarithms, of the predicted class.

    Attributes
    ----------
    route : str
        How the pair of the two classes has its logit, as of `Explanation`.
    logit : float
        The pair's own, before coupling; NaN if it has none.
    through : int
        How many machines it was made of.
    odds, prior : float
        The coupled odds, and the part of them that comes from priors.
    moved : tuple of MovedOdds
        The machines with the largest effects, and the sum and number of all others.
    vectors : tuple of SupportVector
        The largest contributions to the pair's logit, or to the odds if it has none. Empty for linear machines, whose
        features are those of the critical machine.
    """

    route: Route
    logit: float
    through: int
    odds: float
    prior: float
    moved: tuple[MovedOdds, ...]
    moved_rest: float
    moved_others: int
    vectors: tuple[SupportVector, ...]
    vectors_rest: float
    vectors_others: int


def explained_errors(
    run: Run, samples: NDArray[np.int64], predicted: NDArray[np.int64], label: NDArray[np.int64]
) -> list[ExplainedError | None]:
    """The explanation of each sample. None if the model is too large to be read for it, or has no odds."""
    found: list[ExplainedError | None] = [None] * len(samples)
    count = most_explained(run, len(samples))
    if not count:
        return found
    model = read_run_model(run.directory).model
    X = raw_samples(run, samples[:count])
    for place in range(count):
        found[place] = _explained(run, model, X[[place]], int(predicted[place]), int(label[place]))
    return found


def most_explained(run: Run, samples: int) -> int:
    """How many of so many samples are explained: none if the model is too large to be read for it."""
    if _model_bytes(run) > EXPLAINING_BYTES:
        return 0
    n = len(run.shape.classes)
    listed = shortlist_size(run.settings.shortlist, n) or n
    return min(samples, affordable_explanations(run.shape.n_edges, run.shape.features, listed))


def affordable_explanations(edges: int, features: int, listed: int) -> int:
    """How many samples are explained at most."""
    return int(_MOST_WORK // explaining_work(edges, features, listed))


def explaining_work(edges: int, features: int, listed: int) -> float:
    """Multiplications per sample: of all machines with it, and of the coupling of its classes at many points."""
    return 4.0 * edges * features + 1000.0 * listed**3


def _model_bytes(run: Run) -> int:
    """What the machines take, as they are stored and in order; with a kernel, also their support vectors."""
    shape = run.shape
    if run.settings.kernel is None:
        of_machine = 4 * shape.features + 8 * len(shape.machine_parameters)
        return 2 * shape.n_edges * shape.machines_per_edge * of_machine
    coefficients = shape.n_edges * shape.kernel_rows * (8 * shape.machines_per_edge + 3 * 16)
    return coefficients + 8 * shape.features * sum(shape.rows)


def _explained(
    run: Run, model: FittedModel, X: NDArray[np.floating], predicted: int, label: int
) -> ExplainedError | None:
    a, b = model.classes.labels[[predicted, label]]
    try:
        why = explain(model, X, a, b, run.shape.couplings[0], shortlist=model.shortlist, priors=run.priors)
    except ValueError:  # votes have no odds, nor have logits that are not finite: a report can do without
        return None
    moved, vectors = why.pairs.largest(_NAMED), _support_vectors(why)
    named = [] if vectors is None else vectors.largest(_NAMED).tolist()
    return ExplainedError(
        route=why.route,
        logit=why.logit,
        through=int(np.count_nonzero(why.logit_parts.effects)),
        odds=why.odds,
        prior=why.prior,
        moved=tuple(_moved(why.pairs, at) for at in moved.tolist()),
        moved_rest=why.odds - why.prior - float(why.pairs.effects[moved].sum()),
        moved_others=int(np.count_nonzero(why.pairs.effects)) - len(moved),
        vectors=() if vectors is None else tuple(_vector(vectors, at) for at in named),
        vectors_rest=0.0 if vectors is None else vectors.total - float(vectors.values[named].sum()),
        vectors_others=0 if vectors is None else int(np.count_nonzero(vectors.values)) - len(named),
    )


def _support_vectors(why: Explanation) -> Contributions | None:
    found = why.odds_contributions if why.contributions is None else why.contributions
    return found if found is not None and found.kind == "support vector" else None


def _moved(machines: MachineEffects, at: int) -> MovedOdds:
    sides: tuple[int, int] | str = machines.name(at)
    if not machines.on_sets:
        first, second = machines.sides[at].tolist()
        sides = (first, second)
    return MovedOdds(sides, float(machines.logits[at]), float(machines.effects[at]))


def _vector(vectors: Contributions, at: int) -> SupportVector:
    return SupportVector(str(vectors.names[at]), float(vectors.inputs[at]), float(vectors.values[at]))
