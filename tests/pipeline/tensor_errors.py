"""Errors of models over graphs, computed from a trained tensor: the reference of tests of experiments."""

from pairloom.pipeline.experiments.trained_tensor import COUPLINGS


def errors(trained, graph, methods=COUPLINGS):
    """The share of samples that the model over a graph gets wrong, for each of some couplings."""
    coupled = trained.probabilities(graph, methods)
    return {method: float((p.argmax(axis=1) != trained.labels).mean()) for method, p in coupled.items()}


def tree_error(trained, graph):
    """The error of a tree. Its logits are differences of potentials, so every coupling gives the same model."""
    return errors(trained, graph, ["normal"])["normal"]
