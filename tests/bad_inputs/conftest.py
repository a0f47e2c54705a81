"""A finished run of four classes, for every file of this folder. Copy it before you change it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from pairloom.cluster.commands.cli import main

CONFIG = """
[data]
features = "data.npz"
[model]
whiten = "none"
folds = 2
[cluster]
kind = "threads"
workers = 1
"""


@pytest.fixture(scope="session")
def place(tmp_path_factory) -> Path:
    """A folder with `data.npz`, `config.toml` and `run`, the finished run of both."""
    folder, random = tmp_path_factory.mktemp("bad_inputs"), np.random.default_rng(0)
    y = np.repeat(np.arange(4), 8)
    np.savez(folder / "data.npz", X=2 * random.standard_normal((4, 3))[y] + random.random((32, 3)), y=y)
    (folder / "config.toml").write_text(CONFIG)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        done = CliRunner().invoke(main, ["run", "config.toml", "--directory", "run"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return folder
