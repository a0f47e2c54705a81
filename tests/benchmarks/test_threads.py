"""The gain of a second thread can be measured again."""

import pytest

from pairloom.benchmarks import threads


@pytest.mark.long
def test_a_fit_is_measured_with_one_thread_and_with_two(capsys):
    threads.main(["--sets", "digits", "--repeats", "1"])
    printed = capsys.readouterr().out
    assert "digits" in printed
    assert "target at least 1.6" in printed


def test_the_bound_is_two_where_nothing_is_serial():
    assert threads.Row("x", 4.0, 2.0, 0.0, 4.0).bound == 2.0
    assert threads.Row("x", 4.0, 4.0, 4.0, 4.0).bound == 1.0
