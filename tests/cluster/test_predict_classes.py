"""``pairloom predict``: classes that a file names are coupled, and strange samples rejected, as the model has them."""

import csv

import numpy as np
from click.testing import CliRunner

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
