"""Which pictures a folder holds, of which classes, in which order."""

from __future__ import annotations

import os

import pytest
from made_pictures import make_folder, make_split, picture

from pairloom.pipeline.features.embedded_sets import CLASSES
from pairloom.pipeline.images.image_folder import (
    POOL,
    TEST,
    TRAIN,
    WrongNames,
    lines_of,
    list_images,
    wanted_classes,
)


def names(images):
    return [row.name for row in images.classes]


def files(images, part=POOL):
    return [picture.file for picture in images.parts[part]]


def test_a_folder_per_class_is_one_pool_sorted_by_name(tmp_path, monkeypatch):
    make_folder(tmp_path, 3)
    listed = list_images(tmp_path)
    assert names(listed) == ["blue", "green", "red"]
    assert files(listed) == sorted(files(listed))
    assert [picture.label for picture in listed.parts[POOL]] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    backwards = os.walk
    monkeypatch.setattr(os, "walk", lambda folder: ((a, b[::-1], c[::-1]) for a, b, c in backwards(folder)))
    assert list_images(tmp_path) == listed


def test_train_and_val_are_two_parts(tmp_path):
    listed = list_images(make_split(tmp_path, 3))
    assert (len(listed.parts[TRAIN]), len(listed.parts[TEST])) == (9, 6)
    assert files(listed, TEST)[0] == "val/blue/000.png"


def test_a_class_may_be_called_train(tmp_path):
    make_folder(tmp_path, 1, {"train": (0, 0, 0), "bus": (9, 9, 9)})
    assert names(list_images(tmp_path)) == ["bus", "train"]


def test_test_pictures_have_classes_of_the_training_pictures(tmp_path):
    make_split(tmp_path)
    make_folder(tmp_path / "val", 1, {"violet": (200, 0, 200)})
    with pytest.raises(ValueError, match="the classes of the training pictures, got also 'violet'"):
        list_images(tmp_path)


def test_a_class_may_have_its_id_in_train_and_its_name_in_val(tmp_path):
    make_folder(tmp_path / "train", 4, {"n1": (200, 0, 0), "n2": (0, 200, 0)})
    make_folder(tmp_path / "val", 3, {"red": (200, 0, 0), "n2": (0, 200, 0)})
    listed = list_images(tmp_path, [("n1", "red"), ("n2", "green")])
    assert names(listed) == ["red", "green"]
    assert [picture.label for picture in listed.parts[TEST]] == [0, 0, 0, 1, 1, 1]
    assert files(listed, TEST)[::3] == ["val/red/000.png", "val/n2/000.png"]


def test_folders_below_a_class_belong_to_it_and_other_files_do_not(tmp_path):
    make_folder(tmp_path, 1)
    (tmp_path / "red" / "images" / "more").mkdir(parents=True)
    picture((200, 0, 0), 7).save(tmp_path / "red" / "images" / "more" / "7.JPEG")
    (tmp_path / "red" / "boxes.txt").write_text("0 0 3 4")
    (tmp_path / "red" / ".DS_Store").write_text("")
    (tmp_path / "red" / ".hidden").mkdir()
    picture((200, 0, 0), 8).save(tmp_path / "red" / ".hidden" / "8.png")
    listed = list_images(tmp_path)
    assert files(listed)[-2:] == ["red/000.png", "red/images/more/7.JPEG"]
    assert listed.ignored == ("red/boxes.txt",)


def test_classes_and_pictures_may_be_links_but_folders_within_a_class_are_not_followed(tmp_path):
    elsewhere = make_folder(tmp_path / "elsewhere", 2)
    subset = tmp_path / "subset"
    (subset / "green").mkdir(parents=True)
    (subset / "red").symlink_to(elsewhere / "red")
    (subset / "green" / "a.png").symlink_to(elsewhere / "green" / "000.png")
    (subset / "green" / "round").symlink_to(subset / "green")
    listed = list_images(subset)
    assert files(listed) == ["green/a.png", "red/000.png", "red/001.png"]
    assert listed.ignored == ("green/round",)


def test_a_class_without_pictures_is_named(tmp_path):
    make_folder(tmp_path, 1)
    (tmp_path / "white").mkdir()
    with pytest.raises(ValueError, match=r"every class must have a picture .*'white' have none"):
        list_images(tmp_path)


@pytest.mark.parametrize("n_classes", [0, 1])
def test_a_folder_of_fewer_than_two_classes_is_refused(n_classes, tmp_path):
    make_folder(tmp_path, 1, dict(list({"red": (200, 0, 0)}.items())[:n_classes]))
    with pytest.raises(ValueError, match="two classes or more"):
        list_images(tmp_path)


@pytest.mark.parametrize(("wanted", "got"), [([], "none"), ([("red", "warm")], "'warm'")])
def test_fewer_than_two_wanted_classes_are_refused(wanted, got, tmp_path):
    with pytest.raises(WrongNames, match=f"--classes must name two classes or more, got {got}"):
        list_images(make_folder(tmp_path, 1), wanted)


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param([("red", "warm"), ("red", "hot"), ("blue", "cold")], id="one folder twice"),
        pytest.param(
            [("n1", "red"), ("red", "hot"), ("blue",)], id="the name of one is the folder of another"
        ),
    ],
)
def test_two_wanted_classes_do_not_share_a_folder(wanted, tmp_path):
    with pytest.raises(
        WrongNames, match=r"every class a folder of its own, got 'red' of .* for more than one"
    ):
        list_images(make_folder(tmp_path, 1), wanted)


def test_the_fifty_of_table_2_are_found_by_id_or_name_in_its_order(tmp_path):
    colours = {(row.name if i % 7 == 0 else row.wordnet_id): (i, i, i) for i, row in enumerate(CLASSES)}
    make_folder(tmp_path, 1, {**colours, "n00000001": (1, 2, 3)})
    listed = list_images(tmp_path, wanted_classes("imagenet50"))
    assert names(listed) == [row.name for row in CLASSES]
    assert listed.classes[1].folder == "n01582220"
    assert len(listed.parts[POOL]) == 50


def test_a_wanted_class_with_two_folders_is_refused_and_not_halved(tmp_path):
    wanted = [("n1", "red"), ("n2", "crane"), ("n3",)]
    make_folder(tmp_path, 1, dict.fromkeys(["n1", "red", "n2", "n3"], (1, 2, 3)))
    with pytest.raises(WrongNames, match="got two of one class: 'n1 and red'"):
        list_images(tmp_path, wanted)
    (tmp_path / "red").rename(tmp_path / "crane-machine")
    assert [row.folder for row in list_images(tmp_path, wanted).classes] == ["n1", "n2", "n3"]


def test_the_name_of_a_class_may_be_the_folder_of_another(tmp_path):
    make_folder(tmp_path, 1, dict.fromkeys(["n1", "crane"], (1, 2, 3)))
    found = list_images(tmp_path, [("n1", "crane"), ("crane", "crane, a machine")]).classes
    assert [row.folder for row in found] == ["n1", "crane"]


def test_missing_classes_are_all_named(tmp_path):
    make_folder(tmp_path, 1, {row.wordnet_id: (9, 9, 9) for row in CLASSES[3:]})
    with pytest.raises(
        ValueError, match=r"3 are missing: n01558993 robin, n01582220 magpie, n01622779 great_grey_owl\."
    ):
        list_images(tmp_path, wanted_classes("imagenet50"))


def test_classes_come_from_a_file_with_names(tmp_path):
    make_folder(tmp_path / "pictures", 1)
    (tmp_path / "classes.txt").write_text("red a warm colour\n\nblue\n")
    listed = list_images(tmp_path / "pictures", wanted_classes(str(tmp_path / "classes.txt")))
    assert names(listed) == ["a warm colour", "blue"]
    assert files(listed) == ["red/000.png", "blue/000.png"]
    with pytest.raises(ValueError, match=r"got 'imagenet5'\. Did you mean 'imagenet50'"):
        wanted_classes("imagenet5")
    (tmp_path / "classes.txt").write_text("red warm\nblue warm\n")
    with pytest.raises(ValueError, match="'warm' more than once"):
        wanted_classes(str(tmp_path / "classes.txt"))


def test_a_list_of_classes_that_is_not_utf8_is_named(tmp_path):
    (tmp_path / "classes.txt").write_bytes("red rosé\nblue\n".encode("latin-1"))
    with pytest.raises(
        WrongNames, match=r"--classes must be .* UTF-8, got .*classes\.txt, whose byte 7 is not"
    ):
        wanted_classes(str(tmp_path / "classes.txt"))


def test_a_list_that_windows_wrote_is_read_as_it_is_meant(tmp_path):
    (tmp_path / "classes.txt").write_bytes("red warm\r\n\r\nblue\r\n".encode("utf-8-sig"))
    assert wanted_classes(str(tmp_path / "classes.txt")) == [("red", "warm"), ("blue",)]
    (tmp_path / "outputs.txt").write_bytes("rosé".encode("latin-1"))
    with pytest.raises(WrongNames, match=r"--outputs must be .* UTF-8, got .*outputs\.txt, whose byte 3"):
        lines_of(str(tmp_path / "outputs.txt"), "--outputs")


def test_a_name_that_is_not_utf8_is_refused(tmp_path):
    make_folder(tmp_path, 1)
    strange = os.fsencode(tmp_path / "red") + b"/\xff.png"
    with open(strange, "wb") as file:
        file.write((tmp_path / "red" / "000.png").read_bytes())
    with pytest.raises(ValueError, match="must be UTF-8"):
        list_images(tmp_path)
