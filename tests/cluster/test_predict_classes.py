"""``pairloom predict``: possible classes, rejections, sets and groups are those of the model."""

import csv
import re

import numpy as np
import pyarrow.parquet
import zarr
from click.testing import CliRunner
from small_runs import run_here

from pairloom import PairwiseSVC
from pairloom.cluster.commands.cli import main


def pairloom(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)


def test_the_classes_of_a_file_are_coupled(small_run, small_config, tmp_path):
    model = PairwiseSVC.from_run(small_run)
    possible = model.classes_[[0, 2, 3]].tolist()
    X = np.load(small_config.with_suffix(".npz"))["X_test"]
    np.savez(tmp_path / "new.npz", X=X)
    (tmp_path / "classes.txt").write_text("\n".join([*possible, ""]))
    out = tmp_path / "p.npz"
    names = ("--features", tmp_path / "new.npz", "--classes", tmp_path / "classes.txt")
    done = pairloom("predict", small_run, *names, "--out", out)
    assert done.exit_code == 0, done.output
    p = np.load(out)["probabilities"]
    np.testing.assert_array_equal(p, model.predict_proba(X, classes=possible))
    assert (p[:, 1] == 0).all()


def test_the_classes_of_a_mask_are_those_of_each_row(small_run, small_config, tmp_path):
    model, X = PairwiseSVC.from_run(small_run), np.load(small_config.with_suffix(".npz"))["X_test"]
    X[3] = np.nan
    np.savez(tmp_path / "new.npz", X=X)
    mask = np.random.default_rng(0).random((len(X), 5)) < 0.5
    mask[:, 2], mask[3] = True, False  # a row that cannot be predicted needs no class
    np.save(tmp_path / "mask.npy", mask)
    names = ("--features", tmp_path / "new.npz", "--classes", tmp_path / "mask.npy", "--coverage", 0.8)
    whole = np.arange(len(X)) != 3
    expected = model.predict_proba(X[whole], classes=mask[whole])
    sets = model.predict_set(X[whole], 0.8, classes=mask[whole], output="labels")
    done = pairloom("predict", small_run, *names, "--out", tmp_path / "p.npz")
    assert done.exit_code == 0, done.output
    found = np.load(tmp_path / "p.npz")
    np.testing.assert_array_equal(found["probabilities"][whole], expected)
    assert np.isnan(found["probabilities"][3]).all()
    assert found["set"][whole].tolist() == [";".join(one) for one in sets]


def test_a_mask_that_is_none_of_these_rows_is_an_error(small_run, small_config, tmp_path):
    np.savez(tmp_path / "new.npz", X=np.load(small_config.with_suffix(".npz"))["X_test"])
    none = np.ones((40, 5), bool)
    none[7] = False
    groups = [f"{label},all" for label in PairwiseSVC.from_run(small_run).classes_]
    (tmp_path / "groups.csv").write_text("\n".join(groups))
    for mask, words, why in (
        (np.ones((39, 5), bool), (), r"a mask must be boolean, .*\(40, 5\), got bool of shape \(39, 5\)"),
        (np.ones((40, 5)), (), r"a mask must be boolean, .* got float64 of shape \(40, 5\)"),
        (none, (), "must leave each sample a class, got none in row 7"),
        (np.array([[None] * 5] * 40), (), "damaged or not what its name says"),
        (np.ones((40, 5), bool), ("--groups", tmp_path / "groups.csv"), "the same for all samples"),
    ):
        np.save(tmp_path / "mask.npy", mask)
        names = ("--features", tmp_path / "new.npz", "--classes", tmp_path / "mask.npy", *words)
        done = pairloom("predict", small_run, *names, "--out", tmp_path / "p.npz")
        assert done.exit_code == 2, done.output
        assert re.search(why, done.stderr), done.stderr
        assert not (tmp_path / "p.npz").exists()


def test_a_run_without_held_out_samples_says_why(small_config, client, tmp_path):
    """Possible classes need none, and neither does the report."""
    settings = ("model.coupled_calibration=none", "run.also_couple=[]")
    run_here(small_config, tmp_path / "run", client, *settings, until="report")
    X = np.load(small_config.with_suffix(".npz"))["X_test"]
    np.savez(tmp_path / "new.npz", X=X)
    names = PairwiseSVC.from_run(tmp_path / "run").classes_.tolist()
    (tmp_path / "groups.csv").write_text("\n".join(f"{name},all" for name in names))
    (tmp_path / "classes.txt").write_text("\n".join(names[:2]))
    ask = ("predict", tmp_path / "run", "--features", tmp_path / "new.npz", "--out", tmp_path / "p.csv")
    for words in (
        ("--coverage", 0.9),
        ("--reject", 0.1),
        ("--novelty",),
        ("--groups", tmp_path / "groups.csv"),
    ):
        done = pairloom(*ask, *words)
        assert done.exit_code == 2, done.output
        assert "the model has no held-out samples: coupled_calibration='none' scores none" in done.stderr
        assert not (tmp_path / "p.csv").exists()
    assert pairloom(*ask, "--classes", tmp_path / "classes.txt").exit_code == 0
    assert pairloom("audit", tmp_path / "run").exit_code == 0, "its machines are of folds"
    page = (tmp_path / "run" / "report" / "index.html").read_text()
    assert 'id="table-sets"' not in page


def test_a_name_that_is_no_class_is_an_error(small_run, small_config, tmp_path):
    np.savez(tmp_path / "new.npz", X=np.load(small_config.with_suffix(".npz"))["X_test"])
    first = PairwiseSVC.from_run(small_run).classes_[0]
    for content, why in ((f"{first}\nclas 1\n", "Did you mean"), (f"{first}\n", "at least 2 classes")):
        (tmp_path / "classes.txt").write_text(content)
        names = ("--features", tmp_path / "new.npz", "--classes", tmp_path / "classes.txt")
        done = pairloom("predict", small_run, *names, "--out", tmp_path / "p.npz")
        assert done.exit_code == 2
        assert why in done.stderr
        assert not (tmp_path / "p.npz").exists()


def test_strange_samples_are_rejected(small_run, small_config, tmp_path):
    model, X = PairwiseSVC.from_run(small_run), np.load(small_config.with_suffix(".npz"))["X_test"]
    X = np.concatenate([X, np.zeros((1, X.shape[1]), X.dtype)])
    np.savez(tmp_path / "new.npz", X=X)
    names = ("--features", tmp_path / "new.npz", "--reject", 0.3)
    done = pairloom("predict", small_run, *names, "--out", tmp_path / "p.csv")
    assert done.exit_code == 0, done.output
    with (tmp_path / "p.csv").open() as file:
        found = [row["prediction"] for row in csv.DictReader(file)]
    assert found == model.predict(X, reject=0.3).tolist()
    assert "none of these" in found
    wrong = pairloom("predict", small_run, "--features", tmp_path / "new.npz", "--reject", 1.2, "--out", "-")
    assert wrong.exit_code == 2


def test_scores_of_sets_limits_by_class_and_novelty_are_those_of_the_model(small_run, small_config, tmp_path):
    model, X = PairwiseSVC.from_run(small_run), np.load(small_config.with_suffix(".npz"))["X_test"]
    np.savez(tmp_path / "new.npz", X=X)
    sets = ("--coverage", 0.8, "--set-score", "raps", "--set-by", "class")
    asked = (*sets, "--reject", 0.3, "--reject-by", "class", "--novelty")
    out = tmp_path / "p.csv"
    done = pairloom("predict", small_run, "--features", tmp_path / "new.npz", *asked, "--out", out)
    assert done.exit_code == 0, done.output
    names = ("prediction", "novelty", "set")
    found = dict(zip(names, columns_of(out, *names), strict=True))
    expected = model.predict_set(X, 0.8, score="raps", by="class", output="labels")
    assert found["set"] == [";".join(one) for one in expected]
    assert found["prediction"] == model.predict(X, reject=0.3, reject_by="class").tolist()
    np.testing.assert_allclose(np.array(found["novelty"], float), model.novelty(X), rtol=1e-5)
    for words, why in ((sets[2:], "need --coverage"), (("--reject-by", "class"), "needs --reject")):
        done = pairloom("predict", small_run, "--features", tmp_path / "new.npz", *words, "--out", "-")
        assert done.exit_code == 2
        assert why in done.stderr


def test_sets_and_groups_are_those_of_the_model(small_run, small_config, tmp_path):
    model, X = PairwiseSVC.from_run(small_run), np.load(small_config.with_suffix(".npz"))["X_test"]
    X = np.concatenate([X, np.full((1, X.shape[1]), np.nan, X.dtype)])
    np.savez(tmp_path / "new.npz", X=X)
    groups = {label: f"group {c % 2}" for c, label in enumerate(model.classes_.tolist())}
    (tmp_path / "groups.csv").write_text("".join(f"{label},{group}\n" for label, group in groups.items()))
    names = ("--features", tmp_path / "new.npz", "--coverage", 0.8, "--groups", tmp_path / "groups.csv")
    expected = [";".join(one) for one in model.predict_set(X[:-1], 0.8, output="labels")]
    answers = model.predict_at(X[:-1], groups, 0.8)
    for ending in ("csv", "npz", "parquet", "zarr"):
        out = tmp_path / f"p.{ending}"
        done = pairloom("predict", small_run, *names, "--out", out)
        assert done.exit_code == 0, done.output
        sets, found, levels = columns_of(out, "set", "group", "group_level")
        assert sets[:-1] == expected
        assert found[:-1] == [str(name) for name in answers.name]
        assert levels[:-1] == answers.level.astype(str).tolist()
        assert (sets[-1], found[-1], levels[-1]) in (("", "", ""), (None, None, None))
        again = pairloom("predict", small_run, *names, "--out", out, "--force", "--top", 2)
        assert again.exit_code == 0, again.output
        assert columns_of(out, "set", "group", "group_level") == [sets, found, levels]


def test_sets_and_groups_are_of_possible_classes_only(small_run, small_config, tmp_path):
    model, X = PairwiseSVC.from_run(small_run), np.load(small_config.with_suffix(".npz"))["X_test"]
    np.savez(tmp_path / "new.npz", X=X)
    labels, possible = model.classes_.tolist(), model.classes_[[1, 3, 4]].tolist()
    groups = {label: f"group {c % 2}" for c, label in enumerate(labels)}
    (tmp_path / "groups.csv").write_text("".join(f"{label},{group}\n" for label, group in groups.items()))
    (tmp_path / "classes.txt").write_text("\n".join(possible))
    asked = ("--groups", tmp_path / "groups.csv", "--classes", tmp_path / "classes.txt", "--coverage", 0.6)
    out = tmp_path / "p.csv"
    done = pairloom("predict", small_run, "--features", tmp_path / "new.npz", *asked, "--out", out)
    assert done.exit_code == 0, done.output
    sets, found = columns_of(out, "set", "group")
    assert sets == [";".join(one) for one in model.predict_set(X, 0.6, output="labels", classes=possible)]
    assert found == model.predict_at(X, groups, 0.6, classes=possible).name.tolist()
    impossible = set(labels) - set(possible)
    assert not (set(found) | set(";".join(sets).split(";"))) & impossible
    assert set(model.predict_at(X, groups, 0.6).name) & impossible


def columns_of(path, *names):
    """Columns of a file of predictions."""
    if path.suffix == ".csv":
        with path.open() as file:
            rows = list(csv.DictReader(file))
        return [[row[name] for row in rows] for name in names]
    if path.suffix == ".parquet":
        table = pyarrow.parquet.read_table(path)
        return [table[name].to_pylist() for name in names]
    stored = np.load(path) if path.suffix == ".npz" else zarr.open_group(path, mode="r")
    return [[str(value) for value in np.asarray(stored[name][:]).tolist()] for name in names]


def test_groups_that_miss_classes_and_shares_that_are_none_are_refused(small_run, small_config, tmp_path):
    np.savez(tmp_path / "new.npz", X=np.load(small_config.with_suffix(".npz"))["X_test"])
    labels = PairwiseSVC.from_run(small_run).classes_.tolist()
    whole = [f"{label},all" for label in labels]
    for lines, why in (
        (whole[1:], "every class of the model"),
        ([*whole, "class x,all"], "every line must begin with a class of the run, got 'class x'"),
        ([*whole, whole[0]], "every class must have one line"),
        ([*whole[1:], labels[0]], "every line must have a class and its groups"),
        ([], "every class of the model"),
    ):
        (tmp_path / "groups.csv").write_text("\n".join(lines))
        names = ("--features", tmp_path / "new.npz", "--groups", tmp_path / "groups.csv")
        done = pairloom("predict", small_run, *names, "--out", tmp_path / "p.csv")
        assert done.exit_code == 2
        assert why in done.stderr
        assert not (tmp_path / "p.csv").exists()
    for option, share in (("--coverage", 0), ("--coverage", 1.2), ("--reject", 0), ("--reject", 1.2)):
        names = ("--features", tmp_path / "new.npz", option, share)
        wrong = pairloom("predict", small_run, *names, "--out", tmp_path / "p.csv")
        assert wrong.exit_code == 2
        assert f"Invalid value for '{option}'" in wrong.stderr
        assert not (tmp_path / "p.csv").exists()
