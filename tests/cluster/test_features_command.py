"""``pairloom features``: what it prints, how it ends, and a run on what it wrote."""

from __future__ import annotations

import json
import signal
import sys

import pytest
import zarr
from click.testing import CliRunner
from dask_processes import finish, kill_and_reap, pairloom_process, wait_until
from made_pictures import PREPROCESSING, files_of, make_folder, make_network, make_split

from pairloom.cluster.commands.cli import main
from pairloom.cluster.commands.exits import REFUSED


def pairloom(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.fixture
def pictures(tmp_path):
    return make_split(tmp_path / "pictures", 6)


@pytest.fixture
def network(tmp_path):
    return make_network(tmp_path / "net.onnx")


def test_features_are_extracted_and_a_run_takes_them(pictures, network, tmp_path):
    out = tmp_path / "features.zarr"
    done = pairloom(
        "features", pictures, "--model", network, "--out", out, *PREPROCESSING, "--outputs", "folders"
    )
    assert done.exit_code == 0, done.output
    assert "3 classes, 18 training rows, 6 test rows, 6 features" in done.stdout
    assert "layer: pooled" in done.stdout
    assert "probabilities of the network: 3, softmax of its output scores" in done.stdout
    assert "accuracy of the network itself" in done.stdout
    assert "features: 24 of 24, " in done.stderr
    assert "per second" in done.stderr
    (tmp_path / "my.toml").write_text(f'[data]\nfeatures = "{out}"\n[graph]\nfamily = "complete"\n')
    run = pairloom(
        "run",
        tmp_path / "my.toml",
        "--directory",
        tmp_path / "run",
        "--set",
        "cluster.kind=threads",
        "--json",
    )
    assert run.exit_code == 0, run.output
    assert json.loads(run.stdout)["methods"]["auto"]["accuracy"] == 1.0


def test_json_says_the_same(pictures, network, tmp_path):
    arguments = (
        "features",
        pictures,
        "--model",
        network,
        "--out",
        tmp_path / "a.zarr",
        *PREPROCESSING,
        "--json",
    )
    first, again = (json.loads(pairloom(*arguments).stdout) for _ in range(2))
    assert (first["rows"], first["features"], first["was_finished"]) == ({"train": 18, "test": 6}, 6, False)
    assert again == {**first, "was_finished": True}


def test_it_ends_with_the_codes_of_the_other_commands(pictures, network, tmp_path):
    arguments = ("features", pictures, "--model", network, "--out", tmp_path / "a.zarr")
    assert pairloom(*arguments, "--mean", "half").exit_code == 2
    unknown = pairloom(*arguments)
    assert unknown.exit_code == 2
    assert "--mean must be given" in unknown.stderr
    assert pairloom(*arguments, *PREPROCESSING).exit_code == 0
    other = pairloom(*arguments, *PREPROCESSING, "--resize", 30)
    assert other.exit_code == REFUSED
    assert "preprocessing.resize: was 18, is 30" in other.stderr
    assert pairloom("features", pictures, "--model", network, "--out", "s3://bucket/a.zarr").exit_code == 2


def test_missing_classes_of_imagenet50_are_named(network, tmp_path):
    images = make_folder(tmp_path / "pictures", 1)
    found = pairloom(
        "features",
        images,
        "--model",
        network,
        "--out",
        tmp_path / "a.zarr",
        *PREPROCESSING,
        "--classes",
        "imagenet50",
    )
    assert found.exit_code == 2
    assert "50 are missing: n01558993 robin, " in found.stderr
    assert "n12144580 corn." in found.stderr


def test_every_class_has_its_test_rows_where_val_has_other_folder_names_than_train(network, tmp_path):
    images, out = tmp_path / "pictures", tmp_path / "a.zarr"
    make_folder(images / "train", 4, {"n1": (200, 0, 0), "n2": (0, 200, 0)})
    make_folder(images / "val", 3, {"red": (200, 0, 0), "n2": (0, 200, 0)}, seed=1000)
    (tmp_path / "c.txt").write_text("n1 red\nn2 green")
    arguments = ("features", images, "--model", network, "--out", out, *PREPROCESSING)
    done = pairloom(*arguments, "--classes", tmp_path / "c.txt")
    assert done.exit_code == 0, done.output
    assert "8 training rows, 6 test rows" in done.stdout
    assert "Warning" not in done.stderr
    assert zarr.open_group(out, mode="r")["y_test"][:].tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b" \n\n", id="blank"),
        pytest.param(b"red warm\n", id="one class"),
        pytest.param(b"red warm\nred hot\nblue cold\n", id="one folder twice"),
        pytest.param(b"red warm\nblue warm\n", id="one name twice"),
        pytest.param(b"red ros\xe9\nblue\n", id="not UTF-8"),
        pytest.param(None, id="no file"),
    ],
)
def test_a_wrong_list_of_classes_is_a_wrong_option_and_nothing_is_written(
    content, pictures, network, tmp_path
):
    if content is not None:
        (tmp_path / "c.txt").write_bytes(content)
    before = files_of(tmp_path)
    arguments = ("features", pictures, "--model", network, "--out", tmp_path / "a.zarr", *PREPROCESSING)
    found = pairloom(*arguments, "--classes", tmp_path / "c.txt")
    assert found.exit_code == 2, found.output
    assert "Error: --classes must " in found.stderr
    assert files_of(tmp_path) == before


@pytest.mark.parametrize("out", [".", "..", "/"])
def test_a_store_needs_a_name_of_its_own(out, pictures, network, tmp_path, monkeypatch):
    (tmp_path / "above" / "here").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "above" / "here")
    before = files_of(tmp_path)
    found = pairloom("features", pictures, "--model", network, "--out", out, *PREPROCESSING)
    assert found.exit_code == REFUSED
    assert f"Error: --out must end with the name of the store, got '{out}'. " in found.stderr
    assert files_of(tmp_path) == before


def test_without_the_extra_it_says_how_to_install_it(pictures, network, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    found = pairloom("features", pictures, "--model", network, "--out", tmp_path / "a.zarr", *PREPROCESSING)
    assert found.exit_code == 2
    assert "needs onnxruntime" in found.stderr
    assert 'pip install -e ".[images]"' in found.stderr


@pytest.fixture(scope="module")
def long_extraction(tmp_path_factory):
    """What to extract, some seconds of work in 36 blocks, and the files that are written if nothing happens."""
    folder = tmp_path_factory.mktemp("long")
    pictures, network = make_split(folder / "pictures", 6), make_network(folder / "net.onnx")
    arguments = ("features", pictures, "--model", network, *PREPROCESSING, "--augment", 500, "--out")
    assert pairloom(*arguments, folder / "whole.zarr").exit_code == 0
    return arguments, files_of(folder / "whole.zarr")


@pytest.mark.long
@pytest.mark.quick("9")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_extraction_is_resumed_to_the_same_bytes(how, long_extraction, tmp_path):
    arguments, whole = long_extraction
    out = tmp_path / "features.zarr"
    process = pairloom_process(*arguments, out)
    try:
        wait_until(
            (tmp_path / "features.zarr-unfinished/extraction/ledger/train/000001.json").exists, "two blocks"
        )
        process.send_signal(how)
        code, errors = finish(process)
    finally:
        kill_and_reap(process)
    assert code == {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}[how], errors
    assert not out.exists()
    assert how == signal.SIGKILL or "Run the same command again to continue" in errors
    resumed = pairloom(*arguments, out)
    assert resumed.exit_code == 0, resumed.output
    assert "reading" not in resumed.stderr
    assert files_of(out) == whole
