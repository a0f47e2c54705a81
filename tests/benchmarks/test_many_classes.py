import numpy as np
import pytest
from bench_command import bench

from pairloom.benchmarks.datasets import synthetic_classes
from pairloom.benchmarks.many_classes import PEERS


@pytest.mark.long
def test_classifiers_of_many_classes_are_compared(tmp_path):
    names = "PairwiseSVC,nearest centroid,discriminant,logistic regression"
    _, record = bench("many-classes", "--small", "--peers", names, json_file=tmp_path / "classes.json")
    rows = {row["classifier"]: row for row in record["rows"]}
    assert list(rows) == names.split(",")
    for row in rows.values():
        assert row["classes"] == 60
        assert 0.5 < row["accuracy"] <= 1
        assert row["fit_s"] > 0
        assert row["size_mb"] > 0


@pytest.mark.quick("nearest centroid", "discriminant")
@pytest.mark.parametrize("name", ["nearest centroid", "discriminant", "nearest neighbours", "HSM"])
def test_peers_have_probabilities_that_sum_to_one(name):
    make, package = PEERS[name]
    if package:
        pytest.importorskip(package)
    split = synthetic_classes(8, rows=20, features=12, tests=40)
    p = make().fit(split.X, split.y).predict_proba(split.X_new)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    assert (p.argmax(axis=1) == split.y_new).mean() > 0.5
