"""From pictures to a store that a run takes: the right numbers, the same bytes after a stop, and nothing destroyed."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest
import xarray
import zarr
from made_pictures import COLOURS, Silent, files_of, make_folder, make_network, make_split, picture

from pairloom.pipeline.features.feature_set import load_features
from pairloom.pipeline.images import picture_store
from pairloom.pipeline.images.extraction import CPU, ExtractionOptions, extract_features
from pairloom.pipeline.images.image_folder import StoreRefused
from pairloom.pipeline.images.network import open_network
from pairloom.pipeline.images.network_outputs import class_probabilities
from pairloom.pipeline.images.picture import read_picture
from pairloom.pipeline.images.preprocessing import (
    Preprocessing,
    augmented,
    centre_crop,
    draw_of_copy,
    normalised,
)

NORMAL = {"mean": [0.5], "std": [0.25]}
HOW = Preprocessing(18, (16, 16), (0.5,) * 3, (0.25,) * 3, 1.0, "bilinear", "rgb")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(picture_store, "BLOCK", 5)


@pytest.fixture
def pictures(tmp_path):
    return make_split(tmp_path / "pictures")


@pytest.fixture
def network(tmp_path):
    return make_network(tmp_path / "net.onnx")


def extract(images, network, out, progress=None, **options):
    chosen = ExtractionOptions(**{"preprocessing": NORMAL, "batch": 3, "threads": 2, **options})
    return extract_features(images, network, out, chosen, progress or Silent())


def one_by_one(images, network, files, copies=None):
    """The obvious way: one picture after the other."""
    run = open_network(network, provider=CPU, threads=1)
    run.measure((16, 16))
    rows = []
    for file, copy in zip(files, [0] * len(files) if copies is None else copies, strict=True):
        image = read_picture(images / file)
        small = augmented(image, HOW, draw_of_copy(0, file, int(copy))) if copy else centre_crop(image, HOW)
        rows.append([part[0] for part in run(normalised(small, HOW)[None])])
    features, shares = zip(*rows, strict=True)
    return np.array(features), np.array(shares)


class StoppedAfter(Silent):
    """A progress that ends the process's work after some pictures, as Ctrl-C does."""

    def __init__(self, most):
        super().__init__()
        self._most = most

    def advance(self, count):
        super().advance(count)
        self._most -= count if self.begun[-1][0] == "features" else 0
        if self._most <= 0:
            raise KeyboardInterrupt


def test_a_run_takes_the_store(pictures, network, tmp_path):
    done = extract(pictures, network, tmp_path / "features.zarr")
    data = load_features(str(tmp_path / "features.zarr"))
    assert data.classes == ("blue", "green", "red")
    assert (data.X_train.shape, data.X_test.shape, data.X_train.dtype) == ((12, 6), (6, 6), np.float32)
    np.testing.assert_array_equal(data.y_test, [0, 0, 1, 1, 2, 2])
    assert (done.rows, done.copies, done.features, done.outputs) == ({"train": 12, "test": 6}, 0, 6, 3)


def test_rows_are_those_of_their_pictures(pictures, network, tmp_path):
    extract(pictures, network, tmp_path / "features.zarr")
    group = zarr.open_group(tmp_path / "features.zarr", mode="r")
    for part, place in (("train", "train"), ("test", "val")):
        files = group[f"files_{part}"][:].tolist()
        assert files[0] == f"{place}/blue/000.png"
        features, shares = one_by_one(pictures, network, files)
        np.testing.assert_allclose(group[f"X_{part}"][:], features, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(group[f"probabilities_{part}"][:], shares, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(group[f"probabilities_{part}"][:].sum(axis=1), 1, rtol=1e-5)


def test_xarray_reads_the_store_with_its_pictures(pictures, network, tmp_path):
    extract(pictures, network, tmp_path / "features.zarr")
    found = xarray.open_zarr(tmp_path / "features.zarr").load()
    assert found["X_test"].sizes == {"test": 6, "feature": 6}
    assert found["X_test"][3].coords["files_test"].item() == "val/green/001.png"
    assert found.attrs["made_of"]["preprocessing"]["resize"] == 18
    assert found.attrs["model"] == "net.onnx"


def test_a_pool_stays_one_and_a_share_is_split_by_picture(network, tmp_path):
    images = make_folder(tmp_path / "pool", 8)
    extract(images, network, tmp_path / "pool.zarr")
    assert load_features(str(tmp_path / "pool.zarr")).X_test.shape == (6, 6), "data.test_fraction splits it"
    done = extract(images, network, tmp_path / "split.zarr", test_share=0.25)
    assert done.rows == {"train": 18, "test": 6}
    group = zarr.open_group(tmp_path / "split.zarr", mode="r")
    train, test = (set(group[f"files_{part}"][:].tolist()) for part in ("train", "test"))
    assert len(train | test) == 24
    assert sorted(file.split("/")[0] for file in test) == ["blue"] * 2 + ["green"] * 2 + ["red"] * 2
    with pytest.raises(ValueError, match="--test-share must not be given"):
        extract(make_split(tmp_path / "two"), network, tmp_path / "no.zarr", test_share=0.25)


def test_classes_without_test_pictures_are_named(pictures, network, tmp_path):
    seen = Silent()
    extract(pictures, network, tmp_path / "whole.zarr", seen)
    assert seen.notes == []
    shutil.rmtree(pictures / "val" / "red")
    for path in (pictures / "val" / "blue").iterdir():
        path.unlink()
    done = extract(pictures, network, tmp_path / "features.zarr", seen)
    assert done.rows == {"train": 12, "test": 2}
    assert seen.notes == ["Warning: There are no test pictures of 'blue', 'red'."]


def test_a_class_too_small_for_its_share_of_test_pictures_is_named(network, tmp_path):
    images = make_folder(tmp_path / "pool", 4)
    for path in sorted((images / "green").iterdir())[1:]:
        path.unlink()
    seen = Silent()
    assert extract(images, network, tmp_path / "features.zarr", seen, test_share=0.25).rows["test"] == 2
    assert seen.notes == ["Warning: There are no test pictures of 'green'."]


def test_classes_are_filled_up_with_copies_of_training_pictures(pictures, network, tmp_path):
    (pictures / "train" / "blue" / "003.png").unlink()
    done = extract(pictures, network, tmp_path / "features.zarr", augment=10)
    assert (done.rows, done.copies) == ({"train": 30, "test": 6}, 30 - 11)
    group = zarr.open_group(tmp_path / "features.zarr", mode="r")
    np.testing.assert_array_equal(group["copies_train"][:10], [0, 0, 0, 1, 1, 1, 2, 2, 2, 3])
    np.testing.assert_array_equal(group["y_train"][:], np.repeat([0, 1, 2], 10))
    assert (group["copies_test"][:] == 0).all()
    features, _ = one_by_one(pictures, network, group["files_train"][:].tolist(), group["copies_train"][:])
    np.testing.assert_allclose(group["X_train"][:], features, rtol=1e-4, atol=1e-5)
    assert len(np.unique(group["X_train"][:], axis=0)) == 30


def test_a_class_larger_than_asked_for_keeps_all_its_pictures(pictures, network, tmp_path):
    assert extract(pictures, network, tmp_path / "features.zarr", augment=2).rows["train"] == 12


def test_a_pool_is_not_augmented_before_it_is_split(network, tmp_path):
    images = make_folder(tmp_path / "pool")
    with pytest.raises(ValueError, match=r"--augment needs test pictures .* Pass --test-share 0\.25"):
        extract(images, network, tmp_path / "features.zarr", augment=10)
    assert not list(tmp_path.glob("features*"))


def test_the_same_pictures_give_the_same_bytes_wherever_and_with_however_many_threads(network, tmp_path):
    first = make_split(tmp_path / "first")
    extract(first, network, tmp_path / "a.zarr", augment=9, threads=1)
    shutil.copytree(first, tmp_path / "second" / "copy")
    extract(tmp_path / "second" / "copy", network, tmp_path / "b.zarr", augment=9, threads=3)
    found, expected = files_of(tmp_path / "b.zarr"), files_of(tmp_path / "a.zarr")
    times = "extraction/pictures.json"
    assert {**found, times: b""} == {**expected, times: b""}
    extract(first, network, tmp_path / "c.zarr", augment=9, seed=1)
    assert files_of(tmp_path / "c.zarr")["X_train/c/1/0"] != expected["X_train/c/1/0"]


@pytest.mark.parametrize("most", [1, 7, 20, 35])
def test_a_stopped_extraction_continues_after_its_last_whole_block(most, pictures, network, tmp_path):
    extract(pictures, network, tmp_path / "whole.zarr", augment=10)
    with pytest.raises(KeyboardInterrupt):
        extract(pictures, network, tmp_path / "features.zarr", StoppedAfter(most), augment=10)
    assert not (tmp_path / "features.zarr").exists()
    entries = len(list((tmp_path / "features.zarr-unfinished/extraction/ledger").rglob("*.json")))
    seen = Silent()
    extract(pictures, network, tmp_path / "features.zarr", seen, augment=10)
    assert seen.begun == [("features", 5 * entries, 36)], "and pictures are not read again"
    assert seen.advanced == 36 - 5 * entries
    assert files_of(tmp_path / "features.zarr") == files_of(tmp_path / "whole.zarr")
    assert not (tmp_path / "features.zarr-unfinished").exists()


def test_a_damaged_or_half_written_block_is_done_again(pictures, network, tmp_path):
    extract(pictures, network, tmp_path / "whole.zarr")
    with pytest.raises(KeyboardInterrupt):
        extract(pictures, network, tmp_path / "features.zarr", StoppedAfter(17))
    folder = tmp_path / "features.zarr-unfinished"
    (folder / "X_train/c/0/0").write_bytes(b"damaged")
    (folder / "extraction/ledger/train/000001.json").write_bytes(b"{")
    (folder / "X_train/c/2" / f".0.{'0' * 32}.partial").write_bytes(b"left by a killed process")
    (folder / "X_train/zarr.json").unlink()
    extract(pictures, network, tmp_path / "features.zarr")
    assert files_of(tmp_path / "features.zarr") == files_of(tmp_path / "whole.zarr")


def test_an_extraction_that_had_not_begun_is_begun_again(pictures, network, tmp_path):
    (tmp_path / "features.zarr-unfinished/extraction").mkdir(parents=True)
    assert extract(pictures, network, tmp_path / "features.zarr").rows == {"train": 12, "test": 6}


def test_a_complete_store_is_left_as_it_is(pictures, network, tmp_path):
    extract(pictures, network, tmp_path / "features.zarr")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "features.zarr").rglob("*")}
    assert extract(pictures, network, tmp_path / "features.zarr").was_finished
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "features.zarr").rglob("*")} == before


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"preprocessing": {**NORMAL, "resize": 20}}, "preprocessing.resize: was 18, is 20"),
        ({"augment": 20}, r"augmentation.rows_per_class: was 10, is 20"),
        ({"seed": 3}, "seed: was 0, is 3"),
        ({"batch": 4}, "network.batch: was 3, is 4"),
        ({"layer": "rectified"}, "network.layer: was 'pooled', is 'rectified'"),
    ],
)
@pytest.mark.parametrize("finished", [True, False])
def test_a_store_of_other_settings_is_refused_with_what_differs(
    changed, complaint, finished, pictures, network, tmp_path
):
    out = tmp_path / "features.zarr"
    if finished:
        extract(pictures, network, out, augment=10)
    else:
        with pytest.raises(KeyboardInterrupt):
            extract(pictures, network, out, StoppedAfter(8), augment=10)
    before = files_of(tmp_path)
    with pytest.raises(StoreRefused, match=complaint):
        extract(pictures, network, out, **{"augment": 10, **changed})
    assert files_of(tmp_path) == before


def test_another_network_or_other_pictures_are_refused(pictures, network, tmp_path):
    out = tmp_path / "features.zarr"
    extract(pictures, network, out)
    with pytest.raises(StoreRefused, match=r"network\.digest: was "):
        extract(pictures, make_network(tmp_path / "other.onnx", seed=1), out)
    picture(COLOURS["red"], 77).save(pictures / "train" / "red" / "000.png")
    with pytest.raises(StoreRefused, match=r"pictures\.digest: was "):
        extract(pictures, network, out)
    (pictures / "train" / "red" / "000.png").unlink()
    with pytest.raises(StoreRefused, match=r"pictures\.number: was 18, is 17"):
        extract(pictures, network, out)


def test_a_picture_that_was_only_touched_is_the_same_picture(pictures, network, tmp_path):
    extract(pictures, network, tmp_path / "features.zarr")
    os.utime(pictures / "train" / "red" / "000.png", (1, 1))
    seen = Silent()
    assert extract(pictures, network, tmp_path / "features.zarr", seen).was_finished
    assert seen.begun == [("reading", 17, 18)]


@pytest.mark.parametrize("place", ["features.zarr", "features.zarr-unfinished"])
@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_files_of_others_are_never_touched(place, kind, pictures, network, tmp_path):
    theirs = tmp_path / place
    if kind == "file":
        theirs.write_text("a thesis")
    elif kind == "link":
        theirs.symlink_to(pictures)
    else:
        theirs.mkdir()
        (theirs / "thesis.tex").write_text("a thesis")
    before = files_of(tmp_path)
    with pytest.raises(StoreRefused, match=r"--out must be new or a store .* Nothing was changed"):
        extract(pictures, network, tmp_path / "features.zarr")
    assert files_of(tmp_path) == before


def test_only_one_process_fills_a_store(pictures, network, tmp_path):
    class Intruding(Silent):
        def begin(self, what, done, total):
            if what == "features":
                with pytest.raises(StoreRefused, match="Another process is filling"):
                    extract(pictures, network, tmp_path / "features.zarr")
                self.notes.append("refused")

    seen = Intruding()
    extract(pictures, network, tmp_path / "features.zarr", seen)
    assert seen.notes == ["refused"]


def test_broken_pictures_are_all_named_before_anything_is_written(pictures, network, tmp_path):
    (pictures / "train/blue/001.png").write_bytes(b"")
    (pictures / "val/red/000.png").write_bytes((pictures / "val/red/000.png").read_bytes()[:300])
    with pytest.raises(ValueError, match="2 of 18 pictures are broken") as caught:
        extract(pictures, network, tmp_path / "features.zarr")
    assert "train/blue/001.png: it is empty" in str(caught.value)
    assert "val/red/000.png: " in str(caught.value)
    assert "pass --broken skip" in str(caught.value)
    assert not list(tmp_path.glob("features*"))


def test_broken_pictures_are_skipped_if_asked_for(pictures, network, tmp_path):
    (pictures / "train/blue/001.png").write_bytes(b"")
    seen = Silent()
    done = extract(pictures, network, tmp_path / "features.zarr", seen, skip_broken=True, augment=6)
    assert done.broken == ["train/blue/001.png"]
    assert "Skipped train/blue/001.png: it is empty" in seen.notes
    files = zarr.open_group(tmp_path / "features.zarr", mode="r")["files_train"][:].tolist()
    assert len(files) == 18
    assert "train/blue/001.png" not in files


def test_a_class_of_broken_pictures_is_named(pictures, network, tmp_path):
    for path in (pictures / "train/green").iterdir():
        path.write_bytes(b"")
    with pytest.raises(
        ValueError, match="Every class must have training pictures that can be read, 'green' have none"
    ):
        extract(pictures, network, tmp_path / "features.zarr", skip_broken=True)


def test_the_same_picture_in_two_classes_or_in_both_parts_is_a_warning(pictures, network, tmp_path):
    shutil.copy(pictures / "train/blue/001.png", pictures / "train/red/blue.png")
    shutil.copy(pictures / "train/green/002.png", pictures / "val/green/again.png")
    seen = Silent()
    extract(pictures, network, tmp_path / "features.zarr", seen)
    assert seen.notes == [
        "Warning: The same picture is in 2 classes: train/blue/001.png, train/red/blue.png.",
        "Warning: The same picture is among the training and the test pictures: "
        "train/green/002.png, val/green/again.png.",
    ]


def test_a_picture_that_changes_after_it_was_read_stops_the_extraction(pictures, network, tmp_path):
    class Changing(Silent):
        def begin(self, what, done, total):
            super().begin(what, done, total)
            if what == "features":
                picture((1, 2, 3), 5).save(pictures / "val/red/001.png")

    with pytest.raises(ValueError, match=r"001\.png must not change while features are extracted"):
        extract(pictures, network, tmp_path / "features.zarr", Changing())
    assert not (tmp_path / "features.zarr").exists()


def test_features_that_are_not_finite_are_named(pictures, tmp_path):
    network = make_network(tmp_path / "net.onnx", scale=1e37)
    with pytest.raises(
        ValueError, match=r"--layer must be finite, got NaN or infinity for train/blue/000\.png"
    ):
        extract(pictures, network, tmp_path / "features.zarr")


def test_metadata_of_the_model_replaces_options(pictures, tmp_path):
    metadata = {"mean": "0.5", "std": "0.25", "resize": "20"}
    network = make_network(tmp_path / "net.onnx", metadata=metadata)
    done = extract(pictures, network, tmp_path / "features.zarr", preprocessing={})
    assert done.preprocessing["resize"] == 20
    assert done.preprocessing["std"] == (0.25,) * 3


def test_outputs_that_are_named_give_the_networks_own_column(pictures, tmp_path):
    network = make_network(tmp_path / "net.onnx", outputs=5)
    outputs = tmp_path / "outputs.txt"
    outputs.write_text("n1 grey\nn2 red\nn3 blue\nn4 pink\nn5 green\n")
    done = extract(pictures, network, tmp_path / "a.zarr", outputs=str(outputs))
    group = zarr.open_group(tmp_path / "a.zarr", mode="r")
    np.testing.assert_array_equal(group["output_of_class"][:], [2, 4, 1])
    p = group["probabilities_test"][:][:, [2, 4, 1]]
    own = class_probabilities(tmp_path / "a.zarr", "test", slice(None))
    np.testing.assert_allclose(own, p / p.sum(axis=1, keepdims=True), rtol=1e-5)
    assert done.network_accuracy == np.mean(own.argmax(axis=1) == group["y_test"][:])
    assert extract(pictures, network, tmp_path / "b.zarr").network_accuracy is None


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ("n1 grey\n", "the 5 outputs of the network, got 1"),
        ("a\nb\nc\nd\nred\n", "2 are missing: 'blue', 'green'"),
    ],
)
def test_outputs_name_every_class(lines, complaint, pictures, tmp_path):
    (tmp_path / "outputs.txt").write_text(lines)
    network = make_network(tmp_path / "net.onnx", outputs=5)
    with pytest.raises(ValueError, match=complaint):
        extract(pictures, network, tmp_path / "features.zarr", outputs=str(tmp_path / "outputs.txt"))


def test_a_network_of_these_folders_numbers_them_by_name(pictures, network, tmp_path):
    (tmp_path / "classes.txt").write_text("red\nblue\n")
    small = make_network(tmp_path / "two.onnx", outputs=2)
    extract(pictures, small, tmp_path / "a.zarr", outputs="folders", classes=str(tmp_path / "classes.txt"))
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "a.zarr")["output_of_class"][:], [1, 0])


def test_probabilities_are_left_out_if_asked_for(pictures, network, tmp_path):
    done = extract(pictures, network, tmp_path / "features.zarr", probabilities=False)
    assert (done.outputs, done.output) == (0, None)
    assert "probabilities_train" not in zarr.open_group(tmp_path / "features.zarr", mode="r")
