"""Labels keep their type through a run, and classes are sorted as scikit-learn promises: its scorers rely on it."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from sklearn.base import clone
from sklearn.metrics import get_scorer, make_scorer, top_k_accuracy_score
from small_runs import run_here

from pairloom import PairwiseSVC
from pairloom.cluster.commands.cli import main
from pairloom.pipeline.features.feature_set import open_features, rows_for_test
from pairloom.pipeline.run.run_directory import open_group

pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")

CLASSES, ROWS, SAMPLES = 12, 14, 60
NUMBERS = np.arange(CLASSES, dtype=np.int16)
# Text, not sorted: '10' comes before '2', and the file has them in the order of the numbers.
TEXTS = NUMBERS.astype(str)


class Source(NamedTuple):
    """A file of features, the labels of its samples, and the labels that a model of it must have."""

    path: Path
    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    expected: np.ndarray


def samples():
    random = np.random.default_rng(3)
    centres = 2.0 * random.standard_normal((CLASSES, 5))
    y_train, y_test = np.repeat(np.arange(CLASSES), ROWS), np.arange(SAMPLES) % CLASSES
    return [
        (centres[y] + random.standard_normal((len(y), 5))).astype(np.float32) for y in (y_train, y_test)
    ] + [y_train, y_test]


def write_npz(path, labels, *, named):
    X_train, X_test, train, test = samples()
    arrays = {"X_train": X_train, "X_test": X_test}
    arrays |= {"y_train": train if named else labels[train], "y_test": test if named else labels[test]}
    np.savez(path, **arrays, **({"classes": labels} if named else {}))
    return Source(path, X_train, labels[train], X_test, labels[test], np.sort(labels))


def write_table(path, labels):
    X_train, X_test, train, test = samples()
    for name, X, y in (("train.csv", X_train, labels[train]), ("test.csv", X_test, labels[test])):
        rows = [[*map(repr, row), label] for row, label in zip(X.astype(float).tolist(), y, strict=True)]
        with (path / name).open("w", newline="") as file:
            csv.writer(file).writerows([["a", "b", "c", "d", "e", "kind"], *rows])
    kept = ~rows_for_test(labels[train], "train.csv")  # the run sets a part of the table apart
    X_train, X_test = X_train[kept].astype(np.float64), X_test.astype(np.float64)
    return Source(path / "train.csv", X_train, labels[train][kept], X_test, labels[test], np.sort(labels))


SOURCES = {
    "numbers": lambda folder: write_npz(folder / "a.npz", NUMBERS, named=False),
    "large numbers": lambda folder: write_npz(
        folder / "a.npz", NUMBERS.astype(np.int64) * -(10**15), named=False
    ),
    "floats": lambda folder: write_npz(folder / "a.npz", NUMBERS.astype(np.float64), named=False),
    "texts": lambda folder: write_npz(folder / "a.npz", TEXTS, named=False),
    "named by texts": lambda folder: write_npz(folder / "a.npz", TEXTS, named=True),
    "named by numbers": lambda folder: write_npz(folder / "a.npz", NUMBERS[::-1] + 7, named=True),
    "days": lambda folder: write_npz(
        folder / "a.npz", np.datetime64("2024-01-31") + NUMBERS.astype("m8[D]"), named=False
    ),
    "table of numbers": lambda folder: write_table(folder, NUMBERS.astype(np.int64)),
}


def config_of(source, folder):
    table = f'label = "kind"\ntest = "{folder}/test.csv"' if source.path.suffix == ".csv" else ""
    path = folder / "run.toml"
    path.write_text(
        f'[data]\nfeatures = "{source.path}"\n{table}\n[graph]\nfamily = "hub_neighbours"\nneighbours = 3\n'
        '[model]\nkernel = "linear"\nC = "scale"\nwhiten = "none"\ncalibration = "platt"\n'
    )
    return path


@pytest.fixture(scope="module", params=SOURCES)
def made(request, client, tmp_path_factory):
    """A source and its finished run."""
    folder = tmp_path_factory.mktemp("labels")
    source = SOURCES[request.param](folder)
    run_here(config_of(source, folder), folder / "run", client, until="report")
    return source, folder / "run"


@pytest.mark.quick("large numbers", "floats", "texts", "named by numbers", "days")
def test_classes_are_sorted_and_have_the_type_of_the_source(made):
    source, directory = made
    model = PairwiseSVC.from_run(directory)
    assert model.classes_.dtype.kind == source.expected.dtype.kind
    np.testing.assert_array_equal(model.classes_, source.expected)
    predicted = model.predict(source.X_test)
    assert predicted.dtype == model.classes_.dtype
    assert np.mean(predicted == source.y_test) > 0.6


SCORERS = {
    "neg_log_loss": get_scorer("neg_log_loss"),
    "roc_auc_ovr": get_scorer("roc_auc_ovr"),
    "top_k_accuracy": make_scorer(top_k_accuracy_score, k=3, response_method="predict_proba"),
    "accuracy": get_scorer("accuracy"),
}


def test_scorers_of_scikit_learn_score_both_doors_alike(made):
    source, directory = made
    if source.expected.dtype.kind == "M":
        pytest.skip("scikit-learn has no scores of times")
    read = PairwiseSVC.from_run(directory)
    fitted = clone(read).fit(source.X_train, source.y_train)
    np.testing.assert_array_equal(fitted.classes_, read.classes_)
    scores = {name: scorer(read, source.X_test, source.y_test) for name, scorer in SCORERS.items()}
    own = {name: scorer(fitted, source.X_test, source.y_test) for name, scorer in SCORERS.items()}
    # The two have their scales from sums of other shapes. A wrong order of the columns would double the log loss.
    assert scores == pytest.approx(own, rel=1e-3)
    # The report of the run, which knows classes by their numbers alone, says the same.
    metrics = json.loads((directory / "report" / "metrics.json").read_text())["methods"]["auto"]
    assert -scores["neg_log_loss"] == pytest.approx(metrics["log_loss"], rel=1e-4)
    assert scores["accuracy"] == pytest.approx(metrics["accuracy"])


def coordinates(labels):
    """Labels as a zarr group has them."""
    return labels.astype(str).tolist() if labels.dtype.kind == "M" else labels.tolist()


def test_columns_follow_the_sorted_classes(made):
    source, directory = made
    stored = open_group(directory, "probabilities.zarr")
    coordinate = zarr.open_group(directory / "probabilities.zarr", mode="r")["class"][:].tolist()
    assert coordinate == coordinates(source.expected)
    model = PairwiseSVC.from_run(directory)
    np.testing.assert_allclose(stored["auto"][:], model.predict_proba(source.X_test), atol=1e-6)


def test_the_report_names_classes_by_their_labels(made):
    source, directory = made
    metrics = json.loads((directory / "report" / "metrics.json").read_text())
    known = coordinates(source.expected)
    named = [label for pair in metrics["worst_pairs"] for label in pair[:2]]
    assert named
    assert {(type(label), label) for label in named} <= {(type(label), label) for label in known}
    with (directory / "report" / "classes.csv").open() as file:
        assert [row["name"] for row in csv.DictReader(file)] == source.expected.astype(str).tolist()


@pytest.mark.parametrize("ending", [".npz", ".csv", ".zarr"])
def test_predictions_are_written_in_the_type_of_the_labels(ending, made, tmp_path):
    source, directory = made
    new, out = tmp_path / "new.npz", tmp_path / f"p{ending}"
    np.savez(new, X=source.X_test)
    done = CliRunner().invoke(main, ["predict", str(directory), "--features", str(new), "--out", str(out)])
    assert done.exit_code == 0, done.output
    predicted = PairwiseSVC.from_run(directory).predict(source.X_test)
    if ending == ".csv":
        with out.open() as file:
            heading, *rows = csv.reader(file)
        assert heading == ["id", "prediction", "confidence", *source.expected.astype(str)]
        assert [row[1] for row in rows] == predicted.astype(str).tolist()
        return
    if ending == ".npz":
        with np.load(out) as archive:
            assert archive["classes"].dtype == archive["prediction"].dtype == predicted.dtype
            np.testing.assert_array_equal(archive["classes"], source.expected)
            np.testing.assert_array_equal(archive["prediction"], predicted)
        return
    group = zarr.open_group(out, mode="r")
    assert group["class"][:].tolist() == coordinates(source.expected)
    assert group["prediction"][:].tolist() == coordinates(predicted)


def test_classes_come_and_go_and_pairs_are_grown_by_labels_of_that_type(made, tmp_path):
    source, directory = made
    model = PairwiseSVC.from_run(directory)
    X, y = source.X_train, source.y_train
    waves = list(model.grow(X, y, pairs=len(model.edges_) + 2, plateau="never"))
    assert waves[-1].pairs == len(model.edges_)
    label = source.expected[5]
    gone = y == label
    model.remove_class(label).add_class(label, X[gone], X[~gone], y[~gone])
    np.testing.assert_array_equal(model.classes_, source.expected)
    model.save(tmp_path / "model")
    again = PairwiseSVC.load(tmp_path / "model")
    assert again.classes_.dtype.kind == source.expected.dtype.kind
    np.testing.assert_array_equal(again.predict(source.X_test), model.predict(source.X_test))


def test_weights_of_classes_become_those_of_the_estimators_labels(client, tmp_path):
    source = write_npz(tmp_path / "a.npz", NUMBERS, named=False)
    plan = run_here(
        config_of(source, tmp_path),
        tmp_path / "run",
        client,
        'model.class_weight={"3" = 5.0, "10" = 2.0}',
        until="model",
    )
    assert (plan.class_weights[3], plan.class_weights[10]) == (5.0, 2.0)
    model = PairwiseSVC.from_run(tmp_path / "run")
    assert model.class_weight == {3: 5.0, 10: 2.0}
    fitted = clone(model).fit(source.X_train, source.y_train)
    for ours, theirs in zip(fitted.machines_, model.machines_, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_source_whose_labels_have_become_text_is_another_one(tmp_path):
    # Two-digit numbers sort alike as text: only the type differs.
    numbers = write_npz(tmp_path / "a.npz", NUMBERS + 10, named=False)
    texts = write_npz(tmp_path / "b.npz", (NUMBERS + 10).astype(str), named=False)
    one, other = (open_features(str(source.path)) for source in (numbers, texts))
    assert one.classes == other.classes
    assert one.fingerprints["train"] != other.fingerprints["train"]
