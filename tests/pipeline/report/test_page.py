from __future__ import annotations

import json
import re

import pytest

from pairloom.pipeline.report.page import Column, PageTable, Section, named, page, round_ticks, section_html


def page_of(data: dict[str, object]) -> str:
    return page("a run", "", [], [], [], data)


def test_values_for_the_script_cannot_end_its_element():
    names = ["</script><script>", "<!--", "\u2028", "&amp;"]
    text = page_of({"names": names})
    (inside,) = re.findall(r'<script type="application/json" id="data">(.*)</script>', text)
    assert "<" not in inside
    assert "\u2028" not in inside
    assert json.loads(inside)["names"] == names


def test_values_that_json_does_not_have_are_refused():
    with pytest.raises(ValueError, match="JSON"):
        page_of({"dprime": float("nan")})


def test_an_attribute_cannot_be_left():
    table = PageTable("a", '"><b>', [Column("b", "text", '"><i>')], [["</td><u>"]])
    text = section_html(Section("classes", "Classes", {"number": 1, "shown": 1, "table": table}))
    assert not re.search("<[biu]>", text)
    assert 'aria-label="&#34;&gt;&lt;b&gt;"' in text
    assert 'title="&#34;&gt;&lt;i&gt;"' in text
    assert "<td>&lt;/td&gt;&lt;u&gt;</td>" in text


def test_a_name_is_one_line_of_text():
    assert named("a\r\n<b>\x00") == "<bdi>a &lt;b&gt;</bdi>"


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.8231, 0.8312), (99, 1225), (0.0, 1e-6), (3.0, 3.0)])
def test_ticks_are_few_and_within_the_axis(low, high):
    ticks = round_ticks(low, high)
    assert 1 <= len(ticks) <= 8
    assert low - 1e-12 <= ticks[0] <= ticks[-1] <= high + 1e-12
