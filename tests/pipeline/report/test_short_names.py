from __future__ import annotations

import pytest

from pairloom.graphs.text import short_names

PLACES = {
    "at the end": "a quite long introduction, then the number {}",
    "at the front": "{} and then quite a long explanation of it all",
    "in the middle": "a quite long introduction, number {}, and as long an explanation",
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_names_that_differ_can_be_told_apart(place):
    names = [place.format(c) for c in range(100, 250)]
    short = short_names(names, 15)
    assert len(set(short)) == 150
    assert max(map(len, short)) <= 15
    assert all(str(c) in name for c, name in zip(range(100, 250), short, strict=True))


def test_names_that_fit_are_left_as_they_are():
    assert short_names(["one", "two\nlines"], 15) == ["one", "two lines"]


def test_the_same_name_twice_is_no_reason_to_cut_elsewhere():
    assert short_names(["a rather long name"] * 2, 9) == ["a rather…"] * 2
