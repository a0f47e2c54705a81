"""`pairloom plan` and `simulate` forecast a run on any data that `run` runs on."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

from pairloom.cluster.commands.cli import main
from pairloom.cluster.simulator import unit_costs

CONFIG = """
[data]
features = "data.npz"
[model]
whiten = "none"
C = 1.0
folds = 2
[cluster]
kind = "threads"
workers = 1
"""
y = np.repeat(np.arange(6), 8)
X = np.random.default_rng(0).standard_normal((48, 3)) + 2 * y[:, None]
TRAIN = {"X_train": X, "y_train": y}
DATA = {
    "no y_test": TRAIN | {"X_test": X[:10]},
    "no test samples": TRAIN | {"X_test": X[:0], "y_test": y[:0]},
    "no test samples nor labels": TRAIN | {"X_test": X[:0]},
    "test samples of later classes": TRAIN | {"X_test": X[-8:], "y_test": y[-8:]},
    "a pool too small for test samples": {"X": X[::8].repeat(2, axis=0), "y": y[::8].repeat(2)},
}


@pytest.mark.quick(
    "no y_test-plan",
    "no test samples-simulate",
    "no test samples nor labels-plan",
    "test samples of later classes-simulate",
    "a pool too small for test samples-plan",
)
@pytest.mark.parametrize("command", ["plan", "simulate"])
@pytest.mark.parametrize("data", DATA)
def test_data_with_few_test_samples_or_none_are_forecast(data, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(unit_costs, "_CLASSES", 5)  # as if there were more classes than a forecast measures
    np.savez("data.npz", **DATA[data])
    (tmp_path / "config.toml").write_text(CONFIG)
    done = CliRunner().invoke(main, [command, "config.toml"])
    assert done.exit_code == 0, done.output
    assert "machines" in done.output
