"""Data that a run cannot use, and odd data that it can."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from odd_files import SPLIT, X, y

DATA = [
    ("text.npz", "data.features: text.npz is damaged or not what its name says: not a .npz archive"),
    ("empty.npz", "data.features: empty.npz is damaged"),
    ("cut.npz", "data.features: cut.npz is damaged"),
    ("flipped.npz", "flipped.npz"),
    ("no_members.npz", "no_members.npz: must hold .* got nothing"),
    ("no_arrays.npz", "data.features: no_arrays.npz is damaged .* is not an array"),
    (
        "endless.npz",
        "data.features: endless.npz is damaged .* has 128 bytes, which cannot hold 8000000000000000",
    ),
    ("bomb.npz", "data.features: bomb.npz is damaged .* X.npy has .* bytes, which cannot hold 10000000000"),
    ("lzma.npz", "data.features: lzma.npz is damaged .* X.npy must be stored or deflated"),
    (
        "huge_labels",
        "data.features: huge_labels is damaged .* y.npy has 128 bytes, which cannot hold 8000000000000000",
    ),
    ("no_X.npz", "no_X.npz: must hold .* or X and y, got y"),
    ("no_y.npz", "no_y.npz: must hold .* or X and y, got X"),
    ("X_vector.npz", r"X must be a matrix \(samples, features\), got shape \(32,\)"),
    ("X_cube.npz", r"X must be a matrix \(samples, features\), got shape \(1, 32, 3\)"),
    ("X_number.npz", r"X must be a matrix \(samples, features\), got shape \(\)"),
    ("X_no_columns.npz", r"X must be a matrix \(samples, features\), got shape \(32, 0\)"),
    ("X_no_rows.npz", "y_train must have two classes or more, got nothing"),
    ("X_complex.npz", "X must be real numbers, got dtype complex128"),
    ("X_text.npz", "X must be real numbers, got dtype <U"),
    ("X_objects.npz", "X cannot be read without unpickling"),
    ("X_nan.npz", "X_train must be finite, got NaN or infinity in"),
    ("X_infinite.npz", "X_train must be finite, got NaN or infinity in"),
    ("X_too_large.npz", "X_train must have columns whose range float64 can hold, got larger ones"),
    ("y_short.npz", r"y must be one label for each of 32 samples, got shape \(31,\)"),
    ("y_long.npz", r"y must be one label for each of 32 samples, got shape \(33,\)"),
    ("y_matrix.npz", r"y must be one label per sample, got shape \(32, 4\)"),
    ("y_number.npz", r"y must be one label per sample, got shape \(\)"),
    ("y_one_class.npz", "y_train must have two classes or more, got 0"),
    ("y_objects.npz", "y cannot be read without unpickling"),
    ("y_nan.npz", "y must be labels, got nan among them"),
    ("y_no_time.npz", "y must be labels, got NaT among them"),
    ("y_bytes.npz", r"y must be text in UTF-8, got b'\\xff'"),
    ("y_beyond.npz", "y_train must be labels of the 4 classes, got 10, 11, 12, 13"),
    ("y_few.npz", "model: a class must have at least 2 samples, to hold one out, got one of each class"),
    ("classes_twice.npz", "classes must be different names, got a more than once"),
    ("classes_fewer.npz", "y_train must be labels of the 3 classes, got 3"),
    ("classes_more.npz", "every class must have training samples, e have none"),
    ("classes_none.npz", r"classes must be a list of two names or more, got shape \(0,\)"),
    ("classes_one.npz", r"classes must be a list of two names or more, got shape \(\)"),
    ("classes_matrix.npz", r"classes must be a list of two names or more, got shape \(1, 4\)"),
    ("classes_objects.npz", "classes cannot be read without unpickling"),
    ("test_columns.npz", "X_test must have 3 features as X_train has, got 2"),
    ("test_short.npz", r"y_test must be one label for each of 32 samples, got shape \(3,\)"),
    ("test_labels.npz", "y_test must be labels of the 4 classes, got 9, 10, 11, 12"),
    ("test_dates.npz", r"y_test must be labels of the type of y_train, int64, got datetime64\[D\]"),
    ("test_nan.npz", "X_test must be finite, got NaN or infinity in 32 rows"),
    ("folder.npz", "folder.npz: X cannot be read without unpickling"),
    ("folders", "data.features: folders cannot be read: .*Is a directory"),
    ("group", "data.features: group is damaged"),
    ("nothing", "nothing: must hold .* got nothing"),
    ("notes.txt", "data.features must be a .npz file, .* got notes.txt"),
    ("/dev/null", "data.features must be a .npz file, .* got /dev/null"),
]


@pytest.mark.parametrize(("source", "message"), DATA, ids=[row[0] for row in DATA])
def test_data_that_cannot_be_used_are_refused(source, message, assert_refused):
    assert_refused(f"run config.toml --directory new --set data.features={source}", 2, message)


HOMES = [
    "run config.toml --directory new --set data.features=~nobody-here/x.npz",
    "run config.toml --directory new --set data.test=~nobody-here/x.npz",
    "plan config.toml --set data.features=~nobody-here/x.npz",
    "predict run --features ~nobody-here/x.npz --out new.csv",
]


@pytest.mark.parametrize("command", HOMES)
def test_the_home_of_nobody_is_refused(command, assert_refused):
    assert_refused(command, 2, "~nobody-here must be the home folder of a user of this computer, got none")


NAMES = [
    "two\nlines",
    "<b>bold</b>",
    "[red]markup[/red]",
    "long " * 1000,
    "\N{GRINNING FACE}",
    "=cmd()",
    r"$\foo$",
    "Case",
    "case",
    'comma, "quote"',
    " ",
]


def test_class_names_are_data_whatever_they_are(pairloom, tmp_path):
    labels = np.repeat(np.arange(len(NAMES)), 4)
    random = np.random.default_rng(0)
    features = 3 * random.standard_normal((len(NAMES), 3))[labels] + random.standard_normal((len(labels), 3))
    np.savez(
        tmp_path / "odd.npz", X_train=features, y_train=labels, X_test=features, y_test=labels, classes=NAMES
    )
    done = pairloom(f"run config.toml --directory {tmp_path}/run --set data.features={tmp_path}/odd.npz")
    assert done.exit_code == 0, done.output
    for command in ("status", "report"):
        assert pairloom(f"{command} {tmp_path}/run").exit_code == 0
    page = (tmp_path / "run" / "report" / "index.html").read_text()
    assert "<b>bold</b>" not in page
    done = pairloom(f"predict {tmp_path}/run --features {tmp_path}/odd.npz --out {tmp_path}/p.csv")
    assert done.exit_code == 0, done.output
    with (tmp_path / "p.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    # A spreadsheet would compute a cell that begins with "=".
    names = ["'=cmd()" if name == "=cmd()" else name for name in sorted(NAMES)]
    assert header == ["id", "prediction", "confidence", *names]
    assert len(rows) == len(labels)


def test_a_run_may_have_no_test_samples(pairloom, tmp_path):
    np.savez(tmp_path / "none.npz", **SPLIT | {"X_test": X[:0], "y_test": y[:0]})
    done = pairloom(f"run config.toml --directory {tmp_path}/run --set data.features={tmp_path}/none.npz")
    assert done.exit_code == 0, done.output
    assert pairloom(f"report {tmp_path}/run").exit_code == 0
