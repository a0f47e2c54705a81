"""The network's own prediction: its probabilities, restricted to the classes of a store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pairloom.graphs.text import listed
from pairloom.pipeline.images.image_folder import ClassFolder, WrongNames, lines_of
from pairloom.pipeline.images.picture_store import name_in_store
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.threads import pieces

__all__ = ["FOLDERS", "class_probabilities", "named_outputs", "network_accuracy", "outputs_of_classes"]

#: The value of ``--outputs`` for a network that was trained on these folders, in the order of their names.
FOLDERS = "folders"
_ROWS_AT_ONCE = 4096


def named_outputs(outputs: str, classes: Sequence[ClassFolder]) -> list[str]:
    """The names of a network's outputs, as ``--outputs`` gives them.

    Parameters
    ----------
    outputs : str
        "folders", or the path of a text file with one output per line: a WordNet id or a name, or both.
    """
    if outputs == FOLDERS:
        return sorted(row.folder for row in classes)
    if not Path(outputs).is_file():
        raise WrongNames(
            f'--outputs must be "{FOLDERS}" or a text file with one output per line, got {outputs!r}.'
        )
    return lines_of(outputs, "--outputs")


def outputs_of_classes(names: Sequence[str], classes: Sequence[ClassFolder], n_outputs: int) -> list[int]:
    """The output of a network for each class, matched by the names of the class and of its folder.

    A line such as "n01440764 tench" matches by either part or as a whole.
    """
    if len(names) != n_outputs:
        raise ValueError(
            f"--outputs must name the {n_outputs} outputs of the network, got {len(names)} names."
        )
    places: dict[str, int] = {}
    for place, line in enumerate(names):
        for name in (line, *line.split(maxsplit=1)):
            places.setdefault(name, place)
    outputs = [places.get(row.folder, places.get(row.name)) for row in classes]
    missing = [row.folder for row, place in zip(classes, outputs, strict=True) if place is None]
    if missing:
        raise ValueError(
            f"--outputs must name every class, {len(missing)} are missing: {listed(missing, 10)}."
        )
    return [place for place in outputs if place is not None]


def class_probabilities(store: str | Path, part: str, rows: slice) -> NDArray[np.float32] | None:
    """The network's probabilities (n, N) of the classes of a store, divided by their sum.

    None if the store has no probabilities, or does not know the output of each class.
    """
    folder, probabilities = Folder(Path(store)), name_in_store("probabilities", part)
    if not all(folder.exists(f"{name}/zarr.json") for name in ("output_of_class", probabilities)):
        return None
    of_class = np.asarray(folder.array("output_of_class")[:])
    p = np.asarray(folder.array(probabilities)[rows])[:, of_class]
    # float32 may round the shares of unlikely classes to zero, perhaps of all classes of the store.
    p = np.maximum(p, np.finfo(np.float32).tiny)
    shares: NDArray[np.float32] = p / p.sum(axis=1, keepdims=True)
    return shares


def network_accuracy(store: Path, part: str) -> float | None:
    """The network's own accuracy on the rows of a part; None if it is not known."""
    y = np.asarray(Folder(store).array(name_in_store("y", part))[:])
    right = 0
    for rows in pieces(len(y), _ROWS_AT_ONCE):
        p = class_probabilities(store, part, rows)
        if p is None:
            return None
        right += int((p.argmax(axis=1) == y[rows]).sum())
    return right / len(y)
