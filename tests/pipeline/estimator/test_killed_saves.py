"""A process that is killed while it overwrites a saved model leaves the old one or the new one, whole."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fitted_models import fitted

from pairloom import PairwiseSVC


@pytest.fixture(scope="module")
def models(data):
    """Two models of one problem that predict differently."""
    return fitted(data, graph="star"), fitted(data, graph="complete")


# Saves the model at the second path over the one at the first, and kills itself at the n-th change of the folder. The
# first is that of model.json: before it, arrays are written beside the folder.
KILLED_SAVE = textwrap.dedent(
    """
    import os, signal, sys
    from pairloom import PairwiseSVC

    path, new, at = sys.argv[1], PairwiseSVC.load(sys.argv[2]), int(sys.argv[3])
    changes = 0

    def hook(event, arguments):
        global changes
        if event in ("os.rename", "os.remove", "os.rmdir") and (changes or "model.json" in str(arguments)):
            changes += 1
            if changes == at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    new.save(path, overwrite=True)
    print(changes)
    """
)


def save_killed_at(path, new, change):
    """The exit code of a process that is killed at a change, or the number of changes if it comes to its end."""
    command = [sys.executable, "-c", KILLED_SAVE, str(path), str(new), str(change)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, -9), done.stderr
    return int(done.stdout) if done.returncode == 0 else done.returncode


@pytest.mark.faults
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_killed_save_leaves_the_old_or_the_new_model(models, data, tmp_path):
    path, new = tmp_path / "model", tmp_path / "new"
    models[1].save(new)
    models[0].save(path)
    changes = save_killed_at(path, new, 0)
    assert changes > 40, "files of the old model are removed one by one"
    old_p, new_p = (model.predict_proba(data.X_new) for model in models)
    seen = []
    for at in [1, 2, 3, 4, 5, changes // 3, changes // 2, changes - 4, changes - 2]:
        models[0].save(path, overwrite=True)  # over whatever the last one left
        assert save_killed_at(path, new, at) == -9
        p = PairwiseSVC.load(path).predict_proba(data.X_new)
        seen.append("new" if np.array_equal(p, new_p) else "old")
        np.testing.assert_array_equal(p, new_p if seen[-1] == "new" else old_p)
    assert seen == sorted(seen, reverse=True)
    assert set(seen) == {"old", "new"}
    models[1].save(path, overwrite=True)
    assert len(list(path.glob("*.zarr"))) == 1, "nothing is left of the models before"


@pytest.mark.long
def test_several_who_replace_one_model_leave_a_whole_one(models, data, tmp_path):
    path = tmp_path / "model"
    models[0].save(path)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: models[number % 2].save(path, overwrite=True), range(12)))
    p = PairwiseSVC.load(path).predict_proba(data.X_new)
    assert any(np.array_equal(p, model.predict_proba(data.X_new)) for model in models)
    assert len(list(path.glob("*.zarr"))) == 1
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.long
def test_whoever_loads_while_models_are_replaced_finds_one(models, data, tmp_path):
    path = tmp_path / "model"
    models[0].save(path)
    known = [model.predict_proba(data.X_new) for model in models]
    stop = threading.Event()

    def replace_again_and_again():
        while not stop.is_set():
            for model in models:
                model.save(path, overwrite=True)

    replacing = threading.Thread(target=replace_again_and_again)
    replacing.start()
    try:
        for _ in range(8):
            p = PairwiseSVC.load(path).predict_proba(data.X_new)
            assert any(np.array_equal(p, one) for one in known)
    finally:
        stop.set()
        replacing.join()
    assert sorted(os.listdir(tmp_path)) == ["model"]
