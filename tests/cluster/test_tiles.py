from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from pairloom.pipeline.run.tiles import (
    default_draws_per_listed_slab,
    default_draws_per_slab,
    default_edges_per_tile,
    default_samples_per_prediction,
    default_samples_per_slab,
    order_by_blocks,
)
from pairloom.pipeline.threads import pieces


def complete_edges(n):
    return np.array(list(combinations(range(n), 2)))


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_ordering_only_permutes(size):
    edges = complete_edges(20)
    ordered = order_by_blocks(edges[::-1], size)
    assert sorted(map(tuple, ordered.tolist())) == list(map(tuple, edges.tolist()))


def test_a_tile_touches_few_classes():
    edges, size = complete_edges(64), 64

    def classes_loaded(ordered):
        return sum(len(np.unique(ordered[tile])) for tile in pieces(len(ordered), size))

    assert classes_loaded(order_by_blocks(edges, size)) < 0.55 * classes_loaded(edges)


@pytest.mark.parametrize(("length", "size"), [(0, 3), (1, 3), (3, 3), (10, 3), (10, 1)])
def test_pieces_cover_everything_once(length, size):
    covered = [place for piece in pieces(length, size) for place in range(length)[piece]]
    assert covered == list(range(length))


def test_tiles_shrink_as_pairs_grow():
    assert default_edges_per_tile(2000, 400, 512, 4) == 64
    assert default_edges_per_tile(1000, 40, 16, 4) == 256
    assert default_edges_per_tile(1000, 1e6, 2048, 4) == 1
    assert default_edges_per_tile(2000, 400, 512, 4, growing=True) == 32
    assert default_edges_per_tile(1000, 1e6, 2048, 4, growing=True) == 1


def test_few_edges_make_tiles_that_workers_can_share():
    assert default_edges_per_tile(1225, 400, 512, 4) == 64
    assert default_edges_per_tile(300, 400, 512, 4) == 16
    assert default_edges_per_tile(45, 40, 16, 4) == 256, "not worth sharing"


def test_many_edges_make_larger_tiles_of_at_most_seconds():
    assert default_edges_per_tile(18_000, 400, 512, 4) == 256
    assert default_edges_per_tile(499_500, 400, 512, 4) == 1024
    assert default_edges_per_tile(499_500, 40, 16, 4) == 1024
    assert default_edges_per_tile(499_500, 1e6, 2048, 4) == 1


def test_slabs_shrink_as_classes_grow():
    assert [default_samples_per_slab(n) for n in (2, 50, 200, 1000, 5000)] == [512, 512, 64, 16, 16]


def test_slabs_without_a_tensor_are_whole_batches_of_a_prediction():
    slabs = [default_samples_per_prediction(n, 512) for n in (50, 1000, 10_000, 100_000)]
    assert slabs == [1024, 1024, 256, 256]


def test_fewer_drawn_samples_are_scored_at_once_by_more_edges():
    assert [default_draws_per_slab(n) for n in (10, 18_000, 499_500, 10**8)] == [512, 512, 128, 16]


def test_fewer_drawn_samples_are_ranked_at_once_by_more_classes():
    slabs = [default_draws_per_listed_slab(2000, 32, n, 512, 3) for n in (60, 1000, 6355, 21_841, 10**6)]
    assert slabs == [512, 512, 512, 187, 16]
