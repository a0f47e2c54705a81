"""Names in data are data: a terminal does not obey them, and a configuration that `init` writes can be read."""

from __future__ import annotations

import csv
import tomllib
import warnings

import numpy as np
import pytest
from click.testing import CliRunner

from pairloom.cluster.commands.cli import main
from pairloom.cluster.commands.exits import exits
from pairloom.pipeline.features.feature_set import load_features

# Colours, the title of the window, the bell, a carriage return, the one-character escape, and text from right to left.
WILD = "\x1b[31mred\x1b]0;owned\x07\rover\x9b2J\u202edr\x7fow\u2028line"
#: The same in one line, as classes must be.
WILD_LINE = WILD.replace("\r", "").replace("\u2028", "")
X = np.random.default_rng(0).standard_normal((48, 3)) + np.arange(48)[:, None] % 3


def pairloom(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)


def obeyed(text):
    """The characters of a text that a terminal might obey."""
    return {character for character in text if not character.isprintable() and character != "\n"}


def write_archive(path, **arrays):
    np.savez(path, **{"X_train": X, "X_test": X[:2]} | arrays)
    return path


WRONG = {
    "one class": {"y_train": np.array([WILD] * 48)},
    "an unknown class": {"y_train": np.array(["a", "b"] * 24), "y_test": np.array([WILD, "a"])},
    "a class twice": {"y_train": np.arange(48) % 3, "classes": np.array([WILD, WILD, "x"])},
    "a class without rows": {"y_train": np.arange(48) % 3, "classes": np.array(["a", "b", "c", WILD])},
    "a strange array": {"X_train": X, WILD: X},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_errors_name_classes_in_characters_that_no_terminal_obeys(wrong, tmp_path):
    path = write_archive(tmp_path / "a.npz", **WRONG[wrong])
    with pytest.raises(ValueError, match=r"\[31mred") as caught:
        load_features(str(path))
    assert obeyed(str(caught.value)) == set()
    (tmp_path / "a.toml").write_text(f'[data]\nfeatures = "{path}"\n')
    for arguments in (("plan", tmp_path / "a.toml"), ("init", path, "--out", tmp_path / "b.toml")):
        done = pairloom(*arguments)
        assert done.exit_code == 2, done.output
        assert "[31mred" in done.stderr
        assert obeyed(done.output) == set()


def write_table(path, label):
    """A table with wild names for a feature, a column of text and the label, and wild classes."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["a", f"b{WILD}", f"text{WILD}", label])
        for i, (a, b, _) in enumerate(X.tolist()):
            writer.writerow([a, "" if i == 5 else b, f"w{i}{WILD}", f"{i % 3}{WILD_LINE}"])
    return path


def test_init_writes_toml_that_can_be_read_whatever_the_columns_are_called(tmp_path):
    label = f"kind{WILD}"
    table, config = write_table(tmp_path / "a.csv", label), tmp_path / "a.toml"
    done = pairloom("init", table, "--label", label, "--out", config)
    assert done.exit_code == 0, done.output
    assert obeyed(done.output) == set()
    assert obeyed(config.read_text()) - {"\x9b", "\u2028", "\u202e"} == set(), (
        "TOML allows no control characters"
    )
    data = tomllib.loads(config.read_text())["data"]
    assert (data["label"], data["leave_out"]) == (label, [f"text{WILD}"])
    done = pairloom("plan", config)
    assert done.exit_code == 0, done.output
    assert obeyed(done.output) == set()


@pytest.mark.parametrize("label", [None, "a", f"no{WILD}"])
def test_init_asks_for_a_label_in_plain_characters(label, tmp_path):
    table = write_table(tmp_path / "a.csv", f"kind{WILD}")
    done = pairloom("init", table, *(() if label is None else ("--label", label)))
    assert done.exit_code == 2, done.output
    assert obeyed(done.output) == set()


def test_paths_are_names_too(tmp_path):
    folder = tmp_path / "wild\x1b[31m"
    folder.mkdir()
    np.savez(folder / "a.npz", X=X, y=np.arange(48) % 3)
    done = pairloom("init", folder / "a.npz", "--out", folder / "a.toml")
    assert done.exit_code == 0, done.output
    assert obeyed(done.output) == set()
    assert tomllib.loads((folder / "a.toml").read_text())["data"]["features"] == "a.npz"
    for arguments in (("ls", folder), ("plan", folder / "missing.toml"), ("status", folder)):
        assert obeyed(pairloom(*arguments).output) == set()


def test_warnings_are_shown_in_plain_characters():
    with exits():
        shown = warnings.formatwarning(UserWarning(f"class {WILD} is small"), UserWarning, "a.py", 1)
    assert "is small" in shown
    assert obeyed(shown) == set()
