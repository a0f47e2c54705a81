"""Stores that refuse: clear messages, exit code 3, nothing of the user's touched, nothing listed beyond the prefix."""

from __future__ import annotations

import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import boto3
import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner
from object_stores import SECRET, environment_of, in_environment, seaweed

from pairloom.benchmarks.local_store import START_SECONDS
from pairloom.cluster.commands.cli import main
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.location import StoreUrl

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
            asked.append(f"{self.command} {self.path}")
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
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
        ("resume", "s3://bucket/runs/mine"),
        ("status", "s3://bucket/runs/mine"),
    ],
    ids=["run", "data", "resume", "status"],
)
def test_a_store_that_refuses_is_told_from_one_that_is_away(
    arguments, refusing, small_config, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    ended = command(*(str(word).format(config=small_config) for word in arguments))
    assert ended.exit_code == 3, ended.output
    assert "s3://bucket/runs/mine" in ended.stderr
    assert re.search(r"the store refuses: .*Check the bucket, its region, and the credentials", ended.stderr)
    assert SECRET not in ended.output
    assert "Traceback" not in ended.output
    assert all("/bucket" in request and "runs" in request for request in refusing), refusing
    assert list(tmp_path.iterdir()) == []


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


def test_no_request_goes_beyond_the_prefix(bucket, small_config, monkeypatch):
    """A stranger's objects beside the run, and what happens to them: nothing."""
    beside = Folder(StoreUrl("s3", bucket))
    for name in ("runs/mine-too/run.json", "runs/min", "theirs"):
        beside.write(name, b"theirs")
    run = command("run", small_config, *THREADS, "--directory", f"s3://{bucket}/runs/mine")
    assert run.exit_code == 0, run.output
    found = {path for path in beside.below("") if not path.startswith("runs/mine/")}
    assert found == {"runs/mine-too/run.json", "runs/min", "theirs"}
    assert {beside.read(path) for path in found} == {b"theirs"}
