"""Features, labels and test samples in a zarr group of an object store: the checks and the bytes of local files."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from object_stores import SECRET, in_environment, new_bucket
from small_runs import bytes_of, write_config
from store_proxy import StoreProxy
from zarr.storage import ObjectStore

import pairloom
from pairloom.cluster.commands.cli import main
from pairloom.pipeline.features import row_sources
from pairloom.pipeline.features.feature_set import open_features
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.location import StoreUrl
from pairloom.pipeline.storage.object_store import PATIENCE, StoreAway, StoreDenied, open_store, requests
from pairloom.pipeline.storage.zarr_metadata import MissingChunk, RefusedArray

THREADS = {"cluster.kind": "threads"}
numbers = itertools.count()


def command(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)


def write_group(url: StoreUrl, arrays, zarr_format: int = 3) -> StoreUrl:
    group = zarr.create_group(ObjectStore(open_store(url)), zarr_format=zarr_format)
    for name, values in arrays.items():
        rows = (8, *values.shape[1:]) if name.startswith("X") else values.shape
        group.create_array(name, data=values, chunks=rows)
    return url


@pytest.fixture
def arrays(small_config):
    with np.load(small_config.parent / "small.npz") as file:
        return dict(file)


@pytest.fixture
def url(bucket) -> StoreUrl:
    return StoreUrl("s3", bucket, "data/features.zarr")


@pytest.fixture
def pool() -> tuple[StoreUrl, dict[str, np.ndarray]]:
    """A group of its own in the memory of this process, one pool X, y."""
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 8) + 1
    arrays = {"X": random.standard_normal((32, 3)) + 3 * y[:, None], "y": y}
    return write_group(StoreUrl("memory", f"pool-{next(numbers)}", "data.zarr"), arrays), arrays


@pytest.mark.long
@pytest.mark.quick("3")
@pytest.mark.parametrize("zarr_format", [3, 2])
def test_a_run_on_data_in_a_store_has_the_bytes_of_one_on_a_file(
    zarr_format, url, arrays, small_run, small_config, tmp_path
):
    trained = {name: values for name, values in arrays.items() if name != "classes" and "test" not in name}
    trained["classes"] = arrays["classes"].astype("U7" if zarr_format == 2 else "T")
    tested = {"X": arrays["X_test"], "y": arrays["y_test"]}
    # Without X_test of its own the group would be refused: other test samples replace these.
    write_group(url, trained | {"X_test": arrays["X_test"][:3], "y_test": arrays["y_test"][:3]}, zarr_format)
    test = write_group(url.parent / "test.zarr", tested, zarr_format)
    directory = url.parent / "run"
    overrides = {"data.features": str(url), "data.test": str(test), **THREADS}
    pairloom.run(small_config, directory=str(directory), overrides=overrides).result(timeout=120)
    assert bytes_of(directory) == bytes_of(small_run)
    written = {path: Folder(directory).read(path) for path in Folder(directory).below("")}
    assert [path for path in written if SECRET.encode() in written[path]] == []
    # Its own store has all of them, so it is resumed without them.
    for group in (url, test):
        for path in Folder(group).below(""):
            Folder(group).delete(path)
    resumed = command("resume", directory)
    assert resumed.exit_code == 0, resumed.output


def test_commands_take_data_in_a_store(url, arrays, small_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arrays["classes"] = arrays["classes"].astype("T")
    write_group(url, arrays)
    made = command("init", url)
    assert made.exit_code == 0, made.output
    assert "140 rows, 6 features" in made.stdout
    assert "test set: 40 rows, X_test of the data" in made.stdout
    assert f'features = "{url}"' in (tmp_path / "features.toml").read_text()
    assert command("plan", "features.toml").exit_code == 0
    np.savez("new.npz", X=arrays["X_test"])
    for source, out in (("new.npz", "here.csv"), (url, "there.csv")):
        done = command("predict", small_run, "--features", source, "--out", out)
        assert done.exit_code == 0, done.output
    assert (tmp_path / "here.csv").read_bytes() == (tmp_path / "there.csv").read_bytes()


def test_every_row_is_read_twice_and_may_not_change_between(pool):
    url, _ = pool
    opened = open_features(str(url))
    assert len(opened.load().X_train) == 24
    written = zarr.open_array(ObjectStore(open_store(url)), path="X", mode="r+")
    written[5] = 7.0
    with pytest.raises(ValueError, match=r"must not change while it is read, but row"):
        opened.load()


def test_the_checks_of_local_groups_hold(pool):
    url, _ = pool
    folder = Folder(url)
    chunk = folder.read("X/c/1/0")
    folder.delete("X/c/1/0")
    with pytest.raises(MissingChunk, match=r"X: chunk c/1/0 is missing.*data.missing_chunks"):
        open_features(str(url))
    filled = open_features(str(url), missing_chunks="fill").load()
    assert (filled.X_train == 0).all(axis=1).sum() + (filled.X_test == 0).all(axis=1).sum() == 8
    folder.write("X/c/1/0", b"")
    with pytest.raises(RefusedArray, match=r"chunk c/1/0 has 0 bytes, which cannot hold"):
        open_features(str(url), missing_chunks="fill")
    folder.write("X/c/1/0", chunk[:-1] + b"\x00" + chunk[-1:])
    with pytest.raises(ValueError, match=f"{url}.*damaged"):
        open_features(str(url))
    folder.write("X/c/1/0", chunk)
    labels = folder.read("y/c/0")
    folder.delete("y/c/0")
    with pytest.raises(MissingChunk, match=r"y: chunk c/0 is missing"):
        open_features(str(url), missing_chunks="fill")
    folder.write("y/c/0", labels)
    about = json.loads(folder.read("X/zarr.json"))
    about["codecs"] = [{"name": "numcodecs.pickle", "configuration": {}}]
    folder.write("X/zarr.json", json.dumps(about).encode())
    with pytest.raises(RefusedArray, match=r"X is not read: its codecs must be among .* got pickle"):
        open_features(str(url))
    folder.write("X/zarr.json", b" " * (2**24 + 1))
    with pytest.raises(ValueError, match=r"zarr.json must be a JSON object of at most 16777216 bytes"):
        open_features(str(url))


def test_nothing_but_the_arrays_of_a_run_is_listed(pool):
    """A group may hold others, of any size; and the bucket has more than the group."""
    url, _ = pool
    folder = Folder(url)
    for number in range(5):
        folder.write(f"activations/c/{number}", b"theirs")
    before = requests.copy()
    open_features(str(url))
    assert (requests - before)["list"] == 2  # the chunks of X and those of y
    assert (requests - before)["list_with_delimiter"] == 2  # the names in the group


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("s3://{}/nothing.zarr", "data.features: no such zarr group: s3://"),
        ("s3://{}/x.npz", "only zarr groups are read from an object store"),
        ("s3://no-such-bucket/x.zarr", "there is no such bucket"),
        ("s3://me:hunter2@{}/x.zarr", "data.features must be a path, or a URL such as"),
        ("s3://{}/x.zarr?signature=hunter2", "data.features must be a path, or a URL such as"),
        ("ftp://host/x.zarr", "data.features must be a path, or a URL such as"),
    ],
)
def test_sources_that_cannot_be_read_are_named_without_secrets(source, complaint, bucket, tmp_path):
    source = source.format(bucket)
    config = write_config(tmp_path / "x.toml", tmp_path / "x.npz")
    refused = command("run", config, "--directory", f"s3://{bucket}/run", "--set", f"data.features={source}")
    assert refused.exit_code == (3 if "no-such" in source else 2), refused.output
    assert complaint in refused.stderr
    assert "hunter2" not in refused.output
    assert SECRET not in refused.output
    assert Folder(StoreUrl("s3", bucket, "run")).below("") == []


def test_data_may_not_lie_in_the_run(url, arrays, small_config):
    write_group(url, arrays | {"classes": arrays["classes"].astype("T")})
    with pytest.raises(ValueError, match="must not lie in the run directory s3://"):
        pairloom.run(
            small_config, directory=str(url.parent), overrides={"data.features": str(url), **THREADS}
        )


@pytest.mark.long
@pytest.mark.parametrize(("fault", "error"), [("is refused", StoreDenied), ("fails", StoreAway)])
def test_a_store_that_refuses_or_is_away_while_rows_are_read_is_no_damage(
    fault, error, seaweed_port, arrays, monkeypatch
):
    """Credentials that expire half-way, and a store that goes away."""
    proxy = StoreProxy(seaweed_port)
    with in_environment(proxy.port):
        monkeypatch.setenv(PATIENCE, "2")
        monkeypatch.setattr(row_sources, "PIECE_BYTES", 1)  # or all rows would have been kept
        url = StoreUrl("s3", new_bucket(seaweed_port), "features.zarr")
        opened = open_features(str(write_group(url, arrays | {"classes": arrays["classes"].astype("T")})))
        proxy.fault_of = lambda number: fault
        with pytest.raises(error, match=rf"{url}") as ended:
            opened.X_train.read(slice(None))
    proxy.close()
    assert SECRET not in str(ended.value)
