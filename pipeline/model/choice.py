"""The choice among candidates of C, whitening and calibration, by the honest out-of-fold coupled log loss of each.

Candidates are compared on a part of the training set, the probe: some tens of classes that are near each other, joined
as they are in the model, with some hundreds of samples each. That is enough to tell them apart. (A sparser graph is
not: the best C of a sparse model is a tenth of that of a dense one.)

A trial trains the machines of one C and one whitening, which serve both calibrations. The first trials try every
whitening and both calibrations with the middle C, the others try the other values of C with what was best.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.machines.normalisation import Normalisation, NormalisedMoments
from pairloom.pipeline.machines.settings import Calibration, scaled_C
from pairloom.pipeline.machines.whitening import Shrinkage

__all__ = [
    "MOST_PROBE_ROWS",
    "PROBE_SAMPLES",
    "Candidate",
    "JudgedCandidate",
    "Probe",
    "Trial",
    "best_candidate",
    "calibrations_of",
    "candidate_Cs",
    "inner_C",
    "kernel_candidates",
    "linear_candidates",
    "n_trials",
    "part_of_class",
    "plan_probe",
    "trial",
]

#: What `whiten="auto"` chooses from: on three sets of embeddings the test loss is flat about 0.8 and least there.
SHRINKAGES: tuple[Shrinkage, ...] = ("none", 0.8)
#: What `C="auto"` chooses from, in multiples of C = "scale". The best of fourteen sets are spread over all three.
MULTIPLES_OF_SCALE = (0.1, 1.0, 10.0)
#: C = "scale" and C = "auto" of machines with a kernel.
KERNEL_C = 10.0
#: The probe: so many classes at least, if there are, and out-of-fold samples at most.
PROBE_CLASSES, PROBE_SAMPLES = 30, 1000
#: Samples of a class in the probe. With half of two hundred the best C could no longer be told (tinyimagenet50).
MOST_PROBE_ROWS = 256
#: Samples of a class in the probe of a model whose machines need all classes.
_LEAST_PROBE_ROWS = 16
#: Fewer held-out samples choose nothing.
_FEW_SAMPLES = 100
#: Classes of the probe come as neighbourhoods of this size: far apart from each other they would not be confused.
_NEIGHBOURHOOD = 15

DistancesFrom = Callable[[int], NDArray[np.float64]]


class Candidate(NamedTuple):
    """Settings that may be chosen: the C of machines on normalised features, their whitening, the calibration."""

    C: float
    whiten: Shrinkage
    calibration: Calibration


class Trial(NamedTuple):
    """Machines to be trained once, and the calibrations that they are judged with."""

    C: float
    whiten: Shrinkage
    calibrations: tuple[Calibration, ...]


class JudgedCandidate(NamedTuple):
    """A candidate, its out-of-fold coupled log loss at its best scale, and the loss of every sample."""

    candidate: Candidate
    log_loss: float
    losses: NDArray[np.float64]

    def row(self, normalisation: Normalisation) -> dict[str, Any]:
        """The row of a table of candidates, with C on features as they came."""
        C, whiten, calibration = self.candidate
        return {
            "C": normalisation.outer_C(C),
            "whiten": whiten,
            "calibration": calibration,
            "log_loss": self.log_loss,
        }


class Probe(NamedTuple):
    """The part of a training set on which candidates are compared.

    Some classes, a graph on their places (or the code of the model), and how many samples of a class at most.
    """

    classes: NDArray[np.int64]
    graph: nx.Graph | graphs.ModelCode
    most_rows: int = MOST_PROBE_ROWS


def candidate_Cs(C: Any) -> Sequence[Any]:
    """C as the list of values to be tried."""
    several = isinstance(C, (list, tuple)) or (isinstance(C, np.ndarray) and C.ndim > 0)
    return list(C) if several else [C]


def calibrations_of(calibration: str, measurable: bool = True) -> tuple[Calibration, ...]:
    """The calibrations that the parameter stands for; "auto" without distances where these are not known."""
    if calibration != "auto":
        return (calibration,)  # type: ignore[return-value]  # checked by whoever takes the parameter
    return ("distance", "platt") if measurable else ("platt",)


def linear_candidates(
    C: Any,
    whiten: Shrinkage | Literal["auto"],
    calibration: str,
    moments: NormalisedMoments,
) -> tuple[Candidate, ...]:
    """The candidates that the parameters stand for, for machines on normalised rows with these moments."""
    shrinkages: tuple[Shrinkage, ...] = SHRINKAGES
    if whiten != "auto":
        shrinkages = ("none" if whiten == "none" else float(whiten),)
    by_scale = scaled_C(moments.total_variance)
    Cs: list[float] = []
    for c in candidate_Cs(C):
        if isinstance(c, str):
            Cs += [by_scale * multiple for multiple in (MULTIPLES_OF_SCALE if c == "auto" else (1.0,))]
        else:
            Cs.append(inner_C(c, moments.normalisation, "C"))
    return tuple(Candidate(c, t, how) for c in Cs for t in shrinkages for how in calibrations_of(calibration))


def kernel_candidates(C: Any, calibration: str, measurable: bool) -> tuple[Candidate, ...]:
    """The candidates that the parameters stand for, for machines with a kernel, which do not whiten.

    ``measurable`` says whether the machines know their distance to a sample.
    """
    return tuple(
        Candidate(KERNEL_C if isinstance(c, str) else float(c), "none", how)
        for c in candidate_Cs(C)
        for how in calibrations_of(calibration, measurable)
    )


def n_trials(candidates: Sequence[Candidate]) -> int:
    """How many trials the candidates take; none if there is nothing to choose."""
    Cs, whitenings, _ = _values(candidates)
    return 0 if len(candidates) == 1 else len(whitenings) + len(Cs) - 1


def trial(candidates: Sequence[Candidate], number: int, judged: Sequence[JudgedCandidate]) -> Trial:
    """The trial with this number, given the candidates that were judged in the trials before it."""
    others, whitenings, calibrations = _values(candidates)
    middle = others.pop(len(others) // 2)
    if number < len(whitenings):
        return Trial(middle, whitenings[number], calibrations)
    _, whiten, calibration = best_candidate([one for one in judged if middle == one.candidate.C])
    return Trial(others[number - len(whitenings)], whiten, (calibration,))


def _values(
    candidates: Sequence[Candidate],
) -> tuple[list[float], list[Shrinkage], tuple[Calibration, ...]]:
    """The values of C, ascending, of the whitening and of the calibration."""
    Cs, whitenings, calibrations = (dict.fromkeys(values) for values in zip(*candidates, strict=True))
    return sorted(Cs), list(whitenings), tuple(calibrations)


def inner_C(C: float, normalisation: Normalisation, name: str) -> float:
    """The C of machines on normalised features that is this C on features as they came, or an error."""
    try:
        inner = normalisation.inner_C(float(C))
    except OverflowError:
        inner = np.inf
    if not 0 < inner < np.inf:
        raise ValueError(f"{name} must be a number that fits the size of the features, got {C!r}.")
    return inner


def plan_probe(graph: nx.Graph | graphs.ModelCode, distances_from: DistancesFrom, seed: int) -> Probe:
    """The probe of a model: all of its classes if they are few, else some neighbourhoods and the hubs of the graph.

    ``distances_from(c)`` are the (N,) distances of the classes from class c: those of all classes from all others would
    take too much memory where there are tens of thousands.

    Machines on sets of classes need all classes: without some of them they would have easier problems. Then every class
    has fewer samples in the probe, so that it is as large.
    """
    if isinstance(graph, graphs.ModelCode):
        n = graph.n_classes
        most = max(_LEAST_PROBE_ROWS, PROBE_CLASSES * MOST_PROBE_ROWS // n)
        return Probe(np.arange(n), graph, min(most, MOST_PROBE_ROWS))
    n = len(graph)
    if n <= PROBE_CLASSES + _NEIGHBOURHOOD:
        return Probe(np.arange(n), graph)
    hubs = graph.graph.get("hubs", ())
    classes = np.union1d(_neighbourhoods(n, distances_from, seed), np.asarray(hubs, dtype=np.int64))
    edges = graphs.edge_array(graph)
    among = np.searchsorted(classes, edges[np.isin(edges, classes).all(axis=1)])
    part = graphs.model_graph(len(classes), among.tolist(), "probe")
    if not nx.is_connected(part):
        part = graphs.hub_neighbours([distances_from(c)[classes] for c in classes.tolist()])
    return Probe(classes, part)


def _neighbourhoods(n: int, distances_from: DistancesFrom, seed: int) -> NDArray[np.int64]:
    """Classes drawn at random, each with the classes nearest to it, until there are enough."""
    chosen: set[int] = set()
    for centre in np.random.default_rng([seed, n]).permutation(n).tolist():
        nearest = np.argsort(distances_from(centre), kind="stable")[:_NEIGHBOURHOOD]
        chosen |= set(nearest.tolist())
        if len(chosen) >= PROBE_CLASSES:
            break
    return np.array(sorted(chosen), dtype=np.int64)


def part_of_class(n_samples: int, c: int, seed: int, most: int = MOST_PROBE_ROWS) -> NDArray[np.int64]:
    """Which samples of class c are in the probe, ascending, drawn from (seed, class) and nothing else."""
    if n_samples <= most:
        return np.arange(n_samples)
    return np.sort(np.random.default_rng([seed, c, 2]).permutation(n_samples)[:most])


def best_candidate(judged: Sequence[JudgedCandidate]) -> Candidate:
    """The candidate with the least log loss, or one like it that is preferred.

    Like it are those whose loss is larger by less than a standard error of the difference, sample by sample. Preferred
    is not to whiten, then the middle C, then distances. Of few samples the least loss is a matter of luck, and then the
    simplest candidate is taken: not whitened, with the least C, by distances.
    """
    least = min(judged, key=lambda one: one.log_loss)
    Cs = sorted({one.candidate.C for one in judged})
    if len(least.losses) < _FEW_SAMPLES:
        like_it, usual = [one.candidate for one in judged], 0
    else:
        like_it, usual = [one.candidate for one in judged if not _clearly_more(one, least)], len(Cs) // 2
    return min(like_it, key=lambda one: (one.whiten != "none", abs(Cs.index(one.C) - usual), one.calibration))


def _clearly_more(one: JudgedCandidate, least: JudgedCandidate) -> bool:
    """Whether a log loss is larger than the least by more than chance would have it: a standard error."""
    spread = (one.losses - least.losses).std() / np.sqrt(len(one.losses))
    return bool(one.log_loss - least.log_loss > spread)
