"""Runs of data that a program has: arrays, data frames, dask collections and zarr arrays, each as if it were a file."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import zarr
from click.testing import CliRunner
from sklearn.datasets import load_iris

import pairloom
from pairloom.cluster.commands.cli import main
from pairloom.cluster.drive.given_data import arrays_of_data
from pairloom.pipeline.config.config import ConfigError
from pairloom.pipeline.stages.run_file import Mismatch

CONFIG = {
    "cluster": {"kind": "threads", "workers": 1},
    "model": {
        "kernel": "linear",
        "C": "scale",
        "whiten": "none",
        "calibration": "distance",
        "coupling": "stratified",
    },
}
NAMES = ["a", "b", "c", "d"]


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return X.astype(np.float32)[order], np.array(["setosa", "versicolor", "virginica"])[y][order]


@pytest.fixture(scope="module")
def from_file(iris, tmp_path_factory):
    """The probabilities of the test samples, of a run on a file."""
    folder = tmp_path_factory.mktemp("file")
    np.savez(folder / "iris.npz", X=iris[0], y=iris[1])
    config = {**CONFIG, "data": {"features": str(folder / "iris.npz")}}
    pairloom.run(config, directory=folder / "run").wait(300)
    return probabilities(folder / "run")


def probabilities(directory):
    return np.asarray(zarr.open_group(directory / "probabilities.zarr", mode="r")["stratified"])


CONTAINERS = {
    "arrays": lambda X, y, folder: (X, y),
    "lists": lambda X, y, folder: (X, y.tolist()),
    "frame": lambda X, y, folder: (pd.DataFrame(X, columns=NAMES), pd.Series(y)),
    "dask": lambda X, y, folder: (da.from_array(X, chunks=(37, 3)), da.from_array(y, chunks=50)),
    "dask frame": lambda X, y, folder: (
        dd.from_pandas(pd.DataFrame(X, columns=NAMES), npartitions=3),
        pd.Series(y),
    ),
    "zarr": lambda X, y, folder: (zarr.create_array(str(folder / "X.zarr"), data=X, chunks=(40, 4)), y),
}


@pytest.mark.quick("arrays", "dask frame", "zarr")
@pytest.mark.parametrize("container", CONTAINERS)
def test_a_run_is_that_of_the_file(iris, from_file, container, tmp_path):
    data = CONTAINERS[container](*iris, tmp_path)
    handle = pairloom.run(CONFIG, data=data, directory=tmp_path / "run")
    model = handle.result(300)
    np.testing.assert_array_equal(probabilities(tmp_path / "run"), from_file)
    assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    if "frame" in container:
        assert model.feature_names_in_.tolist() == NAMES


def test_a_run_that_has_its_copy_is_resumed_without_the_data(iris, from_file, tmp_path):
    X, y = iris
    where = tmp_path / "run"
    pairloom.run(CONFIG, data=(X, y), directory=where).wait(300)
    for file in (where / "probabilities.zarr" / "stratified" / "c").rglob("*"):
        if file.is_file():
            file.unlink()
    done = CliRunner().invoke(main, ["resume", str(where)])
    assert done.exit_code == 0, done.output
    np.testing.assert_array_equal(probabilities(where), from_file)
    again = pairloom.run(CONFIG, data=(da.from_array(X, chunks=(50, 4)), y), directory=where)  # the same data
    again.wait(300)
    np.testing.assert_array_equal(probabilities(where), from_file)


def test_a_driver_on_a_worker_has_the_copy_of_the_data(iris, from_file, client, tmp_path):
    X, y = iris
    handle = pairloom.submit(CONFIG, data=(X, y), directory=tmp_path / "run", client=client)
    copied = [(tmp_path / "run" / "features.zarr" / name / "c").exists() for name in ("train", "test", "row")]
    assert copied == [True] * 3  # when the call returns
    assert handle.result(300).classes_.tolist() == ["setosa", "versicolor", "virginica"]
    np.testing.assert_array_equal(probabilities(tmp_path / "run"), from_file)
    with pytest.raises(ConfigError, match=r"data must be \(X, y\)"):
        pairloom.submit(CONFIG, data=[X, y], directory=tmp_path / "other", client=client)
    assert not (tmp_path / "other").exists()


def test_other_data_are_refused_and_change_nothing(iris, from_file, tmp_path):
    X, y = iris
    where = tmp_path / "run"
    pairloom.run(CONFIG, data=(X, y), directory=where).wait(300)
    before = {path: path.read_bytes() for path in where.rglob("*") if path.is_file()}
    with pytest.raises(Mismatch, match="other settings"):
        pairloom.run(CONFIG, data=(X + 1, y), directory=where)
    assert {path: path.read_bytes() for path in where.rglob("*") if path.is_file()} == before


def test_a_split_of_ones_own_and_the_names_of_rows(iris, tmp_path):
    X, y = iris
    frame = pd.DataFrame(X, columns=NAMES, index=[f"flower {k}" for k in range(150)])
    data = {"X_train": frame[:100], "y_train": y[:100], "X_test": frame[100:], "y_test": y[100:]}
    pairloom.run(CONFIG, data=data, directory=tmp_path / "run").wait(300)
    ids = zarr.open_group(tmp_path / "run" / "probabilities.zarr", mode="r")["sample"][...]
    assert ids[:2].tolist() == ["flower 100", "flower 101"]
    assert len(ids) == 50


def test_blocks_are_computed_as_they_are_read(iris):
    X, y = iris
    rows = arrays_of_data((da.from_array(X, chunks=((10, 80, 60), 4)), y))["X"]
    for part in (slice(0, 150), slice(5, 12), slice(89, 91), slice(150, 150)):
        np.testing.assert_array_equal(rows.read(part), X[part])
    np.testing.assert_array_equal(rows.read(np.array([3, 140, 12])), X[[3, 140, 12]])


def test_what_cannot_be_read_is_named(iris, tmp_path):
    X, y = iris
    where = {"directory": tmp_path / "run"}
    with pytest.raises(ConfigError, match=r"data must be \(X, y\), or a mapping"):
        pairloom.run(CONFIG, data=[X, y, y], **where)
    with pytest.raises(ConfigError, match="data must have names among X_train"):
        pairloom.run(CONFIG, data={"Z": X, "y": y}, **where)
    text = pd.DataFrame({"a": ["x"] * 150, "b": range(150)})
    with pytest.raises(ValueError, match=r"data: X must have columns of numbers, got text.*in column 'a'"):
        pairloom.run(CONFIG, data=(text, y), **where)
    with pytest.raises(ConfigError, match="X must be a matrix of real numbers, got float32 of shape"):
        pairloom.run(CONFIG, data=(da.zeros((4, 4, 4), dtype=np.float32), y), **where)
    with pytest.raises(ValueError, match="got 1 of 150 missing"):
        pairloom.run(CONFIG, data=(X, [None, *y[1:]]), **where)
    assert not (tmp_path / "run").exists()
