"""The choice among candidates of C, whitening and calibration."""

import networkx as nx
import numpy as np
import pytest

from pairloom import PairwiseSVC, graphs
from pairloom.pipeline.calibration.coupled_calibration import JudgedCalibration, best_calibration
from pairloom.pipeline.calibration.scale import ScaleChoice
from pairloom.pipeline.features.moments import moments_of
from pairloom.pipeline.machines.kernel_function import KernelFunction
from pairloom.pipeline.machines.kinds import LinearKind, candidate_Cs
from pairloom.pipeline.machines.normalisation import Normalisation, is_worth_a_trial, normalised_moments
from pairloom.pipeline.model.choice import JudgedCandidate, best_candidate, n_trials, trial
from pairloom.pipeline.model.settings import Candidate, calibrations_of, candidates_of
from pairloom.pipeline.model.training_set import PROBE_CLASSES, plan_probe, probe_rows

PLAIN, WHITENED = Candidate(1.0, "none", "distance"), Candidate(1.0, 0.8, "distance")
N_SAMPLES = 100
#: Standard error of the mean of N_SAMPLES differences whose standard deviation is 1.
STANDARD_ERROR = 0.1
LOSSES = np.random.default_rng(0).uniform(2, 4, N_SAMPLES)


def judged(candidate, losses):
    return JudgedCandidate(candidate, float(np.mean(losses)), np.asarray(losses))


def less_by(standard_errors):
    """Losses whose mean is below that of LOSSES by a number of standard errors of the difference."""
    difference = np.where(np.arange(N_SAMPLES) % 2, 1.0, -1.0)
    return LOSSES + difference - standard_errors * STANDARD_ERROR


@pytest.mark.parametrize(
    ("standard_errors", "chosen"), [(-1.0, PLAIN), (0.1, PLAIN), (0.9, PLAIN), (1.1, WHITENED)]
)
def test_a_plain_candidate_is_kept_unless_its_whitened_twin_is_clearly_better(standard_errors, chosen):
    pair = [judged(PLAIN, LOSSES), judged(WHITENED, less_by(standard_errors))]
    assert best_candidate(pair) == best_candidate(pair[::-1]) == chosen


def test_a_small_gain_of_every_sample_is_a_clear_one():
    """Losses are compared sample by sample, so their standard deviation over the samples, 0.6, does not matter."""
    assert best_candidate([judged(PLAIN, LOSSES), judged(WHITENED, LOSSES - 0.001)]) == WHITENED


@pytest.mark.parametrize("best", range(3))
def test_among_plain_candidates_a_clearly_smaller_loss_wins(best):
    found = [
        judged(Candidate(C, "none", "platt"), LOSSES - (k == best) * 1e-6)
        for k, C in enumerate((0.1, 1.0, 10.0))
    ]
    assert best_candidate(found) == found[best].candidate


def test_of_equal_losses_the_middle_C_is_preferred():
    found = [judged(Candidate(C, "none", "slopes"), LOSSES) for C in (0.1, 1.0, 10.0)]
    assert best_candidate(found) == best_candidate(found[::-1]) == Candidate(1.0, "none", "slopes")


def calibration(how, losses):
    return JudgedCalibration(how, "stratified", ScaleChoice(1.0, float(np.mean(losses)), np.asarray(losses)))


@pytest.mark.parametrize(
    ("standard_errors", "chosen"),
    [(-1.0, "distance"), (0.1, "distance"), (0.9, "distance"), (1.1, "slopes")],
)
def test_the_first_calibration_is_kept_unless_another_is_clearly_better(standard_errors, chosen):
    several = [calibration("distance", LOSSES), calibration("slopes", less_by(standard_errors))]
    worst = calibration("platt", LOSSES + 1)
    assert best_calibration([*several, worst]).calibration == chosen


def test_few_samples_choose_nothing():
    """Of 99 samples the least loss is a matter of luck: the simplest candidate is taken, however bad it looks."""
    found = [
        judged(Candidate(C, whiten, "distance"), (LOSSES - 0.5 * C)[:99])
        for C in (0.1, 1.0, 10.0)
        for whiten in ("none", 0.8)
    ]
    assert best_candidate(found) == Candidate(0.1, "none", "distance")


def test_a_row_of_the_table_has_the_C_of_features_as_they_came_and_the_loss():
    divided_by_8 = Normalisation(np.zeros(2), 3)
    judged = JudgedCandidate(Candidate(64.0, 0.8, "platt"), 0.25, LOSSES)
    values = {"standardise": True, "C": 1.0, "whiten": 0.8, "calibration": "platt", "log_loss": 0.25}
    assert judged.row(divided_by_8, None, True) == {"kernel": "linear", "gamma": None, **values}
    kernel = KernelFunction("rbf", 0.5)
    assert judged.row(divided_by_8, kernel, True) == {"kernel": "rbf", "gamma": 0.5, **values}


# Trials.


def all_candidates(Cs=(0.1, 1.0, 10.0), whitenings=("none", 0.8)):
    return [Candidate(C, t, "platt") for C in Cs for t in whitenings]


def test_whitenings_are_tried_with_the_middle_C_and_every_other_C_with_the_best_of_them():
    candidates, found = all_candidates(), []
    assert n_trials(candidates) == 4
    for number in range(4):
        candidate = trial(candidates, number, found)
        found.append(judged(candidate, LOSSES - (candidate.whiten == 0.8)))
    tried = [(one.candidate.C, one.candidate.whiten) for one in found]
    assert tried == [(1.0, "none"), (1.0, 0.8), (0.1, 0.8), (10.0, 0.8)]
    assert {one.candidate.calibration for one in found} == {"platt"}


def test_a_trial_depends_on_the_first_ones_only():
    """So a run may repeat any of them: it reads the same files, whatever came after."""
    candidates = all_candidates()
    first = [judged(Candidate(1.0, t, "platt"), LOSSES + (t == 0.8)) for t in ("none", 0.8)]
    later = [judged(Candidate(0.1, 0.8, "platt"), LOSSES - 2)]
    assert trial(candidates, 3, first) == trial(candidates, 3, first + later)


def test_a_single_candidate_takes_no_trial():
    assert n_trials(all_candidates((1.0,), ("none",))) == 0
    assert n_trials(all_candidates((1.0,))) == 2


# The probe.


def distances(n):
    means = np.random.default_rng(n).standard_normal((n, 3))
    return np.linalg.norm(means[:, None] - means, axis=2)


@pytest.mark.parametrize("n", [2, 5, 20, PROBE_CLASSES])
@pytest.mark.parametrize("family", ["complete", "path", "hub_neighbours"])
def test_few_classes_are_compared_on_all_of_them_and_their_own_graph(n, family):
    graph = graphs.requested_graph(family, list(range(n)), lambda: distances(n), "test")
    probe = plan_probe(graph, lambda c: distances(n)[c], 0, np.full(n, 9), 4)
    assert probe.graph is graph
    assert probe.classes.tolist() == list(range(n))


@pytest.mark.parametrize("held_out", [[150], [7, 290]], ids=len)
def test_the_probe_has_the_classes_that_can_be_held_out(held_out):
    """Only they judge anything, be they as rare as two of 300."""
    n = 300
    counts = np.full(n, 1)
    counts[held_out] = 2
    graph = graphs.requested_graph("hub_neighbours", list(range(n)), lambda: distances(n), "test")
    for seed in range(5):
        probe = plan_probe(graph, lambda c: distances(n)[c], seed, counts, folds=2)
        assert set(held_out) <= set(probe.classes.tolist())
        assert len(probe.classes) >= PROBE_CLASSES


def part_of_class(n_samples, c):
    """The rows of class c in a probe of it alone, if it has the first so many."""
    return probe_rows(np.array([c]), lambda c: np.arange(n_samples), seed=0)[0]


@pytest.mark.parametrize("family", ["complete", "hub_neighbours", "star"])
def test_many_classes_are_compared_on_neighbourhoods_joined_as_they_are_in_the_model(family):
    n = 300
    graph = graphs.requested_graph(family, list(range(n)), lambda: distances(n), "test")
    classes, part, _ = plan_probe(graph, lambda c: distances(n)[c], 0, np.full(n, 9), 4)
    assert PROBE_CLASSES <= len(classes) < PROBE_CLASSES + 25
    assert nx.is_connected(part)
    if family != "star":  # whose centre is in no neighbourhood
        kept = nx.relabel_nodes(graph.subgraph(classes.tolist()), {c: k for k, c in enumerate(classes)})
        assert {frozenset(e) for e in part.edges} == {frozenset(e) for e in kept.edges}
    if family == "hub_neighbours":
        assert set(graph.graph["hubs"]) <= set(classes.tolist())
    nearest = np.argsort(distances(n), axis=1)[:, 1]
    together = np.isin(nearest[classes], classes).mean()
    assert together > 0.6, "most classes come with their nearest one; by chance a fifth would"
    assert np.array_equal(classes, plan_probe(graph, lambda c: distances(n)[c], 0, np.full(n, 9), 4).classes)
    assert not np.array_equal(
        classes, plan_probe(graph, lambda c: distances(n)[c], 1, np.full(n, 9), 4).classes
    )


def test_a_part_of_a_class_is_all_of_it_up_to_a_bound():
    sizes = [1, 20, 256, 257, 5000]
    parts = [part_of_class(n, 3) for n in sizes]
    assert [len(part) for part in parts] == [1, 20, 256, 256, 256]
    for n, part in zip(sizes, parts, strict=True):
        assert (np.diff(part) > 0).all()
        assert 0 <= part.min() <= part.max() < n
    assert not np.array_equal(part_of_class(300, 3), part_of_class(300, 4))


# What parameters stand for.


def candidates(C, whiten, X, calibrations=("platt",)):
    """The candidates for rows X, with C on features as they came."""
    moments = normalised_moments(moments_of(X), "X")
    found = candidates_of(LinearKind(), C, whiten, calibrations, moments)
    return [(moments.normalisation.outer_C(C), whiten, how) for C, whiten, how in found]


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_candidates_are_every_C_with_every_whitening_in_any_unit(unit):
    X = unit * np.random.default_rng(0).standard_normal((9, 3))
    found = [(C, whiten) for C, whiten, _ in candidates([0.5, 2], "auto", X)]
    assert found == [(0.5, "none"), (0.5, 0.8), (2.0, "none"), (2.0, 0.8)]
    assert candidates(0.5, "none", X) == [(0.5, "none", "platt")]
    assert candidates(0.5, 0, X) == [(0.5, 0.0, "platt")]


def test_whitening_is_tried_unasked_where_the_rows_determine_the_covariance():
    X = np.random.default_rng(0).standard_normal((9, 9))
    assert [whiten for _, whiten, _ in candidates(1.0, "auto", X[:, :8])] == [
        "none",
        0.8,
    ]  # 9 rows less a mean
    assert [whiten for _, whiten, _ in candidates(1.0, "auto", X)] == ["none"]
    assert [whiten for _, whiten, _ in candidates(1.0, 0.3, X)] == [0.3]
    assert is_worth_a_trial(10**6, 3, 2**12)
    assert not is_worth_a_trial(10**6, 3, 2**12 + 1)


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_the_C_named_scale_is_ten_over_the_spread_of_the_features(unit):
    X = unit * np.random.default_rng(0).standard_normal((9, 3))
    scale = 10 / X.var(axis=0).sum()
    assert candidates("scale", "none", X) == [(pytest.approx(scale), "none", "platt")]
    assert [C for C, *_ in candidates("auto", "none", X)] == pytest.approx([scale / 10, scale, 10 * scale])


def test_the_C_named_scale_is_one_for_constant_features():
    assert candidates("scale", "none", np.full((9, 3), 7.0)) == [(1.0, "none", "platt")]


def test_candidates_are_compared_with_slopes_where_these_are_a_choice():
    X = np.random.default_rng(0).standard_normal((9, 3))
    every = ("distance", "slopes", "platt")
    assert [how for *_, how in candidates([1.0, 2.0], "none", X, every)] == ["slopes", "slopes"]
    assert candidates(1.0, "none", X, ("distance", "platt")) == [(1.0, "none", "distance")]


@pytest.mark.parametrize(
    ("parameters", "others", "found"),
    [
        ({}, {}, ("distance", "slopes", "platt")),
        ({}, {"measurable": False}, ("platt",)),
        ({}, {"growing": True}, ("slopes",)),
        ({"thresholds": True}, {}, ("platt",)),
        ({"coupled_calibration": "none"}, {}, ("platt",)),
        ({"coupled_calibration": "edges"}, {}, ("distance", "platt")),
        ({"learn": "coupled"}, {}, ("distance", "platt")),
        ({"calibration": "distance"}, {"growing": True}, ("distance",)),
        ({"calibration": "slopes"}, {}, ("slopes",)),
    ],
    ids=str,
)
def test_auto_is_every_calibration_that_the_other_parameters_leave(parameters, others, found):
    assert calibrations_of(PairwiseSVC(**parameters), **{"measurable": True} | others) == found


@pytest.mark.parametrize(
    ("C", "values"),
    [
        (2.0, [2.0]),
        ("scale", ["scale"]),
        ([1, "scale"], [1, "scale"]),
        ((1, 2), [1, 2]),
        (np.array([3.0]), [3.0]),
    ],
    ids=str,
)
def test_one_C_is_a_list_of_one(C, values):
    assert candidate_Cs(C) == values
