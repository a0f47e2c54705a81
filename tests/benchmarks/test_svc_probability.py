"""The comparison with SVC on the first page can be measured and drawn again."""

import pytest
from sklearn.metrics import log_loss
from sklearn.svm import SVC

from pairloom.benchmarks import svc_probability
from pairloom.benchmarks.datasets import load
from pairloom.benchmarks.record import Record


def test_all_are_given_the_same_machines_and_the_picture_shows_their_log_losses():
    split = load("digits")
    few = split._replace(X=split.X[:300], y=split.y[:300])
    found = svc_probability.compare(Record("svc", "command", {}, echo=lambda line: None), few, C=5.0)
    made = [make(5.0).get_params() for make in svc_probability.CLASSIFIERS.values()]
    machines = [params.get("estimator") or SVC(C=params["C"]) for params in made]
    assert {(machine.C, machine.kernel, machine.gamma) for machine in machines} == {(5.0, "rbf", "scale")}
    for row, p in found.values():
        assert abs(row.log_loss - log_loss(few.y_new, p)) < 1e-6
    diagram, bars = svc_probability.reliability_figure(found, few.y_new, "digits").axes
    assert [bar.get_width() for bar in bars.patches] == [row.log_loss for row, _ in found.values()]
    assert len(diagram.lines) == len(found) + 1, "and the diagonal"


@pytest.mark.long
def test_the_table_has_a_row_for_every_C_and_its_ratios():
    rows = svc_probability.compare_draws(
        Record("svc", "command", {}, echo=lambda line: None), ["digits10"], 1
    )
    assert [(row.C, row.fit_on) for row in rows] == [
        (C, fit_on) for C in svc_probability.TABLE_CS for fit_on in ("all", "rest")
    ]
    assert all(row.ratio == row.worst == row.ours / row.svc < 1 for row in rows)
