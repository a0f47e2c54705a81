"""A run through crashes, damage and changes of mind, in any order: it always ends in the undisturbed
bytes."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
import uuid
from functools import cache
from pathlib import Path

import pytest
from distributed import Client, LocalCluster
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from small_runs import assert_same_bytes, bytes_of, run_here, write_config, write_features

from pairloom.cluster.watch.progress import Quiet
from pairloom.cluster.watch.status import run_status
from pairloom.pipeline.stages.run_file import DamagedPlan, read_run
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.location import Location, StoreUrl

# What a person may change between two drivers: coupling methods, test samples, whether it learns or grows, and how far.
GROWING = ("graph.family=star", "growth.wave=1", "growth.plateau=never")
VARIANTS = {
    "as it was": (),
    "one method": (
        "model.coupling=normal",
        "run.also_couple=[]",
    ),
    "learns": ("model.learn=coupled", "run.also_couple=[]"),
    "other test samples": ("data.test='{other}'",),
    "grows": (*GROWING, "growth.pairs=4"),
    "grows further": (*GROWING, "growth.pairs=6"),
}


class Crash(Exception):
    """The driver dies here."""


class CrashAfter(Quiet):
    """A driver that dies after some units."""

    def __init__(self, units: int) -> None:
        self._left = units

    def advance(self, receipt) -> None:
        self._left -= 1
        if self._left <= 0:
            raise Crash


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A cluster, a configuration and the undisturbed result of each variant."""
    folder = tmp_path_factory.mktemp("states")
    sizes = {"classes": 4, "rows": 12, "features": 5, "samples": 20}
    features = write_features(folder / "data.npz", **sizes)
    other = write_features(folder / "other.npz", **(sizes | {"samples": 27}), seed=1)
    config = write_config(folder / "run.toml", features, edges_per_tile=2, samples_per_slab=8)
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster) as client,
    ):
        yield World(config, other, client, folder)


class World:
    def __init__(self, config: Path, other: Path, client: Client, folder: Path) -> None:
        self._config, self._other, self._client, self._folder = config, other, client, folder
        self.undisturbed = cache(self._undisturbed)

    def run(self, variant: str, directory: Location, progress: Quiet | None = None) -> None:
        overrides = [override.format(other=self._other) for override in VARIANTS[variant]]
        try:
            run_here(
                self._config, directory, self._client, *overrides, update=True, progress=progress or Quiet()
            )
        finally:
            # Tasks of a driver that died may still be at work: let them end, so that a failure can be
            # replayed.
            while any(self._client.processing().values()):
                time.sleep(0.005)

    def _undisturbed(self, variant: str) -> dict[str, bytes]:
        directory = self._folder / variant
        self.run(variant, directory)
        return bytes_of(directory)


@pytest.mark.long
@pytest.mark.parametrize("home", ["folder", "object store"])
def test_every_way_through_a_run_ends_in_the_same_bytes(world, home):
    class Run(RuleBasedStateMachine):
        @initialize()
        def begin(self) -> None:
            self.folder = Path(tempfile.mkdtemp())
            self.directory = self.folder / "run"
            if home == "object store":
                self.directory = StoreUrl("memory", uuid.uuid4().hex, "run")
            self.variant = "as it was"
            self.crash(units=1)

        @rule(units=st.integers(1, 12))
        def crash(self, units: int) -> None:
            with contextlib.suppress(Crash):
                world.run(self.variant, self.directory, CrashAfter(units))

        @rule(which=st.integers(0, 10**6), kind=st.sampled_from(["truncate", "flip", "delete"]))
        def damage(self, which: int, kind: str) -> None:
            folder = Folder(self.directory)
            files = [path for path in folder.below("") if not path.startswith("log.txt")]
            path = files[which % len(files)]
            content = bytearray(folder.read(path))
            if kind == "delete" or not content:
                folder.delete(path)
                return
            if kind == "flip":
                content[which % len(content)] ^= 1 << which % 8
            folder.write(path, bytes(content[: -1 if kind == "truncate" else None]))

        @precondition(lambda self: home == "folder")
        @rule(stage=st.sampled_from(["machines.zarr/coef/c/0/0", "logits.zarr/tensor/c/0/0"]))
        def leave_half_written(self, stage: str) -> None:
            folder = self.directory / stage
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "0.0123456789abcdef0123456789abcdef.partial").write_bytes(b"half of a chu")

        @rule(variant=st.sampled_from(sorted(VARIANTS)))
        def change_mind(self, variant: str) -> None:
            self.variant = variant

        @rule()
        def resume(self) -> None:
            world.run(self.variant, self.directory)
            further = self.variant == "grows" and len(read_run(self.directory).shape.edges) > 4
            assert_same_bytes(self.directory, world.undisturbed("grows further" if further else self.variant))

        @precondition(lambda self: Folder(self.directory).below(""))
        @invariant()
        def nothing_unsound_is_called_finished(self) -> None:
            try:
                status = run_status(self.directory, verify=True)
            except DamagedPlan:
                return
            done, total = status.stages["probabilities"]
            if done == total and not status.damaged:
                found = bytes_of(self.directory, ("probabilities.zarr",))
                possible = [world.undisturbed(variant) for variant in VARIANTS]
                assert any(found.items() <= whole.items() for whole in possible)

        def teardown(self) -> None:
            self.resume()
            shutil.rmtree(self.folder)

    Run.TestCase.settings = settings(
        max_examples=8,
        stateful_step_count=10,
        deadline=None,
        # A failure says which steps it took; to shrink them would take minutes.
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    Run.TestCase().runTest()
