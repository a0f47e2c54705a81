"""Runs on hosts that share nothing but a network and an object store, with TLS between them, through cuts and races.

Every ending has the bytes of a run in a local folder, or is a clear message with nothing lost.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

import numpy as np
import pytest
import zarr
from dask_processes import finish, wait_until
from network_hosts import Network, Window, certificate, end_all, needs_hosts
from object_stores import environment_of, in_environment, new_bucket, program, weed_command
from small_runs import bytes_of
from zarr.storage import ObjectStore

from pairloom.pipeline.run.lock import newest_driver
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.location import StoreUrl
from pairloom.pipeline.storage.object_store import PATIENCE, open_store

pytestmark = pytest.mark.hosts

# Dask's own time-outs are minutes. What is tested is what happens after them.
_DASK = {
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "6s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "15s",
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "25s",
}
_LONGER_THAN_DASK_WAITS = 30.0
_S3, _SCHEDULER = 8333, 8786


class Cluster:
    """A scheduler and a driver on one host, a worker on each of two others, and a store on a fourth."""

    def __init__(self, network: Network, folder) -> None:
        self.network, self.hosts = network, network.hosts
        self.store_address = f"{self.hosts['store'].address}:{_S3}"
        self.env = {
            **environment_of(0),
            "AWS_ENDPOINT_URL": f"http://{self.store_address}",
            PATIENCE: "60",
            "OMP_NUM_THREADS": "1",
            **_DASK,
        }
        pem = certificate(folder)
        for host in self.hosts.values():
            (host.files / "certificate.pem").write_bytes(pem.read_bytes())
        self.tls = [
            word for name in ("ca-file", "cert", "key") for word in (f"--tls-{name}", "certificate.pem")
        ]
        self.address = f"tls://{self.hosts['driver'].address}:{_SCHEDULER}"
        self.processes = []

    def start_store(self):
        store = self.hosts["store"]
        ports = {"master.port": 9333, "volume.port": 8080, "filer.port": 8888, "s3.port": _S3}
        (store.files / "data").mkdir(exist_ok=True)
        self.store = store.start(*weed_command("data", store.address, ports), **self._logged("store"))

    def start(self) -> None:
        """Start a scheduler and two workers."""
        self._dask("driver", "dask_scheduler", "--protocol", "tls", "--port", _SCHEDULER)
        for name in ("one", "two"):
            self._dask(name, "dask_worker", self.address, "--no-nanny", "--nthreads", 1)

    def _dask(self, name: str, module: str, *options: object) -> None:
        where = ("--host", self.hosts[name].address, "--no-dashboard", *self.tls)
        command = (sys.executable, "-m", f"distributed.cli.{module}", *options, *where)
        self.processes.append(self.hosts[name].start(*command, env=self.env, **self._logged(name)))

    def _logged(self, name: str):
        output = (self.hosts[name].files / "log.txt").open("ab")
        return {"stdout": output, "stderr": output}

    def end(self) -> None:
        """End the scheduler, the workers and drivers, but not the store."""
        ended = [process for process in self.network.processes if process is not self.store]
        end_all(ended)
        self.network.processes[:] = [self.store]

    def driver(self, command: str, *arguments: object, host: str = "driver", patience: int = 60):
        options = ("--scheduler", self.address, *self.tls)
        env = {**self.env, PATIENCE: str(patience)}
        return self.hosts[host].pairloom(command, *arguments, *options, env=env)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    """Four hosts and a window to the store."""
    needs_hosts()
    program("weed")
    folder = tmp_path_factory.mktemp("hosts")
    network = Network(folder, "driver", "one", "two", "store")
    try:
        cluster = Cluster(network, folder)
        cluster.start_store()
        window = Window(network.hosts["two"], cluster.hosts["store"].address, _S3)
        with in_environment(window.port):
            cluster.bucket = new_bucket(window.port)
            yield cluster
        window.close()
    finally:
        network.close()


@pytest.fixture(scope="module")
def data(hosts, faulty_config) -> StoreUrl:
    """The data of the undisturbed run, in the store."""
    url = StoreUrl("s3", hosts.bucket, "data.zarr")
    group = zarr.create_group(ObjectStore(open_store(url)))
    with np.load(faulty_config.parent / "data.npz") as arrays:
        for name, values in arrays.items():
            values = values.astype("T") if values.dtype.kind == "U" else values
            group.create_array(name, data=values, chunks=(256, *values.shape[1:]))
    return url


@pytest.fixture
def cluster(hosts, data, faulty_config):
    """The hosts with a scheduler, workers, and the configuration on the hosts of drivers."""
    text = faulty_config.read_text().replace(str(faulty_config.parent / "data.npz"), str(data))
    for name in ("driver", "one", "two"):
        (hosts.hosts[name].files / "run.toml").write_text(text)
    hosts.start()
    yield hosts
    hosts.end()


@pytest.fixture
def url(cluster, request) -> StoreUrl:
    return StoreUrl("s3", cluster.bucket, request.node.name.replace("[", "-").replace("]", ""))


@pytest.fixture
def begin(cluster, url):
    """Start a driver, and wait until some machines are trained."""

    def begin(**options):
        driver, folder = cluster.driver("run", "run.toml", "--directory", url, **options), Folder(url)

        def trains() -> bool:
            assert driver.poll() is None, driver.communicate()[1]
            return len(folder.names("ledger/machines")) >= 3

        wait_until(trains, "some tiles")
        return driver

    return begin


def assert_ended_well(driver, url, undisturbed, patience: float = 180.0) -> str:
    code, errors = finish(driver, patience)
    assert code == 0, errors
    assert bytes_of(url) == undisturbed
    return errors


def entries(url: StoreUrl) -> dict[str, bytes]:
    folder = Folder(url)
    return {path: folder.read(path) for path in folder.below("ledger")}


def test_no_path_is_shared(cluster):
    """Or the other tests would show nothing."""
    places = [
        os.path.expanduser("~/.pairloom-test"),
        "/tmp/pairloom-test",
        "/tmp/own/note",
        f"{sys.prefix}/note",
    ]
    for place in places:
        code, errors = finish(cluster.hosts["one"].start("sh", "-c", f"echo here > {place} && cat {place}"))
        assert code == 0, errors
        assert finish(cluster.hosts["two"].start("cat", place))[0] != 0
        assert not os.path.exists(place)
    assert finish(cluster.hosts["one"].start("touch", "/etc/pairloom-test"))[0] != 0


def test_a_run(begin, url, undisturbed):
    assert_ended_well(begin(), url, undisturbed)


def test_a_submitted_driver_is_followed_from_another_host(cluster, url, undisturbed):
    """The driver is a task on a worker. Who follows it has the address of the store and nothing else."""
    code, errors = finish(cluster.driver("submit", "run.toml", "--directory", url))
    assert code == 0, errors
    follower = cluster.hosts["store"].pairloom("attach", url, env=cluster.env)
    code, errors = finish(follower, 180)
    assert code == 0, errors
    assert bytes_of(url) == undisturbed
    driver, alive = newest_driver(url)
    assert driver.host in ("one", "two")
    assert not alive


def test_without_a_certificate_nobody_joins(cluster, url):
    refused = cluster.hosts["one"].pairloom(
        "run", "run.toml", "--directory", url, "--scheduler", cluster.address, env=cluster.env
    )
    code, errors = finish(refused)
    assert code == 2, errors
    assert "uses TLS. Pass --tls-ca-file" in errors
    assert Folder(url).below("") == []


def test_the_host_of_a_worker_is_away_for_longer_than_dask_waits(begin, cluster, url, undisturbed):
    driver = begin()
    cluster.hosts["one"].unplug()
    time.sleep(_LONGER_THAN_DASK_WAITS)
    cluster.hosts["one"].plug_in()
    assert_ended_well(driver, url, undisturbed)


def test_a_worker_that_the_scheduler_has_lost_goes_on_writing(begin, cluster, url, undisturbed):
    """What it writes is what others write in its place."""
    driver = begin()
    with cluster.hosts["one"].cut_off_from(cluster.hosts["driver"]):
        time.sleep(_LONGER_THAN_DASK_WAITS)
        done = entries(url)
    assert_ended_well(driver, url, undisturbed)
    assert {path: found for path, found in entries(url).items() if path in done} == done


def test_the_driver_is_cut_off_from_the_store_for_a_while(begin, cluster, url, undisturbed):
    driver = begin()
    with cluster.hosts["driver"].cut_off_from(cluster.hosts["store"]):
        time.sleep(10)
    assert_ended_well(driver, url, undisturbed)


def test_the_driver_is_cut_off_from_the_store_for_longer_than_its_patience(cluster, url, undisturbed):
    """It is resumed on its host, where it is seen to have ended, once the store is back."""
    host, folder = cluster.hosts["driver"], Folder(url)
    options = " ".join((f"--scheduler={cluster.address}", *cluster.tls))
    pairloom, waiting, said = f"{sys.executable} -m pairloom", host.files / "cut", host.files / "said.txt"
    waiting.touch()
    script = (
        f"{pairloom} run run.toml --directory {url} {options}; echo ended with $? >&2;"
        f" while [ -e cut ]; do sleep 0.2; done; exec {pairloom} resume {url} {options}"
    )
    with said.open("wb") as output:
        pipes = {"stdout": output, "stderr": output}
        driver = host.start("sh", "-c", script, env={**cluster.env, PATIENCE: "6"}, **pipes)
    wait_until(lambda: len(folder.names("ledger/machines")) >= 3, "some tiles")
    with host.cut_off_from(cluster.hosts["store"]):
        wait_until(lambda: "ended with" in said.read_text(), "the end of the driver")
        done = entries(url)
    waiting.unlink()
    code, _ = finish(driver)
    first, second = said.read_text().split("ended with 4")
    assert "the store does not answer" in first
    assert first.rstrip().endswith(f"Resume with: pairloom resume {url}"), first
    assert code == 0, second
    assert "Recomputing" not in second
    assert bytes_of(url) == undisturbed
    assert {path: found for path, found in entries(url).items() if path in done} == done


def test_the_store_is_restarted(begin, cluster, url, undisturbed):
    driver = begin()
    end_all([cluster.store])
    time.sleep(3)
    cluster.start_store()
    assert_ended_well(driver, url, undisturbed)


def test_two_drivers_at_once(cluster, url, undisturbed):
    drivers = [
        cluster.driver("run", "run.toml", "--directory", url, host=host) for host in ("driver", "one", "two")
    ]
    ended = [finish(driver, 180) for driver in drivers]
    assert sorted(code for code, _ in ended) == [0, 3, 3], ended
    assert all("another driver is working on this run (host" in errors for code, errors in ended if code == 3)
    assert bytes_of(url) == undisturbed


def test_a_driver_is_frozen_replaced_and_thawed(begin, cluster, url, undisturbed):
    """Its successor is on another host, and waits until the heart has stopped."""
    frozen = begin(patience=600)
    os.killpg(frozen.pid, signal.SIGSTOP)
    try:
        code, deadline = 3, time.monotonic() + 180
        while code == 3 and time.monotonic() < deadline:
            code, errors = finish(cluster.driver("resume", url, host="one"), 180)
        assert code == 0, errors
        assert "Taking over from a dead driver: host driver" in errors
        plan, results = Folder(url).read("run.json"), bytes_of(url)
        assert results == undisturbed
        os.killpg(frozen.pid, signal.SIGCONT)
        code, errors = finish(frozen)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(frozen.pid, signal.SIGKILL)
    assert code == 4, errors
    assert "Another driver took over this run directory" in errors
    assert (Folder(url).read("run.json"), bytes_of(url)) == (plan, results)
