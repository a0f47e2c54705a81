import numpy as np
import pytest
from scipy.stats import norm
from tensor_errors import errors, tree_error

from pairloom import PairwiseSVC, graphs
from pairloom.pipeline.experiments.trained_tensor import (
    COUPLINGS,
    cached_tensor,
    load_set,
    machine_settings,
    source_named,
    train_tensor,
)
from pairloom.pipeline.machines.folds import class_folds
from pairloom.pipeline.machines.linear_machines import train_linear_model
from pairloom.pipeline.machines.normalisation import centring

GRAPHS = {"star": graphs.star(10, 3), "path": graphs.path(10), "bipartite": graphs.bipartite(10, 3)}


@pytest.mark.parametrize("family", GRAPHS)
def test_a_mask_is_the_smaller_graph_trained(digits_features, digits, family):
    data, graph = digits_features, GRAPHS[family]
    settings = machine_settings(data.X_train)
    rows = {c: data.X_train[data.y_train == c] for c in range(10)}
    smaller = train_linear_model(rows, graphs.decomposition_of(graph), settings, centring(data.X_train))
    # The machines are identical to the bit, but a matrix product of another shape may round differently.
    logits = smaller.collapsed(settings.scheme.shares)(data.X_test)
    np.testing.assert_allclose(digits.of_edges(graph), logits, rtol=1e-5, atol=1e-5)
    i, j = graphs.edge_array(graph).T
    np.testing.assert_array_equal(digits.dprime[i, j], smaller.machines.dprime)


@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("family", GRAPHS)
def test_a_mask_is_the_estimator_over_that_graph(digits_features, digits, family, coupling):
    svc = PairwiseSVC(
        GRAPHS[family],
        coupling=coupling,
        fit_on="fold",
        coupled_calibration="none",
        C="scale",
        whiten="none",
        random_state=0,
        kernel="linear",
        standardise=False,
    )
    svc.fit(digits_features.X_train, digits_features.y_train)
    # C differs in the ninth digit, so the machines agree within the solver's tolerance.
    p = svc.predict_proba(digits_features.X_test)
    np.testing.assert_allclose(digits.probabilities(GRAPHS[family], [coupling])[coupling], p, atol=2e-3)


def test_by_distance_the_model_is_the_estimator_with_its_scale(digits_features, digits):
    svc = PairwiseSVC(
        "complete",
        calibration="distance",
        fit_on="fold",
        C="scale",
        whiten="none",
        random_state=0,
        kernel="linear",
        standardise=False,
    )
    svc.fit(digits_features.X_train, digits_features.y_train)
    p = digits.calibrated("distance").probabilities(graphs.complete(10), ["stratified"])["stratified"]
    np.testing.assert_allclose(p, svc.predict_proba(digits_features.X_test), atol=2e-3)


def test_both_calibrations_are_of_the_same_machines(digits):
    by_distance = digits.calibrated("distance")
    assert digits.calibrated("platt") is digits
    np.testing.assert_array_equal(by_distance.logits, -by_distance.logits.transpose(1, 0, 2))
    # A fold's sigmoid has a shift, so signs may differ near zero, and only there.
    differ = np.sign(by_distance.logits) != np.sign(digits.logits)
    assert differ.mean() < 0.05
    assert np.abs(digits.logits[differ]).max() < np.abs(digits.logits).max() / 2
    with pytest.raises(ValueError, match="calibration must be one of platt, distance, gaussian, got 'none'"):
        digits.calibrated("none")


def test_by_gaussians_a_pair_has_the_log_odds_of_the_densities_of_its_decision_values(
    digits_features, digits
):
    data, pair = digits_features, [3, 8]
    settings = machine_settings(data.X_train)
    rows = {c: data.X_train[data.y_train == c] for c in range(10)}
    model = train_linear_model(rows, graphs.Pairs(np.array([pair]), 10), settings, centring(data.X_train))
    coef, intercept = model.machines.coef[0], model.machines.intercept[0]
    expected = np.zeros(len(data.X_test))
    for k in range(4):
        densities = []
        for c in pair:
            others = class_folds(len(rows[c]), 4, settings.seed, c) != k
            f = (rows[c][others] - model.whitening.mean) @ coef[k] + intercept[k]
            f_test = (data.X_test - model.whitening.mean) @ coef[k] + intercept[k]
            densities.append(norm(f.mean(), f.std()).logpdf(f_test) + np.log(len(f)))
        expected += (densities[0] - densities[1]) / 4
    by_gaussians = digits.calibrated("gaussian").logits
    np.testing.assert_allclose(by_gaussians[3, 8], expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(by_gaussians[8, 3], -by_gaussians[3, 8])
    chosen = digits.of_classes([8, 3, 5]).calibrated("gaussian")
    np.testing.assert_array_equal(chosen.logits[0, 1], by_gaussians[8, 3][np.isin(data.y_test, [8, 3, 5])])


def test_a_trees_couplings_are_one_model(digits):
    p = digits.probabilities(graphs.spanning_tree(digits.dprime))
    for coupling in COUPLINGS:
        np.testing.assert_allclose(p[coupling], p["normal"], atol=1e-4)
    assert tree_error(digits, graphs.star(10, 8)) == errors(digits, graphs.star(10, 8), ["wlw2"])["wlw2"]


def test_of_classes_keeps_the_pairs_and_the_samples_of_these_classes(digits):
    chosen = [7, 2, 5]
    part = digits.of_classes(chosen)
    assert part.classes == ("7", "2", "5")
    np.testing.assert_array_equal(
        np.bincount(part.labels),
        [np.sum(digits.labels == c) for c in chosen],
        err_msg="samples of each class",
    )
    samples = np.flatnonzero(np.isin(digits.labels, chosen))
    np.testing.assert_array_equal(part.logits[0, 2], digits.logits[7, 5, samples])
    assert part.dprime[1, 2] == digits.dprime[2, 5]
    assert part.confusion[2, 0] == digits.confusion[5, 7]
    np.testing.assert_array_equal(part.network, digits.network[np.ix_(samples, chosen)])
    np.testing.assert_array_equal(
        part.calibrated("distance").logits,
        digits.calibrated("distance").logits[np.ix_(chosen, chosen, samples)],
    )


def test_distances_are_symmetric_and_positive(digits):
    for matrix in (digits.dprime, digits.distances):
        np.testing.assert_array_equal(matrix, matrix.T)
        assert (matrix[~np.eye(10, dtype=bool)] > 0).all()


def test_confusion_counts_every_training_sample(digits_features, digits):
    np.testing.assert_array_equal(digits.confusion.sum(axis=1), np.bincount(digits_features.y_train))


@pytest.fixture
def three_digits(digits_features):
    """Three classes of digits: small enough to be trained more than once."""
    train, test = digits_features.y_train < 3, digits_features.y_test < 3
    return digits_features._replace(
        X_train=digits_features.X_train[train],
        y_train=digits_features.y_train[train],
        X_test=digits_features.X_test[test],
        y_test=digits_features.y_test[test],
        classes=("0", "1", "2"),
    )


def test_a_tensor_is_trained_once(three_digits, tmp_path):
    settings, edges = machine_settings(three_digits.X_train), []
    first = cached_tensor(three_digits, settings, tmp_path / "tensor.npz", edges.append)
    again = cached_tensor(three_digits, settings, tmp_path / "tensor.npz", edges.append)
    assert edges == [3]
    for written, read in zip(first, again, strict=True):
        np.testing.assert_array_equal(written, read)
    assert again.classes == first.classes
    assert again.synthetic is False


def test_a_tensor_of_other_settings_or_a_damaged_one_is_trained_anew(three_digits, tmp_path):
    path, edges = tmp_path / "tensor.npz", []
    cached_tensor(three_digits, machine_settings(three_digits.X_train), path, edges.append)
    other = machine_settings(three_digits.X_train, seed=1)
    cached_tensor(three_digits, other, path, edges.append)
    path.write_bytes(path.read_bytes()[:1000])
    cached_tensor(three_digits, other, path, edges.append)
    assert edges == [3, 3, 3]


def test_labels_are_needed(three_digits):
    with pytest.raises(ValueError, match="train_tensor: the test samples must have labels"):
        train_tensor(three_digits._replace(y_test=None), machine_settings(three_digits.X_train))


def test_a_set_is_found_by_name_in_the_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PAIRLOOM_DATA", str(tmp_path))
    X, y = np.eye(8), np.arange(8) % 2
    np.savez(tmp_path / "flowers-resnet.npz", X=X, y=y)
    assert source_named("flowers") == str(tmp_path / "flowers-resnet.npz")
    assert load_set("flowers").X_train.shape == (6, 8)
    assert source_named("digits") == "digits"
    with pytest.raises(FileNotFoundError, match="a set in PAIRLOOM_DATA, got 'flow'"):
        source_named("flow")
    monkeypatch.delenv("PAIRLOOM_DATA")
    with pytest.raises(FileNotFoundError, match="PAIRLOOM_DATA is not set"):
        source_named("flowers")
