"""Paths in a configuration are relative to its file, whatever the working directory is."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from small_runs import assert_same_bytes, bytes_of, write_config, write_features

from pairloom.cluster.commands.cli import main
from pairloom.cluster.config.config_file import configured, load_config, named_configs
from pairloom.pipeline.stages.run_file import read_run


def pairloom(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.fixture
def project(tmp_path):
    """A configuration with a relative path, and an empty folder to work in."""
    (tmp_path / "project" / "data").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    features = write_features(
        tmp_path / "project" / "data" / "x.npz", classes=4, rows=12, features=3, samples=20
    )
    write_config(tmp_path / "project" / "my.toml", Path("data/x.npz"), edges_per_tile=3, samples_per_slab=8)
    assert features.exists()
    return tmp_path / "project"


def test_a_configuration_means_the_same_in_every_working_directory(project, monkeypatch):
    for folder in (project, project.parent / "elsewhere", project / "data"):
        monkeypatch.chdir(folder)
        for source in (project / "my.toml", Path("..") / "project" / "my.toml"):
            if source.exists():
                assert Path(load_config(source).data.features).samefile(project / "data" / "x.npz")


def test_a_run_finds_its_data_when_it_is_resumed_from_elsewhere(project, monkeypatch):
    monkeypatch.chdir(project)
    options = ("--set", "cluster.kind=threads")
    assert pairloom("run", "my.toml", *options).exit_code == 0
    reference = bytes_of(project / "runs" / "my")
    monkeypatch.chdir(project.parent / "elsewhere")
    directory = project / "runs" / "my"
    shutil.rmtree(directory / "features.zarr")
    shutil.rmtree(directory / "ledger" / "features")
    done = pairloom("resume", directory, *options)
    assert done.exit_code == 0, done.output
    assert_same_bytes(directory, reference)
    # The same configuration from here is the same run.
    assert pairloom("run", project / "my.toml", "--directory", directory, *options).exit_code == 0
    assert not any((project.parent / "elsewhere").iterdir())


def test_paths_on_the_command_line_and_from_python_are_relative_to_the_working_directory(
    project, monkeypatch
):
    monkeypatch.chdir(project / "data")
    assert load_config(project / "my.toml", ["data.test=t.npz"]).data.test == str(project / "data" / "t.npz")
    config = configured({"data": {"features": "x.npz"}}, {"cluster.kind": "processes"})
    assert config.data.features == str(project / "data" / "x.npz")
    assert configured(config) == config


def test_a_shipped_configuration_reads_files_of_the_working_directory(project, monkeypatch):
    monkeypatch.chdir(project)
    assert load_config("imagenet50").data.features == str(project / "imagenet50.npz")
    for name, path in named_configs().items():
        found = load_config(name).data.features
        assert str(path.parent) not in found


@pytest.mark.parametrize(
    "source", ["digits", "$PAIRLOOM_DATA/x.npz", "~/x.npz", "/there/x.npz", "s3://bucket/x", ""]
)
def test_what_is_no_relative_path_stays(source, project, monkeypatch):
    (project / "other.toml").write_text(f'[data]\nfeatures = "digits"\ntest = "{source}"\n')
    assert load_config(project / "other.toml").data.test == source


def test_the_files_of_a_cluster_are_relative_to_the_configuration_too(project):
    (project / "cluster.toml").write_text(
        '[data]\nfeatures = "digits"\n[cluster]\nkind = "scheduler"\nscheduler_file = "s.json"\n'
        'tls_ca_file = "ca.pem"\ntls_cert = "/c.pem"\ntls_key = "k.pem"\n'
    )
    found = load_config(project / "cluster.toml").cluster
    assert found.scheduler_file == str(project / "s.json")
    assert (found.tls_ca_file, found.tls_cert) == (str(project / "ca.pem"), "/c.pem")


def test_the_stored_configuration_has_absolute_paths(project, monkeypatch):
    monkeypatch.chdir(project)
    pairloom("run", "my.toml", "--set", "cluster.kind=threads")
    assert read_run(project / "runs" / "my").config.data.features == str(project / "data" / "x.npz")
    assert json.loads((project / "runs" / "my" / "run.json").read_text())["config"]["data"]["test"] is None
