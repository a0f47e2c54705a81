"""Predictions of dask collections are lazy, block by block; those of a DataArray keep its dimensions."""

import subprocess
import sys

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from sklearn.datasets import load_iris

from pairloom import PairwiseSVC

NAMES = ["length", "width", "petal length", "petal width"]
METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function")


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.fixture(scope="module")
def model(iris):
    return PairwiseSVC(kernel="linear", random_state=0).fit(*iris)


@pytest.fixture(scope="module")
def of_names(iris):
    X, y = iris
    return PairwiseSVC(kernel="linear", random_state=0).fit(pd.DataFrame(X, columns=NAMES), y)


def never(shape=(10, 4)):
    """A block that must not be computed."""

    def fail():
        raise AssertionError("computed")

    return da.from_delayed(dask.delayed(fail)(), shape, np.float64)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_dask_array_is_predicted_block_by_block(iris, model, method, dtype):
    X = iris[0].astype(dtype)
    lazy = getattr(model, method)(da.from_array(X, chunks=(40, 3)))
    expected = getattr(model, method)(X)
    assert isinstance(lazy, da.Array)
    assert lazy.chunks[0] == (40, 40, 40, 30)
    assert lazy.shape == expected.shape
    assert lazy.dtype == lazy.compute().dtype == expected.dtype
    by_hand = [getattr(model, method)(X[start : start + 40]) for start in range(0, 150, 40)]
    np.testing.assert_array_equal(lazy.compute(), np.concatenate(by_hand))


@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_computed_to_find_out_what_it_looks_like(model, method):
    lazy = getattr(model, method)(never())
    with pytest.raises(AssertionError, match="computed"):
        lazy.compute()


def test_wrong_columns_are_an_error_at_once(model, of_names):
    with pytest.raises(ValueError, match="expecting 4 features"):
        model.predict_proba(never((10, 5)))
    with pytest.raises(ValueError, match="must have a dimension for the features"):
        model.predict_proba(never((10,)))
    frame = dd.from_pandas(pd.DataFrame(np.zeros((5, 4)), columns=NAMES[::-1]), npartitions=1)
    with pytest.raises(ValueError, match="feature names"):
        of_names.predict(frame)


def test_a_dask_frame_keeps_its_index(iris, of_names):
    frame = pd.DataFrame(iris[0], columns=NAMES, index=[f"flower {k}" for k in range(150)])
    lazy = dd.from_pandas(frame, npartitions=3, sort=False)
    p, labels = of_names.predict_proba(lazy), of_names.predict(lazy)
    assert list(p.columns) == list(of_names.classes_)
    found = p.compute()
    assert found.index.tolist() == frame.index.tolist()
    np.testing.assert_allclose(found.to_numpy(), of_names.predict_proba(frame), rtol=1e-6)
    assert isinstance(labels, dd.Series)
    np.testing.assert_array_equal(labels.compute(), of_names.predict(frame))
    none = lazy[lazy.length > 1000]  # partitions without rows
    assert of_names.predict_proba(none).compute().shape == (0, 3)
    assert len(of_names.predict(none).compute()) == 0


@pytest.mark.parametrize("chunks", [None, {"y": 4}], ids=["numpy", "dask"])
def test_a_data_array_keeps_its_dimensions(iris, model, chunks):
    picture = xr.DataArray(
        iris[0][:120].reshape(10, 12, 4),
        dims=("y", "x", "band"),
        coords={"y": np.arange(10) * 0.5, "band": list("abcd"), "time": 3},
        attrs={"units": "cm"},
    )
    X = picture if chunks is None else picture.chunk(chunks)
    p, labels = model.predict_proba(X), model.predict(X)
    assert p.dims == ("y", "x", "class")
    assert labels.dims == ("y", "x")
    assert (chunks is not None) == isinstance(p.data, da.Array) == isinstance(labels.data, da.Array)
    assert p.attrs == {}
    xr.testing.assert_equal(p["y"], picture["y"])
    assert p["class"].values.tolist() == model.classes_.tolist()
    assert set(p.coords) == {"y", "time", "class"}
    np.testing.assert_allclose(p, model.predict_proba(iris[0][:120]).reshape(10, 12, 3), rtol=1e-6)
    np.testing.assert_array_equal(labels, model.predict(iris[0][:120]).reshape(10, 12))
    row = model.predict_proba(X.isel(x=0)).sel({"class": "virginica"})
    assert row.dims == ("y",)


def test_two_classes_have_one_decision(iris):
    X, y = iris[0][:100], iris[1][:100]
    model = PairwiseSVC(kernel="linear", random_state=0).fit(X, y)
    lazy = model.decision_function(da.from_array(X, chunks=(30, 4)))
    assert lazy.shape == (100,)
    np.testing.assert_allclose(lazy, model.decision_function(X), rtol=1e-5)


def test_a_fit_of_a_dask_collection_says_that_it_gathers(iris, model):
    X, y = iris
    lazy = da.from_array(X, chunks=(50, 4)), da.from_array(y, chunks=50)
    with pytest.warns(UserWarning, match=r"gathers X, a dask collection of shape \(150, 4\) \(4\.69 kiB\)"):
        fitted = PairwiseSVC(kernel="linear", random_state=0).fit(*lazy)
    np.testing.assert_array_equal(fitted.predict_proba(X), model.predict_proba(X))
    frame = dd.from_pandas(pd.DataFrame(X, columns=NAMES), npartitions=2)
    with pytest.warns(UserWarning, match="gathers X, a dask collection of 2 partitions"):
        named = PairwiseSVC(kernel="linear", random_state=0).fit(frame, y)
    assert named.feature_names_in_.tolist() == NAMES


@pytest.mark.long
def test_the_estimator_does_not_import_dask_or_xarray():
    code = (
        "import sys, numpy as np; from pairloom import PairwiseSVC;"
        "from pairloom.pipeline.estimator import containers;"
        "print(sorted({'dask', 'xarray', 'distributed'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
