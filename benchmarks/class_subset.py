"""A part of a data set: its first classes, with all or some of their rows."""

from pathlib import Path

import numpy as np

from pairloom.cluster.config import Config
from pairloom.cluster.config_file import with_section
from pairloom.cluster.driver import load_data


def with_first_classes(
    config: Config, classes: int, folder: Path, rows: int | None = None, tests: int | None = None
) -> Config:
    """The configuration for its first classes only, with at most ``rows`` of each and ``tests`` test samples.

    The part is written to ``folder``.
    """
    data = load_data(config)
    y_test = data.y_test if data.y_test is not None else np.zeros(len(data.X_test), np.int64)
    limit = rows or len(data.y_train)
    train = np.concatenate([np.flatnonzero(data.y_train == c)[:limit] for c in range(classes)])
    test = np.flatnonzero(y_test < classes)[:tests]
    path = folder / f"first-{classes}-{limit}.npz"
    np.savez(
        path,
        X_train=data.X_train[train],
        y_train=data.y_train[train],
        X_test=data.X_test[test],
        y_test=y_test[test],
        classes=np.array(data.classes[:classes]),
    )
    return with_section(config, "data", {"features": str(path), "test": None})
