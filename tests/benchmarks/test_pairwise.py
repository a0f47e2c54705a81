import subprocess
import sys

import pytest

from pairloom.benchmarks import pairwise


def test_every_model_is_measured_on_digits():
    """Speed is not asserted: a machine that runs tests does other work too."""
    command = [sys.executable, "-m", "pairloom.benchmarks.pairwise", "--quick", "--data", "digits"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {
        line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if "(" in line or "Log" in line
    }
    assert list(rows) == [
        "PairwiseSVC(hub_neighbours)",
        "PairwiseSVC(complete)",
        "SVC(probability)",
        "CalibratedClassifierCV(LinearSVC)",
        "LogisticRegression",
    ]
    for accuracy, log_loss, *_ in rows.values():
        assert float(accuracy) > 0.9
        assert float(log_loss) < 0.4
    assert rows["PairwiseSVC(complete)"][5:] == ["45", "pairs,", "whiten=none"]


@pytest.mark.parametrize(("at_most", "met"), [(True, [True, True, False]), (False, [False, True, True])])
def test_a_target_is_a_bound_on_its_right_side(at_most, met):
    assert [pairwise.Target("", value, 4, at_most).met for value in (3.9, 4, 4.1)] == met


def test_targets_compare_ours_with_every_peer():
    names = ["hub", "complete", "svc", "calibrated", "logistic"]
    found = {name: pairwise.Measured(0.9, 0.1 * k, 0.01, 1.0 + k, 1.0) for k, name in enumerate(names)}
    on_images = list(pairwise.targets("digits", found))
    assert [target.value for target in on_images] == [0.0, 0.1] * 3
    assert [target.bound for target in on_images] == pytest.approx([0.2, 0.2, 0.3, 0.3, 0.4, 0.4])
    on_text = {target.what: target for target in pairwise.targets("clinc150-minilm", found)}
    assert on_text["hub_neighbours: times faster than SVC"].value == (3 + 1) / (1 + 1)
    assert not on_text["hub_neighbours: times faster than SVC"].met
    assert on_text["complete: times faster than LogisticRegression"].met
