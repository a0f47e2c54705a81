"""Runs that grow, on a cluster of threads in this process."""

from __future__ import annotations

import functools
import json
import shutil

import numpy as np
import pytest
from small_runs import assert_same_bytes, bytes_of, run_here, times_begun, write_config, write_features

from pairloom import complete_logits, couple
from pairloom.cluster.config.config_file import load_config
from pairloom.cluster.drive.driver import prepare_run
from pairloom.cluster.watch.progress import Quiet
from pairloom.cluster.watch.status import run_status
from pairloom.graphs import model_graph
from pairloom.pipeline.config.config import ConfigError
from pairloom.pipeline.run.growing_run import judged_waves
from pairloom.pipeline.run.run_directory import open_group
from pairloom.pipeline.stages.run_file import read_run

CLASSES, START = 8, 7
# From a star, two pairs a wave and two a tile: 7 of the start, then 10, 12, 14 ...
COUPLINGS = ("model.coupling=stratified", "run.also_couple=['normal']")
GROWING = ("graph.family=star", "growth.wave=2", "growth.plateau=never", *COUPLINGS)


@pytest.fixture(scope="module")
def growing_config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("growing")
    features = write_features(folder / "data.npz", classes=CLASSES, rows=24, features=5, samples=40)
    return write_config(folder / "run.toml", features, edges_per_tile=2, samples_per_slab=16)


@pytest.fixture(scope="module")
def grown_run(growing_config, client, tmp_path_factory):
    """Grown to fifteen pairs at once. Copy it before you change it."""
    directory = tmp_path_factory.mktemp("runs") / "grown"
    run_here(growing_config, directory, client, *GROWING, "growth.pairs=15", until="report")
    return directory


@pytest.fixture
def copied_run(grown_run, tmp_path):
    shutil.copytree(grown_run, tmp_path / "run")
    return tmp_path / "run"


class Notes(Quiet):
    def __init__(self):
        self.lines = []

    def note(self, line):
        self.lines.append(line)


def machines_by_pair(directory):
    group = open_group(directory, "machines.zarr")
    pairs = zip(group["class_i"][:].tolist(), group["class_j"][:].tolist(), strict=True)
    coef, parameters = group["coef"][:], group["parameters"][:]
    return {pair: (coef[e].tobytes(), parameters[e].tobytes()) for e, pair in enumerate(pairs)}


def test_it_grows_wave_by_wave_to_the_budget(grown_run):
    plan = read_run(grown_run)
    assert plan.waves == (7, 10, 12, 14, 15)
    edges = [tuple(edge) for edge in plan.shape.edges.tolist()]
    assert len(set(edges)) == 15
    assert set(edges[:START]) == {(0, c) for c in range(1, CLASSES)}
    assert [wave.pairs for wave in judged_waves(plan)] == [7, 10, 12, 14, 15]


def test_its_machines_are_those_of_the_complete_graph(grown_run, growing_config, client, tmp_path):
    run_here(growing_config, tmp_path / "all", client, until="machines")
    grown, complete = machines_by_pair(grown_run), machines_by_pair(tmp_path / "all")
    assert len(complete) == 28
    assert grown == {pair: complete[pair] for pair in grown}


def test_a_wave_is_judged_by_every_second_drawn_sample(grown_run):
    plan = read_run(grown_run)
    y = open_group(grown_run, "features.zarr")["drawn_class"][:][1::2]
    logits = open_group(grown_run, "logits.zarr")["held_out"][0, :, 1::2]
    for wave in judged_waves(plan):
        graph = model_graph(CLASSES, plan.shape.edges[: wave.pairs].tolist(), "grown")
        tensor = np.zeros((CLASSES, CLASSES, len(y)), np.float32)
        for (i, j), row in zip(plan.shape.edges[: wave.pairs].tolist(), logits, strict=False):
            tensor[i, j], tensor[j, i] = row, -row
        p = couple(np.float32(wave.scale) * complete_logits(tensor, graph), "stratified")
        assert wave.log_loss == pytest.approx(-np.log(p[np.arange(len(y)), y]).mean(), rel=1e-4)
        assert wave.accuracy == pytest.approx((p.argmax(axis=1) == y).mean())


def test_each_wave_is_what_the_one_before_proposed(grown_run):
    plan = read_run(grown_run)
    waves = judged_waves(plan)
    edges = [tuple(edge) for edge in plan.shape.edges.tolist()]
    for wave, (begin, end) in zip(waves, zip(plan.waves, plan.waves[1:], strict=False), strict=False):
        assert edges[begin:end] == wave.proposed[: end - begin]


@pytest.mark.long
@pytest.mark.parametrize("cost", ["confusion", "dprime", "uniform"])
def test_grown_later_is_grown_at_once(cost, growing_config, client, tmp_path):
    settings = (*GROWING, f"growth.cost={cost}")
    run_here(growing_config, tmp_path / "once", client, *settings, "growth.pairs=17")
    for pairs in (9, 13, 17):
        run_here(growing_config, tmp_path / "later", client, *settings, f"growth.pairs={pairs}")
        assert len(read_run(tmp_path / "later").shape.edges) == pairs
    assert_same_bytes(tmp_path / "later", bytes_of(tmp_path / "once"))


def test_growing_on_trains_no_whole_tile_again(copied_run, growing_config, client):
    before = times_begun(copied_run, "machines")
    run_here(growing_config, copied_run, client, *GROWING, "growth.pairs=20")
    after = times_begun(copied_run, "machines")
    again = {unit for unit in before if after[unit] != before[unit]}
    assert again == {7}, "the fifteenth pair was alone in its tile"
    assert read_run(copied_run).waves == (7, 10, 12, 14, 16, 18, 20)


def test_a_smaller_budget_takes_nothing_back(copied_run, growing_config, client):
    reference = bytes_of(copied_run)
    run_here(growing_config, copied_run, client, *GROWING, "growth.pairs=9")
    assert_same_bytes(copied_run, reference)


def test_growth_ends_at_a_plateau(growing_config, client, tmp_path):
    notes = Notes()
    settings = ("graph.family=star", "growth.wave=2", "growth.plateau=0.9")
    run_here(growing_config, tmp_path / "run", client, *settings, progress=notes)
    assert read_run(tmp_path / "run").waves == (7, 10, 12), "two waves, and neither could gain 90%"
    assert notes.lines[-1] == (
        "Grown to 12 pairs: 2 waves in a row improved the log loss by less than 90.00%."
    )


def test_seconds_are_counted_anew_by_every_driver(growing_config, client, tmp_path):
    for waves in ((7, 10), (7, 10, 12)):
        run_here(growing_config, tmp_path / "run", client, *GROWING, "growth.seconds=1e-9")
        assert read_run(tmp_path / "run").waves == waves, "a wave that is begun is finished"


def test_without_a_budget_all_pairs_are_trained(growing_config, client, tmp_path):
    settings = ("graph.family=star", "growth.wave=8", "growth.plateau=never")
    run_here(growing_config, tmp_path / "run", client, *settings)
    edges = read_run(tmp_path / "run").shape.edges
    assert sorted(map(tuple, edges.tolist())) == [(i, j) for i in range(8) for j in range(i + 1, 8)]


def test_a_share_of_the_pairs_is_a_budget(growing_config, client, tmp_path):
    run_here(growing_config, tmp_path / "run", client, *GROWING, "growth.share=0.5", until="growth")
    assert len(read_run(tmp_path / "run").shape.edges) == 14


def test_other_methods_are_coupled_without_growing_again(copied_run, growing_config, client):
    machines = bytes_of(copied_run, ("machines.zarr",))
    begun = {stage: times_begun(copied_run, stage) for stage in ("machines", "growth")}
    others = "run.also_couple=['vote']"
    run_here(growing_config, copied_run, client, *GROWING, "growth.pairs=15", others, update=True)
    assert bytes_of(copied_run, ("machines.zarr",)) == machines
    assert {stage: times_begun(copied_run, stage) for stage in ("machines", "growth")} == begun


def test_growth_is_added_to_a_run_that_did_not_grow(growing_config, client, tmp_path):
    run_here(growing_config, tmp_path / "run", client, "graph.family=star")
    run_here(growing_config, tmp_path / "run", client, *GROWING, "growth.pairs=10", update=True)
    assert times_begun(tmp_path / "run", "machines") == {0: 1, 1: 1, 2: 1, 3: 2, 4: 1}


def test_a_lost_plan_is_grown_again_from_what_the_ledger_proves(copied_run, growing_config, client):
    reference, begun = bytes_of(copied_run), times_begun(copied_run, "machines")
    (copied_run / "run.json").unlink()
    run_here(growing_config, copied_run, client, *GROWING, "growth.pairs=15")
    assert_same_bytes(copied_run, reference)
    assert times_begun(copied_run, "machines") == begun


def test_a_damaged_judgement_is_made_again(copied_run, growing_config, client):
    reference = bytes_of(copied_run)
    judgement = copied_run / "growth" / "000001.json"
    sound = judgement.read_bytes()
    judgement.write_bytes(sound[:-9])
    notes = Notes()
    run_here(growing_config, copied_run, client, *GROWING, "growth.pairs=15", progress=notes)
    assert notes.lines[0] == "Recomputing growth 1: damaged or missing growth/000001.json."
    assert judgement.read_bytes() == sound
    assert_same_bytes(copied_run, reference)


def test_every_judgement_can_be_made_again(copied_run, growing_config, client):
    """The start has seven pairs in tiles of two: its last tile was filled up after it had been judged."""
    sound = {path.name: path.read_bytes() for path in (copied_run / "growth").iterdir()}
    shutil.rmtree(copied_run / "growth")
    run_here(growing_config, copied_run, client, *GROWING, "growth.pairs=15")
    assert {path.name: path.read_bytes() for path in (copied_run / "growth").iterdir()} == sound


@pytest.fixture(scope="module")
def grown_once(growing_config, client, tmp_path_factory):
    """A maker of runs that were grown without a disturbance, each only once. Copy one before you change it."""

    @functools.cache
    def make(*settings):
        directory = tmp_path_factory.mktemp("once") / "run"
        run_here(growing_config, directory, client, *settings)
        return directory

    return make


# What becomes of a grown run, and how it is then run again: the plan gets shorter, and grows again.
SHORTER = {
    "another first method": (
        lambda run: None,
        (
            "model.coupling=normal",
            "run.also_couple=['stratified']",
        ),
    ),
    "another wave": (lambda run: None, ("growth.wave=4",)),
    "another method and a damaged judgement": (
        lambda run: cut(run / "growth" / "000001.json"),
        (
            "model.coupling=stratified",
            "run.also_couple=['vote']",
        ),
    ),
    "another method and the last wave not judged": (
        lambda run: (run / "ledger" / "growth" / "000004.json").unlink(),
        (
            "model.coupling=stratified",
            "run.also_couple=['vote']",
        ),
    ),
    "no plan and a damaged judgement": (
        lambda run: [cut(run / "growth" / "000001.json"), (run / "run.json").unlink()],
        (),
    ),
    "no plan and the last wave not judged": (
        lambda run: [(run / "ledger" / "growth" / "000004.json").unlink(), (run / "run.json").unlink()],
        (),
    ),
}


def cut(path):
    path.write_bytes(path.read_bytes()[:-9])


@pytest.mark.long
@pytest.mark.parametrize(
    ("what", "cost"),
    [
        *((what, "uniform") for what in SHORTER),
        ("another first method", "confusion"),
        ("another wave", "dprime"),
    ],
)
def test_a_plan_that_gets_shorter_grows_again(what, cost, grown_once, growing_config, client, tmp_path):
    settings = (*GROWING, f"growth.cost={cost}", "growth.pairs=15")
    shutil.copytree(grown_once(*settings), tmp_path / "run")
    begun = times_begun(tmp_path / "run", "machines")
    happens, changes = SHORTER[what]
    happens(tmp_path / "run")
    run_here(growing_config, tmp_path / "run", client, *settings, *changes, update=True)
    assert_same_bytes(tmp_path / "run", bytes_of(grown_once(*settings, *changes)))
    if cost == "uniform" and what != "another wave":
        again = {u for u, times in times_begun(tmp_path / "run", "machines").items() if times > begun[u]}
        # Tile 3 holds the last pair of the start, tile 7 the fifteenth.
        assert again <= {3, 7}, "the order is the same whatever the model, and so are the machines"


def test_what_the_run_no_longer_has_is_removed_without_a_word(copied_run, growing_config, client):
    run_here(growing_config, copied_run, client, "graph.family=star", *COUPLINGS, update=True)
    assert not list((copied_run / "growth").iterdir())
    assert sorted(path.stem for path in (copied_run / "ledger" / "machines").iterdir()) == [
        f"{unit:06d}" for unit in range(4)
    ]
    notes = Notes()
    settings = (*GROWING, "growth.pairs=15")
    run_here(growing_config, copied_run, client, *settings, update=True, progress=notes)
    assert not [line for line in notes.lines if "damaged" in line]


def test_files_whose_names_alone_are_those_of_waves_stay(copied_run, growing_config, client):
    mine = ["growth/2024.json", "growth/000999.json", "ledger/growth/2024.json", "ledger/growth/000999.json"]
    for name in mine:
        (copied_run / name).write_text('{"mine": 1}')
    settings = (*GROWING, "growth.pairs=15")
    run_here(growing_config, copied_run, client, *settings)  # nothing to do
    run_here(growing_config, copied_run, client, "graph.family=star", *COUPLINGS, update=True)
    assert [(copied_run / name).read_text() for name in mine] == ['{"mine": 1}'] * len(mine)
    assert sorted(path.name for path in (copied_run / "growth").iterdir()) == ["000999.json", "2024.json"]


@pytest.mark.parametrize("lost", [False, True])
def test_what_was_judged_is_not_taken_back(lost, copied_run, growing_config, client):
    if lost:
        (copied_run / "run.json").unlink()
    settings = (*GROWING, "growth.pairs=9", "model.coupling=stratified", "run.also_couple=['vote']")
    run_here(growing_config, copied_run, client, *settings, update=True)
    assert read_run(copied_run).waves == (7, 10, 12, 14, 15)


@pytest.mark.long
def test_another_coupling_judges(growing_config, client, tmp_path):
    """Then the first method of the run may change without another growth."""
    settings = (*GROWING, "growth.pairs=12", "growth.coupling=normal")
    run_here(growing_config, tmp_path / "run", client, *settings)
    by_normal = judged_waves(read_run(tmp_path / "run"))
    run_here(
        growing_config,
        tmp_path / "other",
        client,
        *GROWING,
        "growth.pairs=12",
        "model.coupling=normal",
        "run.also_couple=[]",
    )
    assert by_normal == judged_waves(read_run(tmp_path / "other"))
    begun = times_begun(tmp_path / "run", "growth")
    others = ("model.coupling=wlw2", "run.also_couple=[]")
    run_here(growing_config, tmp_path / "run", client, *settings, *others, update=True)
    assert times_begun(tmp_path / "run", "growth") == begun


def test_status_and_report_tell_the_waves(grown_run):
    waves = run_status(grown_run, verify=True).waves
    assert [wave["pairs"] for wave in waves] == [7, 10, 12, 14, 15]
    metrics = json.loads((grown_run / "report" / "metrics.json").read_text())
    assert metrics["growth"] == waves
    assert metrics["pairs"] == 15
    page = (grown_run / "report" / "index.html").read_text()
    assert 'aria-label="Held-out log loss against trained pairs' in page


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        (("graph.family=path", "growth.pairs=20"), r"graph\.family must be one of .* got 'path'"),
        (
            ("graph.family=star", "growth.pairs=20", "model.coupled_calibration=edges", "run.also_couple=[]"),
            r"model\.coupled_calibration must be .* with \[growth\]",
        ),
        (("graph.family=star", "growth.plateau=1.5"), r"growth\.plateau must be .* 'never', got 1\.5\."),
        (("graph.family=star", "growth.share=0"), r"growth\.share must be greater than 0, got 0\."),
        (("graph.family=star", "growth.pair=20"), r"growth\.pair: unknown key\. Did you mean 'pairs'\?"),
    ],
)
def test_a_wrong_configuration_is_refused(overrides, complaint, growing_config):
    with pytest.raises(ConfigError, match=complaint):
        load_config(growing_config, overrides)


@pytest.mark.parametrize(
    ("budget", "complaint"),
    [
        ("growth.pairs=6", r"growth\.pairs must be at least 7, the pairs of the initial graph, got 6\."),
        (
            "growth.share=0.2",
            r"growth\.share must be at least 0\.2500, the share of the initial graph, got 0\.2\.",
        ),
    ],
)
def test_a_budget_less_than_the_start_is_refused(budget, complaint, growing_config, tmp_path):
    with pytest.raises(ValueError, match=complaint):
        prepare_run(load_config(growing_config, ["graph.family=star", budget]), tmp_path / "run")
    assert not (tmp_path / "run").exists()
