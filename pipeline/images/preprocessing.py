"""From a picture to the input of a network: resize, centre crop, normalise; augmented copies; the model's metadata.

As networks for ImageNet expect it: the shorter side is resized to ``resize`` pixels, the middle ``crop`` is cut out,
and pixels x between 0 and ``pixel_range`` become (x - mean) / std.

The metadata of an ONNX model may have these settings, under the keys of the ONNX standard
(``Image.BitmapPixelFormat``, ``Image.NominalPixelRange``) and the keys of timm, torchvision and Hugging Face
(``mean``, ``std``, ``input_size``, ``crop_pct``, ...). Values are JSON or numbers separated by commas.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance

__all__ = [
    "INTERPOLATIONS",
    "RECIPE",
    "Preprocessing",
    "augmented",
    "centre_crop",
    "chosen_preprocessing",
    "draw_of_copy",
    "normalised",
    "output_names",
    "preprocessing_metadata",
]


INTERPOLATIONS = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
    "box": Image.Resampling.BOX,
    "nearest": Image.Resampling.NEAREST,
}
# 256 for a crop of 224, as in torchvision's reference transforms.
_CROP_SHARE = 0.875
# A picture whose longer side is more than this many times the shorter one is cut before it is resized.
_LONGEST = 8


class Preprocessing(NamedTuple):
    """How a picture becomes the input of a network.

    Parameters
    ----------
    resize : int
        Pixels of the shorter side.
    crop : (height, width)
        Size of the middle part that the network sees.
    mean, std : tuple of float
        One number per channel, on the scale of ``pixel_range``.
    pixel_range : float
        Value of the brightest pixel before normalisation: 1 or 255.
    interpolation : str
        A key of `INTERPOLATIONS`.
    channel_order : {"rgb", "bgr", "grey"}
    """

    resize: int
    crop: tuple[int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    pixel_range: float
    interpolation: str
    channel_order: str

    @property
    def mode(self) -> str:
        """Pillow's mode of the pictures."""
        return "L" if self.channel_order == "grey" else "RGB"


def chosen_preprocessing(
    given: Mapping[str, Any], metadata: Mapping[str, Any], size: tuple[int | None, int | None], channels: int
) -> Preprocessing:
    """The preprocessing: from options, or else the model's metadata, or else the shape of its input.

    Parameters
    ----------
    given, metadata : mapping
        Fields of `Preprocessing`; those of ``given`` may be None. ``crop`` may be one number. ``crop_share``, in the
        metadata only, is the share of the shorter side that is cropped.
    size : (height, width)
        Size of the network's input, None if it takes any.
    channels : int
        Number of channels of the network's input.
    """
    known = {**metadata, **{name: value for name, value in given.items() if value is not None}}
    crop = _crop(known.get("crop"), size)
    share = known.get("crop_share", _CROP_SHARE)
    # floor: timm and torchvision truncate, and 224 / 0.875 is exactly 256.
    resize = known.get("resize") or max(max(crop), math.floor(max(crop) / share))
    if resize < max(crop):
        raise ValueError(
            f"--resize must be at least the size of the crop, {max(crop)}, got {resize}. It is the length to which the "
            "shorter side of every picture is resized."
        )
    pixel_range = float(known.get("pixel_range", 1))
    return Preprocessing(
        resize=int(resize),
        crop=crop,
        mean=_per_channel("mean", known, channels, pixel_range),
        std=_per_channel("std", known, channels, pixel_range),
        pixel_range=pixel_range,
        interpolation=known.get("interpolation", "bilinear"),
        channel_order="grey" if channels == 1 else known.get("channel_order", "rgb"),
    )


def _crop(crop: int | tuple[int, int] | None, size: tuple[int | None, int | None]) -> tuple[int, int]:
    wanted: tuple[int | None, int | None] = (crop, crop) if isinstance(crop, int) else crop or size
    height, width = wanted
    if height is None or width is None:
        raise ValueError("--crop must be given: the network takes pictures of any size.")
    fixed = tuple(n if n is not None else m for n, m in zip(size, (height, width), strict=True))
    if fixed != (height, width):
        raise ValueError(
            f"--crop must be the size that the network takes, {fixed[0]} x {fixed[1]}, got {height} x {width}."
        )
    return height, width


def _per_channel(name: str, known: Mapping[str, Any], channels: int, pixel_range: float) -> tuple[float, ...]:
    if known.get(name) is None:
        raise ValueError(
            f"--{name} must be given: the model's metadata does not say how its input is normalised. Networks of "
            "torchvision want --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225; for pixels between 0 and 1 as they "
            "are, pass --mean 0 --std 1."
        )
    values = tuple(float(value) for value in known[name])
    values = values * channels if len(values) == 1 else values
    if len(values) != channels:
        raise ValueError(
            f"--{name} must be one number, or one for each of {channels} channels, got {len(values)}."
        )
    if not all(math.isfinite(v) for v in values) or (name == "std" and min(values) <= 0):
        what = "positive numbers" if name == "std" else "finite numbers"
        raise ValueError(f"--{name} must be {what}, got {', '.join(f'{v:g}' for v in values)}.")
    if max(values) > max(pixel_range, 1):
        raise ValueError(
            f"--{name} must be on the scale of the pixels, 0 to {pixel_range:g}, got "
            f"{', '.join(f'{v:g}' for v in values)}. Pass --pixel-range 255 if it is for pixels between 0 and 255."
        )
    return values


def centre_crop(image: Image.Image, how: Preprocessing) -> Image.Image:
    """Resize the shorter side, cut out the middle. Pixels and rounding are those of torchvision's transforms."""
    image = _without_far_ends(image)
    size = tuple(int(how.resize * side / min(image.size)) for side in image.size)
    height, width = how.crop
    left, top = round((size[0] - width) / 2), round((size[1] - height) / 2)
    resized = image.resize((size[0], size[1]), INTERPOLATIONS[how.interpolation])
    return resized.crop((left, top, left + width, top + height))


def _without_far_ends(image: Image.Image) -> Image.Image:
    """The middle of a long strip: one of 100,000 by 10 pixels would take gigabytes when it is resized."""
    most = _LONGEST * min(image.size)
    if max(image.size) <= most:
        return image
    width, height = (min(side, most) for side in image.size)
    left, top = (image.width - width) // 2, (image.height - height) // 2
    return image.crop((left, top, left + width, top + height))


def normalised(image: Image.Image, how: Preprocessing) -> NDArray[np.float32]:
    """The normalised pixels (height, width, channels) of a picture that has been cropped."""
    pixels = np.asarray(image, np.float32).reshape(*how.crop, -1)
    if how.channel_order == "bgr":
        pixels = pixels[:, :, ::-1]
    scale, mean, std = (
        np.float32(how.pixel_range / 255),
        np.array(how.mean, np.float32),
        np.array(how.std, np.float32),
    )
    return (pixels * scale - mean) / std


# Networks are often trained on crops down to 8% of a picture. Such a crop often misses the object, and a stored copy
# would keep the wrong label.
_LEAST_AREA = 0.25
_NARROWEST = 3 / 4
_COLOUR = 0.4

#: The parameters of augmented copies, stored with the features.
RECIPE: dict[str, Any] = {
    "flip": 0.5,
    "crop_area": [_LEAST_AREA, 1.0],
    "crop_aspect": [_NARROWEST, 1 / _NARROWEST],
    "brightness": _COLOUR,
    "contrast": _COLOUR,
    "saturation": _COLOUR,
    "version": 1,
}


def draw_of_copy(seed: int, file: str, copy: int) -> np.random.Generator:
    """The random generator of a copy of a picture; it does not depend on other pictures."""
    name = int.from_bytes(hashlib.sha256(file.encode()).digest()[:16], "little")
    return np.random.default_rng((seed, copy, name))


def augmented(image: Image.Image, how: Preprocessing, draw: np.random.Generator) -> Image.Image:
    """A random crop of a picture, resized to the size of the network's input, flipped and coloured at random."""
    copy = image.resize(
        how.crop[::-1], INTERPOLATIONS[how.interpolation], box=_random_box(image.size, how, draw)
    )
    if draw.random() < RECIPE["flip"]:
        copy = copy.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    for enhance in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
        factor = draw.uniform(1 - _COLOUR, 1 + _COLOUR)
        copy = (
            enhance(copy).enhance(factor) if how.mode == "RGB" or enhance is not ImageEnhance.Color else copy
        )
    return copy


def _random_box(
    size: tuple[int, int], how: Preprocessing, draw: np.random.Generator
) -> tuple[float, float, float, float]:
    """A random box, with a random area and aspect relative to the largest crop of the picture.

    The largest crop has the shape of the network's input, so a long strip is not squeezed into a square.
    """
    across, down = size
    height, width = how.crop
    scale = min(across / width, down / height)
    area = draw.uniform(_LEAST_AREA, 1.0)
    aspect = math.exp(draw.uniform(math.log(_NARROWEST), -math.log(_NARROWEST)))
    box_width = min(across, width * scale * math.sqrt(area * aspect))
    box_height = min(down, height * scale * math.sqrt(area / aspect))
    left, top = draw.uniform(0, across - box_width), draw.uniform(0, down - box_height)
    return left, top, min(left + box_width, across), min(top + box_height, down)


def preprocessing_metadata(metadata: Mapping[str, str]) -> dict[str, Any]:
    """The fields of `Preprocessing`, and ``crop_share``, that the metadata of a model has."""
    named: dict[str, Any] = {}
    for key, values in _STANDARD.items():
        if key in metadata:
            named |= _known(key, metadata[key], values)
    for key, (field, read) in _KEYS.items():
        if key in metadata:
            named[field] = _read(key, metadata[key], read)
    return named


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
    except (ValueError, RecursionError):
        return [part.strip() for part in text.split(",")] if "," in text else text


def _numbers(value: Any) -> list[float]:
    return [float(v) for v in (value if isinstance(value, list) else [value])]


def _whole(value: Any) -> int:
    """A size in pixels, from a number, [224, 224], or {"shortest_edge": 224}."""
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
