"""Models, runs and data that somebody made to run code, to fill the memory or to be read wrong."""

from __future__ import annotations

import json
import shutil

import numcodecs.pickles
import numpy as np
import pytest
import zarr
from hostile_arrays import change_json, make_pickled_array, reseal, reseal_run

from pairloom import PairwiseSVC
from pairloom.pipeline.features.feature_set import open_features
from pairloom.pipeline.storage.digests import sealed, unsealed

y = np.repeat(np.arange(4), 8)
X = np.random.default_rng(0).standard_normal((32, 3)) + 3 * y[:, None]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "model"
    PairwiseSVC(random_state=0, whiten="none", C=1.0, folds=2).fit(X, y).save(path)
    return path


@pytest.fixture
def model(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "model")


@pytest.fixture
def run(place, tmp_path):
    return shutil.copytree(place / "run", tmp_path / "run")


@pytest.fixture
def group(tmp_path):
    group = zarr.create_group(tmp_path / "data.zarr")
    group.create_array("X", data=X, chunks=(8, 3))
    group.create_array("y", data=y + 1)
    return tmp_path / "data.zarr"


@pytest.fixture
def mark(tmp_path, monkeypatch):
    """A file that a pickle makes when it is read; and numcodecs lets pickles be read."""
    monkeypatch.setattr(numcodecs.pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True)
    return tmp_path / "code was run"


@pytest.mark.parametrize("name", ["shift", "machines/coef", "edges"])
def test_a_saved_model_with_a_pickle_is_refused_and_runs_no_code(name, model, mark):
    make_pickled_array(model / "arrays.zarr" / name, mark)
    (model / "arrays.zarr" / ".zgroup").write_text('{"zarr_format": 2}')
    reseal(model)
    with pytest.raises(ValueError, match=r"PairwiseSVC\.load: .*is not a whole model|cannot be read"):
        PairwiseSVC.load(model)
    assert not mark.exists()


def test_a_saved_model_all_of_format_2_is_refused_and_runs_no_code(model, mark):
    for metadata in sorted((model / "arrays.zarr").rglob("zarr.json"), reverse=True):
        if json.loads(metadata.read_bytes())["node_type"] == "array":
            make_pickled_array(metadata.parent, mark)
        else:
            metadata.unlink()
            (metadata.parent / ".zgroup").write_text('{"zarr_format": 2}')
    reseal(model)
    with pytest.raises(ValueError, match=r"PairwiseSVC\.load: .*is not a whole model"):
        PairwiseSVC.load(model)
    assert not mark.exists()


@pytest.mark.parametrize("name", ["machines.zarr/coef", "probabilities.zarr/scale", "features.zarr/checksum"])
@pytest.mark.parametrize("listed", [False, True], ids=["unlisted", "listed"])
def test_a_run_with_a_pickle_is_refused_and_runs_no_code(name, listed, run, mark):
    make_pickled_array(run / name, mark)
    if listed:
        (run / name / "zarr.json").write_text('{"zarr_format": 2}')
    reseal_run(run)
    with pytest.raises(ValueError, match=r"PairwiseSVC\.from_run: .*cannot be read"):
        PairwiseSVC.from_run(run)
    assert not mark.exists()


@pytest.mark.parametrize("name", ["X", "y", "classes"])
def test_data_with_a_pickle_are_refused_and_run_no_code(name, group, mark):
    make_pickled_array(group / name, mark)
    with pytest.raises(
        ValueError, match=rf"data\.zarr: {name} is not read: its codecs must be among .*got pickle"
    ):
        open_features(str(group))
    assert not mark.exists()


def test_metadata_that_the_group_has_of_an_array_are_not_believed(group, mark):
    """zarr takes consolidated metadata for that of the arrays."""
    with pytest.warns(UserWarning, match="Consolidated"):
        zarr.consolidate_metadata(group)
    content = json.loads((group / "zarr.json").read_text())
    arrays = content["consolidated_metadata"]["metadata"]
    arrays["X"]["shape"] = [1000, 3]
    (group / "zarr.json").write_text(json.dumps(content))
    assert open_features(str(group)).X_train.shape[1] == 3
    assert (
        sum(len(rows) for rows in (open_features(str(group)).X_train, open_features(str(group)).X_test)) == 32
    )


def test_other_arrays_of_a_group_are_not_opened(group, mark):
    make_pickled_array(group / "notes", mark)
    assert open_features(str(group)).classes == ("1", "2", "3", "4")
    assert not mark.exists()


HUGE = {
    "shape": [10**8, 10**8],
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [10**8, 10**8]}},
}


@pytest.mark.parametrize(
    "changes",
    [
        HUGE,
        {"shape": [10**12, 3]},
        {"shape": [1, 3]},
        {"data_type": "float64"},
        {"data_type": "string"},
        {"data_type": "complex64"},
    ],
    ids=str,
)
def test_a_saved_model_whose_arrays_claim_other_shapes_is_refused(changes, model):
    change_json(model / "arrays.zarr" / "machines" / "coef" / "zarr.json", **changes)
    reseal(model)
    with pytest.raises(ValueError, match=r"PairwiseSVC\.load: "):
        PairwiseSVC.load(model)


@pytest.mark.parametrize("changes", [HUGE, {"shape": [10**12, 3]}, {"data_type": "string"}], ids=str)
def test_a_run_whose_arrays_claim_other_shapes_is_refused(changes, run):
    change_json(run / "machines.zarr" / "coef" / "zarr.json", **changes)
    reseal_run(run)
    with pytest.raises(ValueError, match=r"PairwiseSVC\.from_run: "):
        PairwiseSVC.from_run(run)


@pytest.mark.parametrize("path", ["/dev/zero", "../../secret", "machines.zarr", "a\0b"])
def test_a_run_whose_list_of_files_leaves_it_is_refused(path, run):
    content = unsealed((run / "model.json").read_bytes())
    content["files"][path] = "0" * 64
    (run / "model.json").write_bytes(sealed(content))
    with pytest.raises(ValueError, match=r"PairwiseSVC\.from_run: .* is missing or damaged"):
        PairwiseSVC.from_run(run)


@pytest.mark.parametrize("dtype", ["U500000000", "(100000000,)f8", "V1000000000", "i8,O"])
def test_labels_of_a_saved_model_take_no_more_memory_than_they_need(dtype, model):
    content = unsealed((model / "model.json").read_bytes())
    content["model"] |= {"labels_dtype": dtype, "labels": list("abcd")}
    (model / "model.json").write_bytes(sealed(content))
    if dtype.startswith("U"):
        assert PairwiseSVC.load(model).classes_.dtype == "U1"
        return
    with pytest.raises(
        ValueError, match="is not a whole model: stored labels must be text, numbers or times"
    ):
        PairwiseSVC.load(model)


def test_chunks_of_zeros_are_saved_like_others(saved):
    """So that a chunk that is not there is always an error."""
    assert not zarr.open_array(saved / "arrays.zarr" / "shift", mode="r")[:].any()
    assert (saved / "arrays.zarr" / "shift" / "c" / "0").is_file()
