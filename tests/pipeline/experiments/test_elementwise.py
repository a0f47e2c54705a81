"""Machines that are trained again: which are chosen, what changes, and what does not."""

import numpy as np
import pytest
from tensor_errors import errors

from pairloom import PairwiseSVC, graphs
from pairloom.pipeline.completion.complete import plan_completion
from pairloom.pipeline.experiments import elementwise
from pairloom.pipeline.experiments.elementwise import ALONE, FAULTLESS, OWN_ONLY, RETRAINED, Draw
from pairloom.pipeline.experiments.trained_tensor import COUPLINGS

EDGES = plan_completion(graphs.complete(10)).edges
FOLLOWERS = ("wlw2", "stratified")


@pytest.fixture(scope="module")
def dealt(digits_features):
    return elementwise.folded_set(digits_features, 0)


@pytest.fixture(scope="module")
def now(dealt):
    return dealt.linear(EDGES)


@pytest.fixture(scope="module")
def repetition(digits):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elementwise, "KERNELS", ((10.0, 1.0),))
        return elementwise.repeated(digits, Draw("digits", 0))


def test_the_model_before_is_that_of_the_trained_tensor(digits, now, repetition):
    i, j = EDGES.T
    # Products of other shapes round differently on some processors.
    np.testing.assert_allclose(now.test, digits.logits[i, j], rtol=0, atol=2e-5)
    for coupling, error in errors(digits, graphs.complete(10)).items():
        assert repetition.before[RETRAINED, coupling, 10].mean() == pytest.approx(error)


def test_held_out_logits_are_of_machines_that_have_not_seen_the_sample(dealt, now):
    """A machine of a pair that is told the wrong labels of one fold learns nothing from the others."""
    rng = np.random.default_rng(0)
    noise = dealt.data._replace(y_train=rng.permutation(dealt.data.y_train))
    scored = elementwise.folded_set(noise, 0).linear(EDGES[:5])
    assert (elementwise.pair_losses(scored.held_out, EDGES[:5], noise.y_train) > 0.68).all()
    assert (elementwise.pair_losses(now.held_out, EDGES, dealt.data.y_train) < 0.3).all()


def test_the_radial_kernel_scores_its_own_classes_only(dealt):
    edges = np.array([[1, 8], [3, 9]])
    scored = dealt.radial(edges, 10.0, 1.0)
    for edge, held_out in zip(edges, scored.held_out, strict=True):
        np.testing.assert_array_equal(~np.isnan(held_out), np.isin(dealt.data.y_train, edge))
    assert scored.test.shape == (2, len(dealt.data.y_test))
    assert np.isfinite(scored.test).all()
    assert (
        elementwise.wrong_alone(scored.test, edges, dealt.data.y_test)[dealt.data.y_test == 3] < 0.5
    ).mean() > 0.8


def test_the_machine_with_the_least_held_out_loss_is_chosen(dealt, now, monkeypatch):
    worst = np.array([3, 20, 41])
    monkeypatch.setattr(elementwise, "KERNELS", ())
    test, kinds = elementwise.trained_again(dealt, EDGES[worst], now.of(worst))
    candidates = [now.of(worst), *(dealt.linear(EDGES[worst], cost) for cost in elementwise.COSTS)]
    losses = np.array(
        [elementwise.pair_losses(c.held_out, EDGES[worst], dealt.data.y_train) for c in candidates]
    )
    for e, best in enumerate(losses.argmin(axis=0)):
        np.testing.assert_array_equal(test[e], candidates[best].test[e])
        assert kinds[e] == (elementwise.OTHER_C if best else elementwise.KEPT)


def test_test_samples_have_no_part_in_the_choice(dealt, now):
    blind = dealt._replace(data=dealt.data._replace(y_test=np.zeros_like(dealt.data.y_test)))
    worst = np.array([3, 20])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elementwise, "KERNELS", ((10.0, 1.0),))
        seen, unseen = (elementwise.trained_again(of, EDGES[worst], now.of(worst)) for of in (dealt, blind))
    np.testing.assert_array_equal(seen[0], unseen[0])
    assert seen[1] == unseen[1]


def test_the_pairs_that_are_confused_most_come_first():
    completion = plan_completion(graphs.complete(3))
    y = np.array([0, 0, 0, 1, 1, 2])
    u = np.array([[9.0, 0, 0], [0, 9, 0], [0, 9, 0], [0, 9, 0], [9, 0, 0], [0, 9, 0]]).T
    i, j = completion.edges.T
    logits = (u[i] - u[j]).astype(np.float32)
    logits[:, 5] = np.nan  # a sample that is never held out does not count
    worst = elementwise.confused_most(logits, completion, y, 2)
    assert completion.edges[worst].tolist() == [[0, 1], [0, 2]]


def test_machines_without_fault_are_right_about_their_own_classes_and_as_sure_as_before(dealt, now):
    y = dealt.data.y_test
    faultless = elementwise.without_fault(now.test, EDGES, y)
    assert np.nansum(elementwise.wrong_alone(faultless, EDGES, y)) == 0
    np.testing.assert_array_equal(np.abs(faultless), np.abs(now.test))
    others = (y != EDGES[:, :1]) & (y != EDGES[:, 1:])
    np.testing.assert_array_equal(faultless[others], now.test[others])


def test_a_machine_alone_is_wrong_where_its_sign_is():
    edges, y = np.array([[0, 1], [0, 2]]), np.array([0, 1, 2, 3])
    logits = np.array([[-1.0, 1, 5, 5], [2, 5, -3, 5]], np.float32)
    np.testing.assert_array_equal(elementwise.wrong_alone(logits, edges, y), [0.5, 1, 0, np.nan])


def test_the_estimator_trains_the_same_pairs_again_and_changes_no_byte_of_others(dealt, now):
    X, y, settings, worst = dealt.data.X_train, dealt.data.y_train, dealt.settings, np.array([3, 20, 41])
    model = PairwiseSVC(
        "complete",
        C=settings.C,
        whiten="none",
        calibration="platt",
        coupled_calibration="none",
        folds=settings.folds,
        fit_on=settings.fit_on,
        random_state=0,
    ).fit(X, y)

    def logits():
        collapsed = model.model_.trained.collapsed(settings.scheme.shares)
        return collapsed(model.model_.normalisation(dealt.data.X_test))

    before, logits_before = [array.copy() for array in model.machines_], logits()
    np.testing.assert_allclose(logits_before, now.test, atol=1e-3)
    model.retrain_pairs(EDGES[worst].tolist(), X, y, C=0.01 * settings.C)
    for old, new in zip(before, model.machines_, strict=True):
        assert np.delete(old, worst, axis=0).tobytes() == np.delete(new, worst, axis=0).tobytes()
    np.testing.assert_allclose(logits()[worst], dealt.linear(EDGES[worst], 0.01).test, atol=1e-3)
    assert np.abs(logits()[worst] - logits_before[worst]).max() > 0.1


def verdicts(changes):
    """Verdicts on made-up errors. All claims hold but for the errors {(machines, coupling): error} after the change."""
    errors = {
        (machines, coupling): 0.3 for machines in (RETRAINED, OWN_ONLY, FAULTLESS) for coupling in FOLLOWERS
    }
    errors |= {(machines, "normal"): 0.45 for machines in (RETRAINED, OWN_ONLY, FAULTLESS)}
    errors |= {(RETRAINED, ALONE): 0.3} | changes
    before = {(*key, 10): np.repeat([np.arange(200) < 100], 3, axis=0) for key in errors}
    after = {
        (*key, 10): np.repeat([np.arange(200) < 200 * error], 3, axis=0) for key, error in errors.items()
    }
    outcomes = elementwise.Outcomes(before, after, elementwise.Counter(["a kernel"]))
    return [finding.verdict for finding in elementwise.findings(outcomes)]


def test_claims_hold_where_wlw2_and_stratified_gain_and_normal_gains_less():
    assert verdicts({}) == 5 * ["holds"]


@pytest.mark.parametrize(
    ("place", "changed", "error"),
    [
        (0, (RETRAINED, ALONE), 0.7),
        *((3, (OWN_ONLY, coupling), 0.6) for coupling in FOLLOWERS),
        *((4, (FAULTLESS, coupling), 0.6) for coupling in FOLLOWERS),
        (2, (RETRAINED, "normal"), 0.1),
        (3, (OWN_ONLY, "normal"), 0.1),
        (4, (FAULTLESS, "normal"), 0.1),
    ],
)
def test_a_claim_differs_where_machines_or_one_coupling_lose_or_normal_gains_more(place, changed, error):
    expected = 5 * ["holds"]
    expected[place] = "differs"
    assert verdicts({changed: error}) == expected


@pytest.mark.parametrize("coupling", FOLLOWERS)
def test_a_coupling_that_gets_worse_neither_converts_nor_gains_more_than_normal(coupling):
    assert verdicts({(RETRAINED, coupling): 0.6}) == ["holds", "differs", "differs", "holds", "holds"]


def test_the_gains_in_the_findings_are_those_of_the_table(repetition):
    assert len(repetition.chosen) == 10
    outcomes = elementwise.Outcomes(
        {key: wrong[None] for key, wrong in repetition.before.items()},
        {key: wrong[None] for key, wrong in repetition.after.items()},
        elementwise.Counter(repetition.chosen),
    )
    gain = {(row.machines, row.coupling): row.gain for row in elementwise.summary(elementwise.rows(outcomes))}
    for coupling in COUPLINGS:
        wrong = (
            repetition.before[FAULTLESS, coupling, 10].mean()
            - repetition.after[FAULTLESS, coupling, 10].mean()
        )
        assert gain[FAULTLESS, coupling] == pytest.approx(wrong, abs=1e-6)
    assert gain[FAULTLESS, ALONE] > 0
    alone, convert, more, _, control = elementwise.findings(outcomes)
    # Of samples of its own two classes a machine knows the same in either case.
    assert gain[OWN_ONLY, ALONE] == gain[RETRAINED, ALONE]
    assert control.comparisons[0].estimate == pytest.approx(
        gain[FAULTLESS, "wlw2"] - gain[FAULTLESS, "normal"]
    )
    assert alone.comparisons[0].estimate == pytest.approx(gain[RETRAINED, ALONE])
    assert {c.what for c in (*convert.comparisons, *more.comparisons)} == {"wlw2", "stratified"}
