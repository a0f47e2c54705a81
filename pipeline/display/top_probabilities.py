"""The likeliest classes of samples with their probabilities, in place of the probabilities of thousands of classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

__all__ = ["TopProbabilities"]


class TopProbabilities(NamedTuple):
    """The k likeliest classes of R samples.

    Attributes
    ----------
    classes : (R, k) int32 array
        The likeliest first; equally likely classes are in their order.
    p : (R, k) array
        Their probabilities, to the bit those among all classes.
    rest : (R,) array
        The total probability of all other classes.
    """

    classes: NDArray[np.int32]
    p: NDArray[np.floating]
    rest: NDArray[np.floating]

    @classmethod
    def of(cls, p: NDArray[np.floating], k: int) -> TopProbabilities:
        """The likeliest classes by probabilities (R, N).

        Examples
        --------
        >>> TopProbabilities.of(np.array([[0.25, 0.125, 0.5, 0.125]]), 2)
        TopProbabilities(classes=array([[2, 0]], dtype=int32), p=array([[0.5 , 0.25]]), rest=array([0.25]))
        """
        R, N = p.shape
        if k < N:
            # Several classes may tie for the last places of the list: take the first of them.
            least = -np.partition(-p, k - 1, axis=1)[:, k - 1 : k]
            likelier = p > least
            missing = k - likelier.sum(axis=1, keepdims=True)
            ties = (p == least) & (np.cumsum(p == least, axis=1) <= missing)
            classes = np.nonzero(likelier | ties)[1].reshape(R, k)
        else:
            classes = np.tile(np.arange(N), (R, 1))
        of_list = np.take_along_axis(p, classes, axis=1)
        order = np.argsort(-of_list, axis=1, kind="stable")
        rest = p.sum(axis=1, dtype=np.float64) - of_list.sum(axis=1, dtype=np.float64)
        return cls(
            np.take_along_axis(classes, order, axis=1).astype(np.int32),
            np.take_along_axis(of_list, order, axis=1),
            np.maximum(rest, 0).astype(p.dtype),
        )

    @classmethod
    def joined(cls, parts: Sequence[TopProbabilities]) -> TopProbabilities:
        """Concatenate samples that were predicted in parts."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    @classmethod
    def of_sparse(cls, p: csr_array, rest: NDArray[np.floating]) -> TopProbabilities:
        """The likeliest classes from their `sparse` matrix."""
        classes, of_list = (values.reshape(p.shape[0], -1) for values in (p.indices, p.data))
        order = np.argsort(-of_list, axis=1, kind="stable")
        classes, of_list = (np.take_along_axis(values, order, axis=1) for values in (classes, of_list))
        return cls(classes, of_list, rest)

    def of_samples(self, samples: NDArray[np.integer] | NDArray[np.bool_] | slice) -> TopProbabilities:
        """Some of the samples."""
        return TopProbabilities(self.classes[samples], self.p[samples], self.rest[samples])

    def sparse(self, n_classes: int) -> csr_array:
        """(R, N) matrix of the probabilities of the listed classes, in ascending order of the classes."""
        R, k = self.classes.shape
        starts = np.arange(0, (R + 1) * k, k)
        matrix = csr_array((self.p.flatten(), self.classes.flatten(), starts), shape=(R, n_classes))
        matrix.sort_indices()
        return matrix
