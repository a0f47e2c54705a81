"""Compact machines: the part of a model's machines that prediction needs.

Prediction needs one map from samples to logits: the calibrated mean of each edge's machines. The machines of single
folds, which score held-out samples and are needed to add or retrain pairs, take several times its size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pairloom.pipeline.features.sparse_features import canonical_csr
from pairloom.pipeline.machines.contributions import feature_names
from pairloom.pipeline.machines.kernel_function import KernelFunction
from pairloom.pipeline.machines.kernel_machines import KernelLogits, names_of_vectors
from pairloom.pipeline.machines.linear_machines import AffineLogits
from pairloom.pipeline.machines.normalisation import Normalisation, dense
from pairloom.pipeline.machines.sparse_machines import SparseLogits

__all__ = ["CompactMachines"]


class CompactMachines(NamedTuple):
    """The calibrated logits of all edges as one map.

    Attributes
    ----------
    logits : AffineLogits, SparseLogits or KernelLogits
    dprime : (E,) float64
        The distance of the two classes of each edge.
    row : (S,) int64
        The training row of each support vector, counted class by class; empty if machines are linear.
    ranking : AffineLogits, optional
        The ranking of the classes by the calibrated logits, one row of weights per class, if it was stored.
    """

    logits: AffineLogits | SparseLogits | KernelLogits
    dprime: NDArray[np.float64]
    row: NDArray[np.int64]
    ranking: AffineLogits | None = None

    @classmethod
    def of(cls, logits: Any, machines: Any) -> CompactMachines:
        """The logits of a model with these machines."""
        row = np.unique(machines.row) if isinstance(logits, KernelLogits) else np.empty(0, np.int64)
        return cls(logits, machines.dprime, row)

    @property
    def machines(self) -> CompactMachines:
        """Itself: there are no machines of single folds."""
        return self

    @property
    def kernel(self) -> KernelFunction | None:
        """The kernel; None if the machines are linear."""
        return self.logits.kernel if isinstance(self.logits, KernelLogits) else None

    @property
    def n_edges(self) -> int:
        """E, the number of trained pairs, or pairs of sets."""
        return len(self.dprime)

    @property
    def profile(self) -> NoReturn:
        """Raises: the profiles were not kept."""
        self._refuse("calibrated again")

    def unprofiled(self) -> CompactMachines:
        """Itself."""
        return self

    def by_distance(self, scheme: object) -> NoReturn:
        """Raises: the norms of the machines were not kept."""
        self._refuse("calibrated again")

    def by_decision_value(self) -> NoReturn:
        """Raises: the decision values of the machines were not kept."""
        self._refuse("asked for the votes of its machines (coupling='sign_vote')")

    def held_out_logits(self, shares: object, X: object, parts: object, /) -> NoReturn:
        """Raises: the machines of single folds were not kept."""
        self._refuse("scored on its training samples")

    def _refuse(self, what: str) -> NoReturn:
        raise ValueError(
            f"PairwiseSVC: a compact model cannot be {what}: it has no machines of single folds. Fit it again, or save"
            " it, or read it from its run, with compact=False."
        )

    def collapsed(self, shares: object) -> AffineLogits | SparseLogits | KernelLogits:
        """The map itself."""
        return self.logits

    def prepared(self, X: Any, normalisation: Normalisation) -> Any:
        """Samples in the form that the map takes: normalised, and sparse if the weights are."""
        return normalisation(canonical_csr(X) if isinstance(self.logits, SparseLogits) else dense(X))

    def described(self, C: float) -> tuple[str, str]:
        """The kernel and C, for a summary."""
        return "linear" if self.kernel is None else self.kernel.described(), f"{C:.4g}"

    def names_of_inputs(
        self, names: Any, edges: NDArray[np.int64] | None, labels: NDArray[Any], ids: Sequence[Any] = ()
    ) -> NDArray[np.object_]:
        """The names of the terms of the logits: features, or support vectors."""
        if not isinstance(self.logits, KernelLogits):
            return feature_names(names, self.logits.weights.shape[1])
        numbers = self.logits.vectors if self.logits.kernel.precomputed else self.row
        weights = self.logits.weights.tocoo()
        classes = None
        if edges is not None:
            classes = np.zeros(len(numbers), np.int64)
            # The coefficients of a row have the sign of its class in all machines of a pair.
            classes[weights.col] = edges[weights.row, (weights.data < 0).astype(np.int64)]
        return names_of_vectors(ids if len(ids) else numbers.tolist(), classes, labels)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of a saved model, by name."""
        logits = self.logits
        shared = {"compact/bias": logits.bias, "compact/dprime": self.dprime}
        if isinstance(logits, AffineLogits):
            return {**shared, "compact/weights": logits.weights, **self._ranking_arrays()}
        weights = logits.weights
        entries = {
            "compact/start": weights.indptr,
            "compact/place": weights.indices,
            "compact/entry": weights.data,
        }
        if isinstance(logits, SparseLogits):
            return {**shared, **entries}
        return {**shared, **entries, "compact/row": self.row, "support_vectors": logits.vectors}

    def _ranking_arrays(self) -> dict[str, NDArray[Any]]:
        if self.ranking is None:
            return {}
        return {
            "compact/ranking_weights": self.ranking.weights,
            "compact/ranking_bias": self.ranking.bias,
        }

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], kernel: KernelFunction | None, n_features: int
    ) -> CompactMachines:
        """The machines from their saved `arrays`."""
        bias, dprime, none = arrays["compact/bias"], arrays["compact/dprime"], np.empty(0, np.int64)
        if "compact/weights" in arrays:
            ranking = None
            if "compact/ranking_weights" in arrays:
                ranking = AffineLogits(arrays["compact/ranking_weights"], arrays["compact/ranking_bias"])
            return cls(AffineLogits(arrays["compact/weights"], bias), dprime, none, ranking)
        entries = tuple(arrays[f"compact/{name}"] for name in ("entry", "place", "start"))
        if kernel is None:
            return cls(SparseLogits(sparse.csr_array(entries, (len(bias), n_features)), bias), dprime, none)
        vectors = arrays["support_vectors"]
        weights = sparse.csc_array(entries, (len(bias), len(vectors)))
        return cls(KernelLogits(kernel, vectors, weights, bias), dprime, arrays["compact/row"])
