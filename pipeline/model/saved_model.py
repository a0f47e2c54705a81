"""A fitted PairwiseSVC on disk: arrays in zarr, the rest in JSON. Reading one runs no code from it."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import ZstdCodec

from pairloom.graphs import ModelCode
from pairloom.pipeline.machines.estimator_model import EstimatorModel
from pairloom.pipeline.model.fitted_model import FittedModel
from pairloom.pipeline.model.stored_form import arrays_of, assembled, description_of, plain
from pairloom.pipeline.storage.digests import DamagedSeal, file_digest, sealed, unsealed

__all__ = ["SavedModel", "load_model", "path_of", "save_model"]

FORMAT, FORMAT_VERSION = "pairloom-model", 4
_JSON, _ARRAYS = "model.json", "arrays.zarr"


class SavedModel(NamedTuple):
    """A fitted model with the parameters of its estimator, its table of candidates and the names of its features."""

    model: FittedModel
    parameters: dict[str, Any]
    candidates: list[dict[str, Any]]
    feature_names: list[str]


def save_model(saved: SavedModel, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a model into a folder, all of it or nothing. Classifiers of scikit-learn cannot be saved.

    With ``overwrite`` a saved model that is there is replaced; anything else that is there is left alone.
    """
    if isinstance(saved.model.trained, EstimatorModel):
        raise ValueError(
            "PairwiseSVC.save: machines that are classifiers of scikit-learn cannot be saved without pickle, got"
            f" estimator={saved.parameters['estimator']!r}."
        )
    path = path_of(path, "PairwiseSVC.save: path")
    _check_target(path, overwrite)
    content = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "model": description_of(saved.model),
        **_parameters_as_json(saved.parameters),
        "candidates": plain(saved.candidates, "candidates_"),
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
        _write_arrays(arrays_of(saved.model), unfinished / _ARRAYS)
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
        return SavedModel(model, parameters, content["candidates"], content["feature_names"])
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
    found = _digests(path)
    for name in sorted(written.keys() | found.keys()):
        if name not in found:
            raise ValueError(f"PairwiseSVC.load: {path} is not a whole model: it has no {name}.")
        if name not in written:
            raise ValueError(f"PairwiseSVC.load: {path} must hold a saved model only, got also {name}.")
        if found[name] != written[name]:
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
