"""Features that know the classes: the hidden layer of a small network that was trained on them.

The networks of [S] were trained, or trained on, on the very classes that are told apart. Features of a network for
other classes are not like that. Here a network of one hidden layer is trained on the training samples of a set; its
hidden layer replaces the features, and its softmax is the network of [S Table 5]. Its confusion on training samples is
empty, since it was trained on these: that of a softmax layer on the features it was given, out of fold, stands in for
it in the confusion cost.
"""

import io
import json
import warnings
import zipfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from pairloom.pipeline.blas import one_blas_thread
from pairloom.pipeline.experiments.network_answers import NetworkAnswers, softmax_answers
from pairloom.pipeline.features.feature_set import FeatureSet
from pairloom.pipeline.storage.atomic_file import write_atomically

#: Rectified units of the hidden layer, and passes over the training samples.
UNITS, EPOCHS = 512, 20


def adapted_set(data: FeatureSet, path: Path, seed: int = 0) -> tuple[FeatureSet, NetworkAnswers]:
    """A set seen by a network that was trained on it, and the network's answers; kept in the file `path`."""
    recipe = json.dumps([version("pairloom"), UNITS, EPOCHS, seed, data.fingerprints], sort_keys=True)
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
        warnings.simplefilter("ignore", ConvergenceWarning)  # so many epochs and no more
        network.fit(train, data.y_train)
    hidden = [np.maximum(X @ network.coefs_[0] + network.intercepts_[0], 0) for X in (train, test)]
    return (*(layer.astype(np.float32) for layer in hidden), network.predict_proba(test).astype(np.float32))
