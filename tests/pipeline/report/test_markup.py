from __future__ import annotations

import json

import pytest

from pairloom.pipeline.report.chart import round_ticks
from pairloom.pipeline.report.markup import element, json_script, named


def test_values_for_the_script_cannot_end_its_element():
    script = json_script("data", {"names": ["</script><script>", "<!--", "\u2028", "&amp;"]})
    inside = script.removeprefix('<script type="application/json" id="data">').removesuffix("</script>")
    assert "<" not in inside
    assert "\u2028" not in inside
    assert json.loads(inside)["names"] == ["</script><script>", "<!--", "\u2028", "&amp;"]


def test_values_that_json_does_not_have_are_refused():
    with pytest.raises(ValueError, match="JSON"):
        json_script("data", {"dprime": float("nan")})


def test_an_attribute_cannot_be_left():
    assert element("p", title='"><b>') == '<p title="&quot;&gt;&lt;b&gt;"></p>'


def test_a_name_is_one_line_of_text():
    assert named("a\r\n<b>\x00") == "<bdi>a &lt;b&gt;</bdi>"


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.8231, 0.8312), (99, 1225), (0.0, 1e-6), (3.0, 3.0)])
def test_ticks_are_few_and_within_the_axis(low, high):
    ticks = round_ticks(low, high)
    assert 1 <= len(ticks) <= 8
    assert low - 1e-12 <= ticks[0] <= ticks[-1] <= high + 1e-12
