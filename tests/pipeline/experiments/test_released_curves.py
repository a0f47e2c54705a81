"""The released curves of the main paper, as they are embedded and drawn."""

import csv
import os
from itertools import pairwise
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from pairloom.pipeline.experiments import growth_curves
from pairloom.pipeline.experiments.growth_curves import released_accuracy, released_graphs, released_growth

DATA = Path(os.environ.get("PAIRLOOM_DATA", Path(__file__).parents[4] / "shared" / "data"))
PUBLISHED = DATA.parent / "published"


def test_random_growth_rises_to_the_end_and_no_graph_is_above_all_pairs():
    for kernel in ("linear", "radial"):
        line = [p for p in released_growth() if (p.kernel, p.model) == (kernel, growth_curves.RANDOM)]
        assert (line[0].pairs, line[-1].pairs) == (49, 1225)
        assert all(first.accuracy < second.accuracy for first, second in pairwise(line))
        assert all(p.accuracy < line[-1].accuracy for p in released_graphs() if p.kernel == kernel)


def test_largest_errors_reach_the_complete_model_with_a_fifth_of_the_pairs():
    complete = released_accuracy("random-edge", 1225)
    assert released_accuracy("max2-edge", 225) > complete - growth_curves.REACHES
    assert released_accuracy("random-edge", 225) < complete - 10 * growth_curves.REACHES


def test_the_table_of_growth_has_released_rows_beside_ours():
    rows = growth_curves.EXPERIMENT.published
    assert len(rows) == 2 * len(growth_curves.GROWTHS) * len(growth_curves.RELEASED_SIZES)
    assert all(row._fields == growth_curves.GrowthDigest._fields for row in rows)
    (half,) = [
        row for row in rows if row.curve.startswith("released, random pairs, linear") and row.share == 0.5
    ]
    assert (half.pairs, half.wlw2) == (637, 0.90614)


def test_released_graphs_have_the_log_loss_of_their_row():
    (bipartite,) = [p for p in released_graphs() if (p.kernel, p.model) == ("linear", "K25-25")]
    assert (bipartite.pairs, bipartite.accuracy, bipartite.log_loss) == (625, 0.9076, 10.5033)


def test_curves_are_drawn_against_pairs_or_their_share():
    pairs, shares = Figure().subplots(1, 2)
    growth_curves.draw_released_growth(pairs)
    growth_curves.draw_released_growth(shares, ("random-edge",), share=True)
    growth_curves.draw_released_graphs(shares)
    assert [line.get_xdata()[-1] for line in pairs.lines] == [1225] * 6
    assert [round(line.get_xdata()[-1]) for line in shares.lines] == [100, 100, 51, 14, 51, 14]


@pytest.mark.parametrize("name", ["growth", "graphs"])
def test_embedded_files_are_the_published_ones(name):
    published = PUBLISHED / f"s-released-imagenet50-{name}.csv"
    if not published.exists():
        pytest.skip(f"{published.name} is not here")
    ours, theirs = (
        list(csv.reader(path.open()))
        for path in (growth_curves._FOLDER / f"imagenet50-{name}.csv", published)
    )
    assert ours == theirs
