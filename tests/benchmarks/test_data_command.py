"""``pairloom data``: sets that are made, and where others can be had."""

import hashlib
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from pairloom import PairwiseSVC
from pairloom.benchmarks import datasets, made_sets
from pairloom.benchmarks.datasets import ORIGINALS, OTHERS, SETS, DataNotFound, load, values_digest
from pairloom.cluster.commands.cli import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PAIRLOOM_DATA", str(tmp_path))
    return tmp_path


def data(*arguments):
    return CliRunner().invoke(main, ["data", *map(str, arguments)])


def test_every_set_of_the_benchmarks_is_made_or_found_elsewhere():
    assert {*SETS, *OTHERS} == {*made_sets.MADE, *ORIGINALS, "digits"}
    listed = [line.split()[0] for line in data().output.splitlines()[:-1]]
    assert sorted(listed) == sorted({*made_sets.MADE, *ORIGINALS})


def test_a_set_is_made_once_and_then_loaded(folder):
    assert "Wrote" in data("waveform").output
    before = (folder / "waveform.npz").read_bytes()
    assert "there already" in data("waveform").output
    assert (folder / "waveform.npz").read_bytes() == before
    split = load("waveform")
    assert split.X.shape == (2500, 21)
    assert 0.8 < PairwiseSVC(kernel="linear", random_state=0).fit(split.X, split.y).score(*split[1::2]) < 0.9


def test_letters_are_drawn_by_other_faces_in_training_than_in_tests():
    few = made_sets.glyphs(most=4)
    faces = len(made_sets.FACES)
    assert few["classes"].tolist() == [f"latin capital letter {c}" for c in "abcd"]
    assert len(few["X_train"]) == 4 * (faces - made_sets.TEST_FACES) * made_sets.COPIES
    assert len(few["X_test"]) == 4 * made_sets.TEST_FACES * made_sets.COPIES
    np.testing.assert_allclose(np.linalg.norm(few["X_train"], axis=1), 1, rtol=1e-5)
    again = made_sets.glyphs(most=4)
    assert all((again[name] == few[name]).all() for name in few), "the same every time"


def test_a_missing_package_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "simple_icd_10_cm", None)  # as if it were not installed
    done = data("icd10cm-ngrams")
    assert done.exit_code == 2
    assert "pip install simple-icd-10-cm" in done.output
    assert list(folder.iterdir()) == []


def test_a_set_of_others_has_its_place_and_its_checksum(folder, monkeypatch):
    text = " ".join(data("letter").output.split())
    assert "https://archive.ics.uci.edu/dataset/59" in text
    assert ORIGINALS["letter"].digest in text
    X, y = np.arange(6.0).reshape(3, 2), np.array([0, 1, 1])
    np.savez(folder / "letter.npz", X=X, y=y.astype(np.int16))
    assert "has other values" in " ".join(data("letter").output.split())
    digest = hashlib.sha256(X.astype("<f4").tobytes() + y.astype("<i8").tobytes()).hexdigest()
    assert values_digest(folder / "letter.npz") == digest
    monkeypatch.setitem(datasets.ORIGINALS, "letter", ORIGINALS["letter"]._replace(digest=digest))
    assert "has these values" in " ".join(data("letter").output.split())


def test_a_name_that_is_unknown_is_corrected(folder):
    done = data("letters")
    assert done.exit_code == 2
    assert "Did you mean 'letter'?" in done.output


@pytest.mark.long
def test_a_benchmark_without_its_set_says_how_to_get_it(folder):
    with pytest.raises(DataNotFound, match="`pairloom data clinc150` makes it or says where"):
        load("clinc150")
    command = [sys.executable, "-m", "pairloom.benchmarks.svc_probability", "--set", "satimage"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=120, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "pairloom data satimage" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        "novelty --data clinc150",
        "label-doubts --data clinc150",
        "label-doubts --data icd10cm",
        "prediction-sets --data clinc150",
        "peers --sets letter,clinc150",
        pytest.param("learning --sets clinc150", marks=pytest.mark.long),  # it measures gradients first
        "sparse-text --sets titles",
        "many-classes --sets kanji,onet-svd256",
    ],
)
def test_a_command_without_its_set_names_one_that_data_knows(folder, words):
    done = CliRunner().invoke(main, ["bench", *words.split()])
    assert done.exit_code in (0, 2), done.exception  # some measure what is there, and say what is not
    named = re.findall(r"`pairloom data (\S+)`", done.output)
    assert named
    assert set(named) <= {*made_sets.MADE, *ORIGINALS}


@pytest.mark.parametrize("name", OTHERS)
def test_sets_of_single_benchmarks_have_a_form_of_their_own(folder, name):
    text = " ".join(data(name).output.split())
    assert f"Save it as {folder / OTHERS[name]}: " in text
    assert ORIGINALS[name].digest in text
    assert "(`pairloom data kanji` compares it)" not in text


def test_digests_are_of_values_whatever_the_form(folder):
    X = np.arange(6.0).reshape(2, 3)
    np.save(folder / "a.npy", X.astype(np.float16))
    assert values_digest(folder / "a.npy") == hashlib.sha256(X.astype("<f4").tobytes()).hexdigest()
    (folder / "a.tsv").write_bytes(b"code\ttitle\n")
    assert values_digest(folder / "a.tsv") == hashlib.sha256(b"code\ttitle\n").hexdigest()


def test_a_run_without_its_set_names_the_command(folder):
    done = CliRunner().invoke(main, ["plan", "clinc150"])
    assert done.exit_code == 2
    assert "`pairloom data` makes others, or says where to get them" in " ".join(done.output.split())
