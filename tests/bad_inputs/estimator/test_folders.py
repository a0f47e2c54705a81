"""Folders that a model cannot be saved to, or read from."""

from __future__ import annotations

import pytest
from folder_snapshot import snapshot

FOLDERS = [
    ("model.save(folder / 'saved')", FileExistsError, "saved exists already; overwrite=True replaces"),
    ("model.save(folder / 'file')", FileExistsError, "file exists already"),
    (
        "model.save(folder / 'file', overwrite=True)",
        FileExistsError,
        "a saved model and nothing else, got .*file",
    ),
    ("model.save(folder / 'empty', overwrite=True)", FileExistsError, "nothing else, got .*empty"),
    ("model.save(folder / 'unlisted', overwrite=True)", FileExistsError, "nothing else, got .*unlisted"),
    ("model.save(folder / 'file' / 'x')", NotADirectoryError, "path must be in a folder .* got .*file/x"),
    ("model.save('/proc/nowhere/model')", OSError, "path must be in a folder .* got /proc/nowhere/model"),
    ("model.save('')", ValueError, "save: path must be the path of a folder, got ''"),
    (r"model.save(folder / 'a\0b')", ValueError, r"save: path must be the path of a folder, got .*a\\x00b"),
    ("model.save(None)", TypeError, "save: path must be a str or a Path, got None"),
    ("model.save(3)", TypeError, "save: path must be a str or a Path, got 3"),
    ("foreign.save(folder / 'x')", ValueError, r"cannot be saved without pickle, got estimator=SVC\(\)"),
    (
        "model.set_params(random_state=np.random.RandomState(0)).save(folder / 'a' / 'b')",
        ValueError,
        r"save: random_state: values of type RandomState cannot be saved, got RandomState\(MT19937\)",
    ),
    (
        "model.set_params(priors=pd.Series([1] * 4)).save(folder / 'x')",
        ValueError,
        "save: priors: .* type Series",
    ),
    ("model.set_params(graph={'hubs': {1}}).save(folder / 'x')", ValueError, r"save: graph: .* got \{1\}"),
    (
        "PairwiseSVC(**SMALL).fit(X, y.astype(np.longdouble)).save(folder / 'a' / 'b')",
        ValueError,
        "save: labels must be strings, .* got dtype float128",
    ),
    ("PairwiseSVC.load(folder / 'missing')", FileNotFoundError, "missing is not a saved model: it has no"),
    (
        "PairwiseSVC.load(folder / 'empty')",
        FileNotFoundError,
        "empty is not a saved model: it has no model.json",
    ),
    ("PairwiseSVC.load(folder / 'file')", ValueError, "load: .*file/model.json cannot be read"),
    (
        "PairwiseSVC.load(folder / 'text')",
        ValueError,
        "load: .*text/model.json cannot be read: Expecting value",
    ),
    (
        "PairwiseSVC.load(folder / 'deep')",
        ValueError,
        "load: .*deep/model.json cannot be read: maximum recursion",
    ),
    (
        "PairwiseSVC.load(folder / 'other')",
        ValueError,
        "other must be a pairloom-model of version 10, got 'x'",
    ),
    (
        "PairwiseSVC.load(folder / 'list')",
        ValueError,
        "list must be a pairloom-model of version 10, got None",
    ),
    ("PairwiseSVC.load(folder / 'unsealed')", ValueError, "load: .*unsealed/model.json is damaged"),
    (
        "PairwiseSVC.load(folder / 'unlisted')",
        ValueError,
        "unlisted is not a whole model: it has no list of files",
    ),
    ("PairwiseSVC.load(folder / 'cut')", ValueError, "cut is not a whole model: it has no arrays.zarr"),
    ("PairwiseSVC.load(run)", ValueError, "is a run directory, not a saved model: use PairwiseSVC.from_run"),
    ("PairwiseSVC.load(None)", TypeError, "load: path must be a str or a Path, got None"),
    ("PairwiseSVC.from_run(folder / 'missing')", FileNotFoundError, "missing is not a run directory"),
    ("PairwiseSVC.from_run(folder / 'file')", FileNotFoundError, "file is not a run directory"),
    ("PairwiseSVC.from_run(folder / 'saved')", FileNotFoundError, "saved is not a run directory"),
    ("PairwiseSVC.from_run(None)", TypeError, "directory must be a str or a Path, got None"),
    ("PairwiseSVC.from_run('')", ValueError, "directory must be the path of a folder, got ''"),
    ("PairwiseSVC.from_run(run, coupling='x')", ValueError, "coupling must be one of auto, .* got 'x'"),
    ("PairwiseSVC.from_run(run, coupling=3)", ValueError, "coupling must be one of auto, .* got 3"),
]


@pytest.mark.parametrize(("row", "error", "message"), FOLDERS, ids=[row[0] for row in FOLDERS])
def test_a_folder_that_cannot_be_used_stays_as_it_was(row, error, message, here, assert_refused):
    folder = here["folder"]
    before, run = snapshot(folder), snapshot(here["run"])
    assert_refused(row, error, message)
    assert snapshot(folder) == before
    assert snapshot(here["run"]) == run
