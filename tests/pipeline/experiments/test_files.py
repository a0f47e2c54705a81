import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from pairloom.cluster.commands.cli import main
from pairloom.pipeline.experiments import curved, gaussians
from pairloom.pipeline.experiments.perform import EXPERIMENTS, perform, sets_for
from pairloom.pipeline.features.embedded_sets import EMBEDDED


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("experiments")


def pairloom(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)


#: Samples enough to write files: what an experiment finds is tested with it.
FEWER = {gaussians: {"TRAINING": 20, "TEST": 20}, curved: {"TRAINING": 50, "TEST": 50}}


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, of in EXPERIMENTS.items() if not of.tables])
def test_an_experiment_writes_its_files(name, out, monkeypatch):
    for experiment, sizes in FEWER.items():
        for size, number in sizes.items():
            monkeypatch.setattr(experiment, size, number)
    done = pairloom("experiment", name, "--data", "digits", "--out", out, "--repetitions", 2, "--seed", 3)
    assert done.exit_code == 0, done.output
    assert f"{name}, digits" in done.stdout
    files = {suffix: out / "digits" / f"{name}.{suffix}" for suffix in ("csv", "png", "svg", "json")}
    for file in files.values():
        assert str(file) in done.stdout
        assert file.stat().st_size > 0
    heading, *rows = csv.reader(files["csv"].open())
    assert tuple(heading) == EXPERIMENTS[name].row._fields
    assert rows
    record = json.loads(files["json"].read_text())
    assert (record["data"], record["seed"]) == ("digits", 3)
    # There is only one draw of ten classes from ten, and the other three have no random draws.
    once = ("ten-class", "star-centres", "disagreements", "boundaries")
    assert record["repetitions"] == (1 if name in once else 2)
    assert record["findings"]
    assert all(len(row) == len(record["table"][0]) for row in record["table"])


@pytest.mark.long
def test_results_gathers_the_records(out, tmp_path):
    page = tmp_path / "docs" / "results.md"
    for name in ("quintets", "triplets"):
        perform(EXPERIMENTS[name], "digits", out, repetitions=2)
    done = pairloom("experiment", "results", "--out", out, "--page", page)
    assert done.exit_code == 0, done.output
    text = page.read_text()
    titles = (
        "Verdicts",
        "Where the outcome differs",
        "Undecided at 95%",
        "How to read them",
        "triplets",
        "quintets",
    )
    places = [text.index(f"## {title}") for title in titles]
    assert places == sorted(places)
    assert "`pairloom experiment triplets --data digits --repetitions 2 --seed 0`" in text
    assert "4 folds, fit_on = 'fold'" in text
    assert str(out) not in text
    for name in ("quintets", "triplets"):
        assert f"![{name} on digits](results/{name}-digits.svg)" in text
        figure = page.parent / "results" / f"{name}-digits.svg"
        assert figure.read_bytes() == (out / "digits" / f"{name}.svg").read_bytes()
        assert str(figure) in done.stdout


@pytest.mark.long
def test_results_replace_nothing_that_was_not_named(tmp_path, monkeypatch):
    """Not even the page of somebody who happens to have one of that name in docs/."""
    monkeypatch.chdir(tmp_path)
    Path("docs/results").mkdir(parents=True)
    Path("docs/results.md").write_text("mine")
    out = tmp_path / "out"
    perform(EXPERIMENTS["triplets"], "digits", out, repetitions=2)
    assert pairloom("experiment", "results", "--out", out).exit_code == 0
    page, figure = out / "results.md", out / "results" / "triplets-digits.svg"
    assert "## triplets" in page.read_text()
    for file in (page, figure):
        page.unlink(missing_ok=True)
        figure.unlink(missing_ok=True)
        file.write_text("mine")
        done = pairloom("experiment", "results", "--out", out)
        assert done.exit_code == 3
        assert f"--page must be new, got {file}, which exists. Pass --force to replace it." in done.stderr
        assert [found.read_text() for found in (page, figure) if found.exists()] == ["mine"]
    assert pairloom("experiment", "results", "--out", out, "--force").exit_code == 0
    assert figure.read_bytes() == (out / "digits" / "triplets.svg").read_bytes()
    assert Path("docs/results.md").read_text() == "mine"
    assert not list(Path("docs/results").iterdir())


@pytest.mark.long
def test_results_do_not_name_a_set_where_the_data_are_simulated(tmp_path):
    perform(EXPERIMENTS["mixtures"], "digits", tmp_path, repetitions=2)
    page = tmp_path / "results.md"
    assert pairloom("experiment", "results", "--out", tmp_path, "--page", page).exit_code == 0
    text = page.read_text()
    assert "![mixtures on simulated data](results/mixtures.svg)" in text
    assert (tmp_path / "results" / "mixtures.svg").exists()
    assert (
        "**simulated data**: `pairloom experiment mixtures --repetitions 2 --seed 0` (machines: LDA of pairs"
        in text
    )
    assert "\n[HT] Figures 1 and 2" in text
    assert "digits" not in text.split("## Circumstances")[1]


def test_results_needs_an_experiment(tmp_path):
    done = pairloom("experiment", "results", "--out", tmp_path, "--page", tmp_path / "results.md")
    assert done.exit_code == 1
    assert "out must be a folder with results of experiments" in done.stderr


@pytest.mark.long
def test_the_seed_decides_the_draws(out):
    def table(seed):
        perform(EXPERIMENTS["quintets"], "digits", out, repetitions=3, seed=seed)
        return (out / "digits" / "quintets.csv").read_bytes()

    first = table(0)
    assert table(1) != first
    assert table(0) == first


def test_an_experiment_runs_on_the_sets_that_are_here(monkeypatch):
    monkeypatch.delenv("PAIRLOOM_DATA", raising=False)
    for experiment in EXPERIMENTS.values():
        if experiment.tables:
            continue
        usual = ["digits"] if experiment.simulated else ["imagenet50-synthetic", "digits"]
        assert sets_for(experiment) == usual
        assert sets_for(experiment, ["digits"]) == ["digits"]
        assert sets_for(experiment, full=True) == [*usual, *experiment.full_data]


def test_a_strange_set_is_an_error_that_names_the_known_ones(out):
    done = pairloom("experiment", "triplets", "--data", "nowhere", "--out", out)
    assert done.exit_code == 1
    known = ", ".join(EMBEDDED)
    assert "imagenet50-synthetic-paper, imagenet1000-synthetic" in known
    assert f"--data must be {known}, a file, or a set" in done.stderr


@pytest.mark.long
def test_resuming_skips_what_was_measured_with_the_same_settings(tmp_path):
    def quintets(**settings):
        return perform(EXPERIMENTS["quintets"], "digits", tmp_path, **{"repetitions": 2, **settings})

    record = tmp_path / "digits" / "quintets.json"
    assert record in quintets(resume=True)
    written = record.stat().st_mtime_ns
    assert quintets(resume=True) == []
    assert record.stat().st_mtime_ns == written
    assert quintets(resume=True, seed=1)
    assert quintets(resume=True, repetitions=3)
    record.write_text("{")
    assert quintets(resume=True)
    assert quintets()


@pytest.mark.long
def test_all_says_how_long_each_took(tmp_path, monkeypatch):
    """All experiments, with all machines that are asked for, and those on adapted features."""
    for name in set(EXPERIMENTS) - {"ten-class", "encodings-simulated"}:
        monkeypatch.delitem(EXPERIMENTS, name)
    monkeypatch.setattr("pairloom.cluster.commands.experiment.ADAPTED", ("ten-class",))
    machines = ("--machines", "ours", "--machines", "paper")
    done = pairloom("experiment", "all", "--data", "digits", "--out", tmp_path, "--repetitions", 1, *machines)
    assert [line.split(" s  ")[1] for line in done.stdout.splitlines()[-6:]] == [
        "ten-class, digits",
        "encodings-simulated, digits",
        "ten-class, digits, paper",
        "ten-class, digits, adapted",
        "ten-class, digits, adapted, paper",
        "all",
    ]
    folders = {path.parent.name for path in tmp_path.glob("*/ten-class.json")}
    assert folders == {"digits", "digits.paper", "digits.adapted", "digits.adapted.paper"}


def test_adapted_features_need_one_of_their_sets(tmp_path, monkeypatch):
    monkeypatch.delenv("PAIRLOOM_DATA", raising=False)
    done = pairloom("experiment", "adapted", "--out", tmp_path)
    assert (
        "ten-class is skipped: PAIRLOOM_DATA names no folder with any of imagenette, tinyimagenet50."
        in done.stderr
    )


def test_the_full_setting_is_the_papers_on_as_many_classes_as_it_has():
    growth = EXPERIMENTS["growth"]
    assert growth.usual_repetitions(50, full=True) == growth.full > growth.usual_repetitions(50)
    assert growth.usual_repetitions(150) == growth.of_many_classes
    assert growth.usual_repetitions(150, full=True) == growth.full_of_many_classes < growth.full
