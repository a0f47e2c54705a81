"""Copies are drawn from the seed, the name and the number alone, and are crops, flips and colours of their picture."""

from __future__ import annotations

import numpy as np
from made_pictures import picture
from PIL import Image

from pairloom.pipeline.images.preprocessing import Preprocessing, augmented, draw_of_copy

HOW = Preprocessing(40, (32, 32), (0.5,) * 3, (0.25,) * 3, 1.0, "bilinear", "rgb")


def copy_of(image, number, *, seed=0, name="red/1.png", how=HOW):
    return np.asarray(augmented(image, how, draw_of_copy(seed, name, number))).astype(int)


def test_a_copy_depends_on_seed_name_and_number_and_on_nothing_else():
    image = picture((200, 90, 30), 0, (60, 50))
    np.testing.assert_array_equal(copy_of(image, 1), copy_of(image, 1))
    others = [copy_of(image, 2), copy_of(image, 1, seed=1), copy_of(image, 1, name="red/2.png")]
    assert all((copy_of(image, 1) != other).any() for other in others)


def test_half_of_the_copies_are_mirrored():
    brighter_to_the_right = Image.fromarray(np.tile(np.arange(64, dtype=np.uint8) * 2 + 60, (64, 1))).convert(
        "RGB"
    )
    rises = [np.diff(copy_of(brighter_to_the_right, k)[16, [4, 28], 0])[0] for k in range(1, 201)]
    assert all(rise != 0 for rise in rises)
    assert 70 < sum(rise < 0 for rise in rises) < 130


def test_crops_are_parts_of_the_picture_at_every_place_and_of_every_size():
    # The picture's rows and columns are its coordinates, so that a copy tells where it was cut out.
    across, down = np.meshgrid(np.arange(250, dtype=np.uint8), np.arange(250, dtype=np.uint8))
    image = Image.fromarray(np.stack([across, down, np.full_like(across, 128)], axis=2))
    spans = []
    for k in range(1, 201):
        draw = draw_of_copy(0, "a", k)
        plain = Preprocessing(250, (50, 50), (0.0,), (1.0,), 1.0, "box", "rgb")
        copy = np.asarray(augmented(image, plain, draw))
        spans.append(int(np.ptp(copy[25, :, 0].astype(int))))
    assert min(spans) > 40
    assert max(spans) > 180
    assert np.std(spans) > 25


def test_colours_vary_and_stay_near():
    image = Image.new("RGB", (40, 40), (150, 100, 60))
    means = np.array([copy_of(image, k).mean(axis=(0, 1)) for k in range(1, 101)])
    assert (means.std(axis=0) > 10).all()
    assert abs(means.mean(axis=0) - [150, 100, 60]).max() < 15


def test_any_shape_of_picture_gives_a_copy():
    grey = HOW._replace(channel_order="grey", mean=(0.5,), std=(0.5,))
    for size in ((1, 1), (2000, 3), (3, 2000), (32, 32)):
        for k in range(1, 20):
            assert copy_of(Image.new("RGB", size), k).shape == (32, 32, 3)
            assert copy_of(Image.new("L", size), k, how=grey).shape == (32, 32)
