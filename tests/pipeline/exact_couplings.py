"""The couplings from their definitions, of one sample (N, N) in double precision: slow, and obviously right."""

import numpy as np


def softmax(u):
    e = np.exp(u - u.max())
    return e / e.sum()


def normal(L):
    return softmax(L.mean(axis=1))


def stratified(L):
    M = np.exp(L)
    M /= M.sum(axis=0)
    system = np.vstack([M - np.eye(len(L)), np.ones(len(L))])
    return np.linalg.lstsq(system, np.r_[np.zeros(len(L)), 1], rcond=None)[0]


def wlw2(L):
    r = 1 / (1 + np.exp(-L))
    np.fill_diagonal(r, 0)
    n = len(L)
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = np.diag((r**2).sum(axis=0)) - r * r.T
    system[n, :n] = system[:n, n] = 1
    return np.linalg.solve(system, np.r_[np.zeros(n), 1])[:n]


def bradley_terry(L):
    r = 1 / (1 + np.exp(-L))
    i, j = np.triu_indices(len(L), 1)

    def loss(u):
        d = u[i] - u[j]
        value = (r[i, j] * np.logaddexp(0, -d) + r[j, i] * np.logaddexp(0, d)).sum()
        slope = 1 / (1 + np.exp(-d)) - r[i, j]
        return value, np.bincount(i, slope, len(L)) - np.bincount(j, slope, len(L))

    u = L.mean(axis=1)
    for _ in range(12):  # Newton, from the definition
        _, g = loss(u)
        mu = 1 / (1 + np.exp(u[None, :] - u[:, None]))
        H = -mu * mu.T
        np.fill_diagonal(H, 0)
        np.fill_diagonal(H, -H.sum(axis=1))
        u = u - np.linalg.lstsq(H, g, rcond=None)[0]
    return softmax(u)


REFERENCES = {"normal": normal, "stratified": stratified, "wlw2": wlw2, "bradley_terry": bradley_terry}
