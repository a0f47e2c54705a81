"""The page of results, from records as the experiments write them."""

import json

import pytest

from pairloom.pipeline.experiments.earlier_page import records_of_page
from pairloom.pipeline.experiments.experiment import cells
from pairloom.pipeline.experiments.finding import OURS, PAPER, Finding, compared
from pairloom.pipeline.experiments.paired_bootstrap import resampled_means
from pairloom.pipeline.experiments.perform import EXPERIMENTS
from pairloom.pipeline.experiments.results_page import results_page, write_results


def record(**changes):
    settings = {"C": "0.01", "folds": 4, "fit_on": "fold"}
    return {
        "experiment": "triplets",
        "shows": "Table 3: two machines for three classes",
        "data": "digits",
        "synthetic": False,
        "classes": 10,
        "training samples": 1347,
        "test samples": 450,
        "features": 64,
        "settings": settings,
        "repetitions": 120,
        "seed": 5,
        "seconds": 1.25,
        "date": "2026-11-17",
        "computer": "a computer",
        "table": [["model"], ["MIN1"]],
        "findings": [],
    } | changes


def found(source, claim, holds):
    return Finding(source, claim, "so it is", holds).record()


@pytest.fixture
def page():
    findings = [found(OURS, "ours", False), found("[HT]", "theirs", None), found(PAPER, "the paper's", None)]
    old = {"source": PAPER, "claim": "of old", "here": "1 against 2", "holds": False}
    return results_page(
        [record(findings=[*findings, old]), record(data="imagenette", findings=findings)], "results"
    )


def test_verdicts_are_counted_by_source(page):
    counts = page.split("## Verdicts")[1].split("##")[0]
    assert "7 comparisons of a claim with a set:" in counts
    rows = [line for line in counts.splitlines() if line.startswith("|")][2:]
    assert rows == [
        "| [S] | 0 | 1 | 2 |",
        "| [HT] | 0 | 0 | 2 |",
        "| Pairloom | 0 | 2 | 0 |",
        "| all | 0 | 3 | 4 |",
    ]


def test_what_differs_is_listed_first_and_then_what_is_undecided(page):
    differs = page.split("## Where the outcome differs")[1].split("## ")[0]
    undecided = page.split("## Undecided at 95%")[1].split("## ")[0]
    assert differs.index("| [S] | of old | digits |") < differs.index("| Pairloom | ours | digits |")
    assert undecided.index("| [S] | the paper's | imagenette |") < undecided.index(
        "| [HT] | theirs | digits |"
    )
    assert "ours" not in undecided
    assert page.index("## Where the outcome differs") < page.index("## Undecided at 95%")


def test_a_page_without_differences_says_so():
    page = results_page([record(findings=[found(PAPER, "the paper's", True)])], "results")
    assert "## Where the outcome differs\n\nNone.\n" in page


def test_every_table_says_how_to_measure_it_again(page):
    assert (
        "**digits**: `pairloom experiment triplets --data digits --repetitions 120 --seed 5`"
        " (machines: C = 0.01, folds = 4, fit_on = fold). It took 1.25 s on 2026-11-17." in page
    )
    once = results_page([record(repetitions=1)], "results")
    assert "The figure is of digits: `pairloom experiment triplets --data digits --seed 5`." in once
    store = results_page([record(source="shown.zarr", pictures="images")], "results")
    assert "--data shown.zarr --repetitions 120 --seed 5 --pictures images`" in store
    simulated = results_page([record(experiment="curved", simulated=True)], "results")
    assert "(machines: logistic, weights with a normal prior of variance 10" in simulated


def test_the_page_begins_with_the_questions_of_a_reader_by_whose_machines():
    trees = found(PAPER, "star errs more than maximal models (in 13 of 13 published rows)", True)
    theirs = record(data="digits.paper", source="digits", machines="paper", findings=[trees, trees])
    adapted = record(
        data="digits.adapted", source="digits", adapted=True, findings=[trees | {"verdict": "undecided"}]
    )
    ours = [record(findings=[trees]), record(data="imagenette", findings=[trees | {"verdict": "differs"}])]
    page = results_page([*ours, theirs, adapted], "results")
    short = page.split("## In ten lines")[1].split("## ")[0]
    assert (
        "Our machines: holds 1, differs 1 (imagenette); the authors' machines: holds 2; adapted features: undecided 1."
        in short
    )
    assert "`pairloom experiment triplets --data digits --machines paper --repetitions 120 --seed 5`" in page
    assert "`pairloom experiment adapted --data digits --repetitions 120 --seed 5`" in page
    assert "**digits, the authors' machines**:" in page
    assert "![triplets on digits, adapted features](results/triplets-digits.adapted.svg)" in page


def test_a_figure_of_fewer_repetitions_says_so_and_one_that_is_missing_is_not_shown():
    page = results_page([record(figure_repetitions=3)], "results")
    assert (
        "The figure is of digits: `pairloom experiment triplets --data digits --repetitions 3 --seed 5`."
        in page
    )
    assert "**digits**: `pairloom experiment triplets --data digits --repetitions 120 --seed 5`" in page
    assert "![" not in results_page([record(without_figure=True)], "results")


def varied_records():
    """Records of most kinds: other machines, adapted and synthetic features, own data, the paper's rows, a store."""
    sure = compared(
        PAPER, "one (of 3) errs more", {"": resampled_means({"": [[0.2, 0.3, 0.4]]})[""]}, above=0
    )
    findings = [sure.record(), found(OURS, "ours", False), found("[HT]", "theirs", None)]
    rows = {
        "table": [["errors of", "MIN3"], ["platt", "3 (2 to 4)"], ["distance", ""]],
        "published": cells(EXPERIMENTS["triplets"].published),
    }
    theirs = {"source": "digits", "machines": "paper"}
    return [
        record(**rows, findings=findings, code="abc123", figure_repetitions=3),
        record(**rows, data="digits.paper", **theirs),
        record(**rows, data="digits.adapted.paper", **theirs, adapted=True, findings=findings),
        record(**rows, data="shown", source="shown.zarr", pictures="images", without_figure=True),
        record(
            experiment="boundaries", shows="Figure 10", data="many", source="many", synthetic=True, classes=50
        ),
        record(experiment="curved", shows="[I] Figures 1 to 3", simulated=True, settings={}),
    ]


def test_an_earlier_page_gives_the_records_that_it_was_made_from(tmp_path):
    """What the page shows of them: the page of these records is the same, except that it says so."""
    page = tmp_path / "page.md"
    page.write_text(results_page(varied_records(), "results"))
    again = results_page(records_of_page(page), "results")
    assert ", kept from an earlier page." in again
    assert again.replace(", kept from an earlier page", "") == page.read_text()
    page.write_text(again)
    assert results_page(records_of_page(page), "results") == again


def test_measurements_without_files_are_kept_from_an_earlier_page_with_their_figures(tmp_path):
    def measured(folder, number, *sets):
        for name in sets:
            (folder / name).mkdir(parents=True)
            (folder / name / "triplets.svg").write_text(f"figure {number} of {name}")
            one = record(data=name, table=[["model"], [f"model {number} of {name}"]], classes=10 + number)
            (folder / name / "triplets.json").write_text(json.dumps(one))

    page, out = tmp_path / "docs" / "results.md", tmp_path / "out"
    page.parent.mkdir()
    measured(tmp_path / "before", 1, "digits", "tinyimagenet50")
    write_results(tmp_path / "before", page)
    measured(out, 2, "digits", "imagenette")
    write_results(out, page, keep=page, force=True)
    text = page.read_text()
    assert {
        name: name in text for name in ("1 of digits", "2 of digits", "2 of imagenette", "1 of tiny")
    } == {
        "1 of digits": False,
        "2 of digits": True,
        "2 of imagenette": True,
        "1 of tiny": True,
    }
    assert text.count("kept from an earlier page.") == 1
    assert "**tinyimagenet50**: `pairloom experiment triplets --data tinyimagenet50" in text
    figures = {file.name: file.read_text() for file in (page.parent / "results").iterdir()}
    assert figures == {"triplets-tinyimagenet50.svg": "figure 1 of tinyimagenet50"}


def test_only_a_page_of_results_can_be_kept(tmp_path):
    page = tmp_path / "mine.md"
    page.write_text("# Mine\n")
    with pytest.raises(
        ValueError, match=r"page must be written by `pairloom experiment results`, got .*mine\.md"
    ):
        records_of_page(page)
