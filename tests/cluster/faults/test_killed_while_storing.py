"""A worker is killed while it stores rows that it reads from their source: the run ends in the same bytes."""

from __future__ import annotations

import numpy as np
import pytest
import zarr
from dask_processes import finish, kill_and_reap
from disturbed_runs import assert_finished, stop_in_mid_unit
from small_runs import bytes_of, run_here, times_begun, write_config

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def wide_config(tmp_path_factory):
    """Shuffled rows of many features in a zarr group: six files of rows, and pairs that are trained in no time."""
    folder, random = tmp_path_factory.mktemp("wide"), np.random.default_rng(0)
    y = random.permutation(np.repeat(np.arange(1, 13), 500))
    X = (random.standard_normal((13, 4096))[y] + random.standard_normal((len(y), 4096))).astype(np.float32)
    group = zarr.create_group(folder / "data.zarr")
    for name, values in {"X_train": X, "y_train": y, "X_test": X[:20], "y_test": y[:20]}.items():
        group.create_array(name, data=values, chunks=(1, *values.shape[1:]))
    config = write_config(folder / "wide.toml", folder / "data.zarr")
    config.write_text(
        config.read_text().replace("complete", "path").replace("whiten = 0.8", 'whiten = "none"')
    )
    return config


def test_a_worker_that_stores_rows_is_killed(
    start_driver, directory, dask_processes, wide_config, client, tmp_path
):
    whole = run_here(wide_config, tmp_path / "whole", client)
    assert whole.units("features") == 6
    workers = {worker.pid: worker for worker in (dask_processes.start_worker() for _ in range(2))}
    driver = start_driver(directory, "--scheduler-file", dask_processes.scheduler_file, config=wide_config)
    pid, unit = stop_in_mid_unit(directory, "features", set(workers))
    kill_and_reap(workers[pid])
    code, errors = finish(driver)
    assert_finished(code, errors, directory, bytes_of(tmp_path / "whole"))
    assert times_begun(directory, "features")[unit] == 2


def test_a_driver_is_killed_while_workers_store_rows(
    start_driver, directory, dask_processes, resume, wide_config, client, tmp_path
):
    run_here(wide_config, tmp_path / "whole", client)
    worker = dask_processes.start_worker()
    driver = start_driver(directory, "--scheduler-file", dask_processes.scheduler_file, config=wide_config)
    stop_in_mid_unit(directory, "features", {worker.pid})
    kill_and_reap(driver)
    kill_and_reap(worker)
    stored = len(list((directory / "ledger" / "features").glob("*.json")))
    assert stored < 6
    dask_processes.start_worker()
    code, errors = resume()
    assert_finished(code, errors, directory, bytes_of(tmp_path / "whole"))
    assert set(times_begun(directory, "order").values()) == {1}
    assert sum(times_begun(directory, "features").values()) == 7, (
        "only the unit that was under way began again"
    )
