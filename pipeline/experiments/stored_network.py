"""The pictures and the network behind a store of features: which file a test sample is, and the network's own answers.

Only stores that `pairloom features` made know these.
"""

from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from pairloom.pipeline.experiments.network_answers import NetworkAnswers
from pairloom.pipeline.features.feature_set import rows_for_test
from pairloom.pipeline.features.source_files import expand_data_folder
from pairloom.pipeline.images.image_folder import POOL, TEST, TRAIN
from pairloom.pipeline.images.network_column import class_probabilities
from pairloom.pipeline.images.picture_store import name_in_store, settings_of
from pairloom.pipeline.pieces import pieces
from pairloom.pipeline.report.evaluation import confusion_counts
from pairloom.pipeline.storage.digests import digest_of

__all__ = ["picture_files", "pictures_digest", "stored_answers"]

_ROWS_AT_ONCE = 4096


def picture_files(source: str) -> tuple[str, ...]:
    """The picture of every test sample, relative to the folder of all pictures; none if the source does not know."""
    store = _store(source)
    if store is None:
        return ()
    part, rows = _place(store, TEST)
    return tuple(str(file) for file in _array(store, name_in_store("files", part))[rows])


def pictures_digest(source: str) -> str:
    """Digest of everything that a store was made of; empty if the source is not a store of pictures."""
    store = _store(source)
    return "" if store is None else digest_of(settings_of(store))


def stored_answers(source: str) -> NetworkAnswers | None:
    """The network's own answers; None if the source has none, or does not know which output is which class."""
    store = _store(source)
    if store is None:
        return None
    tested, trained = _answers(store, TEST), _answers(store, TRAIN)
    if tested is None or trained is None:
        return None
    return NetworkAnswers(tested[0], confusion_counts(*trained), stand_in=False)


def _store(source: str) -> Path | None:
    """The store at a source, if it is one that was made of pictures."""
    path = expand_data_folder(source)
    return path if source and settings_of(path) is not None else None


def _array(store: Path, name: str) -> NDArray[Any]:
    return np.asarray(zarr.open_group(store, mode="r")[name][:])  # type: ignore[index]


def _place(store: Path, part: str) -> tuple[str, NDArray[np.int64]]:
    """Where the rows of the training or the test samples are: the part of the store, and its rows.

    Of a pool the test samples are those that `load_features` sets apart.
    """
    group = zarr.open_group(store, mode="r")
    if name_in_store("y", TEST) in group:
        return part, np.arange(len(_array(store, name_in_store("y", part))))
    testing = rows_for_test(_array(store, "y"), str(store))
    return POOL, np.flatnonzero(testing if part == TEST else ~testing)


def _answers(store: Path, part: str) -> tuple[NDArray[np.float32], NDArray[np.int64]] | None:
    """(n, N) probabilities of the classes of a part of the samples, and the (n,) classes they are of."""
    stored, rows = _place(store, part)
    y = _array(store, name_in_store("y", stored))
    found = []
    for block in pieces(len(y), _ROWS_AT_ONCE):
        p = class_probabilities(store, stored, block)
        if p is None:
            return None
        found.append(p)
    return np.concatenate(found)[rows], y[rows]
