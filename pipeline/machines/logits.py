"""Logits: what the machines of the edges say of samples, as one affine map."""

from typing import NamedTuple

import numpy as np


class AffineLogits(NamedTuple):
    """The logit of edge e for a sample x is ``weights[e] @ x + bias[e]``: (E, D) and (E,) float32."""

    weights: np.ndarray
    bias: np.ndarray

    def __call__(self, X):
        """(E, R) float32 logits of samples X (R, D)."""
        logits = self.weights @ np.ascontiguousarray(X, np.float32).T
        logits += self.bias[:, None]
        return logits


def collapse(machines, shares, whitening=None):
    """The mean of an edge's linear machines, weighted by `shares` (M,), as one affine map.

    l_m(x) = -(A_m f_m(x) + B_m) and f_m is affine, so averaging costs nothing at prediction [S 2.3]. Where the machines
    were trained on whitened features the whitening goes into the map as well, and it takes raw ones.
    """
    A, B = machines.platt[..., 0] * shares, machines.platt[..., 1] * shares
    weights = -np.einsum("em,emd->ed", A.astype(np.float32), machines.coef, optimize=True)
    bias = -(A * machines.intercept + B).sum(axis=1) - machines.threshold
    if whitening is not None:
        weights, bias = whitening.fold_back(weights, bias)
    return AffineLogits(np.ascontiguousarray(weights, np.float32), bias.astype(np.float32))


def calibrated(affine, slope, shift):
    """The affine map whose logits are ``slope[e] * l + shift[e]`` where those of `affine` are l."""
    return AffineLogits(
        (affine.weights * slope[:, None]).astype(np.float32), (affine.bias * slope + shift).astype(np.float32)
    )


def edge_logits(machines, X, scheme, whitening=None):
    """(E, R) float32 logits of the edges for samples X."""
    return collapse(machines, scheme.shares, whitening)(X)


def out_of_fold_edge_logits(by_shares, edges, scheme, X, classes, folds):
    """(E, R) logits of training samples by machines that have not seen them.

    For a sample of class c in fold k, an edge that touches c uses the machines that were not fitted on fold k; one that
    does not never saw the sample and uses its average as it is [I 4].

    Parameters
    ----------
    by_shares : callable
        ``by_shares(shares, X)`` is the (E, R) logits with those shares of the machines.
    edges : (E, 2) int array
    scheme : FoldScheme
    X, classes, folds : the samples, their class and their fold in it
    """
    logits = by_shares(scheme.shares, X)
    for k, shares in enumerate(scheme.out_of_fold):
        samples = np.flatnonzero(folds == k)
        if not len(samples):
            continue
        unseen = by_shares(shares, X[samples])
        touches = (edges[:, :1] == classes[samples]) | (edges[:, 1:] == classes[samples])
        logits[:, samples] = np.where(touches, unseen, logits[:, samples])
    return logits
