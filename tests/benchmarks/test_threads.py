"""The gain of a second thread can be measured again."""

import pytest

from pairloom.benchmarks import threads


@pytest.mark.long
def test_a_fit_is_measured_with_one_thread_and_with_two(capsys):
    threads.main(["--sets", "digits", "--repeats", "1"])
    printed = capsys.readouterr().out
    assert "digits" in printed
    assert any(word in printed for word in ("PASSED: ", "NOT SHOWN: below 1.6", "MISSED: below 1.6"))


def test_the_bound_is_two_where_nothing_is_serial():
    assert threads.Row("x", 4.0, 2.0, 0.0, 4.0).bound == 2.0
    assert threads.Row("x", 4.0, 4.0, 4.0, 4.0).bound == 1.0


def test_the_verdict_tells_a_busy_machine_from_a_serial_fit():
    fast, busy = threads.Row("a", 4.0, 2.2, 0.2, 4.0), threads.Row("b", 4.0, 3.9, 0.2, 4.0)
    serial = threads.Row("c", 4.0, 3.0, 2.0, 4.0)
    assert threads.verdict([fast]) == "PASSED: 1.82 times as fast or more (target 1.6)."
    assert threads.verdict([fast, busy]).startswith("NOT SHOWN: below 1.6 on b 1.03 (bound 1.90), ")
    assert threads.verdict([busy, serial]).startswith("MISSED: below 1.6 on b 1.03 (bound 1.90), c 1.33")


def test_without_its_set_it_says_how_to_get_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PAIRLOOM_DATA", str(tmp_path))
    with pytest.raises(SystemExit, match="2"):
        threads.main(["--sets", "digits", "titles"])
    assert "`pairloom data onet-titles` makes it or says where" in capsys.readouterr().err
