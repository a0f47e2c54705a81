"""save(overwrite=True): it replaces a saved model, and nothing else."""

import json
import os
import shutil

import numpy as np
import pytest
from fitted_models import fitted

from pairloom import PairwiseSVC
from pairloom.pipeline.model import model_folder, saved_model
from pairloom.pipeline.storage.digests import sealed, unsealed


@pytest.fixture(scope="module")
def models(data):
    """Two models of one problem that predict differently."""
    return fitted(data, graph="star"), fitted(data, graph="complete")


@pytest.fixture
def path(models, tmp_path):
    """Where the first of the models is saved, alone in its folder."""
    models[0].save(tmp_path / "model")
    return tmp_path / "model"


def everything_below(folder):
    return {
        file.relative_to(folder).as_posix(): file.read_bytes() if file.is_file() else None
        for file in folder.rglob("*")
    }


def test_a_saved_model_is_replaced_and_nothing_of_it_is_left(models, data, path):
    _, new = models
    new.save(path, overwrite=True)
    loaded = PairwiseSVC.load(path)
    np.testing.assert_array_equal(loaded.predict_proba(data.X_new), new.predict_proba(data.X_new))
    assert loaded.graph == "complete"
    assert [found.name for found in path.parent.iterdir()] == ["model"]


def test_where_nothing_is_overwriting_is_saving(models, data, tmp_path):
    models[0].save(tmp_path / "deeper" / "model", overwrite=True)
    loaded = PairwiseSVC.load(tmp_path / "deeper" / "model")
    np.testing.assert_array_equal(loaded.predict_proba(data.X_new), models[0].predict_proba(data.X_new))


def test_a_model_can_be_saved_over_itself(models, data, path):
    again = PairwiseSVC.load(path)
    again.save(path, overwrite=True)
    expected = models[0].predict_proba(data.X_new)
    np.testing.assert_array_equal(again.predict_proba(data.X_new), expected)
    np.testing.assert_array_equal(PairwiseSVC.load(path).predict_proba(data.X_new), expected)


def make_file(path):
    path.write_text("mine")


def make_empty_folder(path):
    path.mkdir()


def make_folder_of_ones_own(path):
    path.mkdir()
    (path / "notes.txt").write_text("mine")


def make_folder_with_a_model_json_of_ones_own(path):
    path.mkdir()
    (path / "model.json").write_text(json.dumps({"format": "pairloom-model", "format_version": 3}))


def make_folder_with_arrays_only(path):
    (path / "arrays.zarr").mkdir(parents=True)


@pytest.mark.parametrize(
    "make",
    [
        make_file,
        make_empty_folder,
        make_folder_of_ones_own,
        make_folder_with_a_model_json_of_ones_own,
        make_folder_with_arrays_only,
    ],
)
def test_anything_else_is_left_alone(models, tmp_path, make):
    path = tmp_path / "model"
    make(path)
    before = everything_below(tmp_path)
    with pytest.raises(
        FileExistsError, match=r"overwrite=True replaces a saved model and nothing else, got .*model, which"
    ):
        models[0].save(path, overwrite=True)
    assert everything_below(tmp_path) == before


def test_a_file_that_somebody_put_into_a_saved_model_is_not_lost(models, path):
    (path / "notes.txt").write_text("mine")
    before = everything_below(path.parent)
    with pytest.raises(FileExistsError):
        models[1].save(path, overwrite=True)
    assert everything_below(path.parent) == before


def put_link(path):
    path.symlink_to(path.parent / "nowhere")


def put_pipe(path):
    os.mkfifo(path)


@pytest.mark.parametrize("make", [make_file, make_empty_folder, make_folder_of_ones_own, put_link, put_pipe])
@pytest.mark.parametrize(
    "name", ["model.json.bak", "mine", "arrays.zarr/mine", "arrays.zarr/slope/c/model.json"]
)
def test_whatever_somebody_put_into_a_saved_model_is_not_lost(models, path, name, make):
    """Even if it has the name of a file of the model, or is no file at all."""
    make(path / name)
    before = entries_below(path.parent)
    with pytest.raises(
        FileExistsError, match=r"nothing else, got .*model, which holds '.*' too\. Move it away"
    ):
        models[1].save(path, overwrite=True)
    assert entries_below(path.parent) == before


@pytest.mark.parametrize("name", ["model.json", "arrays.zarr", "arrays.zarr/slope", "arrays.zarr/slope/c/0"])
def test_a_link_in_place_of_a_part_of_a_model_is_refused(models, path, name):
    outside = path.parent / "outside"
    (path / name).rename(outside)
    (path / name).symlink_to(outside)
    before = entries_below(path.parent)
    with pytest.raises(FileExistsError, match="replaces a saved model and nothing else"):
        models[1].save(path, overwrite=True)
    assert entries_below(path.parent) == before


def entries_below(folder):
    """Everything below a folder without following links or opening pipes."""
    return {
        entry.relative_to(folder).as_posix(): os.readlink(entry)
        if entry.is_symlink()
        else entry.read_bytes()
        if entry.is_file()
        else entry.stat().st_mode
        for entry in folder.rglob("*")
    }


@pytest.mark.parametrize("name", [".DS_Store", "arrays.zarr/.DS_Store", "arrays.zarr/slope/Thumbs.db"])
def test_litter_of_a_file_manager_is_no_obstacle_and_stays(models, data, path, name):
    (path / name).write_bytes(b"finder")
    np.testing.assert_array_equal(
        PairwiseSVC.load(path).predict_proba(data.X_new), models[0].predict_proba(data.X_new)
    )
    for new in (models[1], models[0], models[1]):
        new.save(path, overwrite=True)
        assert (path / name).read_bytes() == b"finder"
        loaded = PairwiseSVC.load(path)
        np.testing.assert_array_equal(loaded.predict_proba(data.X_new), new.predict_proba(data.X_new))


def test_a_list_of_files_that_names_others_removes_none_of_them(models, path):
    """model.json may come from somebody else."""
    (path.parent / "thesis.tex").write_text("mine")
    content = unsealed((path / "model.json").read_bytes())
    content["files"] |= {"../thesis.tex": "0", str(path.parent / "thesis.tex"): "0"}
    (path / "model.json").write_bytes(sealed(content))
    models[1].save(path, overwrite=True)
    assert (path.parent / "thesis.tex").read_text() == "mine"


def test_a_damaged_model_is_left_alone(models, path):
    text = (path / "model.json").read_text()
    (path / "model.json").write_text(text.replace('"stratified"', '"normal"'))
    before = everything_below(path.parent)
    with pytest.raises(FileExistsError, match="overwrite=True replaces a saved model and nothing else"):
        models[1].save(path, overwrite=True)
    assert everything_below(path.parent) == before


def test_a_parameter_that_cannot_be_saved_leaves_the_old_model_whole(data, path):
    before = everything_below(path.parent)
    new = fitted(data, graph="complete", random_state=np.random.RandomState(0))
    with pytest.raises(ValueError, match="values of type RandomState cannot be saved"):
        new.save(path, overwrite=True)
    assert everything_below(path.parent) == before


@pytest.mark.parametrize(
    "step", [(saved_model, "_write_arrays"), (model_folder, "sealed"), (saved_model, "put_in_place")]
)
def test_a_full_disk_leaves_the_old_model_whole(models, path, monkeypatch, step):
    def full(*args, **keywords):
        raise OSError(28, "No space left on device")

    before = everything_below(path.parent)
    monkeypatch.setattr(*step, full)
    with pytest.raises(OSError, match="No space left"):
        models[1].save(path, overwrite=True)
    assert everything_below(path.parent) == before


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_failure_at_any_step_puts_the_old_model_back(models, path, monkeypatch, at):
    before, steps = everything_below(path.parent), []

    def failing(act):
        def step(source, target):
            steps.extend([act] if target.parent == path else [])
            if target.parent == path and len(steps) == at:
                raise OSError(5, "Input/output error")
            return act(source, target)

        return step

    for name in ("rename", "replace"):
        monkeypatch.setattr(type(path), name, failing(getattr(type(path), name)))
    with pytest.raises(OSError, match="Input/output error"):
        models[1].save(path, overwrite=True)
    assert everything_below(path.parent) == before


def test_other_models_in_the_same_folder_stay(models, data, path):
    other = shutil.copytree(path, path.with_name("model-2"))
    before = everything_below(other)
    models[1].save(path, overwrite=True)
    assert everything_below(other) == before
