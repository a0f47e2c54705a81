from __future__ import annotations

import io

import numpy as np
import pytest

from pairloom import PairwiseSVC
from pairloom.pipeline import accelerate
from pairloom.pipeline.accelerate import Compilation
from pairloom.pipeline.model.fit_progress import PrintedProgress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def samples():
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(6), 30)
    return random.standard_normal((180, 4)) + 3 * random.standard_normal((6, 4))[y], y


def phases_of(text):
    return [line.split()[0] for line in text.splitlines()]


def test_every_phase_of_a_fit_has_one_line_with_its_count(samples, capsys):
    PairwiseSVC("complete", random_state=0, verbose=True, kernel="linear").fit(*samples)
    found = capsys.readouterr().out
    assert phases_of(found) == ["candidates", "machines", "calibration"]
    assert "15 of 15 pairs" in found.splitlines()[1]
    assert "\r" not in found


def test_a_fit_without_a_choice_has_no_candidates(samples, capsys):
    PairwiseSVC(
        "complete", C=1.0, whiten="none", calibration="platt", random_state=0, verbose=True, kernel="linear"
    ).fit(*samples)
    assert phases_of(capsys.readouterr().out) == ["machines", "calibration"]


def test_machines_on_sets_of_classes_are_counted_as_machines(samples, capsys):
    PairwiseSVC("one_vs_rest", random_state=0, verbose=True, kernel="linear").fit(*samples)
    assert "6 of 6 machines" in capsys.readouterr().out


def test_a_fit_that_is_not_verbose_prints_nothing(samples, capsys):
    PairwiseSVC("complete", random_state=0, kernel="linear").fit(*samples)
    assert capsys.readouterr().out == ""


def test_a_terminal_sees_the_bar_move_on_one_line(monkeypatch):
    monkeypatch.setattr("pairloom.pipeline.model.fit_progress._DRAW_SECONDS", 0.0)
    stream = Terminal()
    with PrintedProgress(stream) as shown:
        shown.begin("machines", 4, "pairs")
        shown.advance(2)
    drawn = stream.getvalue().split("\r")[1:]
    assert ["0 of 4" in drawn[0], "2 of 4" in drawn[1], "4 of 4" in drawn[2]] == [True] * 3
    assert stream.getvalue().count("\n") == 1


def test_the_line_that_kernels_are_compiled_stands_above_the_bar(capsys):
    stream = Terminal()
    with PrintedProgress(stream) as shown:
        shown.begin("machines", 4, "pairs")
        bar = stream.getvalue().removeprefix("\r")
        accelerate._Announcement()(Compilation("compiling", "svm_kernels.solve_rows", 2.0, True))
    drawn = stream.getvalue().split("\r")
    said = capsys.readouterr()
    assert said.err == "Compiling kernels for this machine, about 15 s. This happens once.\n"
    assert said.out == ""
    assert drawn[1:4] == [bar, " " * len(bar), ""]  # the bar is cleared,
    assert "0 of 4" in drawn[4]  # and drawn again below


def fail_half_way(stream):
    with PrintedProgress(stream) as shown:
        shown.begin("machines", 4, "pairs")
        shown.advance(2)
        raise ZeroDivisionError


def test_a_fit_that_fails_shows_how_far_it_came():
    stream = io.StringIO()
    with pytest.raises(ZeroDivisionError):
        fail_half_way(stream)
    assert "2 of 4 pairs" in stream.getvalue()
