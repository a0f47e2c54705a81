"""Bad input to the estimator and to the functions: an error that names the parameter and the value, and no change.

A row is what a user writes, the type of the error, and a pattern of its message. To add one, write one: the names that
a row may use are those of `estimator_names`, the models and the folders of this file.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
from estimator_names import NAMES, SMALL, X, dates, table, words, y
from sklearn.svm import SVC

from pairloom import PairwiseSVC
from pairloom.pipeline.storage.digests import sealed

FITTED = ("model_", "candidates_", "n_features_in_", "feature_names_in_")
MADE = {
    "other": b'{"format": "x"}',
    "text": b"hello",
    "list": b"[1]",
    "deep": b"[" * 100_000,
    "unsealed": b'{"format": "pairloom-model", "format_version": 10}',
    "unlisted": sealed({"format": "pairloom-model", "format_version": 10}),
}


@pytest.fixture(scope="session")
def models():
    """Fitted estimators. A row gets copies of them."""
    return {
        "model": PairwiseSVC(**SMALL).fit(X, y),
        "star": PairwiseSVC("star", **SMALL).fit(X, y),
        "path": PairwiseSVC("path", **SMALL).fit(X, y),
        "spoken": PairwiseSVC(**SMALL).fit(X, words),
        "dated": PairwiseSVC(**SMALL).fit(X, dates),
        "real": PairwiseSVC(**SMALL).fit(X, y / 1.0),
        "named": PairwiseSVC(**SMALL).fit(table, y),
        "weighted": PairwiseSVC(**SMALL).fit(X, y, np.ones(48)),
        "edged": PairwiseSVC(coupled_calibration="edges", **SMALL).fit(X, y),
        "curved": PairwiseSVC(kernel="rbf", **SMALL).fit(X, y),
        "foreign": PairwiseSVC(estimator=SVC(), **SMALL).fit(X, y),
    }


@pytest.fixture(scope="session")
def folder(models, tmp_path_factory):
    """Things that are no model, and one that is. No row changes it."""
    made = tmp_path_factory.mktemp("folder")
    for name, content in MADE.items():
        (made / name).mkdir()
        (made / name / "model.json").write_bytes(content)
    (made / "empty").mkdir()
    (made / "file").write_text("theirs")
    models["model"].save(made / "saved")
    models["model"].save(made / "cut")
    (made / "cut" / "arrays.zarr" / "slope" / "zarr.json").unlink()
    return made


@pytest.fixture
def here(models, place, folder):
    """The names of a row: those of `estimator_names`, fresh copies of the models, a folder, and a finished run."""
    fresh = {name: copy.copy(model) for name, model in models.items()}
    return NAMES | fresh | {"folder": folder, "run": place / "run"}


@pytest.fixture
def assert_refused(models, here):
    """Check that a row fails as it says, and that no model that it names has changed."""

    def assert_refused(row, error, message):
        with pytest.raises(error, match=f"(?s){message}"):
            eval(row, here)
        for name, model in models.items():
            if name in row:
                after = copy.copy(model)
                for attribute in FITTED:
                    found = vars(here[name]).get(attribute)
                    assert found is vars(model).get(attribute), f"{name}.{attribute} has changed"
                    vars(after)[attribute] = found
                if name != "named":
                    np.testing.assert_array_equal(after.predict_proba(X), model.predict_proba(X))

    return assert_refused
