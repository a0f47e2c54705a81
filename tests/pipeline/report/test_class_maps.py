from __future__ import annotations

import io

import numpy as np
from PIL import Image

from pairloom.pipeline.report.class_maps import gray_png, pooled


def test_levels_are_read_back_as_they_were():
    levels = np.random.default_rng(0).integers(0, 256, (7, 13), dtype=np.uint8)
    with Image.open(io.BytesIO(gray_png(levels))) as picture:
        assert picture.mode == "L"
        np.testing.assert_array_equal(np.asarray(picture), levels)


def test_a_single_cell_survives_pooling():
    levels = np.zeros((1001, 1001), np.uint8)
    levels[1000, 3] = 200
    small = pooled(levels, 400)
    assert small.shape == (334, 334)
    assert np.argwhere(small).tolist() == [[333, 1]]
    assert pooled(levels, 2000) is levels
