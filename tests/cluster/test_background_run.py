"""Runs from Python: `pairloom.run` and `pairloom.submit`, on clusters in this process and on processes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import dask
import numpy as np
import pytest
from click.testing import CliRunner
from distributed import Client, LocalCluster
from small_runs import assert_same_bytes, bytes_of, run_here, times_begun, write_config, write_features

import pairloom
from pairloom import PairwiseSVC
from pairloom.cluster.commands.cli import main
from pairloom.cluster.connect.cluster_checks import Unreachable
from pairloom.cluster.drive import absent_workers
from pairloom.cluster.drive.schedule import ClusterLost, StageTasks, Stop, Stopped, UnitFailed
from pairloom.cluster.drive.tasks import Task, run_task
from pairloom.cluster.watch.status import run_status
from pairloom.pipeline.config.config import ConfigError
from pairloom.pipeline.run.lock import Locked
from pairloom.pipeline.stages.run_file import Mismatch
from pairloom.pipeline.storage.location import BadUrl

LONG = 120.0


@pytest.fixture
def own_client():
    """A client that a test may close."""
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="session")
def long_config(tmp_path_factory):
    """Some seconds of work in 45 tiles."""
    folder = tmp_path_factory.mktemp("long")
    features = write_features(folder / "data.npz", classes=10, rows=250, features=300, samples=40)
    return write_config(folder / "long.toml", features, edges_per_tile=1)


def begun(handle):
    """Wait until the first tile is trained."""
    tiles = handle.directory / "ledger" / "machines"
    while not (tiles.is_dir() and any(tiles.iterdir())):
        assert handle.status().state in ("submitted", "running")
        time.sleep(0.005)


def test_it_has_the_bytes_of_the_command_and_its_result_is_the_estimator(client, small_config, tmp_path):
    handle = pairloom.run(small_config, directory=tmp_path / "here", client=client)
    model = handle.result(timeout=LONG)
    words = ["run", small_config, "--directory", tmp_path / "there", "--set", "cluster.kind=threads"]
    assert CliRunner().invoke(main, [*map(str, words)]).exit_code == 0
    assert_same_bytes(tmp_path / "here", bytes_of(tmp_path / "there"))
    assert handle.status().state == "finished"
    assert "finished" in repr(handle)
    shown = re.sub(r"<[^>]*>", " ", handle._repr_html_())
    assert "here: finished" in shown
    assert re.search(r"machines +4 of 4 ", shown)
    X = np.load(small_config.with_suffix(".npz"))["X_test"]
    expected = PairwiseSVC.from_run(tmp_path / "there").predict_proba(X)
    np.testing.assert_array_equal(model.predict_proba(X), expected)


@pytest.mark.long
def test_its_progress_is_printed_if_asked_for(client, small_config, tmp_path, capfd):
    pairloom.run(small_config, directory=tmp_path / "quiet", client=client).wait(LONG)
    assert capfd.readouterr().err == ""
    pairloom.run(small_config, directory=tmp_path / "run", client=client, verbose=True).wait(LONG)
    assert "machines: 4 of 4 in " in capfd.readouterr().err
    pairloom.run(small_config, directory=tmp_path / "run", client=client, verbose=True).wait(LONG)
    assert "Nothing was left to do: the run is finished." in capfd.readouterr().err


@pytest.mark.long
def test_two_runs_one_after_the_other_leave_the_client_open(own_client, small_config, small_run, tmp_path):
    for name in ("first", "second"):
        pairloom.run(small_config, directory=tmp_path / name, client=own_client).wait(LONG)
        assert_same_bytes(tmp_path / name, bytes_of(small_run))
    assert own_client.submit(sum, [1, 2]).result(timeout=LONG) == 3


@pytest.mark.long
def test_two_runs_at_once_on_one_client(client, small_config, small_run, tmp_path):
    handles = [pairloom.run(small_config, directory=tmp_path / name, client=client) for name in "ab"]
    for handle in handles:
        handle.wait(LONG)
        assert_same_bytes(handle.directory, bytes_of(small_run))


@pytest.mark.long
def test_a_run_is_begun_in_any_thread(client, small_config, small_run, tmp_path):
    done = []
    thread = threading.Thread(
        target=lambda: done.append(
            pairloom.run(small_config, directory=tmp_path / "run", client=client).result(LONG)
        )
    )
    thread.start()
    thread.join(LONG)
    assert isinstance(done[0], PairwiseSVC)
    assert_same_bytes(tmp_path / "run", bytes_of(small_run))


def test_without_a_client_it_starts_workers_of_its_own_and_ends_them(small_config, small_run, tmp_path):
    before = threading.active_count()
    overrides = {"cluster.kind": "threads", "cluster.workers": 2}
    pairloom.run(small_config, directory=tmp_path / "run", overrides=overrides).wait(LONG)
    assert_same_bytes(tmp_path / "run", bytes_of(small_run))
    assert threading.active_count() <= before + 2, "the loop of Dask may stay, its cluster not"


@pytest.mark.long
def test_a_relative_directory_is_that_of_the_call(client, small_config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    handle = pairloom.run(small_config, client=client, overrides={"run.name": "mine"})
    monkeypatch.chdir("/")
    handle.wait(LONG)
    assert handle.directory == tmp_path / "runs" / "mine"
    assert run_status(handle.directory, verify=True).state == "finished"


def test_a_run_is_waited_for_cancelled_and_resumed(client, long_config, tmp_path):
    handle = pairloom.run(long_config, directory=tmp_path / "run", client=client)
    with pytest.raises(TimeoutError, match="not ended within 0 s"):
        handle.wait(timeout=0)
    begun(handle)
    with pytest.raises(Locked):
        pairloom.run(long_config, directory=tmp_path / "run", client=client)
    handle.cancel()
    with pytest.raises(Stopped, match="cancelled"):
        handle.result()
    status = handle.status()
    assert status.state == "unfinished"
    assert "Stopped: The run was cancelled." in status.driver
    pairloom.run(long_config, directory=tmp_path / "run", client=client).wait(LONG)
    assert sum(n - 1 for n in times_begun(tmp_path / "run", "machines").values()) <= 2, "one per thread"


def test_a_cancelled_task_ends_with_the_unit_it_is_at(client, long_config, tmp_path):
    directory = tmp_path / "run"
    plan = run_here(long_config, directory, client, until="whitening")
    keys = dict(enumerate(plan.keys["machines"]))
    future = client.submit(run_task, Task(str(directory), "machines", keys, pairloom.__version__))
    while not times_begun(directory, "machines"):
        assert future.status == "pending"
        time.sleep(0.005)
    future.cancel()
    begun_then = len(times_begun(directory, "machines"))
    while any(client.run(lambda dask_worker: len(dask_worker.active_threads)).values()):
        time.sleep(0.01)
    # The message may take as long as a unit or two.
    assert len(times_begun(directory, "machines")) <= begun_then + 3 < len(keys)


@pytest.mark.long
def test_a_client_that_is_closed_ends_the_run_which_can_be_resumed(own_client, client, long_config, tmp_path):
    handle = pairloom.run(long_config, directory=tmp_path / "run", client=own_client)
    begun(handle)
    own_client.close()
    with pytest.raises(ClusterLost):
        handle.wait(LONG)
    assert handle.status().state == "unfinished"
    with pytest.raises(Unreachable, match="client must be connected"):
        pairloom.run(long_config, directory=tmp_path / "run", client=own_client)
    pairloom.run(long_config, directory=tmp_path / "run", client=client).wait(LONG)


@pytest.mark.long
def test_a_run_whose_workers_have_all_left_does_not_wait_for_ever(
    own_client, long_config, tmp_path, monkeypatch
):
    monkeypatch.setattr(absent_workers, "WATCH_SECONDS", 0.1)
    patience = {"cluster.worker_timeout": 1}
    handle = pairloom.run(long_config, directory=tmp_path / "run", client=own_client, overrides=patience)
    begun(handle)
    own_client.cluster.scale(0)
    with pytest.raises(Stopped, match=r"no workers for 1 s\. Start some, or raise cluster\.worker_timeout"):
        handle.wait(LONG)
    assert handle.status().state == "unfinished"


def test_a_run_whose_workers_have_all_left_goes_on_with_others(own_client, monkeypatch):
    monkeypatch.setattr(absent_workers, "WATCH_SECONDS", 0.02)
    notes, stop = [], Stop()
    with absent_workers.absence_noticed(own_client, 60, stop, notes.append):
        time.sleep(0.2)
        own_client.cluster.scale(0)
        while not notes:
            time.sleep(0.01)
        own_client.cluster.scale(1)
        own_client.wait_for_workers(1)
        time.sleep(0.2)
    assert notes == ["All workers have left the cluster; waiting 60 s for others."]
    stop.raise_if_requested()


def test_a_client_that_is_closed_between_two_tasks_is_a_lost_cluster(own_client, tmp_path):
    own_client.close()
    with pytest.raises(ClusterLost, match="closed"):
        list(StageTasks(own_client, tmp_path, "machines", {0: "key"}, 0, Stop()))


def test_an_error_inside_comes_out_of_wait_and_result(client, small_config, small_run, tmp_path):
    run_here(small_config, tmp_path / "run", client, until="whitening")
    obstacle = tmp_path / "run" / "machines.zarr" / "coef" / "c"
    obstacle.write_text("a file where the chunks belong")
    handle = pairloom.run(small_config, directory=tmp_path / "run", client=client)
    with pytest.raises(
        UnitFailed, match=r"machines: unit .* failed: NotADirectoryError: .*machines\.zarr/coef/c"
    ):
        handle.wait(LONG)
    with pytest.raises(UnitFailed):
        handle.result()
    assert "UnitFailed" in handle.status().driver
    handle.cancel()  # which changes nothing any more
    obstacle.unlink()
    pairloom.run(small_config, directory=tmp_path / "run", client=client).wait(LONG)
    assert_same_bytes(tmp_path / "run", bytes_of(small_run))


def test_an_asynchronous_client_is_refused(small_config, tmp_path):
    async def notebook():
        async with (
            LocalCluster(
                n_workers=0, processes=False, asynchronous=True, dashboard_address="127.0.0.1:0"
            ) as cluster,
            Client(cluster, asynchronous=True, set_as_default=False) as client,
        ):
            for begin in (pairloom.run, pairloom.submit):
                with pytest.raises(TypeError, match=r"must not be asynchronous.*without asynchronous=True"):
                    begin(small_config, directory=tmp_path / "run", client=client)

    asyncio.run(notebook())
    assert not (tmp_path / "run").exists()


def test_a_client_of_nothing_is_refused(small_config, tmp_path):
    with pytest.raises(TypeError, match=r"client must be a distributed\.Client, got str"):
        pairloom.run(small_config, directory=tmp_path / "run", client="tcp://127.0.0.1:9")
    with pytest.raises(ConfigError, match="needs a running cluster"):
        pairloom.submit(small_config, directory=tmp_path / "run")
    with pytest.raises(BadUrl, match="directory must be a path or a URL that begins with s3://"):
        pairloom.run(small_config, directory="http://bucket/run")
    assert not (tmp_path / "run").exists()


def test_a_url_with_a_password_is_refused_without_repeating_it(small_config):
    X = np.random.default_rng(0).standard_normal((40, 2))
    model = PairwiseSVC(kernel="linear", random_state=0).fit(X, X[:, 0] > 0)
    uses = (
        lambda url: pairloom.run(small_config, directory=url),
        lambda url: pairloom.submit(small_config, directory=url),
        PairwiseSVC.from_run,
        PairwiseSVC.load,
        model.save,
    )
    for url in ("s3://me:hunter2@bucket/run", "s3://me:hunter2/hunter2@bucket/run"):
        for use in uses:
            with pytest.raises(BadUrl, match="a URL without user, password, query or fragment") as refused:
                use(url)
            assert "hunter2" not in str(refused.value)


def test_a_client_without_workers_is_given_up_and_nothing_is_written(small_config, tmp_path):
    cluster = LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0")
    with cluster, Client(cluster, set_as_default=False) as client:
        for begin in (pairloom.run, pairloom.submit):
            with pytest.raises(Unreachable, match=r"none came within 0\.2 s"):
                begin(
                    small_config,
                    directory=tmp_path / "run",
                    client=client,
                    overrides={"cluster.worker_timeout": 0.2},
                )
            assert not (tmp_path / "run").exists()


@pytest.mark.long
def test_an_adaptive_cluster_that_is_empty_starts_a_worker(small_config, small_run, tmp_path):
    cluster = LocalCluster(
        n_workers=0, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
    )
    with cluster, Client(cluster, set_as_default=False) as client:
        cluster.adapt(minimum=0, maximum=2, interval="50ms")
        pairloom.run(small_config, directory=tmp_path / "run", client=client).wait(LONG)
    assert_same_bytes(tmp_path / "run", bytes_of(small_run))


def test_other_settings_are_refused_unless_they_are_updated(client, small_config, small_run, tmp_path):
    shutil.copytree(small_run, tmp_path / "run")
    before = (tmp_path / "run" / "run.json").read_bytes()
    changed = {"directory": tmp_path / "run", "client": client, "overrides": {"run.also_couple": ["vote"]}}
    with pytest.raises(Mismatch, match="also_couple"):
        pairloom.run(small_config, **changed)
    assert (tmp_path / "run" / "run.json").read_bytes() == before
    assert pairloom.run(small_config, **changed, update=True).result(LONG).coupling == "stratified"


def test_a_submitted_run_is_driven_by_a_worker(client, small_config, small_run, tmp_path):
    handle = pairloom.submit(small_config, directory=tmp_path / "run", client=client)
    assert isinstance(handle.result(timeout=LONG), PairwiseSVC)
    assert_same_bytes(tmp_path / "run", bytes_of(small_run))
    records = sorted((tmp_path / "run" / "drivers").glob("*.json"))
    assert [json.loads(path.read_text())["outcome"] for path in records] == ["submitted", "finished"]


def test_a_submitted_run_is_cancelled_and_its_error_comes_out_of_wait(client, long_config, tmp_path):
    handle = pairloom.submit(long_config, directory=tmp_path / "run", client=client)
    with pytest.raises(TimeoutError):
        handle.wait(timeout=0)
    handle.cancel()
    with pytest.raises(Stopped, match="cancelled"):
        handle.wait(LONG)


def test_a_submitted_run_that_is_cancelled_before_it_begins_does_not_begin(
    own_client, small_config, tmp_path
):
    release = tmp_path / "release"
    busy = own_client.submit(_wait_for, release)  # on the only thread, so that the driver does not begin
    handle = pairloom.submit(small_config, directory=tmp_path / "run", client=own_client)
    handle.cancel()
    assert handle.status().state == "unfinished"
    release.touch()
    busy.result(LONG)
    own_client.submit(int, pure=False).result(LONG)  # queued behind the driver
    log = (tmp_path / "run" / "log.txt").read_text()
    assert "driver did not begin: The run was cancelled." in log
    assert " begin " not in log
    assert len(list((tmp_path / "run" / "drivers").glob("*.json"))) == 2
    with pytest.raises(Stopped, match="cancelled"):
        handle.wait(LONG)


def _wait_for(path):
    while not path.exists():
        time.sleep(0.02)


@pytest.mark.long
def test_a_submitted_run_whose_cluster_is_gone_says_so(own_client, small_config, tmp_path):
    busy = own_client.submit(time.sleep, 3.0)  # on the only thread, so that the driver does not begin
    handle = pairloom.submit(small_config, directory=tmp_path / "run", client=own_client)
    assert handle.status().state == "submitted"
    busy.release()
    own_client.close()
    with pytest.raises(ClusterLost, match="does not answer"):
        handle.wait(LONG)


@pytest.mark.long
def test_a_submitted_run_whose_driver_dask_gives_up_says_so(long_config, tmp_path):
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(
            n_workers=1, threads_per_worker=2, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        handle = pairloom.submit(long_config, directory=tmp_path / "run", client=client)
        begun(handle)
        (pid,) = client.run(os.getpid).values()
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(UnitFailed, match=r"given up the driver .*Resume it"):
            handle.wait(LONG)


CALL = "pairloom.run({config!r}, directory='run', overrides={{'cluster.workers': 1}}).wait()"
UNGUARDED = f"import pairloom\n{CALL}\n"
GUARDED = f"import pairloom\nif __name__ == '__main__':\n    {CALL}\n"
GUARDED_IN_VAIN = f"import pairloom\n{CALL}\nif __name__ == '__main__':\n    print('done')\n"


def run_script(text, config, folder):
    (folder / "script.py").write_text(text.format(config=str(config)))
    command = [sys.executable, "script.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.mark.long
def test_a_script_that_every_worker_would_run_again_is_told_what_to_write(small_config, tmp_path):
    done = run_script(UNGUARDED, small_config, tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    assert "script.py, line 2: Put the call of pairloom.run" in done.stderr
    assert '`if __name__ == "__main__":`' in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.long
def test_a_script_that_guards_its_run_gets_it(small_config, small_run, tmp_path):
    done = run_script(GUARDED, small_config, tmp_path)
    assert done.returncode == 0, done.stderr
    assert_same_bytes(tmp_path / "run", bytes_of(small_run))


@pytest.mark.long
def test_a_script_that_guards_something_else_is_told_what_to_write(small_config, tmp_path):
    done = run_script(GUARDED_IN_VAIN, small_config, tmp_path)
    assert done.returncode == 1
    assert "If a script begins the run: Put the call" in done.stderr
    assert done.stderr.count("Locked") == 0


@pytest.mark.long
def test_importing_pairloom_does_not_import_dask():
    code = "import sys, pairloom; print('distributed' in sys.modules, 'dask' in sys.modules); pairloom.run"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["False", "False"]
    assert {"run", "submit"} <= set(pairloom.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'runs'"):
        _ = pairloom.runs
