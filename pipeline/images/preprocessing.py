"""From a picture to the numbers that a network takes: resize, centre crop, normalise.

As everybody's ImageNet networks want it: the shorter side becomes ``resize`` pixels, the middle ``crop`` is cut out,
and (x - mean) / std is taken of pixels between 0 and ``pixel_range``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

__all__ = ["INTERPOLATIONS", "Preprocessing", "centre_crop", "chosen_preprocessing", "normalised"]

INTERPOLATIONS = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
    "box": Image.Resampling.BOX,
    "nearest": Image.Resampling.NEAREST,
}
# 256 for a crop of 224, as in torchvision's reference transforms.
_CROP_SHARE = 0.875
# A picture with longer sides than this, relative to the shorter one, is cut before it is resized.
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
        Value of the brightest pixel before it is normalised: 1 or 255.
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
    """The preprocessing from options that were given, else from the model's metadata, else from its input.

    Parameters
    ----------
    given, metadata : mapping
        Fields of `Preprocessing`; those of ``given`` may be None. ``crop`` may be one number. ``crop_share``, in the
        metadata only, is the share of the shorter side that is cropped.
    size : (height, width)
        Size of the network's input, None where it takes any.
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
            f"--resize must be at least the size of the crop, {max(crop)}, got {resize}: the shorter side of every "
            "picture becomes as long."
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
    """The middle of a strip. One of 100,000 by 10 pixels would otherwise take gigabytes when it is resized."""
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
