"""Runs on `az://`, against Azurite, Microsoft's emulator of Azure's storage."""

from __future__ import annotations

import base64
import email.utils
import hashlib
import hmac
import shutil
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner
from object_stores import free_port, served
from small_runs import bytes_of

import pairloom
from pairloom.cluster.commands.cli import main
from pairloom.pipeline.run.lock import Locked, RunLock
from pairloom.pipeline.storage.folder import Folder, fenced
from pairloom.pipeline.storage.location import StoreUrl
from pairloom.pipeline.storage.object_store import PATIENCE, StoreDenied

pytestmark = pytest.mark.long

# Known to everybody, from the documentation of Azurite.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
THREADS = {"cluster.kind": "threads"}


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    """The port of Azurite, which `.ci/run` installs with npm."""
    installed = Path(__file__).parents[2] / ".ci" / "node_modules" / ".bin" / "azurite-blob"
    program = str(installed) if installed.exists() else shutil.which("azurite-blob")
    if program is None:
        pytest.skip("azurite is missing: npm install --prefix .ci azurite")
    number, folder = free_port(), tmp_path_factory.mktemp("azurite")
    command = [program, "--blobHost", "127.0.0.1", "--blobPort", str(number), "--inMemoryPersistence"]
    command += ["--skipApiVersionCheck", "--disableTelemetry"]
    with served(command, number, folder / "azurite.log") as there:
        yield there


@pytest.fixture
def container(port, request, monkeypatch):
    """A new container, to which the environment leads."""
    name = f"container-{abs(hash(request.node.name))}"
    _make_container(port, name)
    for variable, value in {
        "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": KEY,
        "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{port}/{ACCOUNT}",
        "AZURE_ALLOW_HTTP": "true",
        PATIENCE: "20",
    }.items():
        monkeypatch.setenv(variable, value)
    return name


def _make_container(port: int, name: str) -> None:
    headers = {"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    signed = "PUT" + "\n" * 12 + "".join(f"{key}:{value}\n" for key, value in headers.items())
    signed += f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    digest = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
    headers |= {
        "Content-Length": "0",
        "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}",
    }
    where = f"http://127.0.0.1:{port}/{ACCOUNT}/{name}?restype=container"
    urllib.request.urlopen(urllib.request.Request(where, method="PUT", headers=headers)).close()


def test_a_run_has_the_bytes_of_one_in_a_folder(container, small_config, small_run):
    url = StoreUrl("az", container, "runs/small")
    pairloom.run(small_config, directory=str(url), overrides=THREADS).result(timeout=300)
    assert bytes_of(url) == bytes_of(small_run)
    Folder(url).delete("machines.zarr/parameters/c/0/0/0")
    resumed = CliRunner().invoke(main, ["resume", str(url)], catch_exceptions=False)
    assert resumed.exit_code == 0, resumed.output
    assert bytes_of(url) == bytes_of(small_run)


def test_conditions_are_honoured(container):
    folder = Folder(StoreUrl("az", container, "run"))
    folder.make()
    assert folder.create("entry", b"one")
    assert not folder.create("entry", b"two")

    def another_puts() -> None:
        if folder.read("entry") == b"one":
            with fenced(lambda: None):  # not by this check
                folder.write("entry", b"theirs")
            return
        raise Locked

    with pytest.raises(Locked), fenced(another_puts):
        folder.write("entry", b"ours")
    assert folder.read("entry") == b"theirs"
    with RunLock(folder.root), pytest.raises(Locked):
        RunLock(folder.root).__enter__()


def test_a_container_that_does_not_exist_is_named(container):
    with pytest.raises(StoreDenied, match=r"az://no-such-container/run.*there is no such bucket") as refused:
        Folder(StoreUrl("az", "no-such-container", "run")).make()
    assert KEY not in str(refused.value)
