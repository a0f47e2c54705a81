from __future__ import annotations

import importlib.util
import ipaddress
import json
import re
import shutil
import subprocess
import time
from datetime import timedelta
from pathlib import Path

import dask
import psutil
import pytest
from dask_processes import DaskProcesses, listening
from distributed import Client, LocalCluster

import pairloom
from pairloom.cluster.connect import cluster_checks
from pairloom.cluster.connect.cluster_checks import Insecure, Unreachable, check_address, check_dask_versions
from pairloom.cluster.connect.connect import connected
from pairloom.cluster.connect.job_queue import job_arguments, worker_lifetime
from pairloom.cluster.drive.tasks import DirectoryUnseen, Task, VersionMismatch, run_task
from pairloom.cluster.drive.whole_run import drive_on_worker
from pairloom.pipeline.config.cluster_config import (
    JOB_QUEUES,
    ClusterConfig,
    JobQueueConfig,
    WorkersTooSmall,
    check_worker_memory,
)
from pairloom.pipeline.config.config import ConfigError


def refused(config):
    with connected(config):
        raise AssertionError("connected")


@pytest.mark.parametrize(
    "address",
    [
        "tcp://192.0.2.7:8786",
        "tcp://scheduler.example:8786",
        "tcp://127.0.0.1/@evil.invalid:8786",
        "tcp://127.0.0.1@evil.invalid:8786",
        "tcp://evil.invalid/127.0.0.1:8786",
        "tcp://localhost.evil.invalid:8786",
        "tcp://127.0.0.1:1:8786",
        "tcp://0.0.0.0:8786",
        "tcp://[::]:8786",
    ],
)
def test_an_open_network_is_refused(address):
    """The host is the one that Dask would connect to, however the address is written."""
    with pytest.raises(Insecure, match=rf"{re.escape(address)} is not on loopback .* --insecure"):
        refused(ClusterConfig(kind="scheduler", scheduler=address))


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:8786", "tcp://[::1]:8786", "tcp://localhost:8786"])
def test_loopback_needs_no_tls(address):
    check_address(ClusterConfig(kind="scheduler", scheduler=address))


def test_tls_without_certificates_is_refused_before_anything_is_connected():
    with pytest.raises(ConfigError, match=r"tls://127\.0\.0\.1:9 uses TLS\. Pass --tls-ca-file"):
        refused(ClusterConfig(kind="scheduler", scheduler="tls://127.0.0.1:9"))


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "tcp://192.0.2.7:8786"])
def test_tls_options_for_an_address_without_tls_are_refused_before_anything_is_connected(address, tmp_path):
    tls = dict.fromkeys(("tls_ca_file", "tls_cert", "tls_key"), str(tmp_path / "any.pem"))
    said = rf"must begin with tls://, got {re.escape(address)} and --tls-ca-file\. Write tls://"
    with pytest.raises(ConfigError, match=said):
        refused(ClusterConfig(kind="scheduler", scheduler=address, **tls))
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"address": address}))
    with pytest.raises(ConfigError, match=said):
        refused(ClusterConfig(kind="scheduler", scheduler_file=str(file), **tls))


def test_an_open_network_in_a_scheduler_file_is_refused(tmp_path):
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"address": "tcp://192.0.2.7:8786"}))
    with pytest.raises(Insecure):
        refused(ClusterConfig(kind="scheduler", scheduler_file=str(file)))


@pytest.mark.parametrize("content", [None, "{", "{}", "[1, 2]", "3"])
def test_a_file_that_is_no_scheduler_file_is_named(content, tmp_path):
    file = tmp_path / "scheduler.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(Unreachable, match=r"scheduler\.json"):
        refused(ClusterConfig(kind="scheduler", scheduler_file=str(file)))


def test_a_scheduler_that_does_not_answer_is_named(monkeypatch):
    monkeypatch.setattr("pairloom.cluster.connect.connect.CONNECT_SECONDS", 0.5)
    with pytest.raises(Unreachable, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        refused(ClusterConfig(kind="scheduler", scheduler="tcp://127.0.0.1:9"))


@pytest.mark.long
def test_a_cluster_started_here_listens_on_loopback_only():
    with connected(ClusterConfig(kind="processes", workers=2)) as client:
        info = client.scheduler_info()
        assert list(client.nthreads().values()) == [1, 1]
        assert info["address"].startswith("tcp://127.0.0.1:")
        assert all(worker.startswith("tcp://127.0.0.1:") for worker in info["workers"])
        assert "127.0.0.1" in client.dashboard_link


def assert_on_loopback(sockets):
    assert sockets
    assert {host for host, port in sockets if not ipaddress.ip_address(host).is_loopback} == set()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["processes", "threads"])
def test_every_socket_of_a_cluster_started_here_is_on_loopback(kind):
    before = listening(psutil.Process())
    with connected(ClusterConfig(kind=kind, workers=2)):
        assert_on_loopback(listening(psutil.Process()) - before)


def test_every_socket_of_a_worker_in_a_job_is_on_the_interface_or_on_loopback(dask_processes):
    arguments = job_arguments("slurm", JobQueueConfig(interface="lo"))["worker_extra_args"]
    worker = psutil.Process(dask_processes.start_worker(*arguments).pid)
    with Client(scheduler_file=str(dask_processes.scheduler_file), set_as_default=False) as client:
        client.wait_for_workers(1, timeout=60)
        assert_on_loopback(listening(worker))


def test_who_says_where_workers_listen_is_believed():
    own = ["--dashboard-address", ":8790", "--lifetime", "5m"]
    assert job_arguments("slurm", JobQueueConfig(worker_extra_args=own))["worker_extra_args"] == own


@pytest.mark.long
@pytest.mark.parametrize("kind", ["processes", "threads"])
def test_workers_that_are_started_here_stay_although_the_users_dask_has_them_leave(kind):
    leaving = {"distributed.worker.lifetime.duration": "200ms", "distributed.scheduler.idle-timeout": "200ms"}
    with dask.config.set(leaving), connected(ClusterConfig(kind=kind, workers=1)) as client:
        time.sleep(1.0)
        assert client.submit(int).result(timeout=10) == 0


def test_threads_are_those_of_one_worker():
    with connected(ClusterConfig(kind="threads", workers=3)) as client:
        assert list(client.nthreads().values()) == [3]


WORKER_OPTIONS = ("queue", "cores", "processes", "memory")


@pytest.mark.parametrize("kind", JOB_QUEUES)
def test_a_section_becomes_the_job_script_of_every_batch_system(kind):
    jobqueue = pytest.importorskip("dask_jobqueue")
    section = {
        "queue": "gpu",
        "cores": 8,
        "processes": 4,
        "memory": "32GiB",
        "walltime": "1-02:00:00",
        "python": "venv/bin/python",
        "death_timeout": 30,
        "job_script_prologue": ["module load python"],
        "log_directory": None,
    }
    arguments = job_arguments(kind, JobQueueConfig(**section))
    assert {name: arguments[name] for name in WORKER_OPTIONS} == {
        name: section[name] for name in WORKER_OPTIONS
    }
    cluster = getattr(jobqueue, f"{kind.upper()}Cluster")
    script = cluster.job_cls(
        scheduler="tcp://127.0.0.1:1", name="w", **without_scheduler(arguments)
    ).job_script()
    walltime = {"slurm": "1-02:00:00", "lsf": "26:00"}.get(kind, "26:00:00")
    assert walltime in script
    assert f"cd {Path.cwd()} || exit 1\nmodule load python\nvenv/bin/python -m" in script
    assert "--death-timeout 30" in script
    assert "--lifetime 93240s --lifetime-stagger 300s" in script


def without_scheduler(arguments):
    return {name: value for name, value in arguments.items() if name != "scheduler_options"}


@pytest.mark.parametrize("walltime", ["00:01:00", "00:30:00", "01:00:00", "7-00:00:00"])
def test_workers_leave_before_the_wall_time_ends(walltime):
    lifetime, stagger = worker_lifetime(walltime)
    days, _, clock = walltime.rpartition("-")
    hours, minutes, seconds = map(int, clock.split(":"))
    end = timedelta(int(days or 0), hours=hours, minutes=minutes, seconds=seconds).total_seconds()
    assert 0.75 * end <= lifetime - stagger
    assert lifetime + stagger <= end - min(60, end / 10)


def test_who_says_when_workers_leave_is_believed():
    own = ["--lifetime", "5m", "--resources", "A=1"]
    arguments = job_arguments("slurm", JobQueueConfig(worker_extra_args=own))["worker_extra_args"]
    assert arguments[: len(own)] == own
    assert "--lifetime" not in arguments[len(own) :]


def test_the_dashboard_of_jobs_listens_on_loopback_unless_asked():
    assert job_arguments("slurm", JobQueueConfig())["scheduler_options"] == {
        "dashboard_address": "127.0.0.1:0"
    }
    asked = JobQueueConfig(scheduler_options={"dashboard_address": ":8787", "port": 9000})
    assert job_arguments("slurm", asked)["scheduler_options"] == {"dashboard_address": ":8787", "port": 9000}


@pytest.mark.skipif(
    importlib.util.find_spec("dask_jobqueue") is not None, reason="dask-jobqueue is installed"
)
def test_slurm_without_dask_jobqueue_says_what_to_install():
    with pytest.raises(Unreachable, match=r"pairloom\[slurm\]"):
        refused(ClusterConfig(kind="slurm", slurm=JobQueueConfig()))


def test_a_batch_system_that_is_not_there_is_named(monkeypatch, tmp_path):
    pytest.importorskip("dask_jobqueue")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unreachable, match=r"PBSCluster could not submit a job: .*qsub"):
        refused(ClusterConfig(kind="pbs", pbs=JobQueueConfig(interface="lo")))


def versions(python="3.11.7.final.0", dask="2026.8.0", distributed="2026.8.0"):
    return {"packages": {"python": python, "dask": dask, "distributed": distributed}}


@pytest.mark.parametrize("other", [{"python": "3.11.2.final.0"}, {"distributed": "2026.8.3"}])
def test_another_patch_release_will_do(other):
    check_dask_versions({"client": versions(), "scheduler": versions(), "workers": {"a": versions(**other)}})


@pytest.mark.parametrize(
    ("other", "complaint"),
    [
        ({"python": "3.12.7.final.0"}, "version of python, 3.11, got 3.12.7"),
        ({"distributed": "2026.7.1"}, "version of distributed, 2026.8, got 2026.7.1"),
        ({"dask": "2025.8.0"}, "version of dask, 2026.8, got 2025.8.0"),
    ],
)
def test_other_versions_of_python_and_dask_are_refused_wherever_they_are(other, complaint):
    with pytest.raises(VersionMismatch, match=complaint):
        check_dask_versions({"client": versions(), "scheduler": versions(**other), "workers": {}})
    workers = {"tcp://ok:1": versions(), "tcp://w:1": versions(**other)}
    with pytest.raises(VersionMismatch, match=rf"{complaint}.* on tcp://w:1"):
        check_dask_versions({"client": versions(), "scheduler": versions(), "workers": workers})


def test_workers_that_are_full_before_their_first_task_are_refused():
    """Dask would pause them for ever."""
    with (
        LocalCluster(n_workers=1, memory_limit="300MiB", dashboard_address="127.0.0.1:0") as cluster,
        pytest.raises(
            WorkersTooSmall, match=r"at least 562\.50 MiB of memory each, .* got at most 300\.00 MiB"
        ),
    ):
        refused(ClusterConfig(kind="scheduler", scheduler=cluster.scheduler_address))


def test_a_worker_that_is_too_small_does_not_stop_the_others():
    assert check_worker_memory({"a": 2**29, "b": 2**30, "c": 0}) == ["a"]
    with dask.config.set({"distributed.worker.memory.pause": False}):
        assert check_worker_memory({"a": 2**20}) == []


@pytest.fixture
def certificate(tmp_path):
    """A certificate of its own authority, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=localhost",
    ]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return str(certificate), str(key)


@pytest.mark.long
def test_a_scheduler_behind_tls(certificate, tmp_path):
    cert, key = certificate
    tls = ("--protocol", "tls", "--tls-ca-file", cert, "--tls-cert", cert, "--tls-key", key)
    processes = DaskProcesses(tmp_path, *tls)
    try:
        processes.start_worker()
        file = str(processes.scheduler_file)
        config = ClusterConfig(
            kind="scheduler", scheduler_file=file, tls_ca_file=cert, tls_cert=cert, tls_key=key
        )
        with connected(config) as client:
            client.wait_for_workers(1, timeout=30)
            assert client.scheduler_info()["address"].startswith("tls://")
        with pytest.raises(ConfigError, match="uses TLS"):
            refused(ClusterConfig(kind="scheduler", scheduler_file=file))
    finally:
        processes.close()


@pytest.fixture
def elsewhere(dask_processes, tmp_path, monkeypatch):
    """A client of a worker for which the run directory is another folder: the path depends on the working directory."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    dask_processes.start_worker()
    with Client(scheduler_file=str(dask_processes.scheduler_file), set_as_default=False) as client:
        yield client


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="needs /proc")
def test_a_worker_that_does_not_see_the_run_directory_is_found_before_anything_is_written(
    elsewhere, small_config, small_run, tmp_path, monkeypatch
):
    monkeypatch.setattr(cluster_checks, "SEEN_SECONDS", 0.2)
    directory = Path("/proc/self/cwd/runs/small")
    for begin in (pairloom.run, pairloom.submit):
        with pytest.raises(DirectoryUnseen, match=rf"got {directory}: tcp://127\.0\.0\.1:\d+ cannot read it"):
            begin(small_config, directory=directory, client=elsewhere)
    assert list((tmp_path / "here").iterdir()) == []
    # A worker that joins later is found with its first task, be it the driver.
    shutil.copytree(small_run, directory)
    task = Task(str(directory), "machines", {0: "key"}, pairloom.__version__)
    for late in (elsewhere.submit(run_task, task), elsewhere.submit(drive_on_worker, str(directory), 1)):
        with pytest.raises(DirectoryUnseen, match=rf"got {directory}, where .* sees no run\.json"):
            late.result(timeout=60)
    assert not (tmp_path / "runs").exists()
