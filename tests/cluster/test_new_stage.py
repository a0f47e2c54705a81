"""A stage is one file: a new one needs nothing but its class to be planned, forecast, run, resumed and reported."""

import json
import shutil
from collections import Counter

import pytest
from small_runs import run_here

from pairloom.cluster.config.config_file import load_config
from pairloom.cluster.drive.driver import load_data, unfinished_units
from pairloom.cluster.simulator.forecast import crude_seconds, forecast_seconds
from pairloom.cluster.watch.status import run_status
from pairloom.pipeline import stages
from pairloom.pipeline.run.costs import StageCost
from pairloom.pipeline.run.feature_store import read_stored_rows
from pairloom.pipeline.run.needs import task_bytes
from pairloom.pipeline.run.results import write_result
from pairloom.pipeline.run.run import Stage
from pairloom.pipeline.stages.planning import plan_run
from pairloom.pipeline.storage.digests import digest_of


class Extremes(Stage):
    """The largest value of every block of training rows."""

    name = "extremes"
    folders = ("extremes",)
    cost = StageCost("row block", seconds=(0.5, 1e-9), work=lambda s: s.training_numbers)

    def keys(self, run, earlier):
        return tuple(digest_of([key, "extremes"]) for key in earlier["features"])

    def work(self, run, unit, data):
        block = run.row_blocks[unit]
        largest = float(read_stored_rows(run, block.start, block.stop).max())
        return write_result(run.directory, self.name, unit, {"largest": largest})

    def task_bytes(self, run):
        return 8 * run.shape.features * sum(run.shape.rows)


@pytest.fixture(autouse=True)
def with_extremes(monkeypatch):
    place = [stage.name for stage in stages.STAGES].index("samples")
    monkeypatch.setattr(stages, "STAGES", (*stages.STAGES[:place], Extremes(), *stages.STAGES[place:]))


@pytest.fixture(scope="module")
def extremes_run(small_config, client, tmp_path_factory):
    directory = tmp_path_factory.mktemp("new_stage") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "STAGES", (*stages.STAGES[:2], Extremes(), *stages.STAGES[2:]))
        run_here(small_config, directory, client, until="report")
    return directory


def test_it_is_planned_and_forecast(small_config):
    config = load_config(small_config)
    data = load_data(config)
    run = plan_run(config, data)
    assert run.units("extremes") == len(run.row_blocks) == 1
    assert task_bytes(run)["extremes"] == 8 * 6 * 100
    assert crude_seconds(run)["extremes"] == pytest.approx(0.5, rel=0.01)
    low, high = forecast_seconds(run, data)["extremes"]
    assert 0 < low <= high


def test_it_is_run_and_reported(extremes_run):
    content = json.loads((extremes_run / "extremes" / "000000.json").read_text())
    assert content["largest"] > 0
    assert run_status(extremes_run).stages["extremes"] == (1, 1)
    assert "extremes" in json.loads((extremes_run / "report" / "metrics.json").read_text())["elapsed_seconds"]
    assert "extremes" in (extremes_run / "report" / "index.html").read_text()


def test_a_damaged_file_of_it_is_computed_again_and_nothing_else(
    extremes_run, small_config, client, tmp_path
):
    directory = tmp_path / "run"
    shutil.copytree(extremes_run, directory)
    (directory / "extremes" / "000000.json").write_text("{}")
    run = run_here(small_config, directory, client, until="report")
    assert not any(unfinished_units(run).values())
    log = [line.split() for line in (directory / "log.txt").read_text().splitlines()]
    begun = Counter(words[3] for words in log if words[2:3] == ["begin"])
    assert begun == {stage: run.units(stage) for stage in run.keys if run.units(stage)} | {"extremes": 2}
    assert (directory / "extremes" / "000000.json").read_bytes() == (
        extremes_run / "extremes" / "000000.json"
    ).read_bytes()
