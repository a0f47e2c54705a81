"""Every kind of picture becomes upright RGB; a broken one is said to be broken."""

from __future__ import annotations

import io
import os
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from made_pictures import picture
from PIL import EpsImagePlugin, Image

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


GHOSTSCRIPT = """#!/bin/sh
touch "$(dirname "$0")/ghostscript was run"
exit 1
"""


def test_postscript_is_no_picture_whatever_its_name(tmp_path, monkeypatch):
    """Pillow would hand it to Ghostscript, which runs it."""
    (tmp_path / "gs").write_text(GHOSTSCRIPT)
    (tmp_path / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)
    data = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"
    (tmp_path / "cat.png").write_bytes(data)
    with pytest.raises(BrokenPicture, match="it is not a picture of a known kind"):
        read_picture(tmp_path / "cat.png")
    assert not (tmp_path / "ghostscript was run").exists()
    with pytest.raises(Exception), Image.open(io.BytesIO(data)) as image:  # noqa: B017, PT011
        image.load()
    assert (tmp_path / "ghostscript was run").exists()


@pytest.mark.filterwarnings("ignore:IM image format is deprecated")
@pytest.mark.parametrize("kind", ["ICO", "PCX", "TGA", "SGI", "DDS", "IM", "PDF"])
def test_only_the_kinds_that_the_page_names_are_read(kind):
    with pytest.raises(BrokenPicture, match="it is not a picture of a known kind"):
        decode_picture(encoded(RED, kind))


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_picture_of_few_bytes_and_many_pixels_is_refused_before_it_is_unpacked():
    def chunk(kind, content):
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", 9500, 9500, 8, 2, 0, 0, 0)
    data = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )
    tracemalloc.start()
    try:
        with pytest.raises(BrokenPicture, match="it has 9500 x 9500 pixels, more than"):
            decode_picture(data)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
