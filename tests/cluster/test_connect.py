from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess

import pytest
from dask_processes import DaskProcesses

from pairloom.cluster.config import ClusterConfig, ConfigError, SlurmConfig
from pairloom.cluster.connect import Insecure, Unreachable, check_address, connected, slurm_arguments


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
    monkeypatch.setattr("pairloom.cluster.connect.CONNECT_SECONDS", 0.5)
    with pytest.raises(Unreachable, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        refused(ClusterConfig(kind="scheduler", scheduler="tcp://127.0.0.1:9"))


def test_a_cluster_started_here_listens_on_loopback_only():
    with connected(ClusterConfig(kind="processes", workers=2)) as client:
        info = client.scheduler_info()
        assert list(client.nthreads().values()) == [1, 1]
        assert info["address"].startswith("tcp://127.0.0.1:")
        assert all(worker.startswith("tcp://127.0.0.1:") for worker in info["workers"])
        assert "127.0.0.1" in client.dashboard_link


def test_threads_are_those_of_one_worker():
    with connected(ClusterConfig(kind="threads", workers=3)) as client:
        assert list(client.nthreads().values()) == [3]


def test_a_slurm_section_becomes_the_arguments_of_dask_jobqueue():
    slurm = SlurmConfig(queue="gpu", cores=8, processes=4, memory="32GiB", walltime="02:00:00", jobs=5)
    arguments = slurm_arguments(slurm)
    assert {name: arguments[name] for name in ("queue", "cores", "processes", "memory", "walltime")} == {
        "queue": "gpu",
        "cores": 8,
        "processes": 4,
        "memory": "32GiB",
        "walltime": "02:00:00",
    }
    assert "account" not in arguments
    assert arguments["job_extra_directives"][0].startswith("--chdir=")


def test_slurm_without_dask_jobqueue_says_what_to_install():
    if importlib.util.find_spec("dask_jobqueue"):
        pytest.skip("dask-jobqueue is installed")
    with pytest.raises(Unreachable, match=r"pairloom\[slurm\]"):
        refused(ClusterConfig(kind="slurm", slurm=SlurmConfig()))


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
