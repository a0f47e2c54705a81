"""The model of a finished run: ``model.json`` describes it, its arrays stay where the stages wrote them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.calibration.novelty_signals import ClassPlaces
from pairloom.pipeline.completion.couplers import neutral_shift
from pairloom.pipeline.coupling.model_coupling import SIGN_VOTE
from pairloom.pipeline.features.feature_set import names_of
from pairloom.pipeline.machines.folds import FoldScheme
from pairloom.pipeline.machines.kernel_function import KernelFunction
from pairloom.pipeline.machines.linear_machines import LinearModel
from pairloom.pipeline.machines.normalisation import Whitening, is_whitened, unwhitened
from pairloom.pipeline.machines.settings import MachineSettings
from pairloom.pipeline.model.fitted_model import KEPT_SETTINGS, FittedModel, SavedModel
from pairloom.pipeline.model.saved_model import (
    assembled,
    labels_as_json,
    place_of,
    plain,
    slope_arrays,
    slope_prior_values,
    whole_model,
)
from pairloom.pipeline.run.collapsed_store import read_maps, read_ranking
from pairloom.pipeline.run.feature_store import (
    read_checksums,
    read_dense_rows,
    read_ids,
    read_moments,
    read_places,
    read_whitening_arrays,
)
from pairloom.pipeline.run.ledger import Ledger
from pairloom.pipeline.run.machine_store import read_dprime, read_kernel_machines, read_machines
from pairloom.pipeline.run.results import (
    candidate_rows,
    chosen_calibration,
    chosen_candidate,
    chosen_shortlist,
    judged_calibrations,
    methods_of,
    read_edge_calibration,
    read_learned_weights,
    read_learning_record,
    read_list_mass,
    read_scale,
    read_scores,
    read_slopes,
)
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import open_group
from pairloom.pipeline.storage.digests import DamagedSeal, sealed, unsealed
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.location import Location
from pairloom.pipeline.storage.zarr_metadata import RefusedArray
from pairloom.pipeline.threads import pieces

__all__ = ["UnknownCoupling", "read_run_model", "write_run_model"]

FORMAT, FORMAT_VERSION = "pairloom-run-model", 9
_JSON = "model.json"


class UnknownCoupling(ValueError):
    """A coupling that a run has not calibrated."""


def write_run_model(run: Run, files: Mapping[str, str]) -> list[str]:
    """Write ``model.json``: the digests of the arrays' files, and everything else that `read_run_model` needs.

    ``files`` has the digests of all files of the stages that made the model, by path inside the run directory.
    """
    chosen, learning, calibration = chosen_candidate(run), read_learning_record(run), chosen_calibration(run)
    shape, settings, length = run.shape, run.settings, chosen_shortlist(run)
    content = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "model": {
            **labels_as_json(shape.labels),
            "graph": plain(run.model_label),
            "settings": asdict(settings.machines_as_chosen(chosen.C, calibration)),
            "whiten": chosen.whiten,
            "coupled_calibration": settings.coupled_calibration,
            # The coupling is chosen when the model is read.
            **{name: getattr(settings, name) for name in KEPT_SETTINGS if name != "coupling"},
            "shortlist": settings.shortlist if length == run.shortlist else length,
            "slope_prior": slope_prior_values(
                read_slopes(run.directory, shape.order) if calibration == "slopes" else None
            ),
            "weighted": "class_weight" if run.class_weights is not None else "",
            "n_features": shape.features,
            "exponent": run.exponent,
            "kernel": None if settings.kernel is None else asdict(settings.kernel),
            "learned": None if learning is None else learning._asdict(),
        },
        "parameters": plain(run.estimator_parameters),
        "candidates": candidate_rows(run),
        "kernel_choice": run.kernel_choice.why,
        "calibrations": judged_calibrations(run),
        "edges_calibrated": shape.edges_calibrated,
        "collapsed": shape.collapsed,
        "couplings": [list(named) for named in methods_of(run).items()],
        "shrinkages": list(shape.shrinkages),
        "held_out": shape.draws > 0,
        "placed": shape.placed,
        "totals": run.totals.tolist(),
        "rows": list(shape.rows),
        "standardised": shape.standardised,
        "sparse": shape.sparse is not None,
        "feature_names": list(shape.feature_names),
        "edges": shape.edges.tolist(),
        "code": None if shape.code is None else graphs.code_as_text(shape.code),
        "files": {**_read_again(run, files), **_metadata_digests(run)},
    }
    Folder(run.directory).write(_JSON, sealed(content))
    return [_JSON]


def _read_again(run: Run, files: Mapping[str, str]) -> dict[str, str]:
    """The files that `read_run_model` reads. They include training rows only if these are support vectors."""
    rows: tuple[str, ...] = ("train", "row") if run.kernel is None else ()
    rows += tuple(
        f"{of}_{what}" for of in ("train", "test", "drawn") for what in ("value", "column", "entries")
    )
    unread = [f"features.zarr/{name}/" for name in (*rows, "train_class", "sample", "kept_mean", "scatter")]
    unread += ["calibration/", "learning/", "machines.zarr/profile/", "probabilities.zarr/sample/"]
    return {path: digest for path, digest in files.items() if not path.startswith(tuple(unread))}


def read_run_model(
    directory: str | Location, coupling: str | None = None, *, compact: bool | None = None
) -> SavedModel:
    """The fitted model of a run, calibrated for one of its couplings; by default for `model.coupling`.

    Every file that is read is compared with its recorded digest. A compact model has only those arrays of its machines
    that prediction needs. By default the model is compact if the run stores the maps of its edges.
    """
    directory = place_of(directory, "PairwiseSVC.from_run: directory")
    content = _read_description(directory)
    with whole_model(f"PairwiseSVC.from_run: {directory / _JSON}"):
        couplings = [(str(name), str(method)) for name, method in content["couplings"]]
    number = _number_of(coupling, couplings)
    name, method = couplings[number]
    with whole_model(f"PairwiseSVC.from_run: {directory / _JSON}"):
        stored = bool(content.get("collapsed")) and compact is not False and method != SIGN_VOTE
        arrays_read = _arrays_of_model(**_kinds_of(content), collapsed=stored)
        files = _files_of(content["files"], unread=_MACHINES if stored else _MAPS)
    _check_files(directory, files)
    _check_arrays(directory, arrays_read, files)
    with whole_model(f"PairwiseSVC.from_run: {directory}"):
        description = content["model"] | {"coupling": method}
        arrays, mass = _arrays(directory, content, number, stored), read_list_mass(directory, number)
        description |= {"slope_prior": None} if stored else {}
        description |= {
            "scale": float(arrays.pop("scale")),
            "list_mass": mass._asdict(),
        }
        model = assembled(description, arrays)
        model = model.compacted() if compact else model
        weights = _weights_by_label(content["parameters"]["class_weight"], model.classes.labels)
        parameters = {**content["parameters"], "coupling": name, "class_weight": weights}
        compared = (content["candidates"], content["calibrations"], content["kernel_choice"])
        columns = content.get("feature_names", [])
        return SavedModel(model, parameters, *compared, columns, _support_ids(directory, model))


#: The arrays of the machines of single folds, and the maps that replace them at prediction.
_MACHINES = ("machines.zarr/coef", "features.zarr/mean", "features.zarr/factor", "machines.zarr/slopes")
_MAPS = tuple(f"machines.zarr/{name}" for name in ("weights", "bias", "ranking_weights", "ranking_bias"))


def _files_of(files: Mapping[str, Any], unread: Sequence[str]) -> dict[str, Any]:
    """The recorded files, except those of the arrays ``unread``."""
    return {
        path: digest for path, digest in files.items() if not path.startswith(tuple(f"{u}/" for u in unread))
    }


def _number_of(coupling: str | None, couplings: Sequence[tuple[str, str]]) -> int:
    """The number of a coupling of a run, given its name in the run or its method; by default the first."""
    if coupling is None:
        return 0
    for number, named in enumerate(couplings):
        if coupling in named:
            return number
    names = ", ".join(name for name, _ in couplings)
    raise UnknownCoupling(
        f"PairwiseSVC.from_run: coupling must be one of {names}, the run's, got {coupling!r}."
    )


def _support_ids(directory: Location, model: FittedModel) -> list[Any]:
    """The ids of the support vectors' rows; empty if machines are linear."""
    if model.trained.kernel is None:
        return []
    return list(read_ids(directory, "row", np.unique(model.trained.machines.row)).tolist())


def _weights_by_label(class_weight: Any, labels: NDArray[Any]) -> Any:
    """Class weights by label, as an estimator takes them; a configuration names classes by text."""
    if not isinstance(class_weight, Mapping):
        return class_weight
    known = zip(names_of(labels), labels.tolist(), strict=True)
    return {label: class_weight[name] for name, label in known if name in class_weight}


def _arrays(
    directory: Location, content: Mapping[str, Any], number: int, collapsed: bool
) -> dict[str, NDArray[Any]]:
    """The arrays of the model, with machines in the order of the sorted edges, or of the code."""
    sides, order, model = *_sides(content), content["model"]
    scale = read_scale(directory, number)
    slope, shift = np.full(len(order), scale), np.zeros(len(order))
    if "code" in sides:
        shift = neutral_shift(
            sides["code"], scale, model["settings"]["calibration"], content["couplings"][number][1]
        )
    if content["edges_calibrated"]:
        slope, shift = read_edge_calibration(directory, number, order)
    has_slopes = model["settings"]["calibration"] == "slopes"
    trained = _linear_arrays if model.get("kernel") is None else _kernel_arrays
    machines = (
        _maps(directory, content, order, number, slope[0])
        if collapsed
        else trained(directory, content, order)
    )
    return {
        **machines,
        **sides,
        **(slope_arrays(read_slopes(directory, order)) if has_slopes and not collapsed else {}),
        "scale": np.array(scale),
        "slope": slope,
        "shift": shift,
        "totals": np.array(content["totals"]),
        "keys": np.arange(len(content["totals"])),
        "checksums": read_checksums(directory),
        **(_held_out_arrays(directory, content, number) if _has_scores(content) else {}),
    }


def _held_out_arrays(directory: Location, content: Mapping[str, Any], number: int) -> dict[str, NDArray[Any]]:
    """The scores of the held-out samples, and the arrays from which novelty is measured."""
    table, weights = read_scores(directory, number)
    places = read_places(directory) if _kinds_of(content)["placed"] else None
    named = {} if places is None else {f"novelty/{name}": values for name, values in places._asdict().items()}
    return {"held_out": table, "novelty/weights": weights, **named}


def _has_scores(content: Mapping[str, Any]) -> bool:
    """Whether there are held-out scores of this model. Weights learned from the held-out samples have none."""
    learned = content["model"].get("learned")
    return bool(content["held_out"]) and not (learned and learned["iterations"])


def _sides(content: Mapping[str, Any]) -> tuple[dict[str, NDArray[Any]], NDArray[np.intp]]:
    """The sorted pairs of the model, or its code, and the permutation that sorts its machines."""
    if content.get("code") is not None:
        code = graphs.code_from_text(content["code"])
        return {"code": code}, np.arange(code.shape[1])
    edges = np.array(content["edges"], dtype=np.int64).reshape(-1, 2)
    order = graphs.edge_order(edges)
    return {"edges": edges[order]}, order


def _linear_arrays(
    directory: Location, content: Mapping[str, Any], order: NDArray[np.intp]
) -> dict[str, NDArray[Any]]:
    """Linear machines, the whitening they were trained under, the moments, and weights that were learned."""
    machines, record = read_machines(directory).of_edges(order), content["model"].get("learned")
    machines = machines.by_distance(_scheme(content)) if content["model"]["settings"]["turned"] else machines
    moments = read_moments(directory, bool(content.get("standardised")))
    if content.get("sparse"):
        mean, factor = unwhitened()
    else:
        mean, factor = read_whitening_arrays(directory, content["shrinkages"], content["model"]["whiten"])
    learned = read_learned_weights(directory, order) if record and record["iterations"] else None
    return {
        **LinearModel(machines, Whitening(mean, factor)).arrays(),
        **dict(zip(("centre", "deviation"), moments, strict=False)),
        **({} if learned is None else {"learned/weights": learned.weights, "learned/bias": learned.bias}),
    }


def _maps(
    directory: Location, content: Mapping[str, Any], order: NDArray[np.intp], number: int, scale: float
) -> dict[str, NDArray[Any]]:
    """The stored maps of the edges, and the ranking of the classes by the calibrated ones."""
    apart, maps = bool(content["edges_calibrated"]), read_maps(directory)
    ranking = read_ranking(directory, number if apart else 0)
    factor = np.float32(1.0 if apart else scale)
    moments = read_moments(directory, bool(content.get("standardised")))
    return {
        "compact/weights": maps.weights[order],
        "compact/bias": maps.bias[order],
        "compact/dprime": read_dprime(directory)[order],
        "compact/ranking_weights": ranking.weights * factor,
        "compact/ranking_bias": ranking.bias * factor,
        **dict(zip(("centre", "deviation"), moments, strict=False)),
    }


def _scheme(content: Mapping[str, Any]) -> FoldScheme:
    """The fold scheme of the machines of a described model."""
    return MachineSettings(**content["model"]["settings"]).scheme


def _decomposition(content: Mapping[str, Any]) -> graphs.Decomposition:
    """The pairs, or sets of classes, that the machines of a run were trained on, in the order of its tiles."""
    if content.get("code") is not None:
        return graphs.ModelCode(graphs.code_from_text(content["code"]), {"family": "run"})
    return graphs.Pairs(np.array(content["edges"], dtype=np.int64).reshape(-1, 2), len(content["rows"]))


def _kernel_arrays(
    directory: Location, content: Mapping[str, Any], order: NDArray[np.intp]
) -> dict[str, NDArray[Any]]:
    """Machines with a kernel, their support vectors, and the moments by which samples are normalised."""
    members = _decomposition(content).members()
    edges_per_tile = open_group(directory, "machines.zarr")["beta"].chunks[0]
    machines = read_kernel_machines(
        directory, pieces(len(members), edges_per_tile), lambda tile: members[tile], np.array(content["rows"])
    )
    machines = machines.by_distance(_scheme(content)) if content["model"]["settings"]["turned"] else machines
    kernel = KernelFunction(**content["model"]["kernel"])
    normalisation = kernel.normalisation(*read_moments(directory, bool(content.get("standardised"))))
    scaled = {} if normalisation.deviation is None else {"deviation": normalisation.deviation}
    return {
        **{
            f"machines/{name}": values
            for name, values in machines.of_edges(order)._asdict().items()
            if name != "profile"
        },
        "support_vectors": normalisation(read_dense_rows(directory, np.unique(machines.row))),
        "centre": normalisation.centre,
        **scaled,
    }


def _metadata_digests(run: Run) -> dict[str, str]:
    """Digests of the metadata (shapes, types, byte orders) of the arrays that `read_run_model` opens."""
    shape = run.shape
    names = _arrays_of_model(
        kernel=run.settings.kernel is not None,
        whitened=bool(shape.whitenings),
        standardised=shape.standardised,
        learned=shape.learned,
        edges_calibrated=shape.edges_calibrated,
        sloped=chosen_calibration(run) == "slopes",
        held_out=shape.draws > 0,
        placed=shape.placed,
        sparse=shape.sparse is not None,
    )
    names += _MAPS if shape.collapsed else ()
    return Ledger(run.directory).seal_files(f"{name}/zarr.json" for name in names)


def _arrays_of_model(
    *,
    kernel: bool,
    whitened: bool,
    standardised: bool,
    learned: bool,
    edges_calibrated: bool,
    sloped: bool,
    held_out: bool,
    placed: bool,
    sparse: bool,
    collapsed: bool = False,
) -> list[str]:
    """The arrays that `read_run_model` opens."""
    names = ["machines.zarr/parameters", "features.zarr/checksum", "features.zarr/centre"]
    names += (
        ["machines.zarr/beta", "features.zarr/train", "features.zarr/row"]
        if kernel
        else ["machines.zarr/weight", "machines.zarr/column"]
        if sparse
        else ["machines.zarr/coef", "features.zarr/mean"]
    )
    names += ["features.zarr/factor"] if whitened else []
    names += ["features.zarr/deviation"] if standardised else []
    names += [f"features.zarr/place_{name}" for name in ClassPlaces._fields] if placed else []
    names += ["machines.zarr/slopes"] if sloped else []
    names += ["machines.zarr/learned_coef", "machines.zarr/learned_intercept"] if learned else []
    calibrations = ["scale", "list_mass", *(["slope", "shift"] if edges_calibrated else [])]
    calibrations += ["held_out_scores", "novelty"] if held_out else []
    names = [*_MAPS, *(name for name in names if name not in _MACHINES)] if collapsed else names
    return names + [f"probabilities.zarr/{name}" for name in calibrations]


def _kinds_of(content: Mapping[str, Any]) -> dict[str, bool]:
    """The arguments of `_arrays_of_model` for a described model. Learned weights have chunks only if they changed."""
    model = content["model"]
    learned = model.get("learned")
    return {
        "kernel": model.get("kernel") is not None,
        "whitened": any(map(is_whitened, content["shrinkages"])),
        "standardised": bool(content.get("standardised")),
        "learned": learned is not None and bool(learned["iterations"]),
        "edges_calibrated": bool(content["edges_calibrated"]),
        "sloped": model["settings"]["calibration"] == "slopes",
        "held_out": bool(content["held_out"]),
        "placed": bool(content["placed"]),
        "sparse": bool(content.get("sparse")),
    }


def _read_description(directory: Location) -> dict[str, Any]:
    path = directory / _JSON
    if not Folder(directory).exists("run.json"):
        raise FileNotFoundError(
            f"PairwiseSVC.from_run: {directory} is not a run directory: it has no run.json."
        )
    try:
        content = unsealed(Folder(directory).read(_JSON))
    except FileNotFoundError:
        raise FileNotFoundError(
            f"PairwiseSVC.from_run: {directory} has no model.json yet. Run `pairloom resume {directory}` first."
        ) from None
    except DamagedSeal as error:
        raise ValueError(
            f"PairwiseSVC.from_run: {path} is damaged: {error}. Run `pairloom resume {directory}` to repair it."
        ) from error
    version = content.get("format_version")
    if version != FORMAT_VERSION:
        raise ValueError(
            f"PairwiseSVC.from_run: {path} must have format_version {FORMAT_VERSION}, got {version!r}. "
            "Read it with the version of pairloom that wrote it."
        )
    return content


def _check_files(directory: Location, files: Mapping[str, Any]) -> None:
    folder = Folder(directory)

    def is_sound(path: str) -> bool:
        return _is_inside(path) and folder.digest(path) == files[path]

    with ThreadPoolExecutor() as threads:
        sound = dict(zip(files, threads.map(is_sound, files), strict=True))
    for path in files:
        if not sound[path]:
            raise ValueError(
                f"PairwiseSVC.from_run: {directory / path} is missing or damaged. "
                f"Run `pairloom resume {directory}` to repair it."
            )


def _is_inside(path: str) -> bool:
    """Whether a path from an untrusted file stays inside the run directory."""
    place = PurePosixPath(path)
    return not place.is_absolute() and ".." not in place.parts and "\0" not in path


def _check_arrays(directory: Location, names: list[str], files: Mapping[str, Any]) -> None:
    """Raise unless the metadata and all chunks of these arrays are among the recorded files."""
    for name in names:
        try:
            chunks = Folder(directory).chunks(name)
        except RefusedArray as error:
            raise ValueError(
                f"PairwiseSVC.from_run: {directory / name} cannot be read: {error}. "
                f"Run `pairloom resume {directory}` to repair it."
            ) from error
        if not files.keys() >= {f"{name}/zarr.json", *chunks}:
            raise ValueError(
                f"PairwiseSVC.from_run: {directory / _JSON} must have the digests of all files of {name}."
            )
