"""Pairs of classes by their labels, and the logit that their machines give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.display.tables import Table, html_of, name_of, text_of
from pairloom.pipeline.machines.linear_model import LinearModel
from pairloom.pipeline.model.fitted_model import FittedModel

__all__ = ["PairMachine", "PairMachines", "pair_machines"]

#: Pairs that are printed from either end.
_SHOWN = 5


class PairMachine(NamedTuple):
    """The logit of one class against another is ``weights @ x + bias``."""

    weights: NDArray[np.float32]
    bias: float
    dprime: float


class PairMachines(Mapping[tuple[Any, Any], PairMachine]):
    """Pairs of class labels, either way round, and their machines. It prints the first and the last of them."""

    def __init__(
        self,
        labels: list[Any],
        edges: NDArray[np.int64],
        weights: NDArray[np.float32],
        bias: NDArray[np.float64],
        dprime: NDArray[np.float64],
    ) -> None:
        self._weights, self._bias, self._dprime = weights, bias, dprime
        self._edge = {(labels[i], labels[j]): e for e, (i, j) in enumerate(edges.tolist())}

    def __getitem__(self, pair: tuple[Any, Any]) -> PairMachine:
        if not (isinstance(pair, tuple) and len(pair) == 2 and {pair, pair[::-1]} & self._edge.keys()):
            raise KeyError(pair)
        a, b = pair
        e, sign = (self._edge[a, b], 1) if (a, b) in self._edge else (self._edge[b, a], -1)
        return PairMachine(sign * self._weights[e], float(sign * self._bias[e]), float(self._dprime[e]))

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return iter(self._edge)

    def __len__(self) -> int:
        return len(self._edge)

    def __repr__(self) -> str:
        return text_of(self._heading, [], [self._table()])

    def _repr_html_(self) -> str:
        return html_of(self._heading, [], [self._table()])

    @property
    def _heading(self) -> str:
        return f"{len(self)} pairs: the logit of a against b is weights @ x + bias"

    def _table(self) -> Table:
        """The first and the last pairs."""
        pairs, rows = list(self), []
        cut = len(pairs) > 2 * _SHOWN
        for e in [*range(_SHOWN), *range(len(pairs) - _SHOWN, len(pairs))] if cut else range(len(pairs)):
            a, b = map(name_of, pairs[e])
            norm = float(np.linalg.norm(self._weights[e]))
            rows.append([f"{a} / {b}", f"{norm:.4g}", f"{self._bias[e]:.4g}", f"{self._dprime[e]:.3g}"])
        if cut:
            rows.insert(_SHOWN, ["…"] * 4)
        return Table("", ["a / b", "|weights|", "bias", "d'"], rows)


def pair_machines(model: FittedModel) -> PairMachines:
    """The calibrated machines of a model, on features as they come."""
    if not isinstance(model.trained, LinearModel):
        raise AttributeError("PairwiseSVC: pairs_ is for linear machines.")
    logits = model.affine.logits
    weights, bias = model.normalisation.fold_back(logits.weights, logits.bias)
    labels = model.classes.labels.tolist()
    return PairMachines(labels, model.edges, weights, bias, model.trained.machines.dprime)
