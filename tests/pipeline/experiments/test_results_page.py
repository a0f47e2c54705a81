"""The page of results, from records as the experiments write them."""

import pytest

from pairloom.pipeline.experiments.finding import OURS, PAPER, Finding
from pairloom.pipeline.experiments.results_page import results_page


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
    page = results_page([record(findings=[trees]), theirs, adapted], "results")
    short = page.split("## In ten lines")[1].split("## ")[0]
    assert "Our machines: holds 1; the authors' machines: holds 2; adapted features: undecided 1." in short
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
