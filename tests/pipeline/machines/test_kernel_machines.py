"""Machines with a kernel against scikit-learn's SVC on the same folds, and by slow definitions."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC

from pairloom import graphs
from pairloom.pipeline.machines import kernel_function as gram_blocks
from pairloom.pipeline.machines import kernel_machines
from pairloom.pipeline.machines.folds import class_folds
from pairloom.pipeline.machines.kernel_function import GramBlocks, KernelFunction
from pairloom.pipeline.machines.kernel_machines import train_kernel_model, train_kernel_problem
from pairloom.pipeline.machines.settings import MachineSettings, split_class

KERNELS = {
    "rbf": KernelFunction("rbf", 0.2),
    "poly": KernelFunction("poly", 0.3, 3, 1.0),
    "sigmoid": KernelFunction("sigmoid", 0.05, coef0=-0.1),
}
PRECISE = MachineSettings(C=2.0, tol=1e-8)
SIZES = (30, 22, 26)
EDGES = np.array([(0, 1), (0, 2), (1, 2)])
PAIRS = graphs.Pairs(EDGES, 3)


@pytest.fixture(scope="module")
def samples():
    """Rows of three overlapping classes, out of order."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(np.arange(3), SIZES))
    X = rng.standard_normal((len(y), 5)) + 0.8 * rng.standard_normal((3, 5))[y]
    return X, y


def members(y):
    return [np.flatnonzero(y == c) for c in range(3)]


def values(kernel, X, Z):
    """scikit-learn's kernel."""
    return pairwise_kernels(
        X, Z, kernel.name, filter_params=True, gamma=kernel.gamma, degree=kernel.degree, coef0=kernel.coef0
    )


def peer(kernel, X, signs, C, **parameters):
    """scikit-learn's machine on the same rows."""
    machine = SVC(
        kernel=kernel.name, gamma=kernel.gamma, degree=kernel.degree, coef0=kernel.coef0, C=C, tol=1e-8
    )
    return machine.fit(X, signs, **parameters)


def decision_values(model, e, m, X, rows_by_class):
    """f of machine m of edge e by its definition; `rows_by_class` are the training rows, class by class."""
    machines = model.machines
    own = slice(machines.start[e], machines.start[e + 1])
    return (
        machines.beta[own, m] @ values(model.kernel, rows_by_class[machines.row[own]], X)
        + machines.intercept[e, m]
    )


@pytest.mark.parametrize("fit_on", ["rest", "fold", "all"])
@pytest.mark.parametrize("name", KERNELS)
def test_decision_values_are_scikit_learns_on_every_fold(name, fit_on, samples):
    (X, y), kernel = samples, KERNELS[name]
    settings = MachineSettings(C=2.0, tol=1e-8, fit_on=fit_on)
    model = train_kernel_model(kernel, X, members(y), PAIRS, settings)
    by_class = X[np.concatenate(members(y))]
    for e, (i, j) in enumerate(EDGES):
        rows = np.concatenate([members(y)[i], members(y)[j]])
        folds = np.concatenate([class_folds(SIZES[c], 4, 0, c) for c in (i, j)])
        for m, fitted_on in enumerate(settings.scheme.fitted_on):
            chosen = rows[fitted_on[folds]]
            expected = peer(kernel, X[chosen], np.where(y[chosen] == i, 1, -1), 2.0).decision_function(X)
            np.testing.assert_allclose(decision_values(model, e, m, X, by_class), expected, atol=2e-5)


def test_a_precomputed_kernel_is_the_same_to_the_coefficient(samples):
    (X, y), kernel = samples, KERNELS["rbf"]
    direct = train_kernel_model(kernel, X, members(y), PAIRS, PRECISE)
    matrix = train_kernel_model(KernelFunction("precomputed"), kernel(X, X), members(y), PAIRS, PRECISE)
    np.testing.assert_array_equal(matrix.machines.row, direct.machines.row)
    np.testing.assert_allclose(matrix.machines.beta, direct.machines.beta, atol=1e-6)
    np.testing.assert_array_equal(X[matrix.vectors], direct.vectors)
    shares, X_new = PRECISE.scheme.shares, X[:9] + 0.1
    np.testing.assert_allclose(
        matrix.collapsed(shares)(kernel(X_new, X)), direct.collapsed(shares)(X_new), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("name", KERNELS)
def test_weights_are_scikit_learns(name, samples):
    (X, y), kernel = samples, KERNELS[name]
    weight = np.random.default_rng(1).uniform(0.2, 3, len(y))
    model = train_kernel_model(kernel, X, members(y), PAIRS, PRECISE, weight=weight)
    by_class = X[np.concatenate(members(y))]
    rows = np.concatenate(members(y)[:2])
    folds = np.concatenate([class_folds(SIZES[c], 4, 0, c) for c in (0, 1)])
    chosen = rows[folds != 3]
    expected = peer(kernel, X[chosen], np.where(y[chosen] == 0, 1, -1), 2.0, sample_weight=weight[chosen])
    np.testing.assert_allclose(
        decision_values(model, 0, 3, X, by_class), expected.decision_function(X), atol=2e-5
    )


def test_a_side_may_have_several_classes(samples):
    (X, y), kernel = samples, KERNELS["rbf"]
    grams = GramBlocks.of_rows(kernel, {c: X[y == c] for c in range(3)}, PRECISE.tol)
    starts = np.cumsum([0, *SIZES]).tolist()
    classes = {c: split_class(np.arange(starts[c], starts[c] + SIZES[c]), c, PRECISE, None) for c in range(3)}
    found = train_kernel_problem(grams, [0, 2], [1], classes, PRECISE)
    by_class = X[np.concatenate([np.flatnonzero(y == c) for c in (0, 2, 1)])]
    signs = np.repeat([1, 1, -1], [SIZES[0], SIZES[2], SIZES[1]])
    folds = np.concatenate([class_folds(SIZES[c], 4, 0, c) for c in (0, 2, 1)])
    for m in range(4):
        expected = peer(kernel, by_class[folds != m], signs[folds != m], 2.0).decision_function(X)
        f = found.beta[m] @ values(kernel, by_class, X) + found.intercept[m]
        np.testing.assert_allclose(f, expected, atol=2e-5)
    assert found.row.tolist() == [*range(30), *range(52, 78), *range(30, 52)]


def test_the_gram_matrix_of_several_classes_is_that_of_their_rows_kept_or_not(samples, monkeypatch):
    (X, y), kernel = samples, KERNELS["rbf"]
    rows = {c: X[y == c] for c in (2, 0, 1)}
    by_class = np.concatenate([rows[c] for c in (1, 2, 0)])
    kept = GramBlocks.of_rows(kernel, rows, PRECISE.tol)
    np.testing.assert_allclose(kept.of([1, 2, 0]), kernel(by_class, by_class), rtol=1e-12)
    monkeypatch.setattr(gram_blocks, "KEPT_BYTES", 0)
    joined = GramBlocks.of_rows(kernel, rows, PRECISE.tol)
    for classes in ([1, 2, 0], [2, 1, 0], [0, 2]):
        np.testing.assert_array_equal(joined.of(classes), kept.of(classes))


def test_a_machine_that_float32_is_too_coarse_for_is_solved_in_float64(samples, monkeypatch):
    (X, y), kernel = samples, KERNELS["rbf"]
    settings = MachineSettings(C=1e4, tol=1e-3)
    alike = train_kernel_model(kernel, X, members(y), PAIRS, settings)
    monkeypatch.setattr(kernel_machines, "_FLOAT32_STEPS_PER_ROW", 1)  # so that none is done in float32
    model = train_kernel_model(kernel, X, members(y), PAIRS, settings)
    assert (model.machines.gap <= settings.tol).all()
    assert (model.machines.beta != alike.machines.beta).any()
    np.testing.assert_allclose(model.machines.norm, alike.machines.norm, rtol=0.01)


def test_norms_are_those_of_the_feature_space_and_give_distances(samples):
    (X, y), kernel = samples, KERNELS["poly"]
    model = train_kernel_model(kernel, X, members(y), PAIRS, PRECISE)
    by_class = X[np.concatenate(members(y))]
    machines = model.machines
    for e in range(3):
        own = slice(machines.start[e], machines.start[e + 1])
        support, beta = by_class[machines.row[own]], machines.beta[own]
        for m in range(4):
            squared = sum(
                beta[a, m] * beta[b, m] * (0.3 * support[a] @ support[b] + 1.0) ** 3
                for a in range(len(beta))
                for b in range(len(beta))
            )
            assert machines.norm[e, m] == pytest.approx(np.sqrt(squared), rel=1e-9)
    distances = model.by_distance(PRECISE.scheme).machines
    np.testing.assert_allclose(distances.platt[..., 0], -1 / machines.norm)
    assert (distances.platt[..., 1] == 0).all()
    assert (distances.crossfit == distances.platt[:, :, None]).all()


@pytest.mark.parametrize("calibration", ["platt", "distance"])
def test_logits_are_the_means_of_the_machines(samples, calibration):
    (X, y), kernel = samples, KERNELS["rbf"]
    settings = MachineSettings(C=2.0, tol=1e-4, calibration=calibration, thresholds=True)
    model = train_kernel_model(kernel, X, members(y), PAIRS, settings)
    by_class, machines = X[np.concatenate(members(y))], model.machines
    shares, parts = np.array([0.5, 0.0, 0.3, 0.2]), np.arange(len(X)) % 8
    found, held_out = model.collapsed(shares)(X), model.held_out_logits(shares, X, parts)
    for e in range(3):
        f = [decision_values(model, e, m, X, by_class) for m in range(4)]
        expected = -sum(
            shares[m] * (machines.platt[e, m, 0] * f[m] + machines.platt[e, m, 1]) for m in range(4)
        )
        np.testing.assert_allclose(found[e], expected - machines.threshold[e], rtol=1e-4, atol=1e-5)
        A, B = machines.crossfit[e, :, parts, 0].T, machines.crossfit[e, :, parts, 1].T
        expected = -sum(shares[m] * (A[m] * f[m] + B[m]) for m in range(4))
        np.testing.assert_allclose(held_out[e], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("gamma", [0.05, 1.0, 20.0])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_kernel_that_is_no_inner_product_ends_where_libsvm_does_not_improve_it(C, gamma, samples):
    """The dual is not concave. SMO, as LIBSVM's, ends at a stationary point, of which there may be several."""
    X, y = samples
    kernel = KernelFunction("sigmoid", gamma, coef0=-0.5)
    settings = MachineSettings(C=C, max_iterations=200_000)
    model = train_kernel_model(kernel, X, members(y), PAIRS.part(slice(1)), settings)
    assert model.machines.iterations.max() < settings.max_iterations
    assert np.isfinite(model.collapsed(settings.scheme.shares)(X)).all()


def test_kernel_values_that_are_all_rounding_errors_end_with_a_warning(samples):
    """(x.z)^3 of features near a million: float32 holds nothing of their differences."""
    X, y = samples
    with pytest.warns(ConvergenceWarning, match="machines stopped before the relative duality gap"):
        model = train_kernel_model(
            KernelFunction("poly", 1e-7), X + 1e6, members(y), PAIRS.part(slice(1)), MachineSettings()
        )
    assert model.machines.iterations.max() <= 2000 * sum(SIZES[:2])
    assert np.isfinite(model.machines.beta).all()


def test_edges_do_not_depend_on_each_other_nor_on_threads(samples):
    (X, y), kernel = samples, KERNELS["rbf"]
    settings = MachineSettings()
    all_of_them = train_kernel_model(kernel, X, members(y), PAIRS, settings, n_threads=2).machines
    for e in range(3):
        alone = train_kernel_model(kernel, X, members(y), PAIRS.part(slice(e, e + 1)), settings).machines
        for one, other in zip(alone, all_of_them.of_edges(np.array([e])), strict=True):
            np.testing.assert_array_equal(one, other)


def test_every_support_vector_is_held_once(samples):
    X, y = samples
    model = train_kernel_model(KERNELS["rbf"], X, members(y), PAIRS, MachineSettings())
    rows = np.concatenate(members(y))[np.unique(model.machines.row)]
    np.testing.assert_array_equal(model.vectors, X[rows])
    assert model.machines.beta.any(axis=1).all()
    assert len(model.vectors) < len(X)
    for e, (i, j) in enumerate(EDGES):
        own = slice(*model.machines.start[e : e + 2])
        signs = np.where(y[np.concatenate(members(y))][model.machines.row[own]] == i, 1, -1)
        assert (signs[:, None] * model.machines.beta[own] >= 0).all()
        np.testing.assert_allclose(model.machines.beta[own].sum(axis=0), 0, atol=1e-9)
        assert j > i


def test_problems_that_are_too_large_say_what_to_do(samples, monkeypatch):
    monkeypatch.setattr(gram_blocks, "MOST_ROWS", 50)
    X, y = samples
    message = r"kernel='rbf': the classes of one machine must have at most 50 .* got 52\. .*estimator=SVC"
    with pytest.raises(ValueError, match=message):
        train_kernel_model(KERNELS["rbf"], X, members(y), PAIRS, MachineSettings())


def test_values_that_no_float_can_hold_are_refused(samples):
    X, y = samples
    with pytest.raises(
        ValueError, match=r"kernel='poly': kernel values must be finite .* float32 .*scale the features"
    ):
        train_kernel_model(KernelFunction("poly", 1e20), X, members(y), PAIRS, MachineSettings())
