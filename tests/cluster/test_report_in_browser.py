"""The page of a report in a real browser: headless Chromium, skipped where it is not installed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from headless_chromium import Chromium, chromium_program
from small_runs import run_here, write_config, write_features

from pairloom.pipeline.run.machine_store import read_dprime
from pairloom.pipeline.stages.run_file import read_run

PROGRAM = chromium_program()
pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="Chromium is not installed (Debian: apt-get install chromium)"
)

pytestmark = pytest.mark.long

DATA = "JSON.parse(document.getElementById('data').textContent)"
COLUMN = """
(table, column) => [...document.querySelectorAll(`#table-${table} tbody tr`)]
  .filter((row) => !row.hidden).map((row) => row.cells[column].textContent)
"""
TOO_WIDE = """
[...document.querySelectorAll("body *")].filter((found) => {
  const box = found.getBoundingClientRect();
  if (box.width === 0 || found.closest(".frame, .scroll, nav, svg") !== null) return false;
  return box.right > document.documentElement.clientWidth + 0.5 || box.left < -0.5;
}).map((found) => found.outerHTML.slice(0, 80))
"""


def cell_text(d: float) -> str:
    """A d' in a cell: as many digits as it has room for."""
    return f"{d:.{2 if d < 10 else 1 if d < 100 else 0}f}" if d <= 999 else ">999"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    assert PROGRAM is not None
    chromium = Chromium(PROGRAM, tmp_path_factory.mktemp("chromium"))
    yield chromium
    chromium.close()


@pytest.fixture(scope="module")
def crowded_page(tmp_path_factory, client) -> Path:
    """The page of sixty classes with long and hostile names, in several blocks, one hub, grown."""
    folder = tmp_path_factory.mktemp("crowded")
    features = write_features(folder / "data.npz", classes=60, rows=8, features=6, samples=300)
    names = [f"{c} {'unbreakable' * (c % 9)} <img src=x onerror=alert({c})>" for c in range(60)]
    with np.load(features) as archive:
        np.savez(features, **{**archive, "classes": np.array(names)})
    run_here(
        write_config(folder / "run.toml", features), folder / "run", client, "graph.family=hub_neighbours",
        "graph.hubs=1", "graph.neighbours=2", "growth.pairs=300", "run.also_couple=['normal']", until="report",
    )  # fmt: skip
    return folder / "run" / "report" / "index.html"


@pytest.fixture
def opened(browser, crowded_page) -> Chromium:
    browser.open(crowded_page)
    return browser


def column(browser: Chromium, table: str, place: int) -> list[str]:
    return browser.evaluate(f"({COLUMN})({table!r}, {place})")


def middle(browser: Chromium, selector: str) -> tuple[float, float]:
    """The middle of an element, scrolled into view."""
    box = browser.evaluate(
        f"(() => {{ const found = document.querySelector({selector!r}); found.scrollIntoView({{block: 'center'}});"
        " const box = found.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"
    )
    return box[0], box[1]


def test_the_page_has_nothing_to_complain_of_and_asks_for_nothing(opened, crowded_page):
    opened.evaluate("new Promise((done) => setTimeout(done, 200))")
    assert opened.complaints == []
    assert {url for url in opened.requests if not url.startswith("data:")} == {
        crowded_page.resolve().as_uri()
    }


def test_tables_sort_both_ways(opened):
    opened.evaluate("document.querySelectorAll('#table-classes th button')[3].click()")
    losses = [float(text) for text in column(opened, "classes", 3)]
    assert losses == sorted(losses, reverse=True)
    opened.evaluate("document.querySelectorAll('#table-classes th button')[3].click()")
    assert column(opened, "classes", 3) == [f"{loss:.3f}" for loss in losses[::-1]]
    opened.evaluate("document.querySelectorAll('#table-classes th button')[0].click()")
    assert (
        opened.evaluate("document.querySelector('#table-classes th').getAttribute('aria-sort')")
        == "ascending"
    )


def test_search_finds_rows(opened):
    opened.evaluate(
        "(() => { const input = document.querySelector('input[data-table=table-classes]');"
        " input.value = '17 UNB'; input.dispatchEvent(new Event('input')); })()"
    )
    found = column(opened, "classes", 0)
    other = column(opened, "classes", 4)
    assert all(
        "17 unb" in name or "17 unb" in taken_for for name, taken_for in zip(found, other, strict=True)
    )
    assert sum(name.startswith("17 unb") for name in found) == 1
    said = opened.evaluate("document.querySelector('input[data-table=table-classes] + output').textContent")
    assert said == f"{len(found)} of 60 rows"


def test_a_sample_can_be_chosen(opened):
    first = opened.evaluate("document.getElementById('sample').textContent")
    opened.evaluate("document.querySelectorAll('.choose-sample')[2].click()")
    sample = column(opened, "errors", 0)[2]
    chosen = opened.evaluate("document.getElementById('sample').textContent")
    assert chosen.startswith(f"Sample {sample}")
    assert chosen != first
    assert "Critical machine" in chosen
    assert opened.evaluate("document.querySelectorAll('#table-errors tr[aria-current]').length") == 1
    assert opened.evaluate("document.querySelectorAll('#sample .bars').length") == 3


def test_a_block_of_the_maps_is_enlarged_with_its_names(opened):
    def enlarged() -> list[str]:
        return opened.evaluate(
            "[...document.querySelectorAll('[data-zoom=errors] text')].map((t) => t.textContent)"
        )

    before = enlarged()
    other = opened.evaluate(
        "(() => { const block = document.getElementById('block'); block.value = block.value === '1' ? 0 : 1;"
        " block.dispatchEvent(new Event('change')); return +block.value; })()"
    )
    names = opened.evaluate(
        "(() => { const {short, maps} = JSON.parse(document.getElementById('data').textContent);"
        f" return maps.order.slice(maps.starts[{other}], maps.starts[{other + 1}]).map((c) => short[c]); }})()"
    )
    assert enlarged() != before
    assert enlarged()[0] == names[0]
    opened.point(*middle(opened, "svg.map[data-map=errors]"), click=True)
    assert enlarged()[0] != names[0]


def test_a_map_tells_the_classes_under_the_pointer(opened):
    x, y = middle(opened, "svg.map[data-map=separation]")
    opened.point(x + 60, y)  # beside the diagonal
    assert " and " in opened.evaluate("document.getElementById('tip').textContent")
    assert opened.evaluate("document.getElementById('tip').hidden") is False


def test_the_map_of_dprime_tells_the_values_themselves(opened, crowded_page):
    opened.evaluate("new Promise((done) => setTimeout(done, 200))")
    plan = read_run(crowded_page.parent.parent)
    dprime = read_dprime(plan.directory)
    expected = {frozenset(pair): d for pair, d in zip(plan.shape.edges.tolist(), dprime, strict=True)}
    names, order = opened.evaluate(f"[{DATA}.names, {DATA}.maps.order]")
    # The pair that is farthest apart: its colour is clipped, its number is not.
    farthest = max(expected, key=expected.__getitem__)
    row, column = (order.index(c) for c in sorted(farthest))
    box = opened.evaluate(
        "(() => { const found = document.querySelector('svg.map[data-map=separation]'); found.scrollIntoView();"
        " const box = found.getBoundingClientRect(); return [box.x, box.y, box.width / 60]; })()"
    )
    opened.point(box[0] + (column + 0.5) * box[2], box[1] + (row + 0.5) * box[2], click=True)
    told = opened.evaluate("[...document.getElementById('tip').children].map((line) => line.textContent)")
    i, j = sorted(farthest)
    assert told == [f"{names[i]} and {names[j]}", f"d' {expected[farthest]:.2f}"]
    shown = opened.evaluate(
        "[...document.querySelectorAll('[data-zoom=separation] .count')].map((t) => t.textContent)"
    )
    assert shown
    assert set(shown) <= {cell_text(d) for d in expected.values()}


def test_the_graph_tells_the_class_under_the_pointer(opened):
    opened.point(*middle(opened, "#graph-figure circle.hub"))
    told = opened.evaluate("document.getElementById('graph-told').textContent")
    assert "(hub): 59 pairs" in told
    assert opened.evaluate("document.querySelector('.near').getAttribute('d').split('M').length") == 60


def test_the_maps_open_where_errors_are(opened):
    counts = "[...document.querySelectorAll('[data-zoom=errors] rect.value')].length"
    assert opened.evaluate(counts) > 0


def test_names_beside_the_maps_can_be_told_apart(opened):
    shown = opened.evaluate(
        "[...document.querySelectorAll('[data-zoom=errors] text[text-anchor=end]')].map((t) => t.textContent)"
    )
    assert len(set(shown)) == len(shown) > 1


def test_the_sample_tells_which_pairs_moved_its_odds(opened):
    told = opened.evaluate("document.getElementById('sample').textContent")
    assert "Pairs that moved the coupled odds" in told
    bars = opened.evaluate(
        "[...document.querySelectorAll('#sample .bars:last-child bdi')].map((b) => b.textContent)"
    )
    assert 1 <= len(bars) <= 6
    assert all(" / " in pair for pair in bars)


@pytest.mark.parametrize("table", ["errors", "bins"])
def test_a_table_of_a_few_columns_needs_no_scrolling_on_a_phone(browser, crowded_page, table):
    browser.open(crowded_page, width=390, height=844)
    browser.evaluate("for (const folded of document.querySelectorAll('details')) folded.open = true")
    frame = f"document.getElementById('table-{table}').parentElement"
    assert browser.evaluate(f"{frame}.scrollWidth - {frame}.clientWidth") <= 0


@pytest.mark.parametrize("dark", [False, True])
def test_nothing_overflows_on_a_phone(browser, crowded_page, dark):
    browser.open(crowded_page, width=390, height=844, dark=dark)
    browser.evaluate("for (const folded of document.querySelectorAll('details')) folded.open = true")
    assert browser.evaluate("document.documentElement.scrollWidth") == 390
    assert browser.evaluate(TOO_WIDE) == []
    background = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") is not dark
