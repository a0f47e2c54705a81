from __future__ import annotations

import time

import numpy as np
import pytest
import zarr

from pairloom.pipeline.features import row_sources
from pairloom.pipeline.features.feature_set import load_features, load_samples, open_features, rows_for_test

random = np.random.default_rng(0)
X = random.standard_normal((40, 3)).astype(np.float32)
LABELS = np.arange(40) % 4
NAMES = np.array(["gar", "quilt", "été", "corn"])


def arrays(**changes):
    made = {
        "X_train": X[:24],
        "y_train": LABELS[:24],
        "X_test": X[24:],
        "y_test": LABELS[24:],
        "classes": NAMES,
    }
    return {name: values for name, values in (made | changes).items() if values is not None}


def save(folder, **changes):
    path = folder / "data.npz"
    np.savez(path, **arrays(**changes))
    return str(path)


def as_npz(folder, contents):
    np.savez(folder / "a.npz", **contents)
    return folder / "a.npz"


def as_zarr(folder, contents):
    group = zarr.create_group(folder / "a.zarr")
    for name, values in contents.items():
        group.create_array(
            name, data=values.astype(np.dtypes.StringDType()) if values.dtype.kind == "U" else values
        )
    return folder / "a.zarr"


def as_folder(folder, contents):
    (folder / "a").mkdir()
    for name, values in contents.items():
        np.save(folder / "a" / f"{name}.npy", values)
    return folder / "a"


@pytest.mark.parametrize("store", [as_npz, as_zarr, as_folder])
def test_a_set_is_the_same_from_any_format(store, tmp_path):
    data = load_features(str(store(tmp_path, arrays())))
    assert data.classes == ("corn", "gar", "quilt", "été")
    np.testing.assert_array_equal(data.X_test, X[24:])
    np.testing.assert_array_equal(np.array(data.classes)[data.y_train], NAMES[LABELS[:24]])
    again = load_features(save(tmp_path))
    assert data.fingerprints == again.fingerprints


@pytest.mark.parametrize(
    "labels",
    [
        LABELS + 100,
        NAMES[LABELS],
        LABELS.astype(float) / 2,
        LABELS > 1,
        np.char.encode(NAMES, "utf-8")[LABELS],
    ],
    ids=["integers", "strings", "floats", "booleans", "bytes"],
)
def test_labels_of_any_type_are_classes(labels, tmp_path):
    data = load_features(save(tmp_path, y_train=labels[:24], y_test=labels[24:], classes=None))
    values, codes = np.unique(labels, return_inverse=True)
    names = [value.decode() if isinstance(value, bytes) else str(value) for value in values]
    assert data.classes == tuple(names)
    np.testing.assert_array_equal(data.y_test, codes[24:])


def test_a_pool_is_split_alike_in_every_class(tmp_path):
    path = str(as_npz(tmp_path, {"X": X, "y": LABELS}))
    data = load_features(path, test_fraction=0.3, seed=3)
    assert np.bincount(data.y_test).tolist() == [3, 3, 3, 3]
    assert len(data.X_train) == 28
    assert load_features(path, test_fraction=0.3, seed=3).fingerprints == data.fingerprints
    assert load_features(path, test_fraction=0.3, seed=4).fingerprints != data.fingerprints


def test_other_test_samples_change_only_their_fingerprint(tmp_path):
    source = save(tmp_path)
    other = tmp_path / "other.npz"
    np.savez(other, X=X[:8], y=LABELS[:8])
    one, two = load_features(source), load_features(source, test=str(other))
    assert one.fingerprints["train"] == two.fingerprints["train"]
    assert one.fingerprints["test"] != two.fingerprints["test"]
    assert len(two.X_test) == 8


def test_test_samples_need_no_labels(tmp_path):
    assert load_features(save(tmp_path, y_test=None)).y_test is None


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"X_train": X[:24, 0]}, r"X_train must be a matrix .* got shape \(24,\)"),
        ({"X_test": X[24:, :2]}, "X_test must have 3 features as X_train has, got 2"),
        (
            {"X_train": np.where(np.arange(24)[:, None] == 5, np.nan, X[:24])},
            "NaN or infinity in 1 rows, first in row 5, column 0",
        ),
        ({"y_train": LABELS[:23]}, r"y_train must be one label for each of 24 samples, got shape \(23,\)"),
        ({"y_test": LABELS[24:] + 1}, "y_test must be labels of the 4 classes, got 4 in 4 samples"),
        (
            {"y_train": np.zeros(24, int)},
            "every class must have training samples, corn, quilt, été have none",
        ),
        ({"y_train": np.zeros(24, int), "y_test": None, "classes": None}, "two classes or more, got 0"),
        (
            {"classes": np.array(["a", "a", "b", "c"])},
            "classes must be different names, got a more than once",
        ),
        ({"X_train": np.array([["a"]] * 24)}, "X_train must be real numbers, got dtype <U1"),
        ({"X_train": None}, "must hold X_train, y_train, X_test"),
        ({"y_train": np.array([0, None] * 12, dtype=object)}, "cannot be read without unpickling"),
    ],
)
def test_what_is_wrong_with_a_set_is_said(changes, complaint, tmp_path):
    with pytest.raises(ValueError, match=complaint):
        load_features(save(tmp_path, **changes))


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(FileNotFoundError, match=r"nowhere\.npz .*digits"):
        load_features("nowhere.npz")


def test_the_folder_of_the_environment_must_be_set(monkeypatch, tmp_path):
    monkeypatch.delenv("PAIRLOOM_DATA", raising=False)
    with pytest.raises(ValueError, match=r"set PAIRLOOM_DATA to the folder that holds data\.npz"):
        load_features("$PAIRLOOM_DATA/data.npz")
    save(tmp_path)
    monkeypatch.setenv("PAIRLOOM_DATA", str(tmp_path))
    assert len(load_features("$PAIRLOOM_DATA/data.npz").classes) == 4


def test_samples_to_predict_have_the_features_of_the_model(tmp_path):
    path = str(as_npz(tmp_path, {"X": X}))
    np.testing.assert_array_equal(load_samples(path, 3).X, X)
    with pytest.raises(ValueError, match="must have 7 features, as the model has, got 3"):
        load_samples(path, 7)


def test_samples_keep_the_ids_of_their_rows(tmp_path):
    names = np.array([f"person {i}" for i in range(len(X))])
    pooled = open_features(str(as_npz(tmp_path, {"X": X, "y": LABELS, "ids": names})))
    both = np.concatenate([pooled.ids_train, pooled.ids_test])
    assert sorted(both.tolist()) == sorted(names.tolist())
    rows = np.array([int(name.split()[1]) for name in pooled.ids_test.tolist()])
    np.testing.assert_array_equal(pooled.X_test.read(slice(None)), X[rows])
    by_class = np.array([int(name.split()[1]) for name in pooled.ids_by_class.tolist()])
    np.testing.assert_array_equal(pooled.by_class(tmp_path).read(slice(None)), X[by_class])
    # Without ids, they are the rows of the source, and other ids leave the samples what they are.
    plain = open_features(str(as_npz(tmp_path, {"X": X, "y": LABELS})))
    np.testing.assert_array_equal(plain.ids_test, rows)
    assert {
        part for part in ("train", "test", "ids") if plain.fingerprints[part] != pooled.fingerprints[part]
    } == {"ids"}
    with pytest.raises(ValueError, match=r"ids must be one for each of \d+ samples, got shape \(3,\)"):
        open_features(str(as_npz(tmp_path, {"X": X, "y": LABELS, "ids": names[:3]})))


def test_samples_that_cannot_be_predicted_are_told(tmp_path):
    odd = X.copy()
    odd[3, 1], odd[5, 2] = np.nan, np.inf
    found = load_samples(str(as_npz(tmp_path, {"X": odd, "ids": np.arange(len(X)) + 100})), 3)
    assert found.problems == {
        3: "column 1 must be finite, got nan",
        5: "column 2 must be finite, got inf",
    }
    assert np.flatnonzero(~found.whole).tolist() == [3, 5]
    assert found.ids[3] == 103


@pytest.fixture
def group(tmp_path):
    """A zarr group with several chunks of features and of labels."""
    made = zarr.create_group(tmp_path / "a.zarr")
    made.create_array("X", data=X, chunks=(8, 3))
    made.create_array("y", data=LABELS + 1, chunks=(10,))
    return tmp_path / "a.zarr"


def test_a_missing_chunk_of_features_is_an_error_that_names_it(group):
    (group / "X" / "c" / "3" / "0").unlink()
    with pytest.raises(ValueError, match=r"a\.zarr: X: chunk c/3/0 is missing\. .*missing_chunks = \"fill\""):
        load_features(str(group))
    with pytest.raises(ValueError, match=r"X: chunk c/3/0 is missing"):
        load_samples(str(group), 3)


def test_missing_chunks_hold_the_fill_value_if_that_is_meant(group):
    (group / "X" / "c" / "3" / "0").unlink()
    samples = load_samples(str(group), 3, missing_chunks="fill").X
    assert not samples[24:32].any()
    np.testing.assert_array_equal(samples[:24], X[:24])
    data = load_features(str(group), missing_chunks="fill")
    assert sum((~part.any(axis=1)).sum() for part in (data.X_train, data.X_test)) == 8


def test_a_missing_chunk_of_labels_is_always_an_error(group):
    (group / "y" / "c" / "1").unlink()
    for missing_chunks in ("refuse", "fill"):
        with pytest.raises(ValueError, match=r"a\.zarr: y: chunk c/1 is missing\. .*write_empty_chunks"):
            load_features(str(group), missing_chunks=missing_chunks)


def test_a_missing_chunk_of_test_samples_is_an_error(group, tmp_path):
    (group / "X" / "c" / "3" / "0").unlink()
    with pytest.raises(ValueError, match=r"a\.zarr: X: chunk c/3/0 is missing"):
        load_features(save(tmp_path), test=str(group))


COLUMNS = np.array(["height", "width", "weight"])
OTHER_ORDER = [2, 0, 1]


@pytest.mark.parametrize("store", [as_npz, as_zarr, as_folder])
def test_columns_of_test_samples_are_matched_by_name(store, tmp_path):
    source = save(tmp_path, feature_names=COLUMNS)
    other = {"X": X[24:, OTHER_ORDER], "y": LABELS[24:], "feature_names": COLUMNS[OTHER_ORDER]}
    data = load_features(source, test=str(store(tmp_path, other)))
    np.testing.assert_array_equal(data.X_test, X[24:])
    assert data.fingerprints == load_features(source).fingerprints


@pytest.mark.parametrize("store", [as_npz, as_zarr, as_folder])
def test_columns_to_predict_are_matched_by_name_among_others(store, tmp_path):
    more = np.column_stack([np.zeros(40), X[:, OTHER_ORDER]])
    names = np.array(["unused", *COLUMNS[OTHER_ORDER]])
    path = str(store(tmp_path, {"X": more, "feature_names": names}))
    np.testing.assert_array_equal(load_samples(path, 3, COLUMNS.tolist()).X, X)


def test_columns_are_taken_in_their_order_where_one_side_has_no_names(tmp_path):
    np.testing.assert_array_equal(load_samples(str(as_npz(tmp_path, {"X": X})), 3, COLUMNS.tolist()).X, X)
    named = {"X": X, "feature_names": COLUMNS[OTHER_ORDER]}
    np.testing.assert_array_equal(load_samples(str(as_npz(tmp_path, named)), 3).X, X)


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        (["height", "width", "length"], "got none named weight. Its columns are matched by name"),
        (["height", "height", "weight"], "must be different names, .* got height more than once"),
        (["height", "width"], "feature_names must be one name for each of 3 features, got 2"),
    ],
)
def test_columns_that_cannot_be_matched_are_an_error(names, complaint, tmp_path):
    path = str(as_npz(tmp_path, {"X": X, "y": LABELS, "feature_names": np.array(names)}))
    with pytest.raises(ValueError, match=complaint):
        load_samples(path, 3, COLUMNS.tolist())
    with pytest.raises(ValueError, match=complaint):
        load_features(save(tmp_path, feature_names=COLUMNS), test=path)


def test_numbers_of_classes_in_another_order_are_matched_by_name(tmp_path):
    order = np.array([2, 0, 3, 1])
    other = {"X": X[24:], "y": np.argsort(order)[LABELS[24:]], "classes": NAMES[order]}
    data = load_features(save(tmp_path), test=str(as_npz(tmp_path, other)))
    assert [data.classes[c] for c in data.y_test] == NAMES[LABELS[24:]].tolist()
    other["classes"] = np.array(["gar", "quilt", "moth", "corn"])
    with pytest.raises(
        ValueError, match=r"a\.npz: y must be labels of the classes of the training data, got moth"
    ):
        load_features(save(tmp_path), test=str(as_npz(tmp_path, other)))


def columns_of_npy(folder, contents):
    as_folder(folder, contents)
    np.save(folder / "a" / "X_train.npy", np.asfortranarray(contents["X_train"]))
    return folder / "a"


def chunks_of_zarr(folder, contents):
    group = zarr.open_group(as_zarr(folder, contents), mode="r+")
    group.create_array("X_train", data=contents["X_train"], chunks=(6, 3), overwrite=True)
    return folder / "a.zarr"


def write_zarr(folder):
    zarr.open_array(folder / "X_train", mode="r+")[5, 1] = 7


def write_columns(folder):
    np.load(folder / "X_train.npy", mmap_mode="r+")[5, 1] = 7


@pytest.mark.parametrize(
    ("store", "write"),
    [(chunks_of_zarr, write_zarr), (columns_of_npy, write_columns)],
    ids=["zarr", "fortran"],
)
def test_what_is_read_later_is_what_was_checked(store, write, tmp_path, monkeypatch):
    """Between the check and the copy somebody writes one number."""
    monkeypatch.setattr(row_sources, "PIECE_BYTES", 1)  # a chunk at a time, of which the last is kept
    folder = store(tmp_path, arrays())
    data = open_features(str(folder))
    assert len(data.by_class(tmp_path).read(slice(0, 24))) == 24
    data.close()
    write(folder)
    with pytest.raises(ValueError, match="X_train must not change while it is read, but row 5 is not what"):
        data.X_train.read(slice(0, 24))
    with pytest.raises(ValueError, match="X_train must not change while it is read, but row 5 is not what"):
        data.by_class(tmp_path).read(slice(0, 24))
    np.testing.assert_array_equal(data.X_test.read(slice(None)), X[24:])


def rows_for_test_by_comparison(y, fraction, seed):
    testing = np.zeros(len(y), dtype=bool)
    for index, label in enumerate(np.unique(y)):
        rows = np.random.default_rng((seed, index)).permutation(np.flatnonzero(y == label))
        testing[rows[: round(fraction * len(rows))]] = True
    return testing


@pytest.mark.parametrize("fraction", [0.1, 0.25, 0.5])
def test_a_pool_is_split_as_if_every_class_were_looked_for(fraction):
    y = NAMES[np.random.default_rng(3).integers(0, 4, 200)]
    expected = rows_for_test_by_comparison(y, fraction, 7)
    np.testing.assert_array_equal(rows_for_test(y, "a", fraction, 7), expected)


@pytest.mark.parametrize("dtype", [np.str_, object])
def test_a_column_of_ids_for_a_label_takes_no_time_that_grows_with_its_square(dtype):
    """Looking for every one of these classes in all rows takes more than 40 s."""
    labels = np.array([f"{number:036d}" for number in range(80_000)], dtype)
    started = time.process_time()
    assert not rows_for_test(labels, "a").any()
    assert time.process_time() - started < 4
