"""Runs small enough for a test, and the bytes to compare them by."""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path

import numpy as np
from distributed import Client

from pairloom.cluster.config.config_file import load_config
from pairloom.cluster.drive.driver import adopt_run, drive, prepare_run
from pairloom.cluster.drive.schedule import Stop
from pairloom.cluster.watch.progress import Quiet
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.stages import STAGE_NAMES
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.location import Location

GROUPS = ("features.zarr", "machines.zarr", "logits.zarr", "probabilities.zarr")


def write_features(
    path: Path, *, classes: int, rows: int, features: int, samples: int, seed: int = 0
) -> Path:
    """Overlapping Gaussian classes with names, as a .npz file."""
    random = np.random.default_rng(seed)
    centres = 0.7 * random.standard_normal((classes, features))
    digits = len(str(classes - 1))  # so that the names sort as the numbers do
    y_train, y_test = np.repeat(np.arange(classes), rows), np.arange(samples) % classes
    np.savez(
        path,
        X_train=(centres[y_train] + random.standard_normal((len(y_train), features))).astype(np.float32),
        y_train=y_train,
        X_test=(centres[y_test] + random.standard_normal((samples, features))).astype(np.float32),
        y_test=y_test,
        classes=np.array([f"class {c:0{digits}}" for c in range(classes)]),
    )
    return path


def write_regions(path: Path) -> Path:
    """Five classes in the plane, one of them in two regions, as a .npz file with rows in no order.

    No straight line tells that class from the others: learning through the coupling gains much. Products of rows with
    two features round alike in any shape, so that a run and an estimator have the same scale to the bit.
    """
    random = np.random.default_rng(0)
    centres = np.array([[-4.0, 0.0], [4.0, 0.0], [0.0, -1.6], [0.0, 4.0], [9.0, 3.0], [-9.0, -4.0]])
    y_train, y_test = (random.permutation(np.repeat(np.arange(6), rows)) for rows in (150, 50))
    X_train, X_test = (centres[y] + random.standard_normal((len(y), 2)) for y in (y_train, y_test))
    np.savez(
        path,
        X_train=X_train,
        y_train=np.maximum(y_train - 1, 0),
        X_test=X_test,
        y_test=np.maximum(y_test - 1, 0),
        classes=np.array([f"class {c}" for c in range(5)]),
    )
    return path


def write_config(path: Path, features: Path, **run: int) -> Path:
    """A configuration for those features, of all pairs and all couplings; keywords go into its [run] section."""
    lines = [f"{key} = {value}" for key, value in run.items()]
    path.write_text(
        f"""
        [data]
        features = "{features}"
        [graph]
        family = "complete"
        [model]
        kernel = "linear"
        C = "scale"
        whiten = 0.8
        calibration = "platt"
        coupling = "stratified"
        [run]
        also_couple = ["normal", "wlw2", "bradley_terry", "vote"]
        """
        + "\n".join(lines)
        + "\n"
    )
    return path


def bytes_of(directory: Location, groups: tuple[str, ...] = GROUPS) -> dict[str, bytes]:
    """Every file of the zarr groups, by path, in either home of a run."""
    folder = Folder(directory)
    return {path: folder.read(path) for group in groups for path in folder.below(group)}


def assert_same_bytes(directory: Location, reference: dict[str, bytes]) -> None:
    found = bytes_of(directory)
    assert sorted(found) == sorted(reference)
    assert [path for path in found if found[path] != reference[path]] == []


def times_begun(directory: Path, stage: str) -> Counter[int]:
    """How often each unit of a stage was begun, by any process, from the log of the run."""
    assert stage in STAGE_NAMES
    lines = (line.split() for line in (directory / "log.txt").read_text().splitlines())
    return Counter(int(words[4]) for words in lines if words[2:4] == ["begin", stage])


def workers_at_work(directory: Path, stage: str) -> set[int]:
    """Processes that have begun units of a stage, from the log of the run."""
    assert stage in STAGE_NAMES
    log = directory / "log.txt"
    lines = (line.split() for line in log.read_text().splitlines()) if log.exists() else ()
    return {int(words[1].rpartition(":")[2]) for words in lines if words[2:4] == ["begin", stage]}


def run_here(
    config: Path | str,
    directory: Path,
    client: Client,
    *overrides: str,
    update: bool = False,
    until: str = "probabilities",
    progress: Quiet | None = None,
) -> Run:
    """Begin or resume a run on a client that is there; by default without its report."""
    settings = load_config(config, overrides)
    fresh, data = prepare_run(settings, directory)
    Folder(directory).make()
    plan = adopt_run(directory, settings, fresh, update=update)
    drive(
        plan,
        data,
        lambda: contextlib.nullcontext(client),
        Stop(),
        progress or Quiet(),
        plan.stages[: plan.stage_names.index(until) + 1],
    )
    return plan
