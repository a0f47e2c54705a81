"""The answers of the network: those that a store of pictures has, and those of the layer that stands in for it."""

import shutil

import numpy as np
import pytest
import zarr
from made_pictures import COLOURS, Silent, make_folder, make_network, make_split
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from pairloom.pipeline.display.evaluation import confusion_counts
from pairloom.pipeline.experiments import network_answers
from pairloom.pipeline.experiments.network_answers import (
    picture_files,
    pictures_digest,
    softmax_answers,
    stored_answers,
)
from pairloom.pipeline.experiments.perform import EXPERIMENTS, perform
from pairloom.pipeline.experiments.trained_tensor import cached_tensor, load_set, machine_settings
from pairloom.pipeline.images.extraction import ExtractionOptions, extract_features
from pairloom.pipeline.images.network_outputs import class_probabilities


@pytest.fixture
def store_of(tmp_path):
    """A maker of stores of a folder of pictures."""

    def make(images, **options):
        network = make_network(tmp_path / "net.onnx")
        out = tmp_path / f"{images.name}.zarr"
        chosen = ExtractionOptions(preprocessing={"mean": [0.5], "std": [0.25]}, threads=2, **options)
        extract_features(images, network, out, chosen, Silent())
        return str(out)

    return make


def test_the_networks_own_answers_take_the_place_of_the_layer(store_of, tmp_path):
    store = store_of(make_split(tmp_path / "pictures", 8), outputs="folders")
    group = zarr.open_group(store, mode="r")
    answers = stored_answers(store)
    np.testing.assert_array_equal(answers.probabilities, class_probabilities(store, "test", slice(None)))
    seen = class_probabilities(store, "train", slice(None))
    np.testing.assert_array_equal(answers.confusion, confusion_counts(seen, group["y_train"][:]))
    assert not answers.stand_in
    data = load_set(store)
    path, settings = tmp_path / "tensor.npz", machine_settings(data.X_train)
    for _ in range(2):  # trained, then read
        trained = cached_tensor(data, settings, path, source=store)
        assert not trained.stand_in
        np.testing.assert_array_equal(trained.network, answers.probabilities)
        assert trained.files[3] == "val/green/001.png"
        assert trained.of_classes([2, 0]).files == (*trained.files[:2], *trained.files[4:])
    assert cached_tensor(data, settings, path).stand_in, "without the store, a layer is trained"


def test_the_networks_answers_follow_the_sorted_names_of_the_classes(store_of, tmp_path):
    store = store_of(make_split(tmp_path / "pictures", 8), outputs="folders")
    zarr.open_group(store, mode="r+")["classes"][:] = np.array(
        ["zebra", "mole", "ant"], np.dtypes.StringDType()
    )
    data, answers = load_set(store), stored_answers(store)
    assert data.classes == ("ant", "mole", "zebra")
    in_store = class_probabilities(store, "test", slice(None))
    np.testing.assert_array_equal(answers.probabilities, in_store[:, ::-1])
    y_test = zarr.open_group(store, mode="r")["y_test"][:]
    right = in_store.argmax(axis=1) == y_test
    np.testing.assert_array_equal(answers.probabilities.argmax(axis=1) == data.y_test, right)


@pytest.mark.long
def test_resuming_sees_that_a_store_has_pictures_and_answers_now(store_of, tmp_path):
    pictures = make_split(tmp_path / "pictures", 8)

    def measured(**given):
        return perform(EXPERIMENTS["disagreements"], store, tmp_path / "out", resume=True, **given)

    store = store_of(pictures)
    assert measured()
    assert measured() == []
    assert measured(pictures=pictures)
    assert measured(pictures=pictures) == []
    shutil.rmtree(store)
    store = store_of(pictures, outputs="folders")
    assert measured(pictures=pictures)


def test_of_a_pool_the_files_are_those_of_the_test_samples(store_of, tmp_path):
    store = store_of(make_folder(tmp_path / "pool", 8), outputs="folders")
    data, files = load_set(store), picture_files(store)
    assert [list(COLOURS)[c] for c in data.y_test] == [file.split("/")[0] for file in files]
    group = zarr.open_group(store, mode="r")
    rows = [group["files"][:].tolist().index(file) for file in files]
    np.testing.assert_array_equal(group["X"][:][rows], data.X_test)
    np.testing.assert_array_equal(
        stored_answers(store).probabilities, class_probabilities(store, "pool", slice(None))[rows]
    )


def test_a_store_that_does_not_know_its_outputs_has_files_and_no_answers(store_of, tmp_path):
    store = store_of(make_split(tmp_path / "pictures"))
    assert len(picture_files(store)) == 6
    assert stored_answers(store) is None


@pytest.mark.parametrize("source", ["", "digits", "nowhere.npz"])
def test_other_sources_know_nothing(source):
    assert (picture_files(source), pictures_digest(source), stored_answers(source)) == ((), "", None)


def test_the_layer_is_as_good_as_a_logistic_regression(digits_features, digits):
    data = digits_features
    scaler = StandardScaler().fit(data.X_train)
    other = LogisticRegression(max_iter=1000).fit(scaler.transform(data.X_train), data.y_train)
    accuracy = np.mean(digits.network.argmax(axis=1) == data.y_test)
    assert accuracy == pytest.approx(other.score(scaler.transform(data.X_test), data.y_test), abs=0.02)
    np.testing.assert_allclose(digits.network.sum(axis=1), 1, rtol=1e-5)
    assert digits.stand_in


def test_the_confusion_is_out_of_fold(digits_features):
    """A layer that knows its samples by heart would confuse none of them, even if their labels are random."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 300)).astype(np.float32), np.arange(200) % 4
    data = digits_features._replace(X_train=X, y_train=y, X_test=X[:8], y_test=y[:8], classes=tuple("abcd"))
    answers = softmax_answers(data)
    assert (answers.probabilities.argmax(axis=1) == y[:8]).all()
    assert np.trace(answers.confusion) < 100
    np.testing.assert_array_equal(answers.confusion.sum(axis=1), 50)


def test_neither_threads_nor_other_rows_of_the_same_kind_change_the_answers(digits_features, monkeypatch):
    first, again = (softmax_answers(digits_features, n_jobs=n_jobs) for n_jobs in (1, 2))
    np.testing.assert_array_equal(first.probabilities, again.probabilities)
    np.testing.assert_array_equal(first.confusion, again.confusion)
    monkeypatch.setattr(network_answers, "MOST_ROWS", 500)
    fewer = softmax_answers(digits_features)
    np.testing.assert_array_equal(fewer.confusion.sum(axis=1), 50)
    assert np.mean(fewer.probabilities.argmax(axis=1) == first.probabilities.argmax(axis=1)) > 0.9


def test_a_class_that_is_never_held_out_has_a_layer_too(digits_features):
    few = (digits_features.y_train != 3) | (np.cumsum(digits_features.y_train == 3) <= 2)
    data = digits_features._replace(
        X_train=digits_features.X_train[few], y_train=digits_features.y_train[few]
    )
    answers = softmax_answers(data)
    assert answers.confusion[3].sum() == 0
    assert (answers.probabilities[:, 3] > 0).all()
