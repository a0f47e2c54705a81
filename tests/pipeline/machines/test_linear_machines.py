import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from pairloom import graphs
from pairloom.pipeline.machines.folds import PARTS, class_folds, class_parts
from pairloom.pipeline.machines.linear_machines import TILE, train_linear_model, train_tile
from pairloom.pipeline.machines.normalisation import centring
from pairloom.pipeline.machines.pair_calibration import fit_platt
from pairloom.pipeline.machines.pair_kernels import dprime, fewest_errors
from pairloom.pipeline.machines.settings import MachineSettings
from pairloom.pipeline.machines.svm import fit_linear_svm

EDGES = np.array([(i, j) for i in range(5) for j in range(i + 1, 5)])


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return {
        c: (rng.standard_normal((n, 6)) + 1.5 * rng.standard_normal(6)).astype(np.float32)
        for c, n in enumerate((13, 20, 8, 31, 16))
    }


def train_edges(rows, edges, settings, **of_classes):
    return train_tile(rows, graphs.Pairs(np.asarray(edges), len(rows)), settings, **of_classes)


def assert_same_bits(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def by_hand(a, b, classes, settings):
    """The machines of a pair, each fitted and calibrated on its own; (A, B), decision values, folds and labels."""
    scheme = settings.scheme
    X, y = np.concatenate([a, b]), np.r_[np.ones(len(a)), -np.ones(len(b))]
    folds = np.concatenate(
        [class_folds(len(r), settings.folds, settings.seed, c) for r, c in zip((a, b), classes, strict=True)]
    )
    fits = [fit_linear_svm(X[m[folds]], y[m[folds]], settings.C, tol=settings.tol) for m in scheme.fitted_on]
    f = np.array([X.astype(np.float64) @ fit.coef + fit.intercept for fit in fits])
    if scheme.pooled:
        union = np.array([f[folds[i], i] for i in range(len(y))])
        platt = [fit_platt(union, y)[:2]] * len(fits)
    else:
        platt = [fit_platt(f[m][on[folds]], y[on[folds]])[:2] for m, on in enumerate(scheme.calibrated_on)]
    return fits, np.array(platt), f, folds, y


# float32 rows do not allow 1e-7 for every machine, and trying takes long.
@pytest.mark.filterwarnings("ignore:Training. 1 of 40:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "settings",
    [
        MachineSettings(C=0.3, tol=1e-7),
        MachineSettings(C=0.3, folds=3, fit_on="fold", tol=1e-5, seed=4),
        MachineSettings(C=0.3, folds=5, fit_on="all", tol=1e-7),
    ],
    ids=["rest", "fold", "all"],
)
def test_machines_against_fits_by_hand(rows, settings):
    machines = train_edges(rows, EDGES, settings)
    for e, (i, j) in enumerate(EDGES):
        fits, platt, f, folds, y = by_hand(rows[i], rows[j], (i, j), settings)
        np.testing.assert_allclose(machines.coef[e], [fit.coef for fit in fits], atol=2e-3)
        np.testing.assert_allclose(machines.intercept[e], [fit.intercept for fit in fits], atol=5e-3)
        np.testing.assert_allclose(machines.platt[e], platt, rtol=0.02, atol=0.02)
        logits = -(platt[:, :1] * f + platt[:, 1:])
        unseen = np.einsum("km,mn->kn", settings.scheme.out_of_fold, logits)[folds, np.arange(len(y))]
        first, second = unseen[y > 0], unseen[y < 0]
        expected = abs(first.mean() - second.mean()) / np.sqrt((first.var() + second.var()) / 2)
        assert machines.dprime[e] == pytest.approx(expected, rel=0.02)
    assert (machines.gap <= 1e-5).all()
    assert (machines.threshold == 0).all()


SCHEMES = {
    "rest": MachineSettings(C=0.3),
    "fold": MachineSettings(C=0.3, folds=3, fit_on="fold", seed=4),
    "all": MachineSettings(C=0.3, folds=5, fit_on="all"),
}


def dealt(deal, sizes, classes, settings):
    """The folds or the parts of the samples of two classes."""
    return np.concatenate(
        [deal(n, settings.folds, settings.seed, c) for n, c in zip(sizes, classes, strict=True)]
    )


@pytest.mark.parametrize("settings", SCHEMES.values(), ids=SCHEMES)
def test_parameters_of_a_part_are_found_without_its_samples(rows, settings):
    machines, scheme = train_edges(rows, EDGES, settings), settings.scheme
    assert machines.crossfit.shape == (len(EDGES), scheme.n_machines, PARTS, 2)
    for e, (i, j) in enumerate(EDGES.tolist()):
        X, y = np.concatenate([rows[i], rows[j]]), np.r_[np.ones(len(rows[i])), -np.ones(len(rows[j]))]
        sizes = len(rows[i]), len(rows[j])
        folds, parts = (dealt(deal, sizes, (i, j), settings) for deal in (class_folds, class_parts))
        f = machines.coef[e].astype(np.float64) @ X.T.astype(np.float64) + machines.intercept[e][:, None]
        for m in range(scheme.n_machines):
            values, chosen = f[m], scheme.calibrated_on[m][folds]
            if scheme.pooled:
                values, chosen = f[folds, np.arange(len(y))], np.ones(len(y), bool)
            for part in range(PARTS):
                others = chosen & (parts != part)
                expected = fit_platt(values[others], y[others])[:2] if len(set(y[others])) == 2 else (0, 0)
                np.testing.assert_allclose(machines.crossfit[e, m, part], expected, rtol=2e-3, atol=2e-3)


def test_a_part_without_which_only_one_class_is_left_says_nothing():
    """Four samples of four folds are one of each, all of the first part; five and more have a second one."""
    rng = np.random.default_rng(0)
    few = {c: rng.standard_normal((n, 3)).astype(np.float32) + c for c, n in enumerate((4, 12))}
    machines = train_edges(few, [(0, 1)], MachineSettings(C=0.3))
    assert (machines.crossfit[:, :, 0] == 0).all()
    assert (machines.platt[..., 0] != 0).all()
    assert (machines.crossfit[:, :, 1:, 0] != 0).all()
    # No sample has a part beyond the third.
    expected = np.repeat(machines.platt[:, :, None], PARTS - 3, axis=2)
    np.testing.assert_array_equal(machines.crossfit[:, :, 3:], expected)


@pytest.mark.parametrize("settings", SCHEMES.values(), ids=SCHEMES)
def test_thresholds_are_in_the_parameters_of_the_parts(rows, settings):
    """Each part gets the threshold of fewest errors on the others, whose logits have the parameters without it too."""
    shifted, plain = (train_edges(rows, EDGES, replace(settings, thresholds=on)) for on in (True, False))
    assert (plain.threshold == 0).all()
    np.testing.assert_array_equal(shifted.platt, plain.platt)
    np.testing.assert_array_equal(shifted.crossfit[..., 0], plain.crossfit[..., 0])
    of_parts = []
    for e, (i, j) in enumerate(EDGES.tolist()):
        X, y = np.concatenate([rows[i], rows[j]]), np.r_[np.ones(len(rows[i])), -np.ones(len(rows[j]))]
        sizes = len(rows[i]), len(rows[j])
        folds, parts = (dealt(deal, sizes, (i, j), settings) for deal in (class_folds, class_parts))
        f = plain.coef[e].astype(np.float64) @ X.T.astype(np.float64) + plain.intercept[e][:, None]
        for part in range(PARTS):
            A, B = plain.crossfit[e, :, part].T
            logits = -(A[:, None] * f + B[:, None])
            unseen = np.einsum("km,mn->kn", settings.scheme.out_of_fold, logits)[folds, np.arange(len(y))]
            others = parts != part
            threshold = fewest_errors(unseen[others], y[others], np.ones(others.sum()))
            moved = shifted.crossfit[e, :, part, 1] - plain.crossfit[e, :, part, 1]
            np.testing.assert_allclose(moved, threshold, atol=1e-4)
            of_parts.append(threshold != shifted.threshold[e])
    assert any(of_parts)


@pytest.mark.parametrize("settings", SCHEMES.values(), ids=SCHEMES)
def test_distances_are_decision_values_over_the_norm(rows, settings):
    platt = train_edges(rows, EDGES, settings)
    distances = train_edges(rows, EDGES, replace(settings, calibration="distance"))
    np.testing.assert_array_equal(distances.coef, platt.coef)
    np.testing.assert_array_equal(distances.intercept, platt.intercept)
    norms = np.sqrt((distances.coef.astype(np.float64) ** 2).sum(axis=2))
    if settings.fit_on == "all":  # the machine of all samples is scaled as those that calibrate it
        norms[:, -1] = norms[:, :-1].mean(axis=1)
    np.testing.assert_allclose(distances.platt[..., 0], -1 / norms, rtol=1e-6)
    assert (distances.platt[..., 1] == 0).all()
    expected = np.repeat(distances.platt[:, :, None], PARTS, axis=2)
    np.testing.assert_array_equal(distances.crossfit, expected)
    # The held-out logits, and so d', are means of distances.
    assert (distances.dprime != platt.dprime).all()


@pytest.mark.parametrize("settings", SCHEMES.values(), ids=SCHEMES)
def test_machines_by_distance_are_those_that_were_trained_so(rows, settings):
    derived = train_edges(rows, EDGES, settings).by_distance(settings.scheme)
    trained = train_edges(rows, EDGES, replace(settings, calibration="distance"))
    for name in ("coef", "intercept", "threshold", "gap", "iterations"):
        np.testing.assert_array_equal(getattr(derived, name), getattr(trained, name))
    for name in ("platt", "crossfit"):
        np.testing.assert_allclose(getattr(derived, name), getattr(trained, name), rtol=1e-6)


@pytest.mark.parametrize("calibration", ["platt", "distance"])
def test_a_machine_without_weights_has_no_distance(calibration):
    """Two classes of the same rows: w = 0, and the distance to no hyperplane is zero, not infinite."""
    same = {c: np.ones((8, 2), np.float32) for c in range(2)}
    settings = MachineSettings(C=0.3, calibration=calibration)
    machines = train_edges(same, [(0, 1)], settings).by_distance(settings.scheme)
    assert (machines.coef == 0).all()
    assert (machines.platt == 0).all()
    assert (machines.crossfit == 0).all()


@pytest.mark.parametrize("fit_on", ["rest", "fold", "all"])
@pytest.mark.parametrize("rare", [1, 2, 3])
def test_the_samples_of_a_rare_class_are_in_every_machine(rows, fit_on, rare):
    settings = MachineSettings(C=0.3, fit_on=fit_on, tol=1e-6)
    a, b = rows[3], rows[1][:rare]
    machines = train_edges({0: a, 1: b}, [(0, 1)], settings)
    folds = class_folds(len(a), 4, 0, 0)
    for m, seen in enumerate(settings.scheme.fitted_on):
        X = np.concatenate([a[seen[folds]], b])
        alone = fit_linear_svm(X, np.r_[np.ones(seen[folds].sum()), -np.ones(rare)], 0.3, tol=1e-6)
        np.testing.assert_allclose(machines.coef[0, m], alone.coef, rtol=1e-3, atol=1e-4)
        assert machines.intercept[0, m] == pytest.approx(alone.intercept, rel=1e-3, abs=1e-3)
    assert np.isfinite(machines.dprime).all()


@pytest.mark.parametrize("fit_on", ["rest", "fold"])
def test_a_rare_class_calibrates_with_the_values_that_it_was_fitted_to(rows, fit_on):
    settings = MachineSettings(C=0.3, fit_on=fit_on)
    a, b = rows[3], rows[1][:2]
    machines = train_edges({0: a, 1: b}, [(0, 1)], settings)
    dealt_a = (len(a), 4, 0, 0)
    folds, parts = class_folds(*dealt_a), class_parts(*dealt_a)
    for m, on in enumerate(settings.scheme.calibrated_on):
        w, intercept = machines.coef[0, m].astype(np.float64), machines.intercept[0, m]
        for part in (None, *range(PARTS)):
            kept = on[folds] if part is None else on[folds] & (parts != part)
            values = np.concatenate([a[kept], b]) @ w + intercept
            expected = (
                fit_platt(values, np.r_[np.ones(kept.sum()), -np.ones(2)])[:2] if kept.any() else (0, 0)
            )
            found = machines.platt[0, m] if part is None else machines.crossfit[0, m, part]
            np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)


def test_an_edge_does_not_depend_on_its_company(rows):
    settings = MachineSettings(C=0.3, thresholds=True)
    together = train_edges(rows, EDGES, settings)
    order = np.random.default_rng(1).permutation(len(EDGES))
    shuffled = train_edges(rows, EDGES[order], settings)
    assert_same_bits([values[order] for values in together], shuffled)
    for e, edge in enumerate(EDGES):
        alone = train_edges({c: rows[c] for c in edge.tolist()}, edge[None], settings)
        assert_same_bits([values[e : e + 1] for values in together], alone)
    with ThreadPoolExecutor(3) as pool:
        parts = list(pool.map(lambda e: train_edges(rows, EDGES[e : e + 1], settings), range(len(EDGES))))
    assert_same_bits([np.concatenate(values) for values in zip(*parts, strict=True)], together)


@pytest.mark.parametrize("n_threads", [2, 3])
def test_threads_do_not_change_a_bit(n_threads):
    rng = np.random.default_rng(0)
    many = {c: rng.standard_normal((6, 4)).astype(np.float32) for c in range(14)}
    edges = np.array([(i, j) for i in range(14) for j in range(i + 1, 14)])
    assert len(edges) > TILE
    whitening, settings = centring(np.concatenate(list(many.values()))), MachineSettings()
    done = []
    one = train_linear_model(many, graphs.Pairs(edges, len(many)), settings, whitening)
    other = train_linear_model(
        many, graphs.Pairs(edges, len(many)), settings, whitening, n_threads, done.append
    )
    assert_same_bits(one.machines, other.machines)
    assert sum(done) == len(edges)


def test_exchanging_the_classes_changes_the_sign(rows):
    """Two classes of one size whose folds have one seed: exchanged, they make the mirror image of the problem."""
    a, b = rows[1][:16], rows[4]
    settings = MachineSettings(C=0.3, tol=1e-7)
    keys = [5, 5]
    one = train_edges({0: a, 1: b}, [(0, 1)], settings, keys=keys)
    other = train_edges({0: b, 1: a}, [(0, 1)], settings, keys=keys)
    np.testing.assert_allclose(one.coef, -other.coef, atol=1e-3)
    np.testing.assert_allclose(one.platt[..., 0], other.platt[..., 0], rtol=1e-2)
    np.testing.assert_allclose(one.platt[..., 1], -other.platt[..., 1], atol=1e-2)
    np.testing.assert_allclose(one.dprime, other.dprime, rtol=1e-2)


def test_sample_weights_multiply_C_and_weigh_the_calibration(rows):
    weight = {c: np.full(len(X), 2.0) for c, X in rows.items()}
    weighted = train_edges(rows, EDGES, MachineSettings(C=0.3), sample_weight=weight)
    doubled = train_edges(rows, EDGES, MachineSettings(C=0.6))
    np.testing.assert_array_equal(weighted.coef, doubled.coef)
    # With more weight, Platt's targets are nearer to 0 and 1, so the slopes are steeper.
    assert (weighted.platt[..., 0] < doubled.platt[..., 0]).all()


def test_dprime_by_hand():
    assert dprime(np.array([1.0, 3.0, -2.0, -4.0]), 2) == pytest.approx(5.0 / 1.0)
    assert dprime(np.array([1.0, 1.0, 1.0]), 1) == 0
    assert 1e6 < dprime(np.array([1.0, 1.0, -1.0]), 2) < np.inf  # no spread at all


def errors(logits, y, weight, t):
    """Total weight of the errors at a threshold. A logit equal to the threshold is an error of either class."""
    return weight[y * (logits - t) <= 0].sum()


@pytest.mark.parametrize("seed", range(30))
def test_thresholds_by_brute_force(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 25))
    y = rng.choice([-1.0, 1.0], n)
    logits = np.round(2 * rng.standard_normal(n) + y, int(rng.integers(0, 3)))  # rounded: there are ties
    weight = rng.integers(1, 4, n).astype(float) if seed % 2 else np.ones(n)
    t = fewest_errors(logits, y, weight)
    values = np.unique(logits)
    between = np.concatenate([[values[0] - 1], (values[1:] + values[:-1]) / 2, [values[-1] + 1], [0.0]])
    least = min(errors(logits, y, weight, s) for s in between)
    assert errors(logits, y, weight, t) == pytest.approx(least)
    if errors(logits, y, weight, 0.0) == least:
        assert t == 0
    else:
        # Of equally good thresholds, the one nearest to zero is chosen.
        equal = [s for s in between if errors(logits, y, weight, s) == least]
        assert abs(t) <= min(map(abs, equal)) + 1e-12


def test_an_early_stop_is_a_warning():
    rng = np.random.default_rng(0)
    rows = {c: rng.standard_normal((60, 5)).astype(np.float32) for c in range(2)}
    with pytest.warns(
        ConvergenceWarning, match="4 of 4 machines stopped before the relative duality gap was 1e-09"
    ):
        train_edges(rows, [(0, 1)], MachineSettings(C=100.0, tol=1e-9, max_iterations=3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train_edges(rows, [(0, 1)], MachineSettings(C=0.1))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"fit_on": "rests"},
            "MachineSettings: fit_on must be one of rest, fold, all, fold_alone, got 'rests'. Did you mean 'rest'?",
        ),
        (
            {"calibration": "plat"},
            "calibration must be one of platt, distance, slopes, none, got 'plat'. Did you mean 'platt'?",
        ),
        ({"C": 0.0}, "C must be positive, got 0.0"),
        ({"C": float("nan")}, "C must be positive, got nan"),
        ({"folds": 1}, "folds must be at least 2, got 1"),
    ],
    ids=str,
)
def test_settings_messages(parameters, message):
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        MachineSettings(**parameters)
