"""A run stores the rows that were checked: it ends with an error if they changed since."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

from pairloom.pipeline.config.config import Config
from pairloom.pipeline.features import row_sources
from pairloom.pipeline.features.feature_set import open_features
from pairloom.pipeline.run.run_directory import stamp_groups
from pairloom.pipeline.stages.features import Features
from pairloom.pipeline.stages.planning import plan_run
from pairloom.pipeline.stages.samples import Samples

y = np.repeat(np.arange(3), 8)
X = np.random.default_rng(0).standard_normal((24, 2)) + y[:, None]


@pytest.fixture
def group(tmp_path):
    """Rows that are not sorted by class."""
    order = np.random.default_rng(1).permutation(24)
    group = zarr.create_group(tmp_path / "data.zarr")
    for part in ("train", "test"):
        group.create_array(f"X_{part}", data=X[order], chunks=(6, 2))
        group.create_array(f"y_{part}", data=y[order] + 1)
    return group


@pytest.mark.parametrize(("stage", "part"), [(Features(), "train"), (Samples(), "test")])
def test_a_group_that_changes_after_the_check_is_not_stored(stage, part, group, tmp_path, monkeypatch):
    monkeypatch.setattr(row_sources, "PIECE_BYTES", 1)  # a chunk at a time, of which the last is kept
    config = Config.model_validate({"data": {"features": str(tmp_path / "data.zarr")}, "model": {"folds": 2}})
    data = open_features(config.data.features)
    run = plan_run(config, data, tmp_path / "run")
    stamp_groups(run.directory, run.shape)
    assert stage.work(run, 0, data)
    data.close()
    group[f"X_{part}"][17, 1] = 100.0
    with pytest.raises(ValueError, match=rf"X_{part} must not change while it is read, but row 17"):
        stage.work(run, 0, data)
