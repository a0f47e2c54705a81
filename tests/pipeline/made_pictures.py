"""Pictures and networks that are small enough for a test."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

#: The colours of the classes; a picture is its class's colour and noise.
COLOURS = {"blue": (40, 60, 200), "green": (50, 190, 60), "red": (210, 50, 40)}
PREPROCESSING = ("--mean", "0.5", "--std", "0.25")


def picture(colour: tuple[int, int, int], seed: int, size: tuple[int, int] = (24, 20)) -> Image.Image:
    """A noisy picture of one colour, brighter to the right."""
    noise = np.random.default_rng(seed).normal(0, 12, (size[1], size[0], 3))
    ramp = np.linspace(-20, 20, size[0])[None, :, None]
    return Image.fromarray(np.clip(np.array(colour) + noise + ramp, 0, 255).astype(np.uint8))


def make_folder(
    root: Path, per_class: int = 4, classes: dict[str, tuple[int, int, int]] = COLOURS, seed: int = 0
) -> Path:
    """A folder with one folder per class, of PNG files."""
    for number, (name, colour) in enumerate(classes.items()):
        (root / name).mkdir(parents=True, exist_ok=True)
        for i in range(per_class):
            picture(colour, seed + 100 * number + i).save(root / name / f"{i:03d}.png")
    return root


def make_split(root: Path, per_class: int = 4) -> Path:
    """A folder with train/ and val/."""
    make_folder(root / "train", per_class)
    make_folder(root / "val", 2, seed=1000)
    return root


def make_network(
    path: Path,
    *,
    features: int = 6,
    outputs: int = 3,
    size: int | None = 16,
    channels: int = 3,
    layout: str = "nchw",
    batch: int | None = None,
    head: str = "Gemm",
    softmax: bool = False,
    metadata: dict[str, str] | None = None,
    scale: float = 0.5,
    seed: int = 0,
) -> Path:
    """A convolution, a rectifier, pooling and a classifier, with random weights; the penultimate layer is "pooled".

    ``head`` is "Gemm", "MatMul" (and a sum), "Conv" (1 x 1, before the pooling), or "none": then the output is
    "pooled".
    """
    draw = np.random.default_rng(seed)
    weights = {
        "kernels": draw.normal(0, scale, (features, channels, 3, 3)),
        "W": draw.normal(0, 1, (features, outputs)),
        "b": draw.normal(0, 1, outputs),
        "W1x1": draw.normal(0, 1, (outputs, features, 1, 1)),
    }
    node = helper.make_node
    nodes = [node("Transpose", ["image"], ["planes"], perm=[0, 3, 1, 2])] if layout == "nhwc" else []
    first = "planes" if layout == "nhwc" else "image"
    nodes += [
        node("Conv", [first, "kernels"], ["map"], name="conv"),
        node("Relu", ["map"], ["rectified"], name="relu"),
    ]
    pooling = [
        node("GlobalAveragePool", ["rectified"], ["mean"]),
        node("Flatten", ["mean"], ["pooled"], name="flatten"),
    ]
    heads = {
        "Gemm": [*pooling, node("Gemm", ["pooled", "W", "b"], ["scores"], name="classifier")],
        "MatMul": [
            *pooling,
            node("MatMul", ["pooled", "W"], ["products"]),
            node("Add", ["products", "b"], ["scores"]),
        ],
        "Conv": [
            node("Conv", ["rectified", "W1x1"], ["maps"], kernel_shape=[1, 1]),
            node("GlobalAveragePool", ["maps"], ["means"]),
            node("Flatten", ["means"], ["scores"]),
        ],
        "none": pooling,
    }
    last = "pooled" if head == "none" else "scores"
    nodes += heads[head]
    if softmax:
        nodes, last = [*nodes, node("Softmax", ["scores"], ["shares"], axis=1)], "shares"
    sides = [size or "height", size or "width"]
    shape = [batch or "n", channels, *sides] if layout == "nchw" else [batch or "n", *sides, channels]
    used = {name for made in nodes for name in made.input}
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items() if name in used],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for key, value in (metadata or {}).items():
        model.metadata_props.add(key=key, value=value)
    onnx.save(model, path)
    return path


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by path."""
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }


class Silent:
    """A progress that keeps what it was told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.begun: list[tuple[str, int, int]] = []
        self.advanced = 0

    def begin(self, what: str, done: int, total: int) -> None:
        self.begun.append((what, done, total))

    def advance(self, count: int) -> None:
        self.advanced += count

    def note(self, line: str) -> None:
        self.notes.append(line)
