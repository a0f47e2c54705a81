"""Table 6 and Figures 7 to 10 of [S]: samples on which couplings disagree, and how many classes they might be of."""

from collections import Counter

import numpy as np
import pytest
from PIL import Image
from scipy.stats import poisson

from pairloom import graphs
from pairloom.pipeline.experiments import boundaries, disagreements
from pairloom.pipeline.experiments.disagreements import NAMED, TOP, Disagreement, Disagreements, draw_samples
from pairloom.pipeline.experiments.trained_tensor import COUPLINGS


@pytest.fixture(scope="module")
def measured(digits):
    return disagreements.measure(digits)


def test_disagreements_are_samples_that_only_one_coupling_gets_right(digits, measured):
    rows = disagreements.rows(measured)
    for calibration in disagreements.COUNTED:
        p = digits.calibrated(calibration).probabilities(graphs.complete(10))
        right = {coupling: p[coupling].argmax(axis=1) == digits.labels for coupling in COUPLINGS}
        for count in disagreements.summary(rows):
            number = np.sum(~right[count.wrong] & right[count.right])
            assert getattr(count, calibration) == disagreements.counted(number)
    assert {row.calibration for row in rows} == set(disagreements.COUNTED)
    for row in rows:
        assert row.wrong_log_odds <= 0 <= row.right_log_odds
        assert row.true_class == digits.classes[digits.labels[row.sample]]
        truth, other = int(row.true_class), int(row.taken_for)
        assert row.machine_log_odds == digits.calibrated(row.calibration).logits[truth, other, row.sample]


def test_a_calibration_that_the_machines_do_not_have_is_left_blank(measured):
    of_platt = [row for row in measured.cases if row.calibration == "platt"]
    for count, of_both in zip(
        disagreements.summary(of_platt), disagreements.summary(measured.cases), strict=True
    ):
        assert (count.distance, count.distance_machine_right) == ("", "")
        assert count[:4] == of_both[:4]


def test_the_published_counts_stand_beside_ours(measured):
    assert [(count.wrong, count.right, count.paper) for count in disagreements.summary(measured.cases)] == [
        ("wlw2", "stratified", "5 (2 to 12)"),
        ("wlw2", "normal", "20 (12 to 31)"),
        ("stratified", "wlw2", "0 (0 to 4)"),
        ("stratified", "normal", "17 (10 to 27)"),
        ("normal", "wlw2", "18 (11 to 28)"),
        ("normal", "stratified", "20 (12 to 31)"),
    ]


@pytest.mark.parametrize("number", [0, 1, 12, 200])
def test_counts_outside_of_the_interval_are_those_that_the_number_rules_out(number):
    """At the limits, such a number or a more extreme one has a probability of 2.5%."""
    low, high = (float(part) for part in disagreements.counted(number).strip(")").split("(")[1].split(" to "))
    assert poisson.cdf(number, high + 0.5) < 0.025 < poisson.cdf(number, max(high - 0.5, number))
    if number:
        assert poisson.sf(number - 1, max(low - 0.5, 0)) < 0.025 < poisson.sf(number - 1, low + 0.5)


def test_the_seed_draws_two_of_each_kind_for_the_figure(digits, measured):
    def shown(found):
        return {(row.calibration, row.wrong, row.right, row.sample) for row in found.cases if row.in_figure}

    first = shown(measured)
    assert shown(disagreements.measure(digits, seed=0)) == first
    assert shown(disagreements.measure(digits, seed=1)) != first
    for count in disagreements.summary(measured.cases):
        own = [kind for kind in first if kind[:3] == ("platt", count.wrong, count.right)]
        assert len(own) == min(int(count.platt.split()[0]), 2)


def disagreement(sample, wrong, right, machine, by_wrong=-0.1, by_right=0.1):
    return Disagreement("platt", sample, wrong, right, "a", "b", machine, by_wrong, by_right, False)


def verdicts(*rows, n_samples=500):
    near, negligible, _, _, follow, _, odds = disagreements.findings(Disagreements(rows, n_samples))
    return {"seldom": near.holds, "negligible": negligible.holds, "follow": follow.holds, "near": odds.holds}


def test_an_error_of_stratified_that_wlw2_avoids_is_one_too_many():
    def avoided(*rows):
        return disagreements.findings(Disagreements(rows, 500))[2]

    assert avoided(*kinds(5, "wlw2", "stratified", 1.0)).holds
    assert not avoided(*kinds(1, "stratified", "wlw2", 1.0)).holds


def test_stratified_has_an_edge_if_it_wins_against_both():
    def edge(*rows):
        return disagreements.findings(Disagreements(rows, 500))[3].verdict

    wins = [*kinds(20, "wlw2", "stratified", 1.0), *kinds(30, "normal", "stratified", 1.0)]
    assert edge(*wins) == "holds"
    assert edge(*wins, *kinds(60, "stratified", "normal", 1.0, 100)) == "differs"


def test_wlw2_tempers_the_machine_if_its_odds_are_nearer_to_one():
    def tempers(machine, by_wlw2):
        rows = kinds(20, "normal", "wlw2", machine, by_right=by_wlw2)
        return disagreements.findings(Disagreements(rows, 500))[5].holds

    assert tempers(2.0, 0.5)
    assert tempers(0.3, 0.5) is False


def kinds(number, wrong, right, machine, first=0, **odds):
    return [disagreement(first + r, wrong, right, machine, **odds) for r in range(number)]


def test_couplings_follow_the_machine_if_it_is_right_where_they_are():
    follow = [
        row
        for at, coupling in enumerate(("wlw2", "stratified"))
        for row in (
            *kinds(15, "normal", coupling, 1.0, 60 * at),
            *kinds(15, coupling, "normal", -1.0, 60 * at + 30),
        )
    ]
    found = verdicts(*follow)
    assert (found["follow"], found["seldom"], found["negligible"]) == (True, True, None)
    against = [row._replace(machine_log_odds=-row.machine_log_odds) for row in follow]
    assert verdicts(*against)["follow"] is False


def test_a_handful_of_samples_decides_nothing():
    found = verdicts(*kinds(2, "normal", "wlw2", 1.0), *kinds(2, "wlw2", "stratified", 0.1, 10))
    assert (found["follow"], found["near"]) == (None, None)
    assert verdicts()["near"] is None


def test_odds_are_near_one_by_machine_and_by_both_couplings():
    assert verdicts(*kinds(20, "wlw2", "stratified", 0.3))["near"]
    assert verdicts(*kinds(20, "wlw2", "stratified", 1.0))["near"] is False
    assert verdicts(*kinds(20, "wlw2", "stratified", 0.3, by_right=1.5))["near"] is False


def test_a_coupling_that_wins_often_makes_a_difference():
    assert verdicts(*kinds(2, "wlw2", "normal", 1.0), n_samples=2500)["negligible"]
    assert verdicts(*kinds(30, "wlw2", "normal", 1.0))["negligible"] is False


@pytest.mark.long
def test_the_figure_shows_pictures_where_they_are_known(digits, measured, tmp_path):
    for r in range(len(digits.labels)):
        Image.new("RGB", (8, 8), (200, 10, 10)).save(tmp_path / f"{r}.png")
    files = tuple(f"{r}.png" for r in range(len(digits.labels)))
    rows = [row for row in measured.cases if row.in_figure and row.calibration == "platt"]
    assert rows
    (tmp_path / f"{rows[0].sample}.png").write_bytes(b"no picture")
    broken = sum(row.sample == rows[0].sample for row in rows)
    pictured = digits._replace(files=files, pictures=tmp_path)
    for trained, number in ((digits, 0), (pictured, len(rows) - broken)):
        figure = disagreements.draw(trained, disagreements.rows(measured), "digits")
        images = [axes for axes in figure.axes if axes.images]
        assert len(images) == number
    (odds, *_) = (axes for axes in figure.axes if axes.get_yscale() == "log")
    assert [label.get_text() for label in odds.get_xticklabels()] == ["machine", *COUPLINGS]


def test_the_figure_has_bars_of_the_four_likeliest_classes_and_names_those_above_five_percent(
    digits, measured, monkeypatch
):
    monkeypatch.setattr(disagreements, "SHOWN", 4)
    own = [row for row in measured.cases if row.calibration == "platt"]
    ((wrong, right), _), *_ = Counter((row.wrong, row.right) for row in own).most_common()
    rows = [row._replace(in_figure=True) for row in own if (row.wrong, row.right) == (wrong, right)][:4]
    figure = draw_samples(digits, {(wrong, right): rows}, "samples")
    panels = [axes for axes in figure.axes if len(axes.patches) == 2 * TOP]
    p = digits.probabilities(graphs.complete(10), [wrong, right])
    named_of = []
    for row, bars in zip(rows, panels, strict=True):
        by = np.array([p[right][row.sample], p[wrong][row.sample]])
        top = np.argsort(-by.mean(axis=0))[:TOP]
        heights = [bar.get_height() for bar in bars.patches]
        np.testing.assert_allclose(heights, by[:, top].ravel(), atol=1e-5)
        named = [digits.classes[c] for c in top if by[:, c].max() > NAMED]
        assert [text.get_text() for text in bars.texts] == named
        assert {row.true_class, row.taken_for} <= set(named)
        named_of.append(len(named))
    assert min(named_of) < TOP, "of some sample a bar has no name"
    assert max(named_of) > 2, "of some sample more than the critical pair is named"


def test_likely_classes_are_those_above_a_tenth():
    p = np.array([[0.9, 0.05, 0.05], [0.5, 0.4, 0.1], [0.4, 0.35, 0.25]])
    np.testing.assert_array_equal(boundaries.likely_classes(p), [1, 2, 3])


def test_erroneous_samples_are_wrong_by_stratified_and_right_by_normal(digits, measured):
    likely = boundaries.measure(digits)
    counts = boundaries.rows(likely)
    assert sum(row.samples for row in counts) == len(digits.labels)
    (kind,) = (
        c for c in disagreements.summary(measured.cases) if (c.wrong, c.right) == ("stratified", "normal")
    )
    assert sum(row.erroneous for row in counts) == int(kind.platt.split()[0])
    assert [row.classes_above for row in counts] == list(range(len(counts)))


def test_erroneous_samples_have_more_likely_classes():
    number = np.array([1] * 80 + [3] * 20)
    erroneous = np.arange(100) >= 90
    assert boundaries.findings(boundaries.LikelyClasses(number, erroneous))[0].holds
    assert boundaries.findings(boundaries.LikelyClasses(number[::-1], erroneous))[0].holds is False
    assert boundaries.findings(boundaries.LikelyClasses(number, np.zeros(100, bool)))[0].holds is None


def test_counts_stand_on_an_axis_of_square_roots(digits):
    figure = boundaries.draw(digits, boundaries.rows(boundaries.measure(digits)), "digits")
    scale = figure.axes[0].yaxis.get_transform()
    np.testing.assert_allclose(scale.transform(np.array([0.0, 4.0, 100.0])), [0, 2, 10])
