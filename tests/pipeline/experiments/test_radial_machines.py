"""The authors' radial machines against LIBSVM, and the tensors of their machines."""

import numpy as np
import pytest
from sklearn.svm import SVC

from pairloom.pipeline.experiments.trained_tensor import machine_settings, radial_logits, train_tensor
from pairloom.pipeline.machines.fold_alone import standardisation
from pairloom.pipeline.machines.folds import INNER_FOLDS, class_folds, class_parts
from pairloom.pipeline.machines.pair_calibration import fit_platt


def test_logits_are_means_of_libsvm_on_standardised_folds():
    rng = np.random.default_rng(0)
    rows = {c: (rng.standard_normal((40, 6)) + c).astype(np.float32) * [1, 10, 1, 1, 0.1, 1] for c in (0, 1)}
    rows = {c: X.astype(np.float32) for c, X in rows.items()}
    test = (rng.standard_normal((30, 6)) + 0.5).astype(np.float32)
    settings = machine_settings(rows[0], "paper-radial")
    logits, dprime = radial_logits(rows, np.array([[0, 1]]), settings, test)
    expected = np.zeros(30)
    folds, inner = (np.concatenate([of(40, 4, 0, c, *more) for c in (0, 1)]) for of, more in FOLDED)
    X, y = np.concatenate([rows[0], rows[1]]), np.repeat([1.0, -1.0], 40)
    for k in range(4):
        own, parts, signs = X[folds == k], inner[folds == k], y[folds == k]
        mean, deviation = standardisation(own)
        own, scored = (own - mean) / deviation, (test - mean) / deviation

        def decided(chosen, some, own=own, signs=signs):
            machine = SVC(kernel="rbf", C=1.0, gamma="auto", tol=1e-6)
            return machine.fit(own[chosen], signs[chosen]).decision_function(some)

        f = np.empty(len(own))
        for part in range(INNER_FOLDS):
            f[parts == part] = decided(parts != part, own[parts == part])
        sigmoid = fit_platt(f, signs)
        expected -= (sigmoid.A * decided(parts >= 0, scored) + sigmoid.B) / 4
    np.testing.assert_allclose(logits[0], expected, atol=0.03)
    assert dprime[0] > 1


FOLDED = ((class_folds, ()), (class_parts, (INNER_FOLDS,)))


@pytest.mark.parametrize("radial", [False, True])
def test_machines_of_the_authors_have_sigmoids_only(digits_features, radial):
    three = digits_features._replace(
        **{
            name: values[digits_features[at] < 3]
            for name, values, at in (
                ("X_train", digits_features.X_train, 1),
                ("y_train", digits_features.y_train, 1),
                ("X_test", digits_features.X_test, 3),
                ("y_test", digits_features.y_test, 3),
            )
        },
        classes=digits_features.classes[:3],
    )
    trained = train_tensor(three, machine_settings(three.X_train, "paper"), radial=radial)
    assert trained.calibrations == ("platt",)
    assert len(trained.of_classes([2, 0]).recalibrated) == 0
    right = trained.logits.sum(axis=1).argmax(axis=0) == three.y_test
    assert right.mean() > 0.95


def test_unknown_machines_are_refused(digits_features):
    with pytest.raises(ValueError, match="machines must be one of ours, paper, paper-radial, got 'papers'"):
        machine_settings(digits_features.X_train, "papers")
