"""The answers of the network that made the features: for the Network column of [S Table 5] and the confusion cost.

Stores that `pairloom features` made have the files of their pictures and the network's own answers. For other sources a
softmax layer on the features stands in. The paper's networks end in such a layer: Table 5 has their errors, and the
confusion cost [S 4.3] is their confusion matrix. Here the layer is a multinomial logistic regression on the training
samples. It sees the same features as the machines, but unlike the last layer of a network it was not trained together
with them.

This module also makes adapted features, which were trained on the classes. The networks of [S] were trained, or
fine-tuned, on the classes of the experiment; features of a network for other classes were not. Here a network with one
hidden layer is trained on the training samples of a set; its hidden layer replaces the features, and its softmax is the
network of [S Table 5]. It makes no errors on the training samples, since it was trained on them. In the confusion cost,
the out-of-fold confusion of a softmax layer on the original features stands in for it.
"""

import io
import json
import warnings
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from pairloom.pipeline.display.evaluation import confusion_counts
from pairloom.pipeline.experiments.code_digest import code_digest
from pairloom.pipeline.features.feature_set import FeatureSet, rows_for_test
from pairloom.pipeline.features.source_files import location_of_source
from pairloom.pipeline.images.image_folder import POOL, TEST, TRAIN
from pairloom.pipeline.images.network_outputs import class_probabilities
from pairloom.pipeline.images.picture_store import name_in_store, settings_of
from pairloom.pipeline.machines.folds import class_folds
from pairloom.pipeline.storage.atomic_file import write_atomically
from pairloom.pipeline.storage.digests import digest_of
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.threads import in_threads, one_blas_thread, pieces, thread_count

__all__ = [
    "NetworkAnswers",
    "picture_files",
    "pictures_digest",
    "softmax_answers",
    "stored_answers",
]


class NetworkAnswers(NamedTuple):
    """The answers of a network, or of a layer in its place, on the classes of a set.

    Attributes
    ----------
    probabilities : (R, N) float32 array
        Probabilities of the test samples.
    confusion : (N, N) int array
        Counts (true class, predicted class) on training samples.
    stand_in : bool
        Whether the answers come from a softmax layer on the features.
    """

    probabilities: NDArray[np.float32]
    confusion: NDArray[np.int64]
    stand_in: bool


_ROWS_AT_ONCE = 4096


def picture_files(source: str) -> tuple[str, ...]:
    """The picture of every test sample, relative to the folder of all pictures; empty if the source has no names."""
    store = _store(source)
    if store is None:
        return ()
    part, rows = _place(store, TEST)
    return tuple(str(file) for file in _array(store, name_in_store("files", part))[rows])


def pictures_digest(source: str) -> str:
    """Digest of everything from which a store was made; empty if the source is not a store of pictures."""
    store = _store(source)
    return "" if store is None else digest_of(settings_of(store))


def stored_answers(source: str) -> NetworkAnswers | None:
    """The network's own answers; None if the source has none, or does not assign outputs to classes."""
    store = _store(source)
    if store is None:
        return None
    tested, trained = _answers(store, TEST), _answers(store, TRAIN)
    if tested is None or trained is None:
        return None
    return NetworkAnswers(tested[0], confusion_counts(*trained), stand_in=False)


def _store(source: str) -> Path | None:
    """The store at a source, if it was made from pictures."""
    path = location_of_source(source)
    return path if isinstance(path, Path) and source and settings_of(path) is not None else None


def _array(store: Path, name: str) -> NDArray[Any]:
    return np.asarray(Folder(store).array(name)[:])


def _place(store: Path, part: str) -> tuple[str, NDArray[np.int64]]:
    """The place of the training or the test samples: the part of the store, and its rows.

    The test samples of a pool are those that `load_features` sets apart.
    """
    if Folder(store).exists(f"{name_in_store('y', TEST)}/zarr.json"):
        return part, np.arange(len(_array(store, name_in_store("y", part))))
    testing = rows_for_test(_array(store, "y"), str(store))
    return POOL, np.flatnonzero(testing if part == TEST else ~testing)


def _answers(store: Path, part: str) -> tuple[NDArray[np.float32], NDArray[np.int64]] | None:
    """(n, N) class probabilities of a part of the samples, and their (n,) classes.

    Classes are in the order of their sorted names, as in `load_features`.
    """
    stored, rows = _place(store, part)
    y = _array(store, name_in_store("y", stored))
    blocks = []
    for block in pieces(len(y), _ROWS_AT_ONCE):
        p = class_probabilities(store, stored, block)
        if p is None:
            return None
        blocks.append(p)
    order = np.argsort(_array(store, "classes"))
    return np.concatenate(blocks)[rows][:, order], np.argsort(order)[y[rows]]


FOLDS = 4
#: The inverse of the penalty, for centred features of mean squared norm 1: that of the machines, C = "scale".
C = 10.0
#: Maximum number of rows on which the layer is trained, drawn evenly from the classes.
MOST_ROWS = 40_000


def softmax_answers(data: FeatureSet, seed: int = 0, n_jobs: int | None = -1) -> NetworkAnswers:
    """Train the layer on the training samples; its confusion is out of fold, since on these it would make few errors.

    Parameters
    ----------
    data : FeatureSet
    seed : int
        Seed of the folds, and of the choice of rows if there are more than `MOST_ROWS`.
    n_jobs : int, optional
        Threads. The result does not depend on them.
    """
    n = len(data.classes)
    rows, folds = _folded_rows(data.y_train, n, seed)
    X, y = data.X_train[rows], data.y_train[rows]
    centre = X.mean(axis=0, dtype=np.float64)
    norm = float(np.sqrt(X.var(axis=0, dtype=np.float64).sum())) or 1.0

    def seen_by_layer(raw: NDArray[np.floating]) -> NDArray[np.float32]:
        return np.asarray((raw - centre) / norm, np.float32)

    X, X_test = seen_by_layer(X), seen_by_layer(data.X_test)

    def answers(fold: int) -> NDArray[np.float32]:
        """Probabilities of a fold by the layer trained without it; of the test samples, by the layer of all folds."""
        tested = X_test if fold == FOLDS else X[folds == fold]
        return _probabilities(X[folds != fold], y[folds != fold], tested, n)

    with one_blas_thread():
        *held_out, test = in_threads(answers, range(FOLDS + 1), thread_count(n_jobs, "softmax_answers"))
    confusion = sum(
        (confusion_counts(p, y[folds == k]) for k, p in enumerate(held_out)), np.zeros((n, n), np.int64)
    )
    return NetworkAnswers(test, confusion, stand_in=True)


def _folded_rows(y: NDArray[np.integer], n: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The training rows of the layer, and their folds, drawn class by class like those of the machines."""
    rows_of, folds_of = [], []
    for c in range(n):
        of_class = np.flatnonzero(y == c)
        folds = class_folds(len(of_class), FOLDS, seed, c)
        drawn = np.sort(np.random.default_rng([seed, c, 2]).permutation(len(of_class))[: MOST_ROWS // n])
        rows_of.append(of_class[drawn])
        folds_of.append(folds[drawn])
    return np.concatenate(rows_of), np.concatenate(folds_of)


def _probabilities(
    X: NDArray[np.float32], y: NDArray[np.integer], X_test: NDArray[np.float32], n: int
) -> NDArray[np.float32]:
    """(R, N) probabilities of test samples by a layer that was trained on X."""
    layer = LogisticRegression(C=C, tol=1e-4, max_iter=1000).fit(X, y)
    p = np.zeros((len(X_test), n), np.float32)
    if len(X_test):
        p[:, layer.classes_] = layer.predict_proba(X_test)
    return p


#: Number of rectified linear units of the hidden layer, and of epochs.
UNITS, EPOCHS = 512, 20


def adapted_set(data: FeatureSet, path: Path, seed: int = 0) -> tuple[FeatureSet, NetworkAnswers]:
    """A set with features of a network that was trained on it, and the network's answers, kept in the file `path`."""
    recipe = json.dumps([code_digest(__name__), UNITS, EPOCHS, seed, data.fingerprints], sort_keys=True)
    try:
        with np.load(path, allow_pickle=False) as kept:
            if str(kept["recipe"]) != recipe:
                raise ValueError(f"{path} is of other data.")
            train, test, p = kept["train"], kept["test"], kept["p"]
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):
        train, test, p = _trained_on(data, seed)
        archive = io.BytesIO()
        np.savez(archive, recipe=recipe, train=train, test=test, p=p)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, archive.getvalue())
    fingerprints = {name: f"{value}, adapted {seed}" for name, value in data.fingerprints.items()}
    seen = data._replace(X_train=train, X_test=test, fingerprints=fingerprints)
    return seen, softmax_answers(data, seed)._replace(probabilities=p, stand_in=False)


def _trained_on(data: FeatureSet, seed: int) -> tuple[NDArray[np.float32], ...]:
    """The hidden layer of training and of test samples, and the probabilities of test samples."""
    centre = data.X_train.mean(axis=0, dtype=np.float64)
    spread = data.X_train.std(axis=0, dtype=np.float64)
    unit = float(np.sqrt((spread**2).mean())) or 1.0
    train, test = (((X - centre) / unit).astype(np.float32) for X in (data.X_train, data.X_test))
    network = MLPClassifier((UNITS,), max_iter=EPOCHS, random_state=seed)
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of epochs is fixed
        network.fit(train, data.y_train)
    hidden = [np.maximum(X @ network.coefs_[0] + network.intercepts_[0], 0) for X in (train, test)]
    return (*(layer.astype(np.float32) for layer in hidden), network.predict_proba(test).astype(np.float32))
