"""The time of a run: that of its drivers, whatever they waited for."""

from __future__ import annotations

import re

from pairloom.pipeline.report.page import section_html
from pairloom.pipeline.report.run_facts import RunTimes, WorkSpan, run_seconds, times_section

SPANS = (WorkSpan("features", "h:1", 1002.0, 1.0), WorkSpan("machines", "h:2", 1020.0, 3.0))
WORK = {"features": 1.0, "machines": 3.0}


def times(**known: object) -> RunTimes:
    return RunTimes(WORK, WORK, spans=SPANS, **known)


def rows_of(found: RunTimes) -> dict[str, list[str]]:
    rows = re.findall(r"<tr>(<td.*?)</tr>", section_html(times_section(found)))
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in rows]
    return {name: rest for name, *rest in cells}


def test_a_driver_that_waits_takes_time():
    assert run_seconds(times(at_work=[(1000.0, 1023.0)])) == 23.0


def test_time_without_a_driver_is_not_the_runs():
    assert run_seconds(times(at_work=[(1000.0, 1005.0), (1019.0, 1023.0)])) == 9.0


def test_work_that_outlives_its_driver_counts_once():
    assert run_seconds(times(at_work=[(1000.0, 1021.0)])) == 23.0


def test_the_start_of_workers_has_a_row_and_a_mark():
    found = times(at_work=[(1000.0, 1023.0)], worker_starts=[(1003.0, 1020.0)])
    assert rows_of(found)["worker start"] == ["17.0 s", ""]
    assert rows_of(found)["all, before this report"] == ["23.0 s", "4.0 s"]
    assert section_html(times_section(found)).count('<rect class="waits"') == 1


def test_planned_times_stand_beside_those_that_were_taken():
    found = times(at_work=[(1000.0, 1023.0)], planned={"machines": (2.0, 4.0)})
    assert rows_of(found)["machines"] == ["2.0 to 4.0 s", "3.0 s", "3.0 s"]
    assert rows_of(found)["features"] == ["", "1.0 s", "1.0 s"]
    assert "no forecast" not in section_html(times_section(found))
