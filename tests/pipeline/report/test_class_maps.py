from __future__ import annotations

import io

import numpy as np
from PIL import Image

from pairloom.pipeline.display.class_layout import ClassOrder
from pairloom.pipeline.display.evaluation import Confusions
from pairloom.pipeline.report.class_maps import _opened, gray_png, pooled


def test_levels_are_read_back_as_they_were():
    levels = np.random.default_rng(0).integers(0, 256, (7, 13), dtype=np.uint8)
    with Image.open(io.BytesIO(gray_png(levels))) as picture:
        assert picture.mode == "L"
        np.testing.assert_array_equal(np.asarray(picture), levels)


def test_a_single_cell_survives_pooling():
    small = pooled(np.array([1000, 1000]), np.array([3, 4]), np.array([200, 90]), 1001, 400)
    assert small.shape == (334, 334)
    assert np.argwhere(small).tolist() == [[333, 1]]
    assert small.max() == 200


def test_cells_are_pixels_where_there_are_enough():
    rows, columns = np.nonzero(np.random.default_rng(0).random((30, 30)) < 0.1)
    picture = pooled(rows, columns, np.full(len(rows), 7), 30, 2000)
    assert picture.shape == (30, 30)
    assert np.argwhere(picture == 7).tolist() == np.column_stack([rows, columns]).tolist()


def test_the_maps_open_where_most_errors_are():
    order = ClassOrder(np.array([3, 1, 0, 2]), np.array([0, 2, 4]))
    label, predicted = np.array([0, 1, 1, 3, 3, 2]), np.array([0, 3, 3, 1, 1, 3])
    opened = _opened(Confusions.of(label, predicted, 4), order)
    assert opened == {"block": 0, "cell": [0, 1]}
    across = _opened(Confusions.of(np.array([2, 2, 0]), np.array([3, 3, 3]), 4), order)
    assert across == {"block": None, "cell": [3, 0]}
    assert _opened(Confusions.of(np.array([1]), np.array([1]), 4), order) == {"block": 0, "cell": [0, 0]}
