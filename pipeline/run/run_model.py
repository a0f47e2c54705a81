"""The model of a finished run: ``model.json`` describes it, and its arrays stay where the stages wrote them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.coupling.code_coupling import neutral_shift
from pairloom.pipeline.machines.kernel_function import KernelFunction
from pairloom.pipeline.machines.kernel_machines import machines_followed_by
from pairloom.pipeline.machines.whitening import is_whitened
from pairloom.pipeline.model.saved_model import SavedModel
from pairloom.pipeline.model.stored_form import assembled, plain
from pairloom.pipeline.pieces import pieces
from pairloom.pipeline.run.choosing import chosen_candidate, read_candidates
from pairloom.pipeline.run.feature_store import read_normalisation
from pairloom.pipeline.run.kernel_tiles import stored_kernel_machines
from pairloom.pipeline.run.learning import read_learning_record
from pairloom.pipeline.run.machine_store import unpacked
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import members_of_machines, rows_per_file
from pairloom.pipeline.storage.atomic_file import write_atomically
from pairloom.pipeline.storage.digests import DamagedSeal, file_digest, sealed, unsealed
from pairloom.pipeline.storage.zarr_layout import read_whole

__all__ = ["UnknownCoupling", "read_run_model", "write_run_model"]

FORMAT, FORMAT_VERSION = "pairloom-run-model", 3
_JSON = "model.json"


class UnknownCoupling(ValueError):
    """A coupling that a run has not calibrated."""


def write_run_model(
    run: Run,
    graph: Mapping[str, Any],
    parameters: Mapping[str, Any],
    files: Mapping[str, str],
) -> list[Path]:
    """Write ``model.json``: everything that `read_run_model` needs besides the arrays, and the digests of their files.

    Parameters
    ----------
    run : Run
    graph : mapping
        Label of the model graph: its family and parameters.
    parameters : mapping
        Parameters of the equivalent `PairwiseSVC`.
    files : mapping
        Digests of the chunks of the model's arrays, by path inside the run directory.
    """
    chosen, learning = chosen_candidate(run), read_learning_record(run)
    shape, settings = run.shape, run.settings
    content = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "model": {
            "labels": list(shape.classes),
            "labels_dtype": "U",
            "graph": plain(dict(graph)),
            "settings": asdict(settings.machines(chosen.C, chosen.calibration)),
            "whiten": chosen.whiten,
            "coupled_calibration": settings.coupled_calibration,
            "calibration_samples": settings.calibration_samples,
            "shortlist": settings.shortlist,
            "machine_weight": settings.machine_weight,
            "weighted": "class_weight" if run.class_weights is not None else "",
            "n_features": shape.features,
            "exponent": run.exponent,
            "kernel": None if settings.kernel is None else asdict(settings.kernel),
            "learned": None if learning is None else learning._asdict(),
        },
        "parameters": plain(dict(parameters)),
        "candidates": [judged.row(read_normalisation(run)) for judged in read_candidates(run)],
        "couplings": list(shape.couplings),
        "shrinkages": list(shape.shrinkages),
        "totals": run.totals.tolist(),
        "rows": list(shape.rows),
        "standardised": shape.standardised,
        "feature_names": list(shape.feature_names),
        "edges": shape.edges.tolist(),
        "code": None if shape.code is None else graphs.code_as_text(shape.code),
        "files": {**files, **_metadata_digests(run)},
    }
    write_atomically(run.directory / _JSON, sealed(content))
    return [run.directory / _JSON]


def read_run_model(directory: str | Path, coupling: str | None = None) -> SavedModel:
    """The fitted model of a run, calibrated for one of its couplings; by default for `model.coupling`.

    Every file is compared with its recorded digest.
    """
    directory = Path(directory)
    content = _read_description(directory)
    _check_files(directory, content["files"])
    couplings = content["couplings"]
    coupling = couplings[0] if coupling is None else coupling
    if coupling not in couplings:
        raise UnknownCoupling(
            f"PairwiseSVC.from_run: coupling must be one of {', '.join(couplings)}, the run's, got {coupling!r}."
        )
    description, arrays = content["model"], _arrays(directory, content, couplings.index(coupling))
    description |= {"coupling": coupling, "scale": float(arrays.pop("scale"))}
    parameters = {**content["parameters"], "coupling": coupling}
    names = content.get("feature_names", [])
    return SavedModel(assembled(description, arrays), parameters, content["candidates"], names)


def _array(directory: Path, path: str, selection: Any = Ellipsis) -> NDArray[Any]:
    return read_whole(zarr.open_array(directory / path, mode="r"), selection)


def _arrays(directory: Path, content: Mapping[str, Any], number: int) -> dict[str, NDArray[Any]]:
    """The arrays of the model, with machines in the order of the sorted edges, or of the code."""
    sides, order, model = *_sides(content), content["model"]
    scale = _array(directory, "probabilities.zarr/scale", number)
    slope, shift = np.full(len(order), scale), np.zeros(len(order))
    if "code" in sides:
        shift = neutral_shift(
            sides["code"], float(scale), model["settings"]["calibration"], content["couplings"][number]
        )
    if model["coupled_calibration"] == "edges":
        slope = _array(directory, "probabilities.zarr/slope", number)[order]
        shift = _array(directory, "probabilities.zarr/shift", number)[order]
    trained = _linear_arrays if model.get("kernel") is None else _kernel_arrays
    return {
        **trained(directory, content, order),
        **sides,
        "scale": scale,
        "slope": slope,
        "shift": shift,
        "totals": np.array(content["totals"]),
        "keys": np.arange(len(content["totals"])),
        "checksums": _array(directory, "features.zarr/checksum"),
    }


def _linear_arrays(
    directory: Path, content: Mapping[str, Any], order: NDArray[np.intp]
) -> dict[str, NDArray[Any]]:
    """Linear machines in the order of the sorted edges, the whitening they were trained under, and the centre."""
    machines = unpacked(*(_array(directory, f"machines.zarr/{name}") for name in ("coef", "parameters")))
    return {
        **{f"machines/{name}": values for name, values in machines.of_edges(order)._asdict().items()},
        **_whitening(directory, content["shrinkages"], content["model"]["whiten"]),
        **_moments(directory, content),
        **_learned(directory, content, order),
    }


def _learned(directory: Path, content: Mapping[str, Any], order: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
    """The weights that were learned through the coupling, if any were, in the order of the sorted edges."""
    record = content["model"].get("learned")
    if record is None or not record["iterations"]:
        return {}
    return {
        "learned/weights": _array(directory, "machines.zarr/learned_coef")[order],
        "learned/bias": _array(directory, "machines.zarr/learned_intercept")[order],
    }


def _moments(directory: Path, content: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """The mean of the features and, where they are standardised, their standard deviation."""
    names = ("centre", "deviation") if content.get("standardised") else ("centre",)
    return {name: _array(directory, f"features.zarr/{name}") for name in names}


def _sides(content: Mapping[str, Any]) -> tuple[dict[str, NDArray[Any]], NDArray[np.intp]]:
    """The sorted pairs of the model, or its code, and the permutation that sorts its machines."""
    if content.get("code") is not None:
        code = graphs.code_from_text(content["code"])
        return {"code": code}, np.arange(code.shape[1])
    edges = np.array(content["edges"], dtype=np.int64).reshape(-1, 2)
    order = graphs.edge_order(edges)
    return {"edges": edges[order]}, order


def _kernel_arrays(
    directory: Path, content: Mapping[str, Any], order: NDArray[np.intp]
) -> dict[str, NDArray[Any]]:
    """Machines with a kernel in the order of the sorted edges, their support vectors, and the centre of these."""
    names, sizes = ("machines.zarr/beta", "machines.zarr/parameters"), np.array(content["rows"])
    members = _members(content)
    edges_per_tile = zarr.open_array(directory / names[0], mode="r").chunks[0]
    machines = machines_followed_by(
        [
            stored_kernel_machines(
                _array(directory, names[0], tile), _array(directory, names[1], tile), members[tile], sizes
            )
            for tile in pieces(len(members), edges_per_tile)
        ]
    )
    kernel = KernelFunction(**content["model"]["kernel"])
    normalisation = kernel.normalisation(*_moments(directory, content).values())
    scaled = {} if normalisation.deviation is None else {"deviation": normalisation.deviation}
    return {
        **{f"machines/{name}": values for name, values in machines.of_edges(order)._asdict().items()},
        "support_vectors": normalisation(_stored_rows(directory, np.unique(machines.row))),
        "centre": normalisation.centre,
        **scaled,
    }


def _members(content: Mapping[str, Any]) -> list[NDArray[np.intp]]:
    """The classes of each machine, in the order of the tiles."""
    edges, code = np.array(content["edges"], dtype=np.int64).reshape(-1, 2), content.get("code")
    return members_of_machines(edges, None if code is None else graphs.code_from_text(code))


def _stored_rows(directory: Path, rows: NDArray[np.int64]) -> NDArray[np.floating]:
    """Training rows, as they came, by their ascending places in the store: read file by file."""
    stored = zarr.open_array(directory / "features.zarr/train", mode="r")
    size = rows_per_file(stored.shape[1])
    files = [rows[rows // size == file] for file in np.unique(rows // size).tolist()]
    return np.concatenate([read_whole(stored, slice(own[0], own[-1] + 1))[own - own[0]] for own in files])


def _whitening(directory: Path, shrinkages: list[Any], whiten: Any) -> dict[str, NDArray[Any]]:
    mean = _array(directory, "features.zarr/mean", shrinkages.index(whiten))
    factor = np.empty((0, 0), np.float32)
    if is_whitened(whiten):
        place = [t for t in shrinkages if is_whitened(t)].index(whiten)
        factor = _array(directory, "features.zarr/factor", place)
    return {"whitening/mean": mean, "whitening/factor": factor}


def _metadata_digests(run: Run) -> dict[str, str]:
    """Digests of the metadata (shapes, types, byte orders) of the arrays that `read_run_model` opens."""
    names = ["machines.zarr/parameters", "features.zarr/checksum", "features.zarr/centre"]
    if run.settings.kernel is None:
        names += ["machines.zarr/coef", "features.zarr/mean"]
    else:
        names += ["machines.zarr/beta", "features.zarr/train"]
    names += ["features.zarr/factor"] if run.shape.whitenings else []
    names += ["features.zarr/deviation"] if run.shape.standardised else []
    if run.shape.learned:
        names += ["machines.zarr/learned_coef", "machines.zarr/learned_intercept"]
    calibrations = ["scale", *(["slope", "shift"] if run.shape.edges_calibrated else [])]
    names += [f"probabilities.zarr/{name}" for name in calibrations]
    return {f"{name}/zarr.json": file_digest(run.directory / name / "zarr.json") for name in names}


def _read_description(directory: Path) -> dict[str, Any]:
    path = directory / _JSON
    if not (directory / "run.json").is_file():
        raise FileNotFoundError(
            f"PairwiseSVC.from_run: {directory} is not a run directory: it has no run.json."
        )
    try:
        content = unsealed(path.read_bytes())
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


def _check_files(directory: Path, files: Mapping[str, str]) -> None:
    for name, recorded in files.items():
        path = directory / name
        if not path.is_file() or file_digest(path) != recorded:
            raise ValueError(
                f"PairwiseSVC.from_run: {path} is missing or damaged. Run `pairloom resume {directory}` to repair it."
            )
