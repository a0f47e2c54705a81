"""The choice between linear machines and a radial kernel, and whether to standardise."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import train_test_split

from pairloom import PairwiseSVC
from pairloom.pipeline.model.machine_choice import squared_distances

# Rings look like noise to a line, and wine is also fitted with columns as they are.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is at its lower bound"),
    pytest.mark.filterwarnings("ignore:.*columns differ in scale"),
]


def auto(**parameters):
    return PairwiseSVC(random_state=0, **parameters)


def rings(rows=150, seed=0):
    """Three classes that no hyperplane separates: rings around each other."""
    rng = np.random.default_rng(seed)
    angle, y = rng.uniform(0, 2 * np.pi, 3 * rows), np.repeat(np.arange(3), rows)
    radius = 1 + y + 0.2 * rng.normal(size=3 * rows)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), y


def hyperplanes(rows=150, seed=0):
    """Gaussian classes with one covariance, for which linear logits are exact."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(3), rows)
    return rng.normal(size=(3 * rows, 4)) + 1.5 * rng.normal(size=(3, 4))[y], y


def test_rings_get_a_kernel_and_lose_far_less_than_linear_machines():
    (X, y), (new, labels) = rings(), rings(seed=1)
    chosen, linear = auto().fit(X, y), PairwiseSVC(kernel="linear", random_state=0).fit(X, y)
    assert chosen.model_.trained.kernel.name == "rbf"
    assert log_loss(labels, chosen.predict_proba(new)) < 0.2 * log_loss(labels, linear.predict_proba(new))
    assert chosen.kernel_choice_.startswith("rbf: held-out log loss of 450 samples")


def test_the_kernel_that_is_chosen_has_the_least_loss_of_the_trials_unless_rows_were_cut():
    model = auto().fit(*rings())
    least = min(row["log_loss"] for row in model.candidates_)
    kernel = model.model_.trained.kernel
    of_chosen = [r for r in model.candidates_ if (r["gamma"], r["C"]) == (kernel.gamma, model.C_)]
    assert len(of_chosen) == 1
    assert of_chosen[0]["log_loss"] == pytest.approx(least, abs=1e-4)


def trials_of(model):
    """gamma and C of the trials with a kernel, in their order."""
    return [(row["gamma"], row["C"]) for row in model.candidates_ if row["kernel"] == "rbf"]


def test_the_best_gamma_was_tried_beside_those_half_a_step_away_and_one_along_the_ridge():
    model = auto().fit(*rings())
    losses = {
        trial: row["log_loss"] for trial, row in zip(trials_of(model), model.candidates_[1:], strict=True)
    }
    gamma, C = min(list(losses)[:-2], key=losses.get)  # before the half steps
    assert list(losses)[-2:] == [(gamma * 2, C), (gamma / 2, C)]
    assert any(np.allclose(trial, (gamma / 4, C * 10)) for trial in losses)


def test_half_a_step_and_the_ridge_are_not_tried_where_gamma_or_C_is_given():
    X, y = rings()
    assert len(trials_of(auto(gamma=0.5).fit(X, y))) == 3  # as many as there are values of C
    assert {C for _, C in trials_of(auto(C=3.0).fit(X, y))} == {3.0}


def test_of_more_rows_than_the_probe_has_the_best_trials_are_repeated_with_all():
    X, y = rings(rows=400)
    model = auto().fit(X, y)
    trials, losses = trials_of(model), [row["log_loss"] for row in model.candidates_]
    first = dict(zip(trials[:-3], losses[1:-3], strict=True))
    assert trials[-3:] == sorted(first, key=first.get)[:3]
    kernel = model.model_.trained.kernel
    assert (kernel.gamma, model.C_) in trials[-3:]
    asked = PairwiseSVC(kernel="rbf", gamma=kernel.gamma, C=model.C_, random_state=0).fit(X, y)
    np.testing.assert_array_equal(asked.predict_proba(X[:20]), model.predict_proba(X[:20]))


def test_a_fit_with_what_was_chosen_is_the_same_model():
    X, y = rings()
    chosen = auto().fit(X, y)
    kernel = chosen.model_.trained.kernel
    asked = PairwiseSVC(kernel="rbf", gamma=kernel.gamma, C=chosen.C_, random_state=0).fit(X, y)
    np.testing.assert_array_equal(asked.predict_proba(X[:20]), chosen.predict_proba(X[:20]))


def test_linear_machines_that_are_chosen_have_the_C_and_whitening_of_linear_ones_that_were_asked_for():
    X, y = hyperplanes()
    chosen = auto().fit(X, y)
    assert chosen.model_.trained.kernel is None, chosen.kernel_choice_
    asked = PairwiseSVC(kernel="linear", random_state=0).fit(X, y)
    assert (chosen.C_, chosen.whiten_) == (asked.C_, asked.whiten_)
    np.testing.assert_array_equal(chosen.predict_proba(X[:20]), asked.predict_proba(X[:20]))


def test_of_many_samples_with_fewer_rows_per_pair_than_columns_no_kernel_is_tried():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(60), 40)
    X = rng.normal(size=(60, 100))[y] + rng.normal(size=(2400, 100))
    model = auto(whiten="none", C="scale").fit(X, y)
    assert "80 rows and 100 columns" in model.kernel_choice_
    assert model.candidates_ == []


def test_curves_of_few_rows_get_a_kernel_however_many_columns_they_are_sampled_at():
    """All columns depend on two numbers: no hyperplane separates classes, although columns are more than rows."""
    (X, y), (new, labels) = rings(rows=60), rings(seed=1)
    columns = np.random.default_rng(2).normal(size=(2, 130))
    chosen, linear = (auto(kernel=kernel).fit(X @ columns, y) for kernel in ("auto", "linear"))
    assert chosen.model_.trained.kernel.name == "rbf"
    losses = [log_loss(labels, model.predict_proba(new @ columns)) for model in (chosen, linear)]
    assert losses[0] < 0.5 * losses[1]


def test_of_few_samples_no_kernel_is_chosen():
    X, y = rings(rows=20)
    assert auto().fit(X, y).kernel_choice_ == "linear: 60 samples are too few to choose by"


def test_machines_that_learn_through_the_coupling_stay_linear():
    model = auto(learn="coupled").fit(*rings(rows=60))
    assert model.kernel_choice_ == "linear: weights are learned through the coupling"


def test_a_linear_kernel_that_is_asked_for_is_linear():
    model = PairwiseSVC(kernel="linear", random_state=0).fit(*rings())
    assert model.model_.trained.kernel is None
    assert model.kernel_choice_ == ""


def test_a_gamma_that_is_given_is_not_searched():
    model = auto(gamma=0.5).fit(*rings())
    assert {row["gamma"] for row in model.candidates_} == {None, 0.5}


def test_a_C_that_is_given_is_not_searched():
    model = auto(C=3.0).fit(*rings())
    assert {row["C"] for row in model.candidates_} == {3.0}


def test_columns_in_different_units_are_standardised_and_rarely_set_pixels_are_not():
    wine, digits = (load(return_X_y=True) for load in (load_wine, load_digits))
    assert auto().fit(*wine).model_.normalisation.deviation is not None
    X, y = digits
    model = auto().fit(X[:600], y[:600])
    assert {row["standardise"] for row in model.candidates_} == {False, True}
    assert model.model_.normalisation.deviation is None


def test_one_column_in_another_unit_among_many_is_enough_to_standardise():
    X, y = hyperplanes()
    answers = np.random.default_rng(1).integers(0, 2, size=(len(X), 30))
    raw = np.column_stack([X, answers, 5000 * np.random.default_rng(2).normal(size=len(X))])
    model = auto().fit(raw, y)
    assert {row["standardise"] for row in model.candidates_} == {False, True}
    assert model.model_.normalisation.deviation is not None


@pytest.mark.parametrize("pixels", [False, True])
def test_where_trials_cannot_decide_columns_are_standardised_unless_their_ranges_are_alike(pixels):
    """Labels are noise, and deviations differ: columns have units of their own, or pixels are rarely set."""
    rng = np.random.default_rng(1)
    X, y = rng.choice([-1.0, 1.0], size=(400, 8)), rng.integers(0, 2, 400)
    if pixels:
        X[2:, :3] = 0.0
        X[:2, :3] = [[-1.0], [1.0]]
    else:
        X[:, 0] *= 40.0
    model = auto().fit(X, y)
    assert {row["standardise"] for row in model.candidates_} == {False, True}
    assert (model.model_.normalisation.deviation is None) == pixels


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_standardisation_is_chosen_for_a_kernel_that_was_asked_for(kernel):
    X, y = load_wine(return_X_y=True)
    A, B, a, b = train_test_split(X, y, random_state=0)
    chosen = PairwiseSVC(kernel=kernel, standardise="auto", random_state=0).fit(A, a)
    raw = PairwiseSVC(kernel=kernel, standardise=False, random_state=0).fit(A, a)
    assert chosen.model_.normalisation.deviation is not None
    assert log_loss(b, chosen.predict_proba(B)) < log_loss(b, raw.predict_proba(B))


def test_units_of_the_columns_do_not_change_the_choice():
    """Powers of two are exact, so even the losses of standardised trials are the same."""
    X, y = rings()
    plain = auto().fit(X * [1.0, 64.0], y)
    other = auto().fit(X * [256.0, 0.25], y)
    losses = [[r["log_loss"] for r in m.candidates_ if r["standardise"]] for m in (plain, other)]
    assert losses[0] == losses[1] != []


def test_a_saved_model_keeps_the_choice(tmp_path):
    model = auto().fit(*rings())
    model.save(tmp_path / "model")
    loaded = PairwiseSVC.load(tmp_path / "model")
    assert (loaded.candidates_, loaded.kernel_choice_) == (model.candidates_, model.kernel_choice_)


def test_weights_of_samples_reach_the_choice():
    """Samples of weight 2 are as if each were there twice, so losses change where weights do."""
    X, y = rings()
    weight = np.where(np.arange(len(y)) % 2, 0.2, 1.0)
    losses = [
        [row["log_loss"] for row in auto().fit(X, y, sample_weight=w).candidates_] for w in (None, weight)
    ]
    assert losses[0] != losses[1]


def test_squared_distances_are_those_of_scikit_learn():
    X = np.random.default_rng(0).normal(size=(1500, 5)).astype(np.float32)
    expected = euclidean_distances(X.astype(np.float64), squared=True)
    np.testing.assert_allclose(squared_distances(X), expected, rtol=1e-5, atol=1e-5)
