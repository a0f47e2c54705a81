"""Find the penultimate activations in a network's graph: the input of the last matrix product.

From an output of the graph the search goes back through operations that only reshape, pool or rescale, to the matrix
product (or the 1 x 1 convolution) that is the classifier. Its input are the features. Where the way back forks, as
behind a residual sum, there is no classifier to be found, and the layer must be given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pairloom.graphs.labels import did_you_mean, listed

__all__ = ["ClassifierInput", "NoSuchLayer", "named_layer", "penultimate_layer"]

_PRODUCTS = ("MatMul", "Gemm")
# Follow the first input; the others are shapes or axes.
_RESHAPING = (
    "AveragePool", "Cast", "Dropout", "Flatten", "GlobalAveragePool", "Identity", "LogSoftmax", "ReduceMean", "Relu",
    "Reshape", "Softmax", "Squeeze", "Transpose", "Unsqueeze",
)  # fmt: skip
# Follow the only input that is not a constant: a bias, a temperature.
_SCALING = ("Add", "Div", "Mul", "Sub")


class NoSuchLayer(ValueError):
    """A network without the layer that was asked for, or without a classifier."""


class ClassifierInput(NamedTuple):
    """The input of a classifier, and the output of the graph to which it leads."""

    layer: str
    output: str


def penultimate_layer(graph: Any) -> ClassifierInput:
    """The input of the last matrix product before the first output that has one.

    Parameters
    ----------
    graph : onnx.GraphProto
    """
    makers = {name: node for node in graph.node for name in node.output}
    constants = _constants(graph)
    for output in graph.output:
        layer = _classifier_input(output.name, makers, constants)
        if layer is not None:
            return ClassifierInput(layer, output.name)
    raise NoSuchLayer(
        "--layer must be given: the network has no matrix product before its output "
        f"{listed(output.name for output in graph.output)}. Candidates, the last ones first: "
        f"{listed(_candidates(graph, constants), 8)}."
    )


def named_layer(graph: Any, name: str) -> str:
    """The activations with this name, or those that the operation with this name writes."""
    written = [output for node in graph.node for output in node.output if output]
    if name in written:
        return name
    nodes = {node.name: node.output[0] for node in graph.node if node.name}
    if name in nodes:
        return str(nodes[name])
    raise NoSuchLayer(
        f"--layer must be the name of activations or of an operation of the network, got {name!r}."
        f"{did_you_mean(name, [*written, *nodes])} Candidates: {listed(_candidates(graph, _constants(graph)), 8)}."
    )


def _constants(graph: Any) -> set[str]:
    """Names of everything that does not depend on the input."""
    known = {tensor.name for tensor in graph.initializer}
    for node in graph.node:  # sorted topologically, as ONNX demands
        if all(name in known or not name for name in node.input):
            known.update(node.output)
    return known


def _classifier_input(name: str, makers: Mapping[str, Any], constants: set[str]) -> str | None:
    while name in makers:
        node = makers[name]
        free = [source for source in node.input if source and source not in constants]
        if _is_product(node):
            return free[0] if len(free) == 1 else None
        if node.op_type in _RESHAPING and free:
            name = node.input[0]
        elif node.op_type in _SCALING and len(free) == 1:
            name = free[0]
        else:
            return None
    return None


def _is_product(node: Any) -> bool:
    if node.op_type in _PRODUCTS:
        return True
    kernel = next((list(a.ints) for a in node.attribute if a.name == "kernel_shape"), None)
    return node.op_type == "Conv" and kernel is not None and set(kernel) == {1}


def _candidates(graph: Any, constants: set[str]) -> list[str]:
    """Inputs of matrix products and outputs of pooling, from the last to the first."""
    found = []
    for node in reversed(graph.node):
        if node.op_type in _PRODUCTS:
            found += [name for name in node.input if name not in constants]
        if "Pool" in node.op_type or node.op_type in ("ReduceMean", "Flatten"):
            found += list(node.output)
    return list(dict.fromkeys(found)) or [node.output[0] for node in reversed(graph.node)]
