"""Sparse rows of a source: the same from memory and from zarr, in pieces of any size; and files that lie."""

from __future__ import annotations

import json

import numpy as np
import pytest
import zarr
from scipy import sparse

from pairloom.pipeline.features import row_sources
from pairloom.pipeline.features.feature_set import load_samples, open_features
from pairloom.pipeline.features.moments import find_moments, moments_of
from pairloom.pipeline.features.row_sources import CheckedRows, SelectedRows, row_checksums
from pairloom.pipeline.features.sparse_rows import csr_in_order, csr_rows, csr_rows_of

random = np.random.default_rng(0)
X = sparse.random_array((60, 25), density=0.2, format="csr", rng=random, dtype=np.float32)
y = np.arange(60) % 5
PARTS = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": np.array(X.shape)}


def stored(path, **changes):
    """A zarr group with the arrays of X, of which some may be others."""
    group = zarr.create_group(path)
    group.create_array("y", data=y)
    matrix = group.create_group("X")
    for name, values in (PARTS | changes).items():
        if values is not None:
            chunks = (min(40, len(values)),) if len(values) else (1,)
            config = {"write_empty_chunks": True}
            matrix.create_array(name, data=np.asarray(values), chunks=chunks, config=config)
    return path


@pytest.fixture(params=["memory", "zarr"])
def rows(request, tmp_path):
    if request.param == "memory":
        return csr_rows_of(X, "X")
    group = zarr.open_group(stored(tmp_path / "x.zarr") / "X")
    return csr_rows({name: group[name] if name != "indptr" else PARTS[name] for name in PARTS}, "X")


def assert_same_rows(found, expected):
    found, expected = (sparse.csr_array(some) for some in (found, expected))
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.toarray(), expected.toarray())


@pytest.mark.parametrize(
    "chosen", [slice(None), slice(3, 17), [5], [40, 2, 2, 59], [0, 1, 2, 3], [], np.arange(59, -1, -7)]
)
def test_rows_are_those_of_the_matrix(chosen, rows):
    chosen = chosen if isinstance(chosen, slice) else np.array(chosen, np.int64)
    assert_same_rows(rows.read(chosen), X[chosen])


@pytest.mark.parametrize("most", [1, 200, 1000, 10**6])
def test_pieces_hold_all_rows_and_no_more_entries_than_allowed(most, rows, monkeypatch):
    monkeypatch.setattr(row_sources, "PIECE_BYTES", most)
    parts = list(rows.pieces())
    assert [part.start for part, _ in parts] == [0, *(part.stop for part, _ in parts[:-1])]
    assert_same_rows(sparse.vstack([piece for _, piece in parts]), X)
    limit = max(rows.entries_per_piece, 1)
    assert all(piece.nnz <= limit or piece.shape[0] == 1 for _, piece in parts)


def test_a_copy_in_another_order_has_the_same_rows(rows, tmp_path):
    order = np.random.default_rng(1).permutation(60)
    copied = csr_in_order(rows, order, tmp_path)
    assert_same_rows(copied.read(slice(None)), X[order])
    assert_same_rows(copied.read(np.array([7, 3])), X[order[[7, 3]]])
    assert copied.entries.tolist() == np.diff(X.indptr)[order].tolist()


def test_a_row_that_has_changed_is_noticed():
    checksums = row_checksums(X)
    changed = X.copy()
    changed.data[X.indptr[9]] += 1
    for other in (changed, SelectedRows(csr_rows_of(X, "X"), np.r_[0:9, 10, 9, 11:60])):
        source = other if isinstance(other, SelectedRows) else csr_rows_of(other, "X")
        with pytest.raises(ValueError, match="X must not change while it is read, but row 9 is not"):
            CheckedRows(source, checksums, "X").read(slice(None))


@pytest.mark.parametrize("scale", [1.0, 2.0**450])
@pytest.mark.parametrize("size", [1, 7, 60])
def test_moments_of_pieces_are_those_of_all_rows_to_the_bit(size, scale):
    scaled = X.astype(np.float64) * scale
    pieces = [(scaled[k : k + size], y[k : k + size]) for k in range(0, 60, size)]
    whole, found = moments_of(scaled, y, 5), find_moments(lambda: pieces, 25, 5, is_sparse=True)
    for name in whole._fields:
        ours, theirs = (getattr(some, name) for some in (found, whole))
        if name == "totals":
            ours, theirs = ours.toarray(), theirs.toarray()
        np.testing.assert_array_equal(ours, theirs)
    dense = moments_of(scaled.toarray(), y, 5)
    assert found.exponent == dense.exponent
    np.testing.assert_allclose(found.class_means.toarray(), dense.class_means, rtol=1e-12)
    np.testing.assert_allclose(found.squares, dense.squares, rtol=1e-9)
    np.testing.assert_array_equal(found.lowest, dense.lowest)


HUGE = 2**62
LIES = {
    "a column too many": (
        {"indices": np.where(np.arange(X.nnz) == 7, 25, X.indices)},
        "columns from 0 to 24",
    ),
    "a column below zero": ({"indices": np.where(np.arange(X.nnz) == 7, -1, X.indices)}, "got -1 to"),
    "fewer columns": ({"shape": np.array([60, 20])}, "columns from 0 to 19"),
    "no columns": ({"shape": np.array([60, 0])}, "1 to 4194304 columns for .* got 0"),
    "columns beyond any memory": ({"shape": np.array([60, HUGE])}, f"1 to 4194304 columns for .* got {HUGE}"),
    "more rows": ({"shape": np.array([HUGE, 25])}, f"indptr must have {HUGE + 1} ascending numbers"),
    "a shape of three": ({"shape": np.array([60, 25, 1])}, "shape must be two counts"),
    "rows that end before they begin": ({"indptr": X.indptr[::-1]}, "indptr must have 61 ascending numbers"),
    "rows beyond the entries": (
        {"indptr": X.indptr + np.r_[np.zeros(60), 1].astype(int)},
        "ascending numbers",
    ),
    "entries without columns": ({"indices": X.indices[:-1]}, "data and indices must have one length"),
    "numbers of rows that are no whole numbers": (
        {"indptr": X.indptr.astype(float)},
        "a list of whole numbers",
    ),
    "entries that are text": ({"data": X.data.astype(bytes)}, "a list of real numbers"),
    "entries that are complex": ({"data": X.data.astype(complex)}, "a list of real numbers"),
}


@pytest.mark.parametrize("name", LIES)
def test_arrays_that_do_not_fit_together_are_refused(name, tmp_path):
    changes, message = LIES[name]
    np.savez(tmp_path / "x.npz", **PARTS | changes, format=np.array(b"csr"), y=y)
    sources = [tmp_path / "x.npz"]
    if "text" not in name:
        sources.append(stored(tmp_path / "x.zarr", **changes))
    for source in sources:
        with pytest.raises(ValueError, match=message):
            open_features(str(source))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({}, "shape must be an attribute of the group or an array in it"),
        ({"shape": [60, "25"]}, "shape must be the numbers of rows and of columns"),
        ({"shape": [60, 2**70]}, "shape must be the numbers of rows and of columns"),
        ({"shape": [60, 25], "encoding-type": "csc_matrix"}, "of the format 'csr', got 'csc_matrix'"),
    ],
)
def test_a_group_without_a_shape_is_refused(attributes, message, tmp_path):
    path = stored(tmp_path / "x.zarr", shape=None)
    metadata = json.loads((path / "X" / "zarr.json").read_text())
    (path / "X" / "zarr.json").write_text(json.dumps(metadata | {"attributes": attributes}))
    with pytest.raises(ValueError, match=message):
        open_features(str(path))


def test_a_missing_chunk_is_named(tmp_path):
    path = stored(tmp_path / "x.zarr")
    (path / "X" / "indices" / "c" / "1").unlink()
    with pytest.raises(ValueError, match=r"X/indices: chunk c/1 is missing"):
        open_features(str(path))


def test_other_formats_and_files_without_labels_say_what_to_do(tmp_path):
    sparse.save_npz(tmp_path / "columns.npz", X.tocsc())
    with pytest.raises(ValueError, match=r"of the format 'csr', got 'csc': save X\.tocsr\(\)"):
        open_features(str(tmp_path / "columns.npz"))
    sparse.save_npz(tmp_path / "rows.npz", X)
    with pytest.raises(ValueError, match=r"has no labels: .* as X\.npz beside y\.npy"):
        open_features(str(tmp_path / "rows.npz"))
    assert_same_rows(load_samples(str(tmp_path / "rows.npz"), 25).X, X)


def test_training_and_test_rows_have_one_form(tmp_path):
    np.save(tmp_path / "y_train.npy", y)
    np.save(tmp_path / "X_test.npy", X.toarray())
    sparse.save_npz(tmp_path / "X_train.npz", X)
    with pytest.raises(ValueError, match="X_test must be sparse, as X_train is, got dense rows"):
        open_features(str(tmp_path))
    sparse.save_npz(tmp_path / "X_test.npz", X)
    with pytest.raises(ValueError, match=r"X_test must be one file, got X_test\.npy and X_test\.npz"):
        open_features(str(tmp_path))
    (tmp_path / "X_test.npy").unlink()
    np.savez(tmp_path / "X_test.npz", X=X.toarray())
    with pytest.raises(ValueError, match=r"X_test\.npz must be a sparse matrix"):
        open_features(str(tmp_path))


def test_one_fingerprint_for_all_sources_and_pieces(tmp_path, monkeypatch):
    np.savez(tmp_path / "x.npz", **PARTS, format=np.array(b"csr"), y=y)
    of_npz = open_features(str(tmp_path / "x.npz"))
    monkeypatch.setattr(row_sources, "PIECE_BYTES", 300)
    of_zarr = open_features(str(stored(tmp_path / "x.zarr")))
    assert of_npz.fingerprints == of_zarr.fingerprints
    other = X.copy()
    other.data[3] += 1
    np.savez(tmp_path / "x.npz", **PARTS | {"data": other.data}, format=np.array(b"csr"), y=y)
    assert open_features(str(tmp_path / "x.npz")).fingerprints != of_zarr.fingerprints
    for c in range(5):
        columns = np.flatnonzero(of_zarr.X_train.read(of_zarr.of_class(c)).toarray().any(axis=0))
        np.testing.assert_array_equal(of_zarr.columns[[c]].indices, columns)
