"""A fitted PairwiseSVC on disk: arrays in zarr, the rest in JSON. Reading one runs no code from it."""

import hashlib
import json
import shutil
import uuid
from pathlib import Path

import networkx as nx
import numpy as np
import zarr
from sklearn.utils.validation import check_is_fitted
from zarr.codecs import ZstdCodec

from pairloom.pipeline.completion.complete import plan_completion
from pairloom.pipeline.machines.linear_machines import Machines
from pairloom.pipeline.machines.linear_model import LinearModel
from pairloom.pipeline.machines.whitening import Whitening

FORMAT, FORMAT_VERSION = "pairloom-model", 2
_JSON, _ARRAYS = "model.json", "arrays.zarr"


def save(model, path):
    """Write a fitted model into a new folder, all of it or nothing."""
    check_is_fitted(model)
    if not isinstance(model._model, LinearModel):
        raise ValueError(
            "PairwiseSVC.save: only linear machines can be saved without pickle, got"
            f" kernel={model.kernel!r}, estimator={model.estimator!r}."
        )
    path = Path(path)
    if path.exists():
        raise FileExistsError(f"PairwiseSVC.save: {path} exists already.")
    path.parent.mkdir(parents=True, exist_ok=True)
    # Written beside its place and then renamed: a folder of that name is always a whole model.
    unfinished = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    unfinished.mkdir()
    try:
        _write_arrays(model, unfinished / _ARRAYS)
        described = _description(model) | {"files": _digests(unfinished)}
        stored = {"format": FORMAT, "format_version": FORMAT_VERSION, "sha256": _digest(described)}
        (unfinished / _JSON).write_text(json.dumps({**stored, "model": described}, indent=1))
        unfinished.rename(path)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def load(cls, path):
    """Read a model that `save` has written, as an instance of the estimator class `cls`."""
    path = Path(path)
    stored = _read_description(path)
    _check_files(path, stored)
    arrays = _read_arrays(path)
    try:
        return _assemble(cls, stored, arrays)
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"PairwiseSVC.load: {path} is not a whole model: {error!r}.") from error


def _description(model):
    parameters = model.get_params(deep=False)
    if isinstance(model.graph, nx.Graph):
        parameters["graph"] = None  # its edges are among the arrays
    return {
        "parameters": {name: _plain(value) for name, value in parameters.items() if name != "class_weight"},
        "class_weight": _weights_as_pairs(model.class_weight),
        "classes": model.classes_.tolist(),
        "classes_dtype": model.classes_.dtype.str,
        "graph": {key: _plain(value) for key, value in model.graph_.graph.items()},
        "C": model.C_,
        "whiten": model.whiten_,
        "scale": model.scale_,
        "weighted": model._weighted,
        "candidates": model.candidates_,
        "n_features_in": model.n_features_in_,
        "feature_names_in": getattr(model, "feature_names_in_", np.array([])).tolist(),
    }


def _weights_as_pairs(class_weight):
    """JSON's keys are strings, classes need not be."""
    if isinstance(class_weight, dict):
        return [[_plain(label), _plain(weight)] for label, weight in class_weight.items()]
    return class_weight


def _digest(described):
    """Of all that the JSON says: a damaged digit would be as good a number as the right one."""
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def _digests(path):
    """The digest of every file below a folder, by its name there."""
    return {
        file.relative_to(path).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.name != _JSON
    }


def _check_files(path, stored):
    """Raise unless the files are those that were written. zarr takes a chunk that is not there for zeros."""
    found, written = _digests(path), stored["files"]
    for name in sorted(written.keys() | found.keys()):
        if name not in found:
            raise ValueError(f"PairwiseSVC.load: {path} is not a whole model: it has no {name}.")
        if name not in written:
            raise ValueError(f"PairwiseSVC.load: {path} must hold a saved model only, got also {name}.")
        if found[name] != written[name]:
            raise ValueError(f"PairwiseSVC.load: {path / name} is damaged: it is not what was saved.")


def _plain(value):
    """A parameter as JSON has it: numpy's numbers and arrays as Python's."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ValueError(
        f"PairwiseSVC.save: a parameter of type {type(value).__name__} cannot be saved, got {value!r}."
    )


def _write_arrays(model, path):
    arrays = {
        **{f"machines/{name}": values for name, values in model._model.machines._asdict().items()},
        "whitening/mean": model._model.whitening.mean,
        "whitening/factor": model._model.whitening.factor,
        "edges": model.edges_,
        "slope": model._slope,
        "shift": model._shift,
        "class_shares": model.class_shares_,
        "class_keys": model._class_keys,
        "class_sums": model._class_sums,
        "centre": model._centre,
        "shares": model._shares,
    }
    group = zarr.open_group(path, mode="w")
    for name, values in arrays.items():
        group.create_array(name, data=np.ascontiguousarray(values), compressors=ZstdCodec(checksum=True))


def _read_description(path):
    try:
        stored = json.loads((path / _JSON).read_text())
    except FileNotFoundError:
        raise FileNotFoundError(
            f"PairwiseSVC.load: {path} is not a saved model: it has no {_JSON}."
        ) from None
    except (ValueError, NotADirectoryError) as error:
        raise ValueError(f"PairwiseSVC.load: {path / _JSON} cannot be read: {error}.") from error
    kind, version = (
        (stored.get("format"), stored.get("format_version")) if isinstance(stored, dict) else (None, None)
    )
    if (kind, version) != (FORMAT, FORMAT_VERSION):
        raise ValueError(
            f"PairwiseSVC.load: {path} must be a {FORMAT} of version {FORMAT_VERSION},"
            f" got {kind!r} of version {version!r}."
        )
    model = stored.get("model")
    if not isinstance(model, dict) or _digest(model) != stored.get("sha256"):
        raise ValueError(f"PairwiseSVC.load: {path / _JSON} is damaged: it is not what was saved.")
    return model


def _read_arrays(path):
    try:
        group = zarr.open_group(path / _ARRAYS, mode="r")
        return {
            name: array[...] for name, array in group.members(max_depth=None) if isinstance(array, zarr.Array)
        }
    except Exception as error:  # zarr and its codecs raise many kinds for a damaged chunk
        raise ValueError(f"PairwiseSVC.load: the arrays of {path} cannot be read: {error}.") from error


def _assemble(cls, stored, arrays):
    parameters = dict(stored["parameters"])
    edges = arrays["edges"]
    graph = nx.empty_graph(len(stored["classes"]))
    graph.add_edges_from(edges.tolist())
    graph.graph.update(stored["graph"])
    if parameters["graph"] is None:
        parameters["graph"] = graph
    weights = stored["class_weight"]
    model = cls(
        **parameters, class_weight=dict(map(tuple, weights)) if isinstance(weights, list) else weights
    )
    model.classes_ = np.array(stored["classes"], dtype=stored["classes_dtype"])
    model.graph_, model.edges_ = graph, edges
    model.C_, model.whiten_, model.scale_ = stored["C"], stored["whiten"], stored["scale"]
    model.candidates_, model.n_features_in_ = stored["candidates"], stored["n_features_in"]
    if stored["feature_names_in"]:
        model.feature_names_in_ = np.array(stored["feature_names_in"], dtype=object)
    machines = Machines(*(arrays[f"machines/{name}"] for name in Machines._fields))
    model._model = LinearModel(machines, Whitening(arrays["whitening/mean"], arrays["whitening/factor"]))
    model._slope, model._shift = arrays["slope"], arrays["shift"]
    model.class_shares_, model._class_keys = arrays["class_shares"], arrays["class_keys"]
    model._class_sums = arrays["class_sums"]
    model._centre, model._shares, model._weighted = arrays["centre"], arrays["shares"], stored["weighted"]
    model._completion = plan_completion(graph)
    model._collapse()
    return model
