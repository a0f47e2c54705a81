"""Write predictions (ids, labels, confidences and probabilities) to a .csv, .parquet, .npz or .zarr file."""

from __future__ import annotations

import csv
import importlib.util
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
import zarr
from numpy.typing import NDArray

from pairloom.graphs.text import csv_cell
from pairloom.pipeline.display.top_probabilities import TopProbabilities
from pairloom.pipeline.features.feature_set import names_of
from pairloom.pipeline.run.run_directory import coordinate_labels
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.zarr_layout import ChunkedArray, Coordinate, group_files, stamp

__all__ = ["FORMATS", "Predictions", "check_target", "print_predictions", "write_predictions"]

FORMATS = (".csv", ".parquet", ".npz", ".zarr")

_COLUMNS = ("id", "prediction", "confidence")
#: Arrays that a .zarr folder of predictions may hold.
_ARRAYS = {
    "class",
    "probabilities",
    "prediction",
    "confidence",
    "sample",
    "place",
    "top",
    "top_probabilities",
    "rest",
    "set",
    "group",
    "group_level",
}


class Predictions(NamedTuple):
    """Predicted samples.

    Attributes
    ----------
    ids : (n,) array
        The names of the samples.
    likeliest : TopProbabilities
        The likeliest classes, at least one per sample; probabilities are NaN for samples that could not be predicted.
    classes : (N,) array
        Labels of the classes.
    p : (n, N) float array, optional
        The probabilities of all classes. Without them, those of the likeliest classes are written.
    answer : (n,) array, optional
        The predicted labels, if some differ from the likeliest class, as those of rejected samples do.
    beside : tuple of (name, (n,) array of text)
        Further columns: the prediction set, or the group, of each sample.
    """

    ids: NDArray[Any]
    likeliest: TopProbabilities
    classes: NDArray[Any]
    p: NDArray[np.floating] | None = None
    answer: NDArray[Any] | None = None
    beside: tuple[tuple[str, NDArray[Any]], ...] = ()

    @classmethod
    def of_all(
        cls,
        ids: NDArray[Any],
        p: NDArray[np.floating],
        classes: NDArray[Any],
        answer: NDArray[Any] | None = None,
    ) -> Predictions:
        """Predictions with the probabilities of all classes."""
        return cls(ids, TopProbabilities.of(p, 1), classes, p, answer)

    def with_unknown(self, ids: NDArray[Any], known: NDArray[np.bool_]) -> Predictions:
        """The predictions, with rows for samples that could not be predicted; ``known`` masks those that were."""
        numbers = np.full(len(known), -1)
        numbers[known] = np.arange(len(self.ids))

        def spread(values: NDArray[Any], missing: float) -> NDArray[Any]:
            every = np.full((len(known), *values.shape[1:]), missing, values.dtype)
            every[known] = values
            return every

        classes, p_listed, rest = self.likeliest
        likeliest = TopProbabilities(spread(classes, 0), spread(p_listed, np.nan), spread(rest, np.nan))
        answer = None if self.answer is None else self.answer[np.maximum(numbers, 0)]
        p = None if self.p is None else spread(self.p, np.nan)
        beside = tuple(
            (name, np.where(known, values[np.maximum(numbers, 0)], "")) for name, values in self.beside
        )
        return Predictions(ids, likeliest, self.classes, p, answer, beside)

    @property
    def known(self) -> NDArray[np.bool_]:
        """(n,) mask of the samples that were predicted."""
        return np.asarray(~np.isnan(self.confidence))

    @property
    def confidence(self) -> NDArray[np.floating]:
        """(n,) the probability of the predicted class."""
        return self.likeliest.p[:, 0]

    @property
    def order(self) -> NDArray[np.integer]:
        """(n, k) the likeliest classes, by their numbers."""
        return self.likeliest.classes

    def labels(self, order: NDArray[np.integer]) -> NDArray[Any]:
        """The labels of classes, given their numbers. If some sample was not predicted, all are text, empty for it."""
        return self._or_empty(coordinate_labels(self.classes)[order])

    @property
    def prediction(self) -> NDArray[Any]:
        """(n,) the predicted labels, with the dtype of the classes if all samples were predicted."""
        likeliest = self.classes[self.order[:, 0]] if self.answer is None else self.answer
        return np.asarray(likeliest) if self.known.all() else self._or_empty(coordinate_labels(likeliest))

    def _or_empty(self, labels: NDArray[Any]) -> NDArray[Any]:
        if self.known.all():
            return np.asarray(labels)
        return np.where(self.known.reshape(-1, *[1] * (labels.ndim - 1)), labels.astype(np.str_), "")


def check_target(
    path: Path, *, force: bool = False, samples: str = "", formats: tuple[str, ...] = FORMATS
) -> None:
    """Raise unless predictions may be written to a path: its ending is known, and nothing exists there unless forced.

    The file with the samples to predict is never replaced.
    """
    if path.suffix not in formats:
        endings = f"one of {', '.join(formats)}" if len(formats) > 1 else formats[0]
        raise ValueError(f"--out must end in {endings}, or be - for CSV text, got {path}.")
    if path.suffix == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise ValueError(f"--out {path}: Parquet files need pyarrow. Install it, or write a .csv file.")
    if path.exists() and Path(samples).exists() and path.samefile(samples):
        raise FileExistsError(f"--out must not be --features, got {path} for both.")
    if path.exists() and not force:
        raise FileExistsError(f"--out must be new, got {path}, which exists. Pass --force to replace it.")
    if path.is_symlink() or (path.is_dir() and not _holds_predictions_only(path)):
        raise FileExistsError(
            f"--force replaces a file or a .zarr folder of probabilities and nothing else, got {path}."
        )
    if not path.parent.is_dir():
        raise FileNotFoundError(f"--out must lie in a folder that exists, got {path}.")


def write_predictions(path: Path, predictions: Predictions, *, force: bool = False) -> None:
    """Write predictions in the format of the ending of ``path``.

    They are written to a temporary name and then renamed, so a file of that name is always complete.
    """
    check_target(path, force=force)
    unfinished = path.with_name(f".{path.stem}-{uuid.uuid4().hex}{path.suffix}")
    try:
        _WRITERS[path.suffix](unfinished, predictions)
        if path.is_dir():
            shutil.rmtree(path)
        unfinished.replace(path)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.unlink(missing_ok=True)
        raise


def print_predictions(file: TextIO, predictions: Predictions) -> None:
    """Write predictions as CSV text."""
    csv.writer(file, lineterminator="\n").writerows(_csv_rows(predictions))


def _holds_predictions_only(folder: Path) -> bool:
    """Whether a folder is a zarr group that `write_predictions` made, possibly an earlier version without ids."""
    names = {path.name for path in folder.iterdir()}
    return "zarr.json" in names and names - {"zarr.json"} <= _ARRAYS


def _write_npz(path: Path, predictions: Predictions) -> None:
    ids = predictions.ids.astype(np.str_) if predictions.ids.dtype.kind == "T" else predictions.ids
    arrays = {
        "id": ids,
        "prediction": predictions.prediction,
        "confidence": predictions.confidence,
        "classes": predictions.classes,
        **dict(predictions.beside),
    }
    if predictions.p is None:
        arrays |= {"top": predictions.labels(predictions.order), "top_probabilities": predictions.likeliest.p}
        arrays["rest"] = predictions.likeliest.rest
    else:
        arrays["probabilities"] = predictions.p
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]  # numpy takes its keywords for allow_pickle


def _write_csv(path: Path, predictions: Predictions) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        print_predictions(file, predictions)


def _csv_rows(predictions: Predictions) -> Iterator[list[str]]:
    names, listed = [csv_cell(name) for name in names_of(predictions.classes)], predictions.likeliest
    yield [csv_cell(name) for name in _headings(predictions)]
    ids, predicted = predictions.ids.tolist(), names_of(predictions.prediction)
    for row, known in enumerate(predictions.known.tolist()):
        name = csv_cell(str(ids[row]))
        if not known:
            yield [name, *[""] * (len(_headings(predictions)) - 1)]
            continue
        head = [name, csv_cell(predicted[row]), f"{predictions.confidence[row]:.6g}"]
        head += [csv_cell(str(values[row])) for _, values in predictions.beside]
        if predictions.p is None:
            likeliest = zip(listed.classes[row].tolist(), listed.p[row], strict=True)
            cells = [cell for c, p in likeliest for cell in (names[c], f"{p:.6g}")]
            yield [*head, *cells, f"{listed.rest[row]:.6g}"]
        else:
            yield [*head, *(f"{value:.6g}" for value in predictions.p[row])]


def _headings(predictions: Predictions) -> list[str]:
    """The names of the columns. A class with the name of another column has p( ) around it."""
    first = (*_COLUMNS, *(name for name, _ in predictions.beside))
    if predictions.p is None:
        places = range(1, predictions.order.shape[1] + 1)
        return [*first, *(name for place in places for name in (f"class_{place}", f"p_{place}")), "rest"]
    return [*first, *(f"p({name})" if name in first else name for name in names_of(predictions.classes))]


def _write_parquet(path: Path, predictions: Predictions) -> None:
    import pyarrow
    import pyarrow.parquet

    unknown, order, labels = ~predictions.known, predictions.order, coordinate_labels(predictions.classes)

    def column(values: NDArray[Any]) -> Any:
        return pyarrow.array(values.tolist(), mask=unknown)

    answer = labels[order[:, 0]] if predictions.answer is None else coordinate_labels(predictions.answer)
    ids, predicted = pyarrow.array(predictions.ids.tolist()), column(answer)
    columns = [ids, predicted, pyarrow.array(predictions.confidence, mask=unknown)]
    columns += [column(values) for _, values in predictions.beside]
    if predictions.p is None:
        for place in range(order.shape[1]):
            p = np.ascontiguousarray(predictions.likeliest.p[:, place])
            columns += [column(labels[order[:, place]]), pyarrow.array(p, mask=unknown)]
        columns.append(pyarrow.array(predictions.likeliest.rest, mask=unknown))
    else:
        columns += [pyarrow.array(np.ascontiguousarray(p), mask=unknown) for p in predictions.p.T]
    pyarrow.parquet.write_table(pyarrow.table(columns, names=_headings(predictions)), path)


def _write_zarr(path: Path, predictions: Predictions) -> None:
    labels, n = coordinate_labels(predictions.classes), len(predictions.ids)
    coordinates = [
        Coordinate("class", ("class",), labels),
        Coordinate("sample", ("sample",), predictions.ids),
        Coordinate("prediction", ("sample",), coordinate_labels(predictions.prediction)),
        Coordinate("confidence", ("sample",), predictions.confidence),
        *(Coordinate(name, ("sample",), values) for name, values in predictions.beside),
    ]
    name, dimensions, values = "probabilities", ("sample", "class"), predictions.p
    if values is None:
        places = np.arange(1, predictions.order.shape[1] + 1)
        coordinates.append(Coordinate("place", ("place",), places))
        coordinates.append(Coordinate("top", ("sample", "place"), predictions.labels(predictions.order)))
        coordinates.append(Coordinate("rest", ("sample",), predictions.likeliest.rest))
        name, dimensions, values = "top_probabilities", ("sample", "place"), predictions.likeliest.p
    array = ChunkedArray(name, dimensions, values.shape, (n, values.shape[1]), values.dtype.name)
    stamp(Folder(path), group_files([array], coordinates, {}))
    zarr.open_array(path, path=name, mode="r+")[:] = values


_WRITERS = {".npz": _write_npz, ".csv": _write_csv, ".parquet": _write_parquet, ".zarr": _write_zarr}
