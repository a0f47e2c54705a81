"""An ONNX network, run up to its penultimate layer.

The layer becomes an output of the graph in memory; the file is only read. Features are the activations of the layer,
one vector per picture: axes of length one are dropped, and a map of activations is averaged over its positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from pairloom.graphs.text import did_you_mean, listed
from pairloom.pipeline.storage.digests import digest_of, file_digest
from pairloom.pipeline.threads import pieces

__all__ = [
    "ClassifierInput",
    "Network",
    "NetworkInput",
    "NoSuchLayer",
    "named_layer",
    "open_network",
    "penultimate_layer",
]


_TYPES: dict[int, type[np.floating]] = {
    onnx.TensorProto.FLOAT: np.float32,
    onnx.TensorProto.FLOAT16: np.float16,
    onnx.TensorProto.DOUBLE: np.float64,
}
# A network's own probabilities add up to one but for rounding, in half precision too.
_SUM_TOLERANCE = 1e-2
# Pictures of noise that are run to find the shapes of features and outputs.
_PROBES = 2


class NetworkInput(NamedTuple):
    """The input of a network. A size is None if the network takes any."""

    name: str
    layout: str
    channels: int
    size: tuple[int | None, int | None]
    batch: int | None
    dtype: type[np.floating]


class Network:
    """A network that turns pictures into features and, if it is a classifier, into probabilities.

    Attributes
    ----------
    input : NetworkInput
    layer, output : str
        Names of the activations that are the features, and of the output that are the class scores (None if there is
        none).
    digest : str
        SHA-256 of the file of the model (with its external data, if it has any).
    metadata : dict of str to str
    """

    def __init__(
        self,
        session: Any,
        taken: NetworkInput,
        layer: str,
        output: str | None,
        digest: str,
        metadata: dict[str, str],
    ) -> None:
        self._session = session
        self.input, self.layer, self.output = taken, layer, output
        self.digest, self.metadata = digest, metadata
        self.positions: tuple[int, ...] = ()
        self.softmax = False
        self.n_features, self.n_outputs = 0, 0

    def measure(self, size: tuple[int, int]) -> None:
        """Run pictures of noise to find the numbers of features and outputs, and whether outputs are probabilities."""
        noise = np.random.default_rng(0).standard_normal((_PROBES, *size, self.input.channels))
        layer, scores = self._run(noise.astype(np.float32))
        self.positions = layer.shape[2:] if layer.ndim == 4 and layer[0, 0].size > 1 else ()
        self.n_features = _vectors(layer, self.layer).shape[1]
        if scores is None:
            return
        if scores.ndim < 2 or scores.shape[1] < 2 or scores.size != len(scores) * scores.shape[1]:
            self.output = None  # boxes, masks, embeddings: not one score per class
            return
        self.n_outputs = scores.shape[1]
        scores = scores.reshape(len(scores), -1)
        with np.errstate(all="ignore"):  # the check of the features reports values that are not finite
            sums = scores.sum(axis=1, dtype=np.float64)
            self.softmax = not (scores.min() >= 0 and (abs(sums - 1) <= _SUM_TOLERANCE).all())

    def __call__(
        self, pictures: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """Features (n, D) and probabilities (n, K) of normalised pictures (n, height, width, channels)."""
        layer, scores = self._run(pictures)
        features = _vectors(layer, self.layer)
        if scores is None:
            return features, None
        scores = scores.reshape(len(scores), -1).astype(np.float32)
        return features, _softmax(scores) if self.softmax else scores

    def _run(self, pictures: NDArray[np.float32]) -> tuple[NDArray[Any], NDArray[Any] | None]:
        parts = [
            self._run_batch(pictures[part])
            for part in pieces(len(pictures), self.input.batch or len(pictures))
        ]
        layers, scores = zip(*parts, strict=True)
        return np.concatenate(layers), None if self.output is None else np.concatenate(scores)

    def _run_batch(self, pictures: NDArray[np.float32]) -> tuple[NDArray[Any], NDArray[Any] | None]:
        taken, n = self.input, len(pictures)
        if taken.batch is not None and n < taken.batch:
            pictures = np.concatenate(
                [pictures, np.zeros((taken.batch - n, *pictures.shape[1:]), np.float32)]
            )
        if taken.layout == "nchw":
            pictures = pictures.transpose(0, 3, 1, 2)
        given = {taken.name: np.ascontiguousarray(pictures, taken.dtype)}
        wanted = [self.layer] if self.output is None else [self.layer, self.output]
        try:
            outputs = self._session.run(wanted, given)
        except Exception as error:  # onnxruntime has exceptions of its own
            raise ValueError(
                f"--model: the network cannot be run on pictures {pictures.shape}: {error}"
            ) from error
        if outputs[0].shape[:1] != (len(pictures),):
            raise ValueError(
                f"--layer must have one row per picture, got {self.layer!r} of shape {outputs[0].shape} for "
                f"{len(pictures)} pictures."
            )
        return outputs[0][:n], outputs[1][:n] if len(wanted) > 1 else None


def open_network(
    path: Path, *, layer: str | None = None, layout: str | None = None, provider: str, threads: int
) -> Network:
    """Open a model for its features.

    Parameters
    ----------
    path : Path
        An ONNX file.
    layer : str, optional
        Name of the activations, or of the operation that writes them. Default: the input of the last matrix product.
    layout : {"nchw", "nhwc"}, optional
        Order of the axes of its input. Default: read from its shape.
    provider : str
        Execution provider of onnxruntime.
    threads : int
    """
    model, digest = _loaded(path)
    output: str | None
    if layer is None:
        layer, output = penultimate_layer(model.graph)
    else:
        layer = named_layer(model.graph, layer)
        output = next((o.name for o in model.graph.output if o.name != layer), None)
    if layer not in {o.name for o in model.graph.output}:
        model.graph.output.append(onnx.ValueInfoProto(name=layer))
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    session = _session(model, path, provider, threads)
    return Network(session, _input_of(model.graph, layout), layer, output, digest, metadata)


def _loaded(path: Path) -> tuple[Any, str]:
    """The model, and the digest of its file and of its external files of weights, if there are any."""
    try:
        model = onnx.load(path, load_external_data=False)
        places = sorted(set(_external_places(model)))
        _check_places(places, path)
        onnx.external_data_helper.load_external_data_for_model(model, str(path.parent))
    except (FileNotFoundError, _Outside):
        raise
    except Exception as error:  # protobuf has exceptions of its own
        raise ValueError(
            f"--model must be an ONNX file, got {path}, which cannot be read: {error}."
        ) from error
    if not places:
        return model, file_digest(path)
    return model, digest_of([file_digest(path), *(file_digest(path.parent / place) for place in places)])


class _Outside(ValueError):
    """The weights of a network are not in its folder."""


def _external_places(message: Any) -> Iterator[str]:
    """The files that a network names for its weights, in its graphs, nested graphs and functions."""
    if isinstance(message, onnx.TensorProto):
        if message.data_location == onnx.TensorProto.EXTERNAL:
            yield from (entry.value for entry in message.external_data if entry.key == "location")
        return
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.full_name.startswith("onnx."):
            for one in [value] if field.has_presence else value:
                yield from _external_places(one)


def _check_places(places: Sequence[str], path: Path) -> None:
    """Raise unless all places are files in the folder of the network, and not links."""
    folder = path.parent.resolve()
    for place in places:
        inside = not Path(place).is_absolute() and (folder / place).resolve().is_relative_to(folder)
        if not inside or (folder / place).is_symlink():
            raise _Outside(
                f"--model: {path} must have its weights in files of its own folder, got {place!r}. Save it again with"
                " its weights beside it."
            )


def _session(model: Any, path: Path, provider: str, threads: int) -> Any:
    known = onnxruntime.get_available_providers()
    if provider not in known:
        raise ValueError(
            f"--provider must be one that onnxruntime has here, {', '.join(known)}, got {provider!r}."
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # errors only
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=[provider])
    except Exception as error:  # onnxruntime and protobuf have exceptions of their own
        raise ValueError(f"--model: {path} cannot be run by onnxruntime: {error}") from error


def _input_of(graph: Any, layout: str | None) -> NetworkInput:
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    if len(inputs) != 1:
        names = ", ".join(value.name for value in inputs)
        raise ValueError(f"--model must have one input, the pictures, got {len(inputs)}: {names}.")
    tensor = inputs[0].type.tensor_type
    # A size that depends on the input has a name, or is 0 or negative.
    shape = [d.dim_value if d.dim_value > 0 else None for d in tensor.shape.dim]
    if len(shape) != 4 or tensor.elem_type not in _TYPES:
        kind = onnx.TensorProto.DataType.Name(tensor.elem_type).lower()
        raise ValueError(
            f"--model must take pictures as a tensor of floating-point numbers with 4 axes, got {inputs[0].name!r} "
            f"of type {kind} with {len(shape)} axes."
        )
    layout = layout or _layout_of(shape, inputs[0].name)
    batch, (channels, *size) = shape[0], shape[1:] if layout == "nchw" else (shape[3], *shape[1:3])
    if channels not in (None, 1, 3):
        raise ValueError(
            f"--model must take pictures of 1 or 3 channels, got {channels} in the layout {layout}."
        )
    return NetworkInput(
        inputs[0].name, layout, channels or 3, (size[0], size[1]), batch, _TYPES[tensor.elem_type]
    )


def _layout_of(shape: list[int | None], name: str) -> str:
    first, last = shape[1] in (1, 3), shape[3] in (1, 3)
    if first == last:
        shown = " x ".join("any" if n is None else str(n) for n in shape)
        raise ValueError(
            f"--layout must be given, nchw or nhwc: the shape of the network's input {name!r}, {shown}, does not tell."
        )
    return "nchw" if first else "nhwc"


def _vectors(layer: NDArray[Any], name: str) -> NDArray[np.float32]:
    if layer.ndim == 4 and layer[0, 0].size > 1:
        layer = layer.mean(axis=(2, 3), dtype=np.float32)
    flat = layer.reshape(len(layer), -1)
    if layer.ndim < 2 or flat.shape[1] != layer.shape[1]:
        raise ValueError(
            f"--layer must be a vector or a map (channels, height, width) per picture, got {name!r} of shape "
            f"{layer.shape}."
        )
    return np.ascontiguousarray(flat, np.float32)


def _softmax(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    with np.errstate(all="ignore"):
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares: NDArray[np.float32] = odds / odds.sum(axis=1, keepdims=True)
    return shares


_PRODUCTS = ("MatMul", "Gemm")
# Operations to trace back through their first input; the others are shapes or axes.
_RESHAPING = (
    "AveragePool", "Cast", "Dropout", "Flatten", "GlobalAveragePool", "Identity", "LogSoftmax", "ReduceMean", "Relu",
    "Reshape", "Softmax", "Squeeze", "Transpose", "Unsqueeze",
)  # fmt: skip
# Operations to trace back through their only input that is not a constant, such as a bias or a temperature.
_SCALING = ("Add", "Div", "Mul", "Sub")


class NoSuchLayer(ValueError):
    """The network does not have the layer that was asked for, or has no classifier."""


class ClassifierInput(NamedTuple):
    """The input of a classifier, and the graph's output that the classifier computes."""

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
    """The activations with this name, or the activations that the operation with this name writes."""
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
    """Names of all values that do not depend on the input."""
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
    candidates = []
    for node in reversed(graph.node):
        if node.op_type in _PRODUCTS:
            candidates += [name for name in node.input if name not in constants]
        if "Pool" in node.op_type or node.op_type in ("ReduceMean", "Flatten"):
            candidates += list(node.output)
    return list(dict.fromkeys(candidates)) or [node.output[0] for node in reversed(graph.node)]
