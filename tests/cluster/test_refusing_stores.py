"""Stores that refuse: clear messages, exit code 3, nothing of the user's touched, nothing listed beyond the prefix."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import boto3
import numpy as np
import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner
from object_stores import SECRET, environment_of, in_environment, new_bucket, seaweed
from store_proxy import StoreProxy

from pairloom import PairwiseSVC
from pairloom.benchmarks.local_store import START_SECONDS
from pairloom.cluster.commands.cli import main
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.location import StoreUrl
from pairloom.pipeline.storage.object_store import StoreDenied

THREADS = ("--set", "cluster.kind=threads")
# The answers of Amazon S3, from its documentation of errors.
ANSWERS = {
    "no permission": (403, "AccessDenied", "Access Denied"),
    "wrong key": (
        403,
        "InvalidAccessKeyId",
        "The AWS Access Key Id you provided does not exist in our records.",
    ),
    "wrong secret": (403, "SignatureDoesNotMatch", "The request signature we calculated does not match."),
    "wrong region": (
        301,
        "PermanentRedirect",
        "The bucket you are attempting to access must be addressed using ...",
    ),
    "wrong region, signed": (
        400,
        "AuthorizationHeaderMalformed",
        "the region 'us-east-1' is wrong; it is 'eu-west-1'",
    ),
    "expired": (400, "ExpiredToken", "The provided token has expired."),
    "no such bucket": (404, "NoSuchBucket", "The specified bucket does not exist"),
}


@pytest.fixture
def refusing(request):
    """A server that gives one answer to every request, and the requests that it got."""
    status, code, message = ANSWERS[request.param]
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            # Deletions name their objects in what they send.
            asked.append(f"{self.command} {self.path} {sent.decode() if self.command == 'POST' else ''}")
            body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()
            self.send_response_only(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _answer

        def log_message(self, *arguments: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        with in_environment(server.server_address[1]):
            yield asked
        server.shutdown()


def command(*arguments: object):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.mark.parametrize("refusing", ANSWERS, indirect=True)
@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "{config}", *THREADS, "--directory", "s3://bucket/runs/mine"),
        ("run", "{config}", *THREADS, "--set", "data.features=s3://bucket/runs/mine"),
        *(
            (name, "s3://bucket/runs/mine")
            for name in ("resume", "status", "attach", "cancel", "report", "audit", "ls")
        ),
        ("compare", "s3://bucket/runs/mine", "s3://bucket/runs/mine"),
        ("predict", "s3://bucket/runs/mine", "--features", "{features}", "--out", "p.csv"),
    ],
    ids=lambda arguments: "data" if "data.features" in str(arguments) else arguments[0],
)
def test_a_store_that_refuses_is_told_from_one_that_is_away(
    arguments, refusing, small_config, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    features = small_config.with_suffix(".npz")
    ended = command(*(str(word).format(config=small_config, features=features) for word in arguments))
    assert ended.exit_code == 3, ended.output
    assert "s3://bucket/runs/mine" in ended.stderr
    assert re.search(r"the store refuses: .*Check the bucket, its region, and the credentials", ended.stderr)
    assert SECRET not in ended.output
    assert "Traceback" not in ended.output
    assert all("/bucket" in request and "runs" in request for request in refusing), refusing
    assert list(tmp_path.iterdir()) == []


WITHOUT_OBSTORE = """
import sys
sys.modules["obstore"] = None
from click.testing import CliRunner
from pairloom import PairwiseSVC
from pairloom.cluster.commands.cli import main
for words in ("run digits --directory s3://b/run", "status s3://b/run", "ls s3://b", "init s3://b/x.zarr"):
    ended = CliRunner().invoke(main, words.split(), catch_exceptions=False)
    print(ended.exit_code, ended.stderr.strip())
for read in (PairwiseSVC.load, PairwiseSVC.from_run):
    try:
        read("s3://b/run")
    except RuntimeError as error:
        print(3, error)
"""


@pytest.mark.long
def test_without_the_extra_it_is_named(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_OBSTORE], cwd=tmp_path, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    said = run.stdout.splitlines()
    assert len(said) == 6
    for line in said:
        assert re.match(
            r'3 (Error: )?s3://b.*: object stores need obstore. .* pip install -e "\.\[cloud\]"', line
        )


def _signed_bucket(port: int) -> str:
    """A bucket, by a client that signs its request."""
    client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}")  # with the keys of the environment
    deadline = time.monotonic() + START_SECONDS
    while True:  # weed answers before all its parts have found each other
        try:
            client.create_bucket(Bucket="signed")
        except ClientError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return "signed"


@pytest.mark.long
def test_a_real_store_refuses_a_wrong_secret(tmp_path, small_config, monkeypatch):
    """SeaweedFS with a list of those who may do what."""
    identities = [
        {
            "name": "someone",
            "credentials": [{"accessKey": "someone", "secretKey": SECRET}],
            "actions": ["Admin", "Read", "Write", "List"],
        },
        {
            "name": "reader",
            "credentials": [{"accessKey": "reader", "secretKey": SECRET}],
            "actions": ["Read", "List"],
        },
    ]
    (tmp_path / "s3.json").write_text(json.dumps({"identities": identities}))
    with seaweed(tmp_path, f"-s3.config={tmp_path / 's3.json'}") as port:
        for name, value in environment_of(port).items():
            monkeypatch.setenv(name, value)
        bucket = _signed_bucket(port)
        run = ("run", small_config, *THREADS, "--directory", f"s3://{bucket}/run")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-hunter2")
        refused = command(*run)
        assert (refused.exit_code, "hunter2" in refused.output) == (3, False), refused.output
        assert "SignatureDoesNotMatch" in refused.stderr
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "reader")
        # A process keeps the store of a URL, with the credentials that it had when it was opened.
        refused = command(*run[:-1], f"s3://{bucket}/another")
        assert refused.exit_code == 3, refused.output
        assert "the store refuses" in refused.stderr
        assert Folder(StoreUrl("s3", bucket, "another")).below("") == []


@pytest.fixture(scope="module")
def fitted():
    X = np.random.default_rng(0).standard_normal((40, 2))
    return PairwiseSVC(kernel="linear", random_state=0).fit(X, X[:, 0] > 0)


@pytest.mark.parametrize("refusing", ANSWERS, indirect=True)
def test_a_model_in_a_store_that_refuses_is_neither_saved_nor_loaded(refusing, fitted):
    url = "s3://bucket/runs/mine"
    for use in (lambda: fitted.save(url), lambda: PairwiseSVC.load(url), lambda: PairwiseSVC.from_run(url)):
        with pytest.raises(StoreDenied, match=f"{url}.*: the store refuses: .*Check the bucket") as ended:
            use()
        assert SECRET not in str(ended.value)
    assert all("/bucket" in request and "runs" in request for request in refusing), refusing


def test_no_request_goes_beyond_the_prefix(seaweed_port, small_config, monkeypatch):
    """A stranger's objects beside the run, and what happens to them: nothing, and nobody asks for them."""
    bucket, proxy = new_bucket(seaweed_port), StoreProxy(seaweed_port)
    with in_environment(proxy.port):
        beside = Folder(StoreUrl("s3", bucket))
        for name in ("runs/mine-too/run.json", "runs/min", "theirs"):
            beside.write(name, b"theirs")
        proxy.named.clear()
        url = f"s3://{bucket}/runs/mine"
        for words in (("run", small_config, *THREADS, "--directory"), ("status",), ("resume",), ("ls",)):
            done = command(*words, url)
            assert done.exit_code == 0, done.output
        assert {name for name in proxy.named if not name.startswith(f"{bucket}/runs/mine/")} == set()
        assert len(proxy.named) > 50
        found = {path for path in beside.below("") if not path.startswith("runs/mine/")}
        assert found == {"runs/mine-too/run.json", "runs/min", "theirs"}
        assert {beside.read(path) for path in found} == {b"theirs"}
    proxy.close()
