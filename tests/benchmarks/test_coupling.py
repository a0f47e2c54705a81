import subprocess
import sys

import numpy as np
import pytest

from pairloom.benchmarks import coupling


@pytest.fixture(scope="module")
def printed():
    command = [sys.executable, "-m", "pairloom.benchmarks.coupling", "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    # Results that disagree end the run with an error.
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_figure_is_in_the_table(printed):
    """Speed is not asserted: a machine that runs tests does other work too."""
    table = [line for line in printed.splitlines() if line.endswith((" OK", " missed"))]
    for what, count in {
        "normal, share of a parallel sum's bandwidth": 1,
        "wlw2, times faster than numpy's": 4,
        "stratified, times faster than numpy's": 4,
        "wlw2, times faster than LIBSVM's coupling": 2,
        "stratified, times faster than LIBSVM's coupling": 2,
        "bradley_terry, times the cost of wlw2": 1,
        "normal over K(3, 57), GB at the peak of a process": 1,
    }.items():
        lines = [line for line in table if line.startswith(what)]
        assert len(lines) == count
        assert all(" ms" in line for line in lines)
    assert "u ~ N(0, 3), noise ~ N(0, 1)" in printed


def test_a_disagreement_is_not_passed_over():
    with pytest.raises(SystemExit, match="wlw2: probabilities differ by"):
        coupling.check_agreement("wlw2", np.array([[0.5, 0.5]]), np.array([[0.6, 0.4]]), 1e-4)
    with pytest.raises(SystemExit, match="differ by nan"):
        coupling.check_agreement("wlw2", np.array([[np.nan, 0.5]]), np.array([[0.6, 0.4]]), 1e-4)


@pytest.mark.parametrize(("relation", "met"), [(">=", [False, True, True]), ("<=", [True, True, False])])
def test_a_target_is_a_bound_on_its_right_side(relation, met):
    assert [coupling.Row("", "", "", figure, relation, 4).met for figure in (3.9, 4, 4.1)] == met
