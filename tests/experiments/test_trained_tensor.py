import numpy as np
import pytest

from pairloom import PairwiseSVC, graphs
from pairloom.pipeline.experiments.trained_tensor import (
    COUPLINGS,
    cached_tensor,
    load_set,
    paper_settings,
    source_named,
    train_tensor,
)


@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize(
    "graph", [graphs.star(10, 3), graphs.path(10), graphs.bipartite(10, 3)], ids=["star", "path", "bipartite"]
)
def test_a_mask_is_the_smaller_model_trained(digits_features, digits, graph, coupling):
    svc = PairwiseSVC(
        graph,
        coupling,
        fit_on="fold",
        calibrate=None,
        whiten=None,
        random_state=paper_settings(np.eye(2)).seed,
    ).fit(digits_features.X_train, digits_features.y_train)
    trained = svc.predict_proba(digits_features.X_test)
    np.testing.assert_allclose(digits.probabilities(graph, [coupling])[coupling], trained, atol=2e-5)


def test_a_trees_couplings_are_one_model(digits):
    p = digits.probabilities(graphs.spanning_tree(digits.dprime))
    for coupling in COUPLINGS:
        np.testing.assert_allclose(p[coupling], p["normal"], atol=1e-4)
    assert digits.tree_error(graphs.star(10, 8)) == digits.errors(graphs.star(10, 8), ["wlw2"])["wlw2"]


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


def test_what_is_known_of_pairs_is_symmetric_and_positive(digits):
    for matrix in (digits.dprime, digits.distances):
        np.testing.assert_array_equal(matrix, matrix.T)
        assert (matrix[~np.eye(10, dtype=bool)] > 0).all()
    assert digits.confusion.sum() == 1347


@pytest.fixture
def three_digits(digits_features):
    """Small enough to be trained more than once."""
    train, test = digits_features.y_train < 3, digits_features.y_test < 3
    return digits_features._replace(
        X_train=digits_features.X_train[train],
        y_train=digits_features.y_train[train],
        X_test=digits_features.X_test[test],
        y_test=digits_features.y_test[test],
        classes=("0", "1", "2"),
    )


def test_a_tensor_is_trained_once(three_digits, tmp_path):
    settings, edges = paper_settings(three_digits.X_train), []
    first = cached_tensor(three_digits, settings, tmp_path / "tensor.npz", edges.append)
    again = cached_tensor(three_digits, settings, tmp_path / "tensor.npz", edges.append)
    assert edges == [3]
    for written, read in zip(first, again, strict=True):
        np.testing.assert_array_equal(written, read)
    assert again.classes == first.classes
    assert again.synthetic is False


def test_a_tensor_of_other_settings_or_a_damaged_one_is_trained_anew(three_digits, tmp_path):
    path, edges = tmp_path / "tensor.npz", []
    cached_tensor(three_digits, paper_settings(three_digits.X_train), path, edges.append)
    other = paper_settings(three_digits.X_train, seed=1)
    cached_tensor(three_digits, other, path, edges.append)
    path.write_bytes(path.read_bytes()[:1000])
    cached_tensor(three_digits, other, path, edges.append)
    assert edges == [3, 3, 3]


def test_labels_are_needed(three_digits):
    with pytest.raises(ValueError, match="train_tensor: the test samples must have labels"):
        train_tensor(three_digits._replace(y_test=None), paper_settings(three_digits.X_train))


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
