"""Every kind of picture becomes upright RGB; a broken one is said to be broken."""

from __future__ import annotations

import io

import numpy as np
import pytest
from made_pictures import picture
from PIL import Image

from pairloom.pipeline.images.picture import BrokenPicture, decode_picture, read_picture

RED = picture((210, 50, 40), 0, (32, 24))


def encoded(image, kind="PNG", **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def pixels(data):
    image = decode_picture(data)
    assert image.mode == "RGB"
    return np.asarray(image).astype(int)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM", "WEBP"])
def test_lossless_kinds_keep_their_pixels(kind):
    np.testing.assert_array_equal(pixels(encoded(RED, kind, lossless=True)), np.asarray(RED))


def test_grey_pictures_have_three_equal_channels():
    found = pixels(encoded(RED.convert("L")))
    assert (found == found[:, :, :1]).all()
    assert found.shape == (24, 32, 3)


def test_sixteen_bits_keep_their_eight_high_bits():
    deep = (np.arange(24 * 32).reshape(24, 32) * 85).astype(np.uint16)
    np.testing.assert_array_equal(pixels(encoded(Image.fromarray(deep)))[:, :, 0], deep >> 8)


def test_transparent_parts_become_white():
    image = RED.convert("RGBA")
    image.putalpha(0)
    assert (pixels(encoded(image)) == 255).all()
    palette = Image.new("P", (4, 4), 0)
    palette.putpalette([200, 0, 0, 0, 0, 0])
    assert (pixels(encoded(palette)) == [200, 0, 0]).all()
    assert (pixels(encoded(palette, transparency=0)) == 255).all()


def test_cmyk_becomes_rgb():
    cyan = Image.new("CMYK", (16, 16), (255, 0, 0, 0))
    assert abs(pixels(encoded(cyan, "JPEG")) - [0, 255, 255]).max() < 8


def test_a_picture_is_turned_as_its_camera_was():
    exif = Image.Exif()
    exif[0x0112] = 6  # the top of the scene is at the right
    turned = pixels(encoded(RED, "PNG", exif=exif))
    np.testing.assert_array_equal(turned, np.rot90(np.asarray(RED), -1))


def test_the_first_frame_of_an_animation_counts():
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("blue", "red", "green")]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert (pixels(data) == [0, 0, 255]).all()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it is empty"),
        (b"a letter, not a picture", "it is not a picture"),
        (encoded(RED, "JPEG")[:-200], "[Tt]runcated"),
        (encoded(RED, "PNG")[:-200], "[Tt]runcated|broken"),
        (encoded(Image.new("F", (4, 4)), "TIFF"), "floating-point"),
        (encoded(Image.fromarray(np.full((4, 4), 70_000, np.int32)), "TIFF"), "32-bit integers"),
    ],
)
def test_a_broken_picture_is_said_to_be_broken(data, reason):
    with pytest.raises(BrokenPicture, match=reason):
        decode_picture(data)


def test_a_picture_of_too_many_pixels_is_broken(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(BrokenPicture, match="decompression bomb"):
        decode_picture(encoded(RED))


def test_a_link_to_nowhere_is_a_broken_picture(tmp_path):
    (tmp_path / "a.png").symlink_to(tmp_path / "nowhere.png")
    with pytest.raises(BrokenPicture, match="No such file"):
        read_picture(tmp_path / "a.png")
