"""Rows read in pieces are the rows of the array, wherever they come from and whatever the pieces."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

from pairloom.pipeline.features import row_sources
from pairloom.pipeline.features.row_sources import ArrayRows, FileRows, GeneratedRows, SelectedRows, in_order
from pairloom.pipeline.features.source_files import open_arrays

VALUES = np.random.default_rng(0).standard_normal((57, 3)).astype(np.float32)


def as_npy(folder, values=VALUES):
    np.save(folder / "X.npy", values)
    return open_arrays(str(folder))["X"]


def as_npy_by_columns(folder):
    return as_npy(folder, np.asfortranarray(VALUES))


def as_npy_of_the_other_byte_order(folder):
    return as_npy(folder, VALUES.astype(VALUES.dtype.newbyteorder()))


def as_zarr(folder):
    zarr.create_group(folder / "a.zarr").create_array("X", data=VALUES, chunks=(10, 2))
    return open_arrays(str(folder / "a.zarr"))["X"]


def as_selection(folder):
    order = np.random.default_rng(1).permutation(len(VALUES))
    return SelectedRows(ArrayRows(VALUES[np.argsort(order)]), order)


def as_generated(folder):
    return GeneratedRows(lambda c: VALUES[19 * c : 19 * (c + 1)], 3, 19, 3)


SOURCES = (as_npy, as_npy_by_columns, as_npy_of_the_other_byte_order, as_zarr, as_selection, as_generated)


@pytest.fixture(params=SOURCES, ids=lambda source: source.__name__)
def rows(request, tmp_path):
    return request.param(tmp_path)


def test_any_rows_are_read(rows):
    assert (rows.shape, rows.dtype) == (VALUES.shape, np.float32)
    np.testing.assert_array_equal(rows.read(slice(None)), VALUES)
    np.testing.assert_array_equal(rows.read(slice(8, 33)), VALUES[8:33])
    for chosen in ([5], [3, 4, 5], [56, 0, 7, 8, 9, 31], []):
        np.testing.assert_array_equal(rows.read(np.array(chosen, np.int64)), VALUES[chosen])


@pytest.mark.parametrize("bytes_per_piece", [1, 100, 10_000])
def test_pieces_of_any_size_are_all_rows_in_their_order(bytes_per_piece, rows, monkeypatch):
    monkeypatch.setattr(row_sources, "PIECE_BYTES", bytes_per_piece)
    parts, read = zip(*rows.pieces(), strict=True)
    np.testing.assert_array_equal(np.concatenate(read), VALUES)
    assert [part.start for part in parts] == list(range(0, 57, rows.rows_per_piece))


def test_rows_are_read_in_another_order_and_leave_no_file(rows, tmp_path):
    before = sorted(tmp_path.iterdir())
    order = np.argsort(np.arange(57) % 4, kind="stable")
    sorted_rows = in_order(rows, order, tmp_path)
    np.testing.assert_array_equal(sorted_rows.read(slice(0, 57)), VALUES[order])
    np.testing.assert_array_equal(sorted_rows.read(slice(40, 50)), VALUES[order][40:50])
    assert sorted(tmp_path.iterdir()) == before


def test_a_file_that_was_cut_short_is_named(tmp_path):
    as_npy(tmp_path)
    (tmp_path / "X.npy").write_bytes((tmp_path / "X.npy").read_bytes()[:-4])
    rows = FileRows(tmp_path / "X.npy", 128, VALUES.shape, VALUES.dtype)
    with pytest.raises(ValueError, match=r"X\.npy is cut short"):
        rows.read(slice(None))


def test_a_file_that_changes_while_it_is_read_is_named(tmp_path):
    rows = as_npy(tmp_path)
    rows.read(slice(0, 3))
    np.save(tmp_path / "X.npy", VALUES + 1)
    with pytest.raises(ValueError, match=r"X\.npy must not change while it is read, but it was written to"):
        rows.read(slice(0, 3))


def test_a_damaged_chunk_is_named(tmp_path):
    rows = as_zarr(tmp_path)
    (tmp_path / "a.zarr/X/c/3/0").write_bytes(b"no chunk")
    with pytest.raises(ValueError, match=r"a\.zarr: X is damaged"):
        rows.read(slice(None))


def test_double_precision_is_kept_and_integers_become_floats(tmp_path):
    assert as_npy(tmp_path, VALUES.astype(np.float64)).dtype == np.float64
    assert as_npy(tmp_path, np.arange(6).reshape(3, 2)).dtype == np.float64
    assert as_npy(tmp_path, np.arange(6, dtype=np.uint8).reshape(3, 2)).read(slice(1)).dtype == np.float32
