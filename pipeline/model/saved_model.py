"""A fitted PairwiseSVC on disk: arrays in zarr, the rest in JSON. Reading a model runs no code from it.

A run describes its model in the same form; `assembled` builds the model from either.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import zarr
from numcodecs import Blosc, Zstd
from numpy.typing import NDArray
from zarr.abc.codec import BytesBytesCodec
from zarr.codecs import BloscCodec, Crc32cCodec, ZstdCodec

from pairloom import graphs
from pairloom.graphs import ModelCode
from pairloom.pipeline.calibration.coupled_calibration import CoupledCalibration, PairSlopes
from pairloom.pipeline.calibration.coupled_learning import LearningRecord
from pairloom.pipeline.calibration.held_out_scores import HeldOutScores
from pairloom.pipeline.calibration.novelty_signals import ClassPlaces, NoveltyWeights
from pairloom.pipeline.completion.shortlist import ListMass
from pairloom.pipeline.coupling.model_coupling import in_order
from pairloom.pipeline.machines.compact_machines import CompactMachines
from pairloom.pipeline.machines.folds import PARTS
from pairloom.pipeline.machines.kernel_function import KernelFunction
from pairloom.pipeline.machines.kinds import TrainedMachines, svm_kind
from pairloom.pipeline.machines.linear_machines import AffineLogits
from pairloom.pipeline.machines.normalisation import Normalisation
from pairloom.pipeline.machines.pair_calibration import SlopePrior, Slopes
from pairloom.pipeline.machines.settings import MachineSettings
from pairloom.pipeline.model.fitted_model import ClassTable, FittedModel, SavedModel
from pairloom.pipeline.model.learning import Learned
from pairloom.pipeline.model.model_folder import (
    ARRAYS,
    MODEL_JSON,
    arrays_folder,
    check_files,
    check_target,
    load_from_store,
    put_in_place,
    save_to_store,
)
from pairloom.pipeline.storage.digests import DamagedSeal, unsealed
from pairloom.pipeline.storage.location import Location, StoreUrl, location_of
from pairloom.pipeline.storage.zarr_metadata import OURS, is_group, open_checked, stored_array

__all__ = [
    "arrays_of",
    "assembled",
    "description_of",
    "labels_as_json",
    "labels_from_json",
    "load_model",
    "place_of",
    "plain",
    "save_model",
    "slope_arrays",
    "slope_prior_values",
    "whole_model",
]


FORMAT, FORMAT_VERSION = "pairloom-model", 10


def save_model(
    saved: SavedModel, path: str | Location, *, overwrite: bool = False, compact: bool = False
) -> None:
    """Write a model into a folder or an object store, completely or not at all.

    Classifiers of scikit-learn cannot be saved. ``overwrite`` replaces a saved model, but nothing else, at the path.
    ``compact`` writes only those arrays of the machines that prediction needs.
    """
    if compact:
        saved = saved._replace(model=saved.model.compacted())
    place = place_of(path, "PairwiseSVC.save: path")
    if isinstance(place, StoreUrl):
        save_to_store(place, FORMAT, partial(_save_in_folder, saved), overwrite=overwrite)
    else:
        _save_in_folder(saved, place, overwrite=overwrite)


def _save_in_folder(saved: SavedModel, path: Path, *, overwrite: bool = False) -> None:
    arrays = arrays_of(saved.model)
    check_target(path, FORMAT, overwrite=overwrite)
    description = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "model": description_of(saved.model),
        **_parameters_as_json(saved.parameters, saved.model),
        "candidates": plain(saved.candidates, "candidates_"),
        "calibrations": plain(saved.calibrations, "calibrations_"),
        "kernel_choice": saved.kernel_choice,
        "feature_names": saved.feature_names,
        "support_ids": list(saved.support_ids),
    }
    # Written to a temporary name and then moved, so that a folder of that name is always a complete model.
    unfinished = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    try:
        unfinished.mkdir(parents=True)
    except OSError as error:
        raise type(error)(
            f"PairwiseSVC.save: path must be in a folder that can be written, got {path}: {error.strerror}."
        ) from error
    try:
        _write_arrays(arrays, unfinished / ARRAYS)
        put_in_place(unfinished, path, description, overwrite=overwrite)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def load_model(path: str | Location) -> SavedModel:
    """Read a model that `save_model` has written."""
    place = place_of(path, "PairwiseSVC.load: path")
    return (
        load_from_store(place, _load_from_folder) if isinstance(place, StoreUrl) else _load_from_folder(place)
    )


def _load_from_folder(path: Path) -> SavedModel:
    while True:
        content = _read_description(path)
        # Another process may replace the model meanwhile, and remove the files of this one.
        try:
            loaded = _loaded(path, content)
        except ValueError:
            if _read_description(path) == content:
                raise
        else:
            if _read_description(path) == content:
                return loaded


def _loaded(path: Path, content: dict[str, Any]) -> SavedModel:
    files = content.get("files")
    if not isinstance(files, dict):
        raise ValueError(f"PairwiseSVC.load: {path} is not a whole model: it has no list of files.")
    check_files(path, files, content.get("changing", ()))
    arrays = _read_arrays(path, arrays_folder(path, content).name, files)
    with whole_model(f"PairwiseSVC.load: {path}"):
        model = assembled(content["model"], arrays)
        parameters = _parameters_from_json(content, model)
        compared = (content["candidates"], content["calibrations"], content["kernel_choice"])
        return SavedModel(
            model, parameters, *compared, content["feature_names"], content.get("support_ids", ())
        )


@contextlib.contextmanager
def whole_model(place: str) -> Iterator[None]:
    """Turn errors about missing or unexpected entries of a description into a ValueError that names its place."""
    try:
        yield
    except (
        LookupError,
        TypeError,
        AttributeError,
        ArithmeticError,
        ValueError,
        nx.NetworkXException,
    ) as error:
        reason = str(error) if isinstance(error, ValueError) else repr(error)
        raise ValueError(f"{place} is not a whole model: {reason.removesuffix('.')}.") from error


def place_of(place: str | Location, parameter: str) -> Location:
    """The location for a path or a URL from a user, or an error if it is neither."""
    if isinstance(place, StoreUrl):
        return place
    if not isinstance(place, (str, os.PathLike)):
        raise TypeError(f"{parameter} must be a str or a Path, got {place!r}.")
    if not str(place) or "\0" in str(place):
        raise ValueError(f"{parameter} must be the path of a folder, got {str(place)!r}.")
    return location_of(place, parameter)


def _parameters_as_json(parameters: dict[str, Any], model: FittedModel) -> dict[str, Any]:
    """Parameters of the estimator as JSON. The edges of a graph are an array; class weights are a list of items."""
    weights = parameters["class_weight"]
    pairs = (
        plain([[label, weight] for label, weight in weights.items()], "class_weight")
        if isinstance(weights, dict)
        else weights
    )
    given = {name: value for name, value in parameters.items() if name != "class_weight"}
    given["priors"] = in_order(given["priors"], model.classes.labels.tolist(), "PairwiseSVC.save: priors")
    if isinstance(given["graph"], (nx.Graph, np.ndarray, ModelCode)):
        given["graph"] = None
    return {"parameters": {name: plain(value, name) for name, value in given.items()}, "class_weight": pairs}


def _parameters_from_json(content: dict[str, Any], model: FittedModel) -> dict[str, Any]:
    parameters, weights = dict(content["parameters"]), content["class_weight"]
    if parameters["graph"] is None:
        parameters["graph"] = model.graph if model.code is None else model.code.matrix.copy()
    parameters["class_weight"] = dict(map(tuple, weights)) if isinstance(weights, list) else weights
    return parameters


#: Bytes of a chunk of a saved array.
_CHUNK_BYTES = 2**23


def _write_arrays(arrays: dict[str, NDArray[Any]], path: Path) -> None:
    """Write arrays in chunks of whole edges, which compress well because the machines of an edge are similar."""
    group = zarr.open_group(path, mode="w")
    for name, values in arrays.items():
        contiguous = np.ascontiguousarray(values)
        rows = max(1, _CHUNK_BYTES // max(1, values.nbytes // max(1, len(values))))
        group.create_array(
            name,
            data=contiguous,
            chunks=tuple(max(1, size) for size in (min(len(values), rows), *values.shape[1:])),
            compressors=_packing_of(contiguous[:rows]),
            config={"write_empty_chunks": True},  # so that a missing file always means a damaged model
        )


def _packing_of(chunk: NDArray[Any]) -> tuple[BytesBytesCodec, ...]:
    """The codec that compresses a chunk best: bit-shuffled Zstd for weights, plain Zstd for repeated pixels."""
    by_bytes, by_bits = Zstd(level=3), Blosc(cname="zstd", clevel=3, shuffle=Blosc.BITSHUFFLE)
    if len(by_bytes.encode(chunk)) <= len(by_bits.encode(chunk)):
        return (ZstdCodec(level=3, checksum=True),)
    bits = BloscCodec(cname="zstd", clevel=3, shuffle="bitshuffle", typesize=chunk.itemsize)
    return bits, Crc32cCodec()


def _read_description(path: Path) -> dict[str, Any]:
    if (path / "run.json").is_file():
        raise ValueError(
            f"PairwiseSVC.load: {path} is a run directory, not a saved model: use PairwiseSVC.from_run."
        )
    try:
        data = (path / MODEL_JSON).read_bytes()
        stored = json.loads(data)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"PairwiseSVC.load: {path} is not a saved model: it has no {MODEL_JSON}."
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"PairwiseSVC.load: {path / MODEL_JSON} cannot be read: {error}.") from error
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
        raise ValueError(f"PairwiseSVC.load: {path / MODEL_JSON} is damaged: {error}.") from error


def _read_arrays(path: Path, folder: str, written: Mapping[str, str]) -> dict[str, NDArray[Any]]:
    """The arrays in a folder of a model, by name. The metadata of each is checked before a chunk is read."""
    suffix = "/zarr.json"
    places = [name.removesuffix(suffix) for name in written if name.endswith(suffix)]
    return {
        place.removeprefix(f"{folder}/"): _read_array(path, place)
        for place in sorted(places)
        if not is_group(path / place)
    }


def _read_array(path: Path, place: str) -> NDArray[Any]:
    try:
        stored = stored_array(path / place, OURS)
        stored.check_files()
        return np.asarray(open_checked(stored)[...])
    except Exception as error:  # zarr and its codecs raise exceptions of many types for a damaged chunk
        raise ValueError(f"PairwiseSVC.load: {path / place} cannot be read: {error}.") from error


_STRUCTURED = ("classes", "graph", "trained", "settings", "coupled", "normalisation", "learned", "held_out")
#: The other fields of `FittedModel`: JSON values, stored under their names.
PLAIN_FIELDS = tuple(field.name for field in fields(FittedModel) if field.name not in _STRUCTURED)


def description_of(model: FittedModel) -> dict[str, Any]:
    """Everything of a model except its arrays, as JSON values."""
    labels, kernel = model.classes.labels, model.trained.kernel
    return {
        **labels_as_json(labels),
        "graph": {key: plain(value) for key, value in model.decomposition.label.items()},
        "settings": asdict(model.settings),
        **{name: getattr(model, name) for name in PLAIN_FIELDS},
        "coupled_calibration": model.coupled.level,
        "scale": model.coupled.scale,
        "list_mass": model.coupled.mass._asdict(),
        "slope_prior": slope_prior_values(model.coupled.pairs),
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
        **_held_out_arrays(model.held_out),
    }


def assembled(description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FittedModel:
    """The model of a description and its arrays."""
    labels = labels_from_json(description)
    given = description.get("kernel")
    kernel = None if given is None else KernelFunction(**given)
    check_shapes(arrays, classes=len(labels), features=description["n_features"])
    return FittedModel(
        classes=ClassTable(labels, arrays["totals"], arrays["keys"], arrays["checksums"]),
        graph=_graph(len(labels), description["graph"], arrays),
        trained=_machines(kernel, arrays, description["n_features"]),
        settings=MachineSettings(**description["settings"]),
        coupled=CoupledCalibration(
            description["coupled_calibration"],
            description["scale"],
            arrays["slope"],
            arrays["shift"],
            pairs=_pair_slopes(description["slope_prior"], arrays),
            mass=ListMass(**description["list_mass"]),
        ),
        normalisation=Normalisation(arrays["centre"], description["exponent"], arrays.get("deviation")),
        learned=_learned(description.get("learned"), arrays),
        held_out=_held_out(arrays, len(labels)),
        **{name: description[name] for name in PLAIN_FIELDS if name in description},
    )


def _held_out_arrays(scores: HeldOutScores | None) -> dict[str, NDArray[Any]]:
    """The held-out scores, and the arrays from which novelty is measured."""
    if scores is None:
        return {}
    places = {} if scores.places is None else scores.places._asdict()
    return {
        "held_out": scores.table(),
        "novelty/weights": np.array(scores.novelty),
        **{f"novelty/{name}": values for name, values in places.items()},
    }


def _held_out(arrays: Mapping[str, NDArray[Any]], n_classes: int) -> HeldOutScores | None:
    if "held_out" not in arrays:
        return None
    places = None
    if "novelty/means" in arrays:
        places = ClassPlaces(*(arrays[f"novelty/{name}"] for name in ClassPlaces._fields))
    novelty = NoveltyWeights(*arrays["novelty/weights"])
    return HeldOutScores.from_table(arrays["held_out"], n_classes, novelty, places)


def _machines(
    kernel: KernelFunction | None, arrays: Mapping[str, NDArray[Any]], n_features: int
) -> TrainedMachines:
    """The stored machines, complete or compact."""
    if "compact/bias" in arrays:
        return CompactMachines.from_arrays(arrays, kernel, n_features)
    return svm_kind(kernel).from_arrays(arrays)


#: The axes of every array of a model: E edges, M machines of each, N classes, D features, K of them after whitening,
#: Z coefficients on S support vectors, W columns with weights of edges on sparse features, V edges or support vectors
#: to which the Z entries of compact machines belong. Arrays with other names are refused.
_AXES: dict[str, tuple[str | int, ...]] = {
    "machines/coef": ("E", "M", "K"),
    "machines/support": ("E + 1",),
    "machines/column": ("W",),
    "machines/weight": ("W", "M"),
    "machines/start": ("E + 1",),
    "machines/row": ("Z",),
    "machines/beta": ("Z", "M"),
    "machines/intercept": ("E", "M"),
    "machines/norm": ("E", "M"),
    "machines/platt": ("E", "M", 2),
    "machines/crossfit": ("E", "M", PARTS, 2),
    "machines/threshold": ("E",),
    "machines/dprime": ("E",),
    "machines/gap": ("E", "M"),
    "machines/iterations": ("E", "M"),
    "compact/weights": ("E", "D"),
    "compact/bias": ("E",),
    "compact/dprime": ("E",),
    "compact/ranking_weights": ("N", "D"),
    "compact/ranking_bias": ("N",),
    "compact/start": ("V + 1",),
    "compact/place": ("Z",),
    "compact/entry": ("Z",),
    "compact/row": ("S",),
    "whitening/mean": ("D",),
    "whitening/factor": ("D", "K"),
    "support_vectors": ("S", "D"),
    "edges": ("E", 2),
    "code": ("N", "E"),
    "slope": ("E",),
    "shift": ("E",),
    "totals": ("N",),
    "keys": ("N",),
    "checksums": ("N",),
    "centre": ("D",),
    "deviation": ("D",),
    "slopes/slope": ("E",),
    "slopes/without_part": ("E", PARTS),
    "slopes/prior": (1 + PARTS, "G"),
    "learned/weights": ("E", "D"),
    "learned/bias": ("E",),
    "held_out": ("H", "scores"),
    "novelty/weights": (3, "signals"),
    "novelty/origin": ("D",),
    "novelty/directions": ("D", "directions"),
    "novelty/means": ("N", "directions"),
    "novelty/between": ("directions",),
    "novelty/shares": ("N",),
}
# Without whitening there is no factor, and for sparse features no mean. Models that cannot be changed have no checksums
# of their rows.
_MAY_BE_EMPTY = ("whitening/mean", "whitening/factor", "checksums")


def check_shapes(arrays: Mapping[str, NDArray[Any]], *, classes: int, features: int) -> None:
    """Raise unless the shapes of a model's arrays agree, since compiled kernels do not check their indices."""
    sizes = {"N": classes, "D": features, "E": len(arrays["slope"])}
    sizes["E + 1"] = sizes["E"] + 1
    if "whitening/factor" in arrays and not arrays["whitening/factor"].size:
        sizes["K"] = features
    for name, values in arrays.items():
        axes = _AXES.get(name)
        if name == "support_vectors" and values.ndim == 1:  # the rows of a kernel matrix, by their numbers
            axes = ("S",)
        if name in _MAY_BE_EMPTY and not values.size:
            continue
        if axes is None or values.ndim != len(axes) or values.dtype.kind not in "iuf":
            raise ValueError(
                f"stored array {name!r} must be an array of a model, got {values.dtype} of shape {values.shape}."
            )
        for axis, size in zip(axes, values.shape, strict=True):
            if sizes.setdefault(str(axis), axis if isinstance(axis, int) else size) != size:
                raise ValueError(
                    f"stored array {name!r} must have {sizes[str(axis)]} {axis}, got shape {values.shape}."
                )
    if "machines/support" in arrays:
        _check_support(arrays["machines/support"], arrays["machines/column"], features)
    elif "whitening/mean" in arrays and not arrays["whitening/mean"].size:
        raise ValueError(f"stored array 'whitening/mean' must have {features} D, got none.")
    if "machines/start" in arrays:
        _check_coefficients(arrays["machines/start"], arrays["machines/row"], len(arrays["support_vectors"]))
    if "compact/start" in arrays:
        _check_entries(arrays, features)


def _check_support(support: NDArray[Any], column: NDArray[Any], features: int) -> None:
    """Raise unless the columns of the edges are contiguous, and each is a feature."""
    follows = support[0] == 0 and support[-1] == len(column) and (np.diff(support) >= 0).all()
    integers = support.dtype.kind in "iu" and column.dtype.kind in "iu"
    if not follows or not integers or (column.size and not 0 <= column.min() <= column.max() < features):
        raise ValueError("stored array 'machines/support' must divide the columns of the weights.")


def _check_coefficients(start: NDArray[Any], row: NDArray[Any], vectors: int) -> None:
    """Raise unless the coefficients of the edges are contiguous, and every support vector has some."""
    follows = start[0] == 0 and start[-1] == len(row) and (np.diff(start) >= 0).all()
    if not follows or len(np.unique(row)) != vectors:
        raise ValueError("stored array 'machines/start' must divide the coefficients of the support vectors.")


def _check_entries(arrays: Mapping[str, NDArray[Any]], features: int) -> None:
    """Raise unless the entries of edges (or support vectors) are contiguous, and each has a feature (or an edge)."""
    start, place, n_edges = arrays["compact/start"], arrays["compact/place"], len(arrays["compact/bias"])
    vectors = arrays.get("support_vectors")
    lines, places = (n_edges, features) if vectors is None else (len(vectors), n_edges)
    follows = (
        len(start) == lines + 1 and start[0] == 0 and start[-1] == len(place) and (np.diff(start) >= 0).all()
    )
    integers = start.dtype.kind in "iu" and place.dtype.kind in "iu"
    if not follows or not integers or (place.size and not 0 <= place.min() <= place.max() < places):
        raise ValueError("stored array 'compact/start' must divide the entries of the weights.")


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
    """The arrays of the slopes of pairs, by name; none if pairs share one slope."""
    if pairs is None:
        return {}
    return {
        "slopes/slope": pairs.slopes.slope,
        "slopes/without_part": pairs.slopes.without_part,
        "slopes/prior": pairs.prior.weights,
    }


def slope_prior_values(pairs: PairSlopes | None) -> dict[str, int] | None:
    """The distribution of the slopes as JSON values, without its weights, which are an array."""
    return None if pairs is None else {"first": pairs.prior.first, "pairs": pairs.prior.pairs}


def _pair_slopes(prior: Mapping[str, int] | None, arrays: Mapping[str, NDArray[Any]]) -> PairSlopes | None:
    """The slopes in arrays that `slope_arrays` made, if there are any; ``prior`` is of `slope_prior_values`."""
    if prior is None:
        return None
    slopes = Slopes(arrays["slopes/slope"], arrays["slopes/without_part"])
    return PairSlopes(slopes, SlopePrior(prior["first"], arrays["slopes/prior"], prior["pairs"]))


def _learned_arrays(learned: Learned | None) -> dict[str, NDArray[Any]]:
    if learned is None or learned.logits is None:
        return {}
    return {f"learned/{name}": values for name, values in learned.logits._asdict().items()}


def _learned(record: Mapping[str, Any] | None, arrays: Mapping[str, NDArray[Any]]) -> Learned | None:
    """The weights learned through the coupling, if any."""
    if record is None:
        return None
    logits = None
    if record["iterations"] and "compact/bias" not in arrays:
        logits = AffineLogits(arrays["learned/weights"], arrays["learned/bias"])
    return Learned(logits, LearningRecord(**record))


def labels_as_json(labels: NDArray[Any]) -> dict[str, Any]:
    """Labels and their type, as `labels_from_json` reads them."""
    return {"labels": _plain_labels(labels), "labels_dtype": labels.dtype.str}


def labels_from_json(stored: Mapping[str, Any]) -> NDArray[Any]:
    """The labels that `labels_as_json` described. The dtype of text follows from the longest label."""
    dtype = stored["labels_dtype"]
    kind = np.dtype(dtype)
    if kind.kind not in "biufUOmM":
        raise ValueError(f"stored labels must be text, numbers or times, got dtype {dtype!r:.60}.")
    return np.array(stored["labels"], dtype="U" if kind.kind == "U" else kind)


def _plain_labels(labels: NDArray[Any]) -> list[Any]:
    """Labels as JSON values: dates and time differences as integers, in the unit of their dtype."""
    if labels.dtype.kind in "mM":
        labels = labels.astype(np.int64)
    if labels.dtype.kind not in "biufUO" or labels.dtype.char == "g":
        raise ValueError(
            "PairwiseSVC.save: labels must be strings, integers, floats, booleans or times to be saved,"
            f" got dtype {labels.dtype}."
        )
    return list(plain(labels, "labels"))


def plain(value: Any, name: str = "every value") -> Any:
    """A value as JSON: numbers and arrays of numpy become those of Python. ``name`` is for the message."""
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
