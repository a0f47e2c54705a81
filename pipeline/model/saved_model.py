"""A fitted PairwiseSVC on disk: arrays in zarr, the rest in JSON. Reading one runs no code from it.

A run describes its model in the same form, and `assembled` makes a model of either.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import ZstdCodec

from pairloom import graphs
from pairloom.graphs import ModelCode
from pairloom.pipeline.calibration.coupled_calibration import CoupledCalibration, PairSlopes
from pairloom.pipeline.calibration.coupled_learning import LearningRecord
from pairloom.pipeline.completion.shortlist import ListMass
from pairloom.pipeline.machines.kernel_function import KernelFunction
from pairloom.pipeline.machines.kinds import svm_kind
from pairloom.pipeline.machines.linear_machines import AffineLogits
from pairloom.pipeline.machines.normalisation import Normalisation
from pairloom.pipeline.machines.settings import MachineSettings
from pairloom.pipeline.machines.slopes import SlopePrior, Slopes
from pairloom.pipeline.model.fitted_model import ClassTable, FittedModel
from pairloom.pipeline.model.learning import Learned
from pairloom.pipeline.storage.digests import DamagedSeal, file_digest, sealed, unsealed

__all__ = [
    "SavedModel",
    "arrays_of",
    "assembled",
    "description_of",
    "load_model",
    "path_of",
    "plain",
    "save_model",
    "slope_arrays",
]


FORMAT, FORMAT_VERSION = "pairloom-model", 5
_JSON, _ARRAYS = "model.json", "arrays.zarr"


class SavedModel(NamedTuple):
    """A fitted model with the parameters of its estimator, what was compared for it, and the names of its features."""

    model: FittedModel
    parameters: dict[str, Any]
    candidates: list[dict[str, Any]]
    calibrations: list[dict[str, Any]]
    feature_names: list[str]


def save_model(saved: SavedModel, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a model into a folder, all of it or nothing. Classifiers of scikit-learn cannot be saved.

    With ``overwrite`` a saved model that is there is replaced; anything else that is there is left alone.
    """
    arrays = arrays_of(saved.model)
    path = path_of(path, "PairwiseSVC.save: path")
    _check_target(path, overwrite)
    content = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "model": description_of(saved.model),
        **_parameters_as_json(saved.parameters),
        "candidates": plain(saved.candidates, "candidates_"),
        "calibrations": plain(saved.calibrations, "calibrations_"),
        "feature_names": saved.feature_names,
    }
    # Written beside its place and then renamed: a folder of that name is always a whole model.
    unfinished = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    try:
        unfinished.mkdir(parents=True)
    except OSError as error:
        raise type(error)(
            f"PairwiseSVC.save: path must be in a folder that can be written, got {path}: {error.strerror}."
        ) from error
    try:
        _write_arrays(arrays, unfinished / _ARRAYS)
        (unfinished / _JSON).write_bytes(sealed({**content, "files": _digests(unfinished)}, indent=1))
        _put_in_place(unfinished, path)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def load_model(path: str | Path) -> SavedModel:
    """Read a model that `save_model` has written."""
    path = path_of(path, "PairwiseSVC.load: path")
    content = _read_description(path)
    try:
        _check_files(path, content["files"])
        arrays = _read_arrays(path)
        model = assembled(content["model"], arrays)
        parameters = _parameters_from_json(content, model)
        compared = (content["candidates"], content["calibrations"])
        return SavedModel(model, parameters, *compared, content["feature_names"])
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"PairwiseSVC.load: {path} is not a whole model: {error!r}.") from error


def path_of(path: str | Path, parameter: str) -> Path:
    """A path that a user gave, or an error if it cannot be one."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{parameter} must be a str or a Path, got {path!r}.")
    if not str(path) or "\0" in str(path):
        raise ValueError(f"{parameter} must be the path of a folder, got {str(path)!r}.")
    return Path(path)


def _check_target(path: Path, overwrite: bool) -> None:
    if path.is_symlink():
        raise FileExistsError(f"PairwiseSVC.save: path must not be a symbolic link, got {path}.")
    if not path.exists():
        return
    if not overwrite:
        raise FileExistsError(
            f"PairwiseSVC.save: {path} exists already; overwrite=True replaces a saved model."
        )
    if not _is_saved_model(path):
        raise FileExistsError(
            f"PairwiseSVC.save: overwrite=True replaces a saved model and nothing else, got {path}, which is none or"
            " holds other files too."
        )


def _is_saved_model(path: Path) -> bool:
    """Whether a folder holds the files of a saved model, and no others."""
    try:
        content = unsealed((path / _JSON).read_bytes())
        return content.get("format") == FORMAT and set(content["files"]) == _digests(path).keys()
    except (OSError, DamagedSeal, KeyError, TypeError):
        return False


def _put_in_place(unfinished: Path, path: Path) -> None:
    """Rename the new folder to its place; an old model is moved aside first, and removed last."""
    if not path.exists():
        unfinished.rename(path)
        return
    aside = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    path.rename(aside)
    try:
        unfinished.rename(path)
    except BaseException:
        aside.rename(path)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _parameters_as_json(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters of the estimator: a graph's edges are among the arrays, and JSON's keys are strings only."""
    weights = parameters["class_weight"]
    pairs = (
        plain([[label, weight] for label, weight in weights.items()], "class_weight")
        if isinstance(weights, dict)
        else weights
    )
    given = {name: value for name, value in parameters.items() if name != "class_weight"}
    if isinstance(given["graph"], (nx.Graph, np.ndarray, ModelCode)):
        given["graph"] = None
    return {"parameters": {name: plain(value, name) for name, value in given.items()}, "class_weight": pairs}


def _parameters_from_json(content: dict[str, Any], model: FittedModel) -> dict[str, Any]:
    parameters, weights = dict(content["parameters"]), content["class_weight"]
    if parameters["graph"] is None:
        parameters["graph"] = model.graph if model.code is None else model.code.matrix.copy()
    parameters["class_weight"] = dict(map(tuple, weights)) if isinstance(weights, list) else weights
    return parameters


def _digests(path: Path) -> dict[str, str]:
    """The digest of every file below a folder, by its name there."""
    return {
        file.relative_to(path).as_posix(): file_digest(file)
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.name != _JSON
    }


def _check_files(path: Path, written: dict[str, str]) -> None:
    """Raise unless the files are those that were written. zarr takes a chunk that is not there for zeros."""
    present = _digests(path)
    for name in sorted(written.keys() | present.keys()):
        if name not in present:
            raise ValueError(f"PairwiseSVC.load: {path} is not a whole model: it has no {name}.")
        if name not in written:
            raise ValueError(f"PairwiseSVC.load: {path} must hold a saved model only, got also {name}.")
        if present[name] != written[name]:
            raise ValueError(f"PairwiseSVC.load: {path / name} is damaged: it is not what was saved.")


def _write_arrays(arrays: dict[str, NDArray[Any]], path: Path) -> None:
    group = zarr.open_group(path, mode="w")
    for name, values in arrays.items():
        group.create_array(name, data=np.ascontiguousarray(values), compressors=ZstdCodec(checksum=True))


def _read_description(path: Path) -> dict[str, Any]:
    if (path / "run.json").is_file():
        raise ValueError(
            f"PairwiseSVC.load: {path} is a run directory, not a saved model: use PairwiseSVC.from_run."
        )
    try:
        data = (path / _JSON).read_bytes()
        stored = json.loads(data)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"PairwiseSVC.load: {path} is not a saved model: it has no {_JSON}."
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"PairwiseSVC.load: {path / _JSON} cannot be read: {error}.") from error
    about = stored if isinstance(stored, dict) else {}
    kind, version = about.get("format"), about.get("format_version")
    if (kind, version) != (FORMAT, FORMAT_VERSION):
        raise ValueError(
            f"PairwiseSVC.load: {path} must be a {FORMAT} of version {FORMAT_VERSION},"
            f" got {kind!r} of version {version!r}."
        )
    try:
        return unsealed(data)
    except DamagedSeal as error:
        raise ValueError(f"PairwiseSVC.load: {path / _JSON} is damaged: {error}.") from error


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        group = zarr.open_group(path / _ARRAYS, mode="r")
        return {
            name: np.asarray(array[...])
            for name, array in group.members(max_depth=None)
            if isinstance(array, zarr.Array)
        }
    except Exception as error:  # zarr and its codecs raise many kinds for a damaged chunk
        raise ValueError(f"PairwiseSVC.load: the arrays of {path} cannot be read: {error}.") from error


_STRUCTURED = ("classes", "graph", "trained", "settings", "coupled", "normalisation", "learned")
#: The other fields of `FittedModel`: JSON values, which are stored by their names.
PLAIN_FIELDS = tuple(field.name for field in fields(FittedModel) if field.name not in _STRUCTURED)


def description_of(model: FittedModel) -> dict[str, Any]:
    """All of a model that is not in its arrays, as JSON values."""
    labels, kernel = model.classes.labels, model.trained.kernel
    return {
        "labels": _plain_labels(labels),
        "labels_dtype": labels.dtype.str,
        "graph": {key: plain(value) for key, value in model.decomposition.label.items()},
        "settings": asdict(model.settings),
        **{name: getattr(model, name) for name in PLAIN_FIELDS},
        "coupled_calibration": model.coupled.level,
        "scale": model.coupled.scale,
        "list_mass": model.coupled.mass._asdict(),
        "slopes_begin": None if model.coupled.pairs is None else model.coupled.pairs.prior.first,
        "exponent": model.normalisation.exponent,
        "kernel": None if kernel is None else asdict(kernel),
        "learned": None if model.learned is None else model.learned.record._asdict(),
    }


def arrays_of(model: FittedModel) -> dict[str, NDArray[Any]]:
    """The arrays of a model by name, or an error if its machines cannot be saved."""
    deviation = model.normalisation.deviation
    return {
        **model.trained.arrays(),
        **model.decomposition.arrays(),
        "slope": model.coupled.slope,
        "shift": model.coupled.shift,
        "totals": model.classes.totals,
        "keys": model.classes.keys,
        "checksums": model.classes.checksums,
        "centre": model.normalisation.centre,
        **({} if deviation is None else {"deviation": deviation}),
        **slope_arrays(model.coupled.pairs),
        **_learned_arrays(model.learned),
    }


def assembled(description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FittedModel:
    """The model of a description and its arrays."""
    labels = np.array(description["labels"], dtype=description["labels_dtype"])
    kernel = description.get("kernel")
    return FittedModel(
        classes=ClassTable(labels, arrays["totals"], arrays["keys"], arrays["checksums"]),
        graph=_graph(len(labels), description["graph"], arrays),
        trained=svm_kind(None if kernel is None else KernelFunction(**kernel)).from_arrays(arrays),
        settings=MachineSettings(**description["settings"]),
        coupled=CoupledCalibration(
            description["coupled_calibration"],
            description["scale"],
            arrays["slope"],
            arrays["shift"],
            pairs=_pair_slopes(description["slopes_begin"], arrays),
            mass=ListMass(**description["list_mass"]),
        ),
        normalisation=Normalisation(arrays["centre"], description["exponent"], arrays.get("deviation")),
        learned=_learned(description.get("learned"), arrays),
        **{name: description[name] for name in PLAIN_FIELDS if name in description},
    )


def _graph(
    n: int, label: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> nx.Graph | graphs.ModelCode:
    """The graph of the stored pairs, or the stored code."""
    if "code" in arrays:
        code = graphs.model_code(arrays["code"], "stored", n=n, owner="stored code")
        return graphs.ModelCode(code.matrix, dict(label))
    graph = graphs.model_graph(n, arrays["edges"].tolist(), "stored")
    graph.graph = dict(label)
    return graph


def slope_arrays(pairs: PairSlopes | None) -> dict[str, NDArray[Any]]:
    """The arrays of slopes of pairs, by name; none if pairs have none of their own."""
    if pairs is None:
        return {}
    return {
        "slopes/slope": pairs.slopes.slope,
        "slopes/without_part": pairs.slopes.without_part,
        "slopes/prior": pairs.prior.weights,
    }


def _pair_slopes(first: int | None, arrays: Mapping[str, NDArray[Any]]) -> PairSlopes | None:
    """The slopes whose `slope_arrays` these are, if there are any."""
    if first is None:
        return None
    slopes = Slopes(arrays["slopes/slope"], arrays["slopes/without_part"])
    return PairSlopes(slopes, SlopePrior(first, arrays["slopes/prior"]))


def _learned_arrays(learned: Learned | None) -> dict[str, NDArray[Any]]:
    if learned is None or learned.logits is None:
        return {}
    return {f"learned/{name}": values for name, values in learned.logits._asdict().items()}


def _learned(record: Mapping[str, Any] | None, arrays: Mapping[str, NDArray[Any]]) -> Learned | None:
    """What was learned through the coupling, if anything was."""
    if record is None:
        return None
    logits = None
    if record["iterations"]:
        logits = AffineLogits(arrays["learned/weights"], arrays["learned/bias"])
    return Learned(logits, LearningRecord(**record))


def _plain_labels(labels: NDArray[Any]) -> list[Any]:
    """Labels as JSON has them: points and spans of time as integers, in the unit of their dtype."""
    if labels.dtype.kind in "mM":
        labels = labels.astype(np.int64)
    if labels.dtype.kind not in "biufUO" or labels.dtype.char == "g":
        raise ValueError(
            "PairwiseSVC.save: labels must be strings, integers, floats, booleans or times to be saved,"
            f" got dtype {labels.dtype}."
        )
    return list(plain(labels, "labels"))


def plain(value: Any, name: str = "every value") -> Any:
    """A value as JSON has it: numpy's numbers and arrays as Python's. `name` is for the message."""
    if isinstance(value, (np.generic, np.ndarray)) and value.dtype.char != "g":
        return plain(value.tolist(), name)
    if isinstance(value, dict):
        return {str(key): plain(item, name) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, name) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ValueError(
        f"PairwiseSVC.save: {name}: values of type {type(value).__name__} cannot be saved, got {value!r}."
    )
