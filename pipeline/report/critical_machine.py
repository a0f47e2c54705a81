"""The critical machine of an error, which decides between the predicted and the true class, and its features.

The critical pair of an error is its true and its predicted class [S Table 6]. If that pair was trained, its machine is
the critical one. If it was completed, the candidates are the machines of the common neighbours from which it was
completed; on sets of classes, the machines that separate the two. The critical machine is the candidate with the
largest logit for the predicted class.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pairloom.pipeline.machines.contributions import LinearEvidence
from pairloom.pipeline.machines.linear_machines import AffineLogits, collapse
from pairloom.pipeline.machines.normalisation import dense
from pairloom.pipeline.machines.sparse_machines import SparseLogits
from pairloom.pipeline.report.run_results import TrainedPairs
from pairloom.pipeline.run.feature_store import read_normalisation, read_raw_samples, read_whitening
from pairloom.pipeline.run.machine_store import read_machines
from pairloom.pipeline.run.needs import row_bytes, tile_bytes
from pairloom.pipeline.run.results import as_chosen, chosen_candidate, read_calibrations, read_learned
from pairloom.pipeline.run.run import Run

__all__ = ["EXPLAINING_BYTES", "NAMED", "CriticalMachine", "critical_machines", "raw_samples"]

#: Limits of the bytes of machines, and of samples, that are read to explain errors. The remaining errors are not
#: explained.
EXPLAINING_BYTES = 128 * 2**20
#: Number of features, machines or support vectors that are named.
NAMED = 6

Way = Literal["trained", "completed", "sets"]


class CriticalMachine(NamedTuple):
    """The critical machine of one error.

    Attributes
    ----------
    way : str
        "trained": the machine of the pair itself. "completed": the machine of a common neighbour. "sets": a machine on
        sets of classes.
    edge : int
        Its number among the edges, or columns.
    logit : float
        Its calibrated logit, positive if it favours the predicted class.
    pair_logit : float
        The logit of the predicted class over the true one: the machine's own, or the completed one; NaN on sets.
    through : int
        Number of common neighbours from which the pair was completed.
    features : list of (name, value, contribution)
        The features that contribute most to the logit.
    rest : float
        The sum of the other contributions and the intercept.
    """

    way: Way
    edge: int
    logit: float
    pair_logit: float
    through: int
    features: list[tuple[str, float, float]]
    rest: float


class _PairMachines(NamedTuple):
    """The machines that decide between the classes of a critical pair; sign +1 if they favour the predicted one."""

    way: Way
    edges: NDArray[np.integer]
    signs: NDArray[np.integer]


def critical_machines(
    run: Run,
    pairs: TrainedPairs | None,
    samples: NDArray[np.int64],
    predicted: NDArray[np.int64],
    label: NDArray[np.int64],
) -> list[CriticalMachine | None]:
    """The critical machine of each sample; None if there is none, or if reading it takes too long.

    Machines with a kernel have no contributions of features; `errors.explanations` has those of support vectors.
    """
    if run.settings.kernel is not None:
        return [None] * len(samples)
    candidates = [_pair_machines(run, pairs, a, b) for a, b in zip(predicted, label, strict=True)]
    affordable = _affordable(run, candidates, samples)
    if not affordable:
        return [None] * len(samples)
    edges = np.unique(np.concatenate([candidates[place].edges for place in affordable]))
    machines, X = _calibrated_machines(run, edges), dense(raw_samples(run, samples[affordable]))
    normalisation = read_normalisation(run)
    names = np.array(run.shape.feature_names or [f"feature {d}" for d in range(run.shape.features)], object)
    critical: list[CriticalMachine | None] = [None] * len(samples)
    for place, x in zip(affordable, X, strict=True):
        pair_machines = candidates[place]
        own = np.searchsorted(edges, pair_machines.edges)
        logits = type(machines)(machines.weights[own], machines.bias[own])
        critical[place] = _critical(pair_machines, LinearEvidence(logits, x, normalisation, names))
    return critical


def _pair_machines(run: Run, pairs: TrainedPairs | None, a: np.int64, b: np.int64) -> _PairMachines:
    """The machines that decide between a, the predicted class, and b, the true one."""
    if pairs is None:
        assert run.shape.code is not None
        sides = run.shape.code[[a, b]].astype(np.int64)
        columns = np.flatnonzero(sides[0] * sides[1] == -1)
        return _PairMachines("sets", columns, sides[0, columns])
    way: Way = "trained"
    edges, favoured = pairs.number(int(a), np.array([b])), np.array([a])
    if edges[0] < 0:
        every = np.arange(pairs.n_classes)
        of_a, of_b = pairs.number(int(a), every), pairs.number(int(b), every)
        way, (common,) = "completed", np.nonzero((of_a >= 0) & (of_b >= 0))
        edges = np.concatenate([of_a[common], of_b[common]])
        # The machine of (m, b) favours a if it favours m.
        favoured = np.concatenate([np.full(len(common), a), common])
    # A positive logit favours the first class of an edge.
    return _PairMachines(way, edges, np.where(pairs.edges[edges, 0] == favoured, 1, -1))


def _affordable(run: Run, candidates: Sequence[_PairMachines], samples: NDArray[np.int64]) -> list[int]:
    """The samples with machines to choose from: the first ones, as many as `EXPLAINING_BYTES` allow to read."""
    tiles, slabs, affordable = set[int](), set[int](), []
    for place, (pair_machines, slab) in enumerate(
        zip(candidates, samples // run.shape.samples_per_slab, strict=True)
    ):
        all_tiles = tiles.union((pair_machines.edges // run.shape.edges_per_tile).tolist())
        all_slabs = slabs | {int(slab)}
        needed = max(len(all_tiles) * _tile_bytes(run), len(all_slabs) * _slab_bytes(run))
        if needed <= EXPLAINING_BYTES:
            tiles, slabs = all_tiles, all_slabs
            if len(pair_machines.edges):
                affordable.append(place)
    return affordable


def _tile_bytes(run: Run) -> int:
    shape = run.shape
    if shape.sparse is not None:
        return tile_bytes(run)
    of_machine = 4 * shape.features + 8 * len(shape.machine_parameters)
    return min(shape.edges_per_tile, shape.n_edges) * shape.machines_per_edge * of_machine


def _slab_bytes(run: Run) -> int:
    shape = run.shape
    rows = min(shape.samples_per_slab, shape.samples)
    if shape.sparse is not None:
        return row_bytes(run, "samples")
    return rows * shape.features * np.dtype(shape.sample_dtype).itemsize


def _calibrated_machines(run: Run, edges: NDArray[np.int64]) -> AffineLogits | SparseLogits:
    """Machines of some edges, by their ascending numbers, as the coupling of the model uses them."""
    as_stored, learned = np.argsort(run.shape.order)[edges], read_learned(run)
    if learned is not None and learned.logits is not None:
        return AffineLogits(*(values[as_stored] for values in learned.logits))
    whitening = read_whitening(run, chosen_candidate(run).whiten)
    shares = run.settings.machines().scheme.shares
    calibration = read_calibrations(run)[run.shape.couplings[0]]
    slope, shift = calibration.slope[as_stored], calibration.shift[as_stored]
    parts = [
        collapse(as_chosen(run, read_machines(run.directory, tile).of_edges(numbers)), shares, whitening)
        for tile, numbers in _by_tile(edges, run.shape.edges_per_tile, run.shape.n_edges)
    ]
    bias = np.concatenate([part.bias for part in parts])
    if run.shape.sparse is not None:
        return SparseLogits(sparse.vstack([part.weights for part in parts], "csr"), bias).calibrated(
            slope, shift
        )
    return AffineLogits(np.concatenate([part.weights for part in parts]), bias).calibrated(slope, shift)


def _by_tile(numbers: NDArray[np.int64], size: int, end: int) -> Iterator[tuple[slice, NDArray[np.int64]]]:
    """Ascending numbers, grouped by tile or slab: its slice, and their positions in it."""
    for piece in np.unique(numbers // size).tolist():
        start = piece * size
        yield slice(start, min(start + size, end)), numbers[numbers // size == piece] - start


def raw_samples(run: Run, samples: NDArray[np.int64]) -> Any:
    """Test samples, before normalisation."""
    ordered, places = np.unique(samples, return_inverse=True)
    slabs = _by_tile(ordered, run.shape.samples_per_slab, run.shape.samples)
    parts = [read_raw_samples(run, slab)[rows] for slab, rows in slabs]
    joined = np.concatenate(parts) if run.shape.sparse is None else sparse.vstack(parts, "csr")
    return joined[places]


def _critical(pair_machines: _PairMachines, evidence: LinearEvidence) -> CriticalMachine:
    """The machine with the largest logit for the predicted class."""
    logits = evidence.logits * pair_machines.signs
    best = int(np.argmax(logits))
    parts = evidence.contributions(np.where(np.arange(len(logits)) == best, pair_machines.signs, 0.0))
    largest = parts.largest(NAMED)
    return CriticalMachine(
        way=pair_machines.way,
        edge=int(pair_machines.edges[best]),
        logit=float(logits[best]),
        pair_logit=float(
            {"trained": logits[best], "completed": 2 * logits.mean(), "sets": np.nan}[pair_machines.way]
        ),
        through=len(pair_machines.edges) // 2 if pair_machines.way == "completed" else 0,
        features=[
            (str(parts.names[d]), float(parts.inputs[d]), float(parts.values[d])) for d in largest.tolist()
        ],
        rest=float(logits[best] - parts.values[largest].sum()),
    )
