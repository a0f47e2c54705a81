"""The command `pairloom simulate`."""

from __future__ import annotations

import json
import shutil

import pytest
from click.testing import CliRunner

from pairloom.cluster.commands.cli import main
from pairloom.cluster.simulator.simulated_cluster import SimulatedCluster


def invoke(*arguments):
    return CliRunner().invoke(main, ["simulate", *map(str, arguments)])


def test_it_prints_stages_time_efficiency_and_price(small_config, small_run):
    found = invoke(small_config, "--costs", small_run, "--workers", 8, "--price", 3, "--failures-per-hour", 5)
    assert found.exit_code == 0, found.output
    for text in ("machines", "limited by", "efficiency", "worker-hours", "8 workers of 1 cores"):
        assert text in found.output


def test_imagined_data_have_the_sizes_that_were_asked_for(small_config, small_run):
    options = ("--classes", 1000, "--rows", 50, "--features", 128, "--family", "hub_neighbours", "--json")
    found = json.loads(invoke(small_config, "--costs", small_run, "--workers", 16, *options).output)
    assert found["cluster"]["workers"] == 16
    machines = next(stage for stage in found["stages"] if stage["stage"] == "machines")
    assert machines["units"] == -(-19_000 // 256)


def test_a_table_in_a_file_describes_the_cluster_and_options_replace_its_keys(
    small_config, small_run, tmp_path
):
    file = tmp_path / "cluster.toml"
    file.write_text('[simulate]\nworkers = 5\ncores = 4\nmemory = "16GiB"\n')
    found = invoke(small_config, "--costs", small_run, "--cluster", file, "--workers", 7, "--json")
    cluster = json.loads(found.output)["cluster"]
    assert (cluster["workers"], cluster["cores"], cluster["memory"]) == (7, 4, "16GiB")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--workers", 0], "workers must be"),
        (["--memory", "much"], "memory must"),
        (["--store", -1], "store must be"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(small_config, small_run, options, message):
    found = invoke(small_config, "--costs", small_run, *options)
    assert found.exit_code == 2
    assert message in found.stderr


def test_without_a_configuration_it_says_what_it_needs():
    found = invoke()
    assert found.exit_code == 2
    assert "needs a CONFIG, or --validate DIRECTORY" in found.stderr


def test_a_run_of_several_drivers_is_not_validated(small_run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(small_run, copy)
    (copy / "drivers").mkdir(exist_ok=True)
    for number in (1, 2):
        (copy / "drivers" / f"000{number}.json").write_text("{}")
    found = invoke("--validate", copy)
    assert found.exit_code == 1
    assert "by one driver" in found.stderr


def test_validation_prints_actual_beside_forecast(small_run):
    found = invoke("--validate", small_run)
    assert "actual" in found.output
    assert "forecast" in found.output
    assert "15%" in found.output


def test_every_key_of_the_cluster_is_an_option():
    text = invoke("--help").output
    for name in SimulatedCluster.model_fields:
        assert f"--{name.replace('_', '-')}" in text
