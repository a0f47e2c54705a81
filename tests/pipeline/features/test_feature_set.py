from __future__ import annotations

import numpy as np
import pytest
import zarr

from pairloom.pipeline.features.feature_set import load_features, load_samples

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
    np.testing.assert_array_equal(load_samples(path, 3), X)
    with pytest.raises(ValueError, match="must have 7 features, as the model has, got 3"):
        load_samples(path, 7)
