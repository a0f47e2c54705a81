"""A driver that is held up in one of its writes, while another one takes over, changes nothing of that one's."""

from __future__ import annotations

import secrets
import uuid
from dataclasses import asdict, replace
from functools import partial

import pytest
from click.testing import CliRunner
from small_runs import run_here
from store_requests import hooked_requests

import pairloom
from pairloom.cluster.commands.cli import main
from pairloom.cluster.config.config_file import load_config
from pairloom.cluster.drive.driver import prepare_run
from pairloom.cluster.drive.schedule import Stopped
from pairloom.cluster.simulator import forecast
from pairloom.pipeline.run.lock import Driver, newest_number
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.stages.run_file import write_run
from pairloom.pipeline.storage.digests import sealed
from pairloom.pipeline.storage.folder import Folder, fenced
from pairloom.pipeline.storage.location import StoreUrl

ONE_THREAD = {"cluster.kind": "threads", "cluster.workers": 1}


@pytest.fixture
def url() -> StoreUrl:
    return StoreUrl("memory", uuid.uuid4().hex, "run")


@pytest.fixture
def other_plan(small_config, url) -> Run:
    """That of the successor."""
    plan, _ = prepare_run(load_config(small_config, ("model.C=0.01",)), url)
    return plan


def is_private(path: str) -> bool:
    """Whether an object belongs to one process: the record of a driver, or its part of the log."""
    return path.startswith(("drivers/", "log.txt/"))


def objects_of(url: StoreUrl) -> dict[str, bytes]:
    folder = Folder(url)
    return {path: folder.read(path) for path in folder.below("") if not is_private(path)}


class Successor:
    """Takes over when another driver puts an object, whose request is then already under way.

    It takes the next number and puts every object again, that one too.
    """

    def __init__(self, url: StoreUrl, plan: Run, awaited: str) -> None:
        self._folder, self._plan, self._awaited = Folder(url), plan, awaited
        self.theirs: dict[str, bytes] = {}

    def __call__(self, number: int, kind: str, path: str) -> None:
        if kind != "put" or path != self._awaited:
            return
        self._awaited = ""
        with fenced(lambda: None):  # not behind the fence of the driver, whose thread this is
            self._take_over(path)
        self.theirs = objects_of(self._folder.root)

    def _take_over(self, at_hand: str) -> None:
        driver = replace(Driver.here(), token=secrets.token_hex(16))
        self._folder.write(f"drivers/{newest_number(self._folder) + 1:04d}.json", sealed(asdict(driver)))
        for other in {*objects_of(self._folder.root), at_hand} - {"run.json"}:
            self._folder.write(other, b"theirs")
        write_run(self._plan)


def assert_kept(act, url: StoreUrl, plan: Run, awaited: str) -> None:
    """Nothing that a successor has put is written over or removed."""
    successor = Successor(url, plan, awaited)
    with hooked_requests(before=successor):
        act()
    assert awaited in successor.theirs, "there was no such put"
    found = objects_of(url)
    assert {path: found.get(path) for path in successor.theirs} == successor.theirs


def run_taken_over(config, url: StoreUrl) -> None:
    with pytest.raises(Stopped, match="Another driver took over"):
        pairloom.run(config, directory=url, overrides=ONE_THREAD, update=True).result(timeout=60)


@pytest.mark.parametrize("awaited", ["run.json", "features.zarr/zarr.json", "ledger/machines/000001.json"])
def test_a_run(awaited, small_config, url, other_plan):
    assert_kept(partial(run_taken_over, small_config, url), url, other_plan, awaited)


def test_a_run_that_measures_how_long_it_will_take(small_config, url, other_plan, monkeypatch):
    monkeypatch.setattr(forecast, "_LONG_SECONDS", 0.0)
    assert_kept(partial(run_taken_over, small_config, url), url, other_plan, "forecast.json")


def test_a_run_whose_plan_is_replaced(small_config, url, other_plan, client):
    run_here(small_config, url, client, "model.C=0.1")
    assert_kept(partial(run_taken_over, small_config, url), url, other_plan, "run.json")


@pytest.mark.parametrize("awaited", ["ledger/report/000000.json", "report/index.html"])
def test_a_report_that_is_written_again(awaited, small_config, url, other_plan, client):
    run_here(small_config, url, client, until="report")

    def report() -> None:
        ended = CliRunner().invoke(main, ["report", str(url)])
        assert ended.exit_code == 4, ended.output
        assert "Another driver took over" in ended.stderr

    assert_kept(report, url, other_plan, awaited)


def test_a_submission(small_config, url, other_plan, client):
    def submit() -> None:
        with pytest.raises(Stopped, match="Another driver took over"):
            pairloom.submit(small_config, directory=url, client=client)

    assert_kept(submit, url, other_plan, "run.json")


def test_a_plan_that_is_put_again_as_it_was(small_config, bucket, client):
    """Entity tags of S3 are checksums: the same bytes would have the same tag."""
    url = StoreUrl("s3", bucket, "run")
    plan = run_here(small_config, url, client, "model.C=0.1")
    assert_kept(partial(run_taken_over, small_config, url), url, plan, "run.json")


@pytest.mark.stores
def test_every_write_of_a_run(small_config, url, other_plan, client, small_run):
    """One run for each file that it writes."""
    written = [path for path in Folder(small_run).below("") if not path.startswith(("drivers/", "log.txt"))]
    for number, awaited in enumerate(written):
        another = url.parent / f"run-{number}"
        run = partial(run_taken_over, small_config, another)
        assert_kept(run, another, replace(other_plan, directory=another), awaited)
