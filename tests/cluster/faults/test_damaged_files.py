"""Files that are damaged, lost, exchanged or not written: all is seen, and computed again."""

from __future__ import annotations

import resource
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from dask_processes import finish, kill_and_reap
from small_runs import assert_same_bytes, bytes_of, run_here, write_config, write_features

from pairloom.cluster.commands.cli import main
from pairloom.cluster.watch.status import run_status
from pairloom.pipeline.stages.run_file import DamagedPlan

pytestmark = pytest.mark.long  # it kills nothing and watches no clock


def truncate(path: Path) -> None:
    # A newline at the end says nothing.
    path.write_bytes(path.read_bytes().rstrip(b"\n")[:-1])


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(bytes(content))


@pytest.fixture
def copied_run(small_run, tmp_path) -> Path:
    shutil.copytree(small_run, tmp_path / "run")
    return tmp_path / "run"


def files_of(directory: Path) -> list[Path]:
    """Every file of a run that a result is read from: all but the log and the records of drivers."""
    files = [path for path in sorted(directory.rglob("*")) if path.is_file() and path.stat().st_size]
    return [path for path in files if path.name != "log.txt" and path.parent.name != "drivers"]


def is_seen_to_be_damaged(directory: Path) -> bool:
    try:
        return run_status(directory, verify=True).state == "unfinished"
    except DamagedPlan:
        return True


DAMAGES = pytest.mark.parametrize(
    "damage", [truncate, flip_a_bit, Path.unlink], ids=["truncated", "flipped", "deleted"]
)


@DAMAGES
def test_damage_to_any_file_is_seen(damage, copied_run):
    files = files_of(copied_run)
    assert len(files) > 100
    for path in files:
        content = path.read_bytes()
        damage(path)
        assert is_seen_to_be_damaged(copied_run), path
        path.write_bytes(content)
    assert run_status(copied_run, verify=True).state == "finished"


@DAMAGES
def test_what_is_damaged_is_computed_again(damage, copied_run, small_config, client):
    reference, files = bytes_of(copied_run), files_of(copied_run)
    for first in range(10):
        for path in files[first::10]:
            damage(path)
        run_here(small_config, copied_run, client, until="report")
        assert run_status(copied_run, verify=True).state == "finished"
        assert_same_bytes(copied_run, reference)


def swap(first: Path, second: Path) -> None:
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)


def swap_weights(directory: Path, other: Path) -> set[str]:
    swapped = {f"machines.zarr/coef/c/{tile}/0/0" for tile in (0, 1)}
    swap(*(directory / path for path in swapped))
    return swapped


def swap_logits(directory: Path, other: Path) -> set[str]:
    swapped = {f"logits.zarr/tensor/c/0/0/{slab}" for slab in (0, 1)}
    swap(*(directory / path for path in swapped))
    return swapped


def take_whitening_of_another_run(directory: Path, other: Path) -> set[str]:
    taken = {"features.zarr/factor/c/0/0/0", "features.zarr/mean/c/0/0"}
    for path in taken:
        shutil.copyfile(other / path, directory / path)
    return taken


def change_byte_order(directory: Path, other: Path) -> set[str]:
    metadata = directory / "machines.zarr" / "parameters" / "zarr.json"
    content = metadata.read_text()
    assert '"little"' in content
    metadata.write_text(content.replace('"little"', '"big"'))
    return {"machines.zarr/parameters/zarr.json"}


@pytest.fixture(scope="session")
def other_run(client, tmp_path_factory) -> Path:
    """A run like `small_run`, of other samples."""
    folder = tmp_path_factory.mktemp("other")
    features = write_features(folder / "other.npz", classes=5, rows=20, features=6, samples=40, seed=1)
    config = write_config(folder / "other.toml", features, edges_per_tile=3, samples_per_slab=16)
    run_here(config, folder / "run", client, until="whitening")
    return folder / "run"


@pytest.mark.parametrize(
    "exchange", [swap_weights, swap_logits, take_whitening_of_another_run, change_byte_order]
)
def test_sound_files_in_the_wrong_place_are_named_refused_and_repaired(
    exchange, copied_run, other_run, small_config, client, tmp_path
):
    """Every file is one that a run has written, or valid metadata: only the checksums know better."""

    def command(*arguments: object) -> tuple[int, str]:
        result = CliRunner().invoke(main, [str(word) for word in arguments])
        return result.exit_code, result.output

    def predict(out: Path) -> tuple[int, str]:
        return command("predict", copied_run, "--features", small_config.with_suffix(".npz"), "--out", out)

    before = bytes_of(copied_run)
    assert predict(tmp_path / "before.csv")[0] == 0
    exchanged = exchange(copied_run, other_run)
    _, status = command("status", copied_run, "--verify")
    assert ": unfinished" in status
    assert exchanged == {line.removeprefix("damaged: ") for line in status.splitlines() if "damaged" in line}
    code, output = predict(tmp_path / "during.csv")
    if exchange is swap_logits:  # those of the test samples: a prediction does not read them
        assert code == 0
        assert (tmp_path / "during.csv").read_bytes() == (tmp_path / "before.csv").read_bytes()
    else:
        assert code == 1
        assert any(path in output for path in exchanged)
        assert not (tmp_path / "during.csv").exists()
    code, output = command("resume", copied_run, "--set", "cluster.kind=threads")
    assert code == 0, output
    assert_same_bytes(copied_run, before)
    assert run_status(copied_run, verify=True).state == "finished"
    assert predict(tmp_path / "after.csv")[0] == 0
    assert (tmp_path / "after.csv").read_bytes() == (tmp_path / "before.csv").read_bytes()


def test_the_disk_fills(begin, resume, directory, dask_processes, undisturbed):
    # Room for a line of the log and for an entry of the ledger, not for the weights of a tile.
    limit = len(undisturbed["machines.zarr/coef/c/0/0/0"]) // 2
    full = dask_processes.start_worker(
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    )
    code, errors = finish(begin())
    assert code == 4, errors
    assert "could not be written" in errors
    status = run_status(directory, verify=True)
    assert status.state == "unfinished"
    assert not any("machines" in path for path in status.damaged), "nothing half-written is believed"
    kill_and_reap(full)
    dask_processes.start_worker()
    code, errors = resume()
    assert code == 0, errors
    assert_same_bytes(directory, undisturbed)
