"""The critical machine of an error: the one that compares the predicted class with the true one, and its reasons.

The critical pair of an error is its true and its predicted class [S Table 6]. If that pair was trained, its machine is
the critical one. If it was completed, the critical machine is the one that speaks most for the predicted class among
those of the common neighbours from which it was completed; on sets of classes, among those that separate the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.machines.logits import AffineLogits, collapse
from pairloom.pipeline.report.trained_pairs import TrainedPairs
from pairloom.pipeline.run.calibrating import read_calibrations
from pairloom.pipeline.run.choosing import chosen_candidate
from pairloom.pipeline.run.feature_store import read_normalisation, read_whitening
from pairloom.pipeline.run.learning import read_learned
from pairloom.pipeline.run.machine_store import read_machines
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import open_group
from pairloom.pipeline.storage.zarr_layout import read_whole

__all__ = ["EXPLAINING_BYTES", "Contribution", "CriticalMachine", "critical_machines", "raw_samples"]

#: Bytes of machines, and of samples, that are read to explain errors. Those that need more are left unexplained.
EXPLAINING_BYTES = 128 * 2**20
#: Features that are named.
_FEATURES = 6

Way = Literal["trained", "completed", "sets"]


class Contribution(NamedTuple):
    """What a feature adds to a logit: its number, its value as it came, and the summand."""

    feature: int
    value: float
    logit: float


class CriticalMachine(NamedTuple):
    """The critical machine of one error.

    Attributes
    ----------
    way : str
        "trained": the machine of the pair itself. "completed": of a common neighbour. "sets": on sets of classes.
    edge : int
        Its number among the edges, or columns.
    logit : float
        Its calibrated logit, positive if it speaks for the predicted class.
    pair_logit : float
        The logit of the predicted class over the true one: the machine's own, or the completed one; NaN on sets.
    through : int
        From how many common neighbours the pair was completed.
    contributions : tuple of Contribution
        The largest summands of the logit.
    rest : float
        The sum of all others, and of the intercept.
    """

    way: Way
    edge: int
    logit: float
    pair_logit: float
    through: int
    contributions: tuple[Contribution, ...]
    rest: float


class _Witnesses(NamedTuple):
    """The machines that speak about the critical pair of a sample: +1 where they do so for the predicted class."""

    way: Way
    edges: NDArray[np.int64]
    signs: NDArray[np.int64]

    @property
    def through(self) -> int:
        return len(self.edges) // 2 if self.way == "completed" else 0


def critical_machines(
    run: Run,
    pairs: TrainedPairs | None,
    samples: NDArray[np.int64],
    predicted: NDArray[np.int64],
    label: NDArray[np.int64],
) -> list[CriticalMachine | None]:
    """The critical machine of each sample. None where there is none, or where it costs too much to read.

    Machines with a kernel have no contributions of features, so that none of theirs is critical here: see
    `explained_errors`.
    """
    if run.settings.kernel is not None:
        return [None] * len(samples)
    witnesses = [_witnesses(run, pairs, a, b) for a, b in zip(predicted, label, strict=True)]
    tile, slab = run.shape.edges_per_tile, run.shape.samples_per_slab
    affordable = _affordable(
        [np.unique(found.edges // tile) for found in witnesses],
        _tile_bytes(run),
        samples // slab,
        _slab_bytes(run),
    )
    explained = [place for place, found in enumerate(witnesses) if len(found.edges) and affordable[place]]
    if not explained:
        return [None] * len(samples)
    edges = np.unique(np.concatenate([witnesses[place].edges for place in explained]))
    machines, raw = _calibrated_machines(run, edges), raw_samples(run, samples[explained])
    rows = read_normalisation(run)(raw)
    found: list[CriticalMachine | None] = [None] * len(samples)
    for row, place in enumerate(explained):
        found[place] = _critical(witnesses[place], edges, machines, rows[row], raw[row])
    return found


def _witnesses(run: Run, pairs: TrainedPairs | None, a: np.int64, b: np.int64) -> _Witnesses:
    """The machines that speak about a, the predicted class, and b, the true one."""
    if pairs is None:
        assert run.shape.code is not None
        sides = run.shape.code[[a, b]].astype(np.int64)
        columns = np.flatnonzero(sides[0] * sides[1] == -1)
        return _Witnesses("sets", columns, sides[0, columns])
    direct = pairs.places_of(np.array([a]), np.array([b]))
    if direct[0] >= 0:
        return _Witnesses("trained", direct, _signs(pairs, direct, np.array([a])))
    common = np.intersect1d(pairs.neighbours_of(a), pairs.neighbours_of(b))
    first, second = (pairs.places_of(np.full(len(common), c), common) for c in (a, b))
    # The machine of (m, b) speaks for a if it speaks for m.
    signs = np.concatenate([_signs(pairs, first, np.full(len(common), a)), _signs(pairs, second, common)])
    return _Witnesses("completed", np.concatenate([first, second]), signs)


def _signs(pairs: TrainedPairs, edges: NDArray[np.int64], favoured: NDArray[np.integer]) -> NDArray[np.int64]:
    """+1 where the positive logit of an edge speaks for a class: the edge's first."""
    return np.where(pairs.edges[edges, 0] == favoured, 1, -1)


def _affordable(
    tiles: Sequence[NDArray[np.int64]], tile_bytes: int, slabs: NDArray[np.int64], slab_bytes: int
) -> list[bool]:
    """Which samples can be explained, the first ones first, before too much has to be read."""
    read_tiles, read_slabs, afforded = set[int](), set[int](), []
    for own, slab in zip(tiles, slabs.tolist(), strict=True):
        all_tiles, all_slabs = read_tiles | set(own.tolist()), read_slabs | {slab}
        affords = max(len(all_tiles) * tile_bytes, len(all_slabs) * slab_bytes) <= EXPLAINING_BYTES
        if affords:
            read_tiles, read_slabs = all_tiles, all_slabs
        afforded.append(affords)
    return afforded


def _tile_bytes(run: Run) -> int:
    shape = run.shape
    of_machine = 4 * shape.features + 8 * len(shape.machine_parameters)
    return min(shape.edges_per_tile, shape.n_edges) * shape.machines_per_edge * of_machine


def _slab_bytes(run: Run) -> int:
    shape = run.shape
    rows = min(shape.samples_per_slab, shape.samples)
    return rows * shape.features * np.dtype(shape.sample_dtype).itemsize


def _calibrated_machines(run: Run, edges: NDArray[np.int64]) -> AffineLogits:
    """Machines of some edges, by their ascending numbers, as the coupling of the model hears them."""
    as_stored, learned = np.argsort(run.shape.order)[edges], read_learned(run)
    if learned is not None and learned.logits is not None:
        return AffineLogits(*(values[as_stored] for values in learned.logits))
    whitening = read_whitening(run, chosen_candidate(run).whiten)
    shares = run.settings.machines().scheme.shares
    calibration = read_calibrations(run)[run.shape.couplings[0]]
    slope, shift = calibration.slope[as_stored], calibration.shift[as_stored]
    parts = [
        collapse(read_machines(run.directory, tile).of_edges(own), shares, whitening)
        for tile, own in _by_tile(edges, run.shape.edges_per_tile, run.shape.n_edges)
    ]
    weights, bias = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return AffineLogits(
        (weights * slope[:, None]).astype(np.float32), (bias * slope + shift).astype(np.float32)
    )


def _by_tile(numbers: NDArray[np.int64], size: int, end: int) -> Iterator[tuple[slice, NDArray[np.int64]]]:
    """Ascending numbers by the piece that they lie in, and their places there."""
    for piece in np.unique(numbers // size).tolist():
        start = piece * size
        yield slice(start, min(start + size, end)), numbers[numbers // size == piece] - start


def raw_samples(run: Run, samples: NDArray[np.int64]) -> NDArray[np.floating]:
    """Test samples as they came."""
    stored = open_group(run.directory, "features.zarr")["test"]
    raw = np.empty((len(samples), run.shape.features), run.shape.sample_dtype)
    order = np.argsort(samples, kind="stable")
    begin = 0
    for slab, own in _by_tile(samples[order], run.shape.samples_per_slab, run.shape.samples):
        raw[order[begin : begin + len(own)]] = read_whole(stored, slab)[own]
        begin += len(own)
    return raw


def _critical(
    found: _Witnesses,
    edges: NDArray[np.int64],
    machines: AffineLogits,
    row: NDArray[np.floating],
    raw: NDArray[np.floating],
) -> CriticalMachine:
    places = np.searchsorted(edges, found.edges)
    weights = machines.weights[places] * found.signs[:, None].astype(np.float64)
    logits = weights @ row + machines.bias[places] * found.signs
    best = int(np.argmax(logits))
    pair_logit = {"trained": logits[best], "completed": 2 * logits.mean(), "sets": np.nan}[found.way]
    summands = weights[best] * row
    largest = np.argsort(-np.abs(summands), kind="stable")[:_FEATURES]
    return CriticalMachine(
        way=found.way,
        edge=int(found.edges[best]),
        logit=float(logits[best]),
        pair_logit=float(pair_logit),
        through=found.through,
        contributions=tuple(
            Contribution(int(d), float(raw[d]), float(summands[d])) for d in largest if summands[d]
        ),
        rest=float(logits[best] - summands[largest].sum()),
    )
