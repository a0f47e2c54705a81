"""What the metadata of an ONNX model says about its pictures and its outputs.

Read are the keys of the ONNX standard (``Image.BitmapPixelFormat``, ``Image.NominalPixelRange``) and those in which
timm, torchvision and Hugging Face describe their networks (``mean``, ``std``, ``input_size``, ``crop_pct``, ...).
Values are JSON or numbers separated by commas.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from pairloom.pipeline.images.preprocessing import INTERPOLATIONS

__all__ = ["output_names", "preprocessing_metadata"]


def preprocessing_metadata(metadata: Mapping[str, str]) -> dict[str, Any]:
    """The fields of `Preprocessing` that the metadata of a model names, and perhaps ``crop_share``."""
    found: dict[str, Any] = {}
    for key, values in _STANDARD.items():
        if key in metadata:
            found |= _known(key, metadata[key], values)
    for key, (field, read) in _KEYS.items():
        if key in metadata:
            found[field] = _read(key, metadata[key], read)
    return found


def output_names(metadata: Mapping[str, str]) -> list[str] | None:
    """The names of the outputs, if the metadata of a model has them."""
    for key in ("classes", "labels", "names"):
        if key in metadata:
            value = _parsed(metadata[key])
            names = list(value.values()) if isinstance(value, dict) else value
            return [str(name) for name in names] if isinstance(names, list) else None
    return None


_STANDARD: dict[str, dict[str, dict[str, Any]]] = {
    "Image.BitmapPixelFormat": {
        "Gray8": {"channel_order": "grey"},
        "Rgb8": {"channel_order": "rgb"},
        "Bgr8": {"channel_order": "bgr"},
    },
    "Image.NominalPixelRange": {
        "NominalRange_0_255": {"pixel_range": 255, "mean": [0.0], "std": [1.0]},
        "Normalized_0_1": {"pixel_range": 1, "mean": [0.0], "std": [1.0]},
        "Normalized_1_1": {"pixel_range": 1, "mean": [0.5], "std": [0.5]},
    },
}


def _known(key: str, value: str, values: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    if value not in values:
        raise ValueError(
            f"--model: the metadata {key} must be one of {', '.join(values)}, got {value!r}. "
            "Give the preprocessing by options, and remove this key from the model."
        )
    return values[value]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return [part.strip() for part in text.split(",")] if "," in text else text


def _numbers(value: Any) -> list[float]:
    return [float(v) for v in (value if isinstance(value, list) else [value])]


def _whole(value: Any) -> int:
    """One size in pixels: a number, [224, 224], or {"shortest_edge": 224}."""
    sizes = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else [value]
    if len({int(size) for size in sizes}) != 1:
        raise ValueError("several sizes")
    return int(sizes[0])


def _sides(value: Any) -> tuple[int, int]:
    """The height and width in (channels, height, width), or one number for both."""
    sides = [int(v) for v in value][-2:] if isinstance(value, list) else [int(value)] * 2
    return sides[0], sides[1]


def _one_of(*names: str) -> Callable[[Any], str]:
    def chosen(value: Any) -> str:
        if str(value).lower() not in names:
            raise ValueError(f"it must be one of {', '.join(names)}")
        return str(value).lower()

    return chosen


_KEYS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "mean": ("mean", _numbers),
    "image_mean": ("mean", _numbers),
    "std": ("std", _numbers),
    "image_std": ("std", _numbers),
    "pixel_range": ("pixel_range", float),
    "resize": ("resize", _whole),
    "resize_size": ("resize", _whole),
    "crop": ("crop", _sides),
    "crop_size": ("crop", _sides),
    "input_size": ("crop", _sides),
    "crop_pct": ("crop_share", float),
    "interpolation": ("interpolation", _one_of(*INTERPOLATIONS)),
    "channel_order": ("channel_order", _one_of("rgb", "bgr")),
}


def _read(key: str, text: str, read: Callable[[Any], Any]) -> Any:
    try:
        return read(_parsed(text))
    except (ValueError, TypeError, IndexError) as error:
        raise ValueError(
            f"--model: its metadata {key} = {text!r} cannot be understood: {error}. Correct it in the model."
        ) from error
