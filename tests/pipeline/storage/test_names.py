from __future__ import annotations

import pytest

from pairloom.graphs.text import csv_cell


@pytest.mark.parametrize(
    "name", ["=1+1", "+cmd", "-cmd", "@SUM", "\tx", "\r=1", "\n=1", "＝1", "'=1", "-1e", "--1", "-"]
)
def test_what_could_be_a_formula_is_text(name):
    assert csv_cell(name) == f"'{name}"


@pytest.mark.parametrize("name", ["cat", "-1", "+1", "-0.5", "1e-3", "-1E+3", "", "'quoted'", " =1", "a=b"])
def test_numbers_and_other_names_stay_as_they_are(name):
    assert csv_cell(name) == name
