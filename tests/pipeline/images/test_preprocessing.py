"""Resize, crop and normalisation: against resizing the whole picture, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from made_pictures import picture
from PIL import Image

from pairloom.pipeline.images.preprocessing import (
    INTERPOLATIONS,
    Preprocessing,
    centre_crop,
    chosen_preprocessing,
    normalised,
    output_names,
    preprocessing_metadata,
)

HOW = Preprocessing(40, (32, 32), (0.5,) * 3, (0.25,) * 3, 1.0, "bilinear", "rgb")
GIVEN = {"mean": [0.5], "std": [0.25]}


def resized_then_cropped(image, how):
    """The obvious way: resize all of the picture, then cut out the middle."""
    short = min(image.size)
    whole = image.resize(
        tuple(int(how.resize * side / short) for side in image.size), INTERPOLATIONS[how.interpolation]
    )
    left, top = round((whole.width - how.crop[1]) / 2), round((whole.height - how.crop[0]) / 2)
    return whole.crop((left, top, left + how.crop[1], top + how.crop[0]))


@pytest.mark.parametrize("size", [(64, 48), (48, 64), (40, 40), (33, 260), (17, 19), (301, 97)])
@pytest.mark.parametrize("interpolation", list(INTERPOLATIONS))
def test_the_crop_is_that_of_the_resized_picture(size, interpolation):
    how = HOW._replace(interpolation=interpolation)
    image = picture((200, 90, 30), 3, size)
    np.testing.assert_array_equal(centre_crop(image, how), resized_then_cropped(image, how))


@pytest.mark.parametrize("size", [(600_000, 20), (20, 600_000)])
def test_of_a_long_strip_only_the_middle_is_resized(size):
    strip = Image.new("RGB", size, "blue")  # its shorter side twice as long would take 72 MB
    strip.paste("red", (size[0] // 2 - 10, size[1] // 2 - 10, size[0] // 2 + 10, size[1] // 2 + 10))
    assert (np.asarray(centre_crop(strip, HOW)) == [255, 0, 0]).all()


def test_pixels_are_normalised_per_channel():
    grey = Image.new("RGB", (32, 32), (51, 102, 255))
    how = HOW._replace(mean=(0.0, 0.4, 0.5), std=(1.0, 0.5, 0.25))
    np.testing.assert_allclose(normalised(grey, how)[0, 0], [0.2, 0.0, 2.0], atol=1e-6)
    np.testing.assert_allclose(
        normalised(grey, how._replace(channel_order="bgr"))[0, 0], [1.0, 0.0, -1.2], atol=1e-6
    )
    lite = HOW._replace(mean=(127.0,) * 3, std=(128.0,) * 3, pixel_range=255.0)
    np.testing.assert_array_equal(normalised(grey, lite)[5, 7], np.float32([-76, -25, 128]) / 128)
    one = HOW._replace(mean=(0.5,), std=(0.5,), channel_order="grey")
    assert normalised(grey.convert("L"), one).shape == (32, 32, 1)


def test_what_is_given_comes_before_the_metadata_and_that_before_the_default():
    metadata = {"mean": [0.1, 0.2, 0.3], "std": [0.4], "crop_share": 0.5}
    how = chosen_preprocessing({"mean": [0.5], "std": None}, metadata, (32, 32), 3)
    assert (how.mean, how.std, how.resize, how.crop) == ((0.5,) * 3, (0.4,) * 3, 64, (32, 32))
    assert chosen_preprocessing(GIVEN, {}, (224, 224), 3).resize == 256


@pytest.mark.parametrize(
    ("given", "size", "complaint"),
    [
        ({}, (32, 32), "--mean must be given: the model's metadata does not say"),
        (GIVEN, (None, None), "--crop must be given"),
        (
            {**GIVEN, "crop": 20},
            (32, 32),
            "--crop must be the size that the network takes, 32 x 32, got 20 x 20",
        ),
        ({**GIVEN, "resize": 30}, (32, 32), "--resize must be at least the size of the crop, 32, got 30"),
        ({**GIVEN, "mean": [0.1, 0.2]}, (32, 32), "one for each of 3 channels, got 2"),
        ({**GIVEN, "std": [0.0]}, (32, 32), "--std must be positive numbers, got 0"),
        ({"mean": [127], "std": [128]}, (32, 32), "Pass --pixel-range 255"),
    ],
)
def test_what_cannot_be_is_said(given, size, complaint):
    with pytest.raises(ValueError, match=complaint):
        chosen_preprocessing(given, {}, size, 3)


def test_metadata_is_understood_in_the_forms_of_its_makers():
    assert preprocessing_metadata(
        {
            "mean": "[0.485, 0.456, 0.406]",
            "std": "0.229,0.224,0.225",
            "input_size": "[3, 224, 200]",
            "crop_pct": "0.9",
        }
    ) == {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "crop": (224, 200), "crop_share": 0.9}
    assert preprocessing_metadata({"resize_size": '{"shortest_edge": 232}', "interpolation": "Bicubic"}) == {
        "resize": 232,
        "interpolation": "bicubic",
    }
    assert preprocessing_metadata(
        {"Image.BitmapPixelFormat": "Bgr8", "Image.NominalPixelRange": "NominalRange_0_255", "author": "me"}
    ) == {"channel_order": "bgr", "pixel_range": 255, "mean": [0.0], "std": [1.0]}
    assert output_names({"names": '{"0": "tench", "1": "goldfish"}'}) == ["tench", "goldfish"]
    assert output_names({"labels": "tench, goldfish"}) == ["tench", "goldfish"]
    assert output_names({"author": "me"}) is None


@pytest.mark.parametrize(
    ("metadata", "complaint"),
    [
        ({"mean": "half"}, "its metadata mean = 'half' cannot be understood"),
        ({"interpolation": "quintic"}, "it must be one of bilinear"),
        ({"Image.NominalPixelRange": "NominalRange_16_235"}, "must be one of NominalRange_0_255"),
    ],
)
def test_metadata_that_is_not_understood_is_named(metadata, complaint):
    with pytest.raises(ValueError, match=complaint):
        preprocessing_metadata(metadata)
