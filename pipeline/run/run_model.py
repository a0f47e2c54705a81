"""The model of a finished run: ``model.json`` describes it, and its arrays stay where the stages wrote them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.completion.couplers import neutral_shift
from pairloom.pipeline.machines.kernel_function import KernelFunction
from pairloom.pipeline.model.fitted_model import KEPT_SETTINGS
from pairloom.pipeline.model.saved_model import SavedModel, assembled, plain
from pairloom.pipeline.pieces import pieces
from pairloom.pipeline.run.feature_store import (
    read_moments,
    read_normalisation,
    read_raw_rows,
    read_whitening_arrays,
)
from pairloom.pipeline.run.ledger import Ledger
from pairloom.pipeline.run.machine_store import read_kernel_machines, read_machines
from pairloom.pipeline.run.results import (
    chosen_candidate,
    read_candidates,
    read_edge_calibration,
    read_learned_weights,
    read_learning_record,
    read_list_mass,
)
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import open_group
from pairloom.pipeline.storage.digests import DamagedSeal, sealed, unsealed
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.zarr_layout import read_whole

__all__ = ["UnknownCoupling", "read_run_model", "write_run_model"]

FORMAT, FORMAT_VERSION = "pairloom-run-model", 4
_JSON = "model.json"


class UnknownCoupling(ValueError):
    """A coupling that a run has not calibrated."""


def write_run_model(run: Run, files: Mapping[str, str]) -> list[str]:
    """Write ``model.json``: everything that `read_run_model` needs besides the arrays, and the digests of their files.

    ``files`` has the digests of all files of the stages that made the model, by path inside the run directory.
    """
    chosen, learning = chosen_candidate(run), read_learning_record(run)
    shape, settings = run.shape, run.settings
    content = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "model": {
            "labels": list(shape.classes),
            "labels_dtype": "U",
            "graph": plain(run.model_label),
            "settings": asdict(settings.machines(chosen.C, chosen.calibration)),
            "whiten": chosen.whiten,
            "coupled_calibration": settings.coupled_calibration,
            # The coupling is chosen when the model is read.
            **{name: getattr(settings, name) for name in KEPT_SETTINGS if name != "coupling"},
            "weighted": "class_weight" if run.class_weights is not None else "",
            "n_features": shape.features,
            "exponent": run.exponent,
            "kernel": None if settings.kernel is None else asdict(settings.kernel),
            "learned": None if learning is None else learning._asdict(),
        },
        "parameters": plain(run.estimator_parameters),
        "candidates": [judged.row(read_normalisation(run)) for judged in read_candidates(run)],
        "couplings": list(shape.couplings),
        "shrinkages": list(shape.shrinkages),
        "totals": run.totals.tolist(),
        "rows": list(shape.rows),
        "standardised": shape.standardised,
        "feature_names": list(shape.feature_names),
        "edges": shape.edges.tolist(),
        "code": None if shape.code is None else graphs.code_as_text(shape.code),
        "files": {**_read_again(run, files), **_metadata_digests(run)},
    }
    Folder(run.directory).write(_JSON, sealed(content))
    return [_JSON]


def _read_again(run: Run, files: Mapping[str, str]) -> dict[str, str]:
    """The files that `read_run_model` reads. Training rows are among them only as support vectors."""
    rows = ("train",) if run.kernel is None else ()
    unread = [f"features.zarr/{name}/" for name in (*rows, "train_class", "kept_mean", "scatter")]
    unread += ["calibration/", "learning/"]
    return {path: digest for path, digest in files.items() if not path.startswith(tuple(unread))}


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
    mass = read_list_mass(directory, couplings.index(coupling))
    description |= {"coupling": coupling, "scale": float(arrays.pop("scale")), "list_mass": mass._asdict()}
    parameters = {**content["parameters"], "coupling": coupling}
    names = content.get("feature_names", [])
    return SavedModel(assembled(description, arrays), parameters, content["candidates"], names)


def _arrays(directory: Path, content: Mapping[str, Any], number: int) -> dict[str, NDArray[Any]]:
    """The arrays of the model, with machines in the order of the sorted edges, or of the code."""
    sides, order, model = *_sides(content), content["model"]
    scale = read_whole(open_group(directory, "probabilities.zarr")["scale"], number)
    slope, shift = np.full(len(order), scale), np.zeros(len(order))
    if "code" in sides:
        shift = neutral_shift(
            sides["code"], float(scale), model["settings"]["calibration"], content["couplings"][number]
        )
    if model["coupled_calibration"] == "edges":
        slope, shift = read_edge_calibration(directory, number, order)
    trained = _linear_arrays if model.get("kernel") is None else _kernel_arrays
    return {
        **trained(directory, content, order),
        **sides,
        "scale": scale,
        "slope": slope,
        "shift": shift,
        "totals": np.array(content["totals"]),
        "keys": np.arange(len(content["totals"])),
        "checksums": read_whole(open_group(directory, "features.zarr")["checksum"]),
    }


def _sides(content: Mapping[str, Any]) -> tuple[dict[str, NDArray[Any]], NDArray[np.intp]]:
    """The sorted pairs of the model, or its code, and the permutation that sorts its machines."""
    if content.get("code") is not None:
        code = graphs.code_from_text(content["code"])
        return {"code": code}, np.arange(code.shape[1])
    edges = np.array(content["edges"], dtype=np.int64).reshape(-1, 2)
    order = graphs.edge_order(edges)
    return {"edges": edges[order]}, order


def _linear_arrays(
    directory: Path, content: Mapping[str, Any], order: NDArray[np.intp]
) -> dict[str, NDArray[Any]]:
    """Linear machines, the whitening they were trained under, the moments, and weights that were learned."""
    machines, record = read_machines(directory).of_edges(order), content["model"].get("learned")
    moments = read_moments(directory, bool(content.get("standardised")))
    mean, factor = read_whitening_arrays(directory, content["shrinkages"], content["model"]["whiten"])
    learned = read_learned_weights(directory, order) if record and record["iterations"] else None
    return {
        **{f"machines/{name}": values for name, values in machines._asdict().items()},
        "whitening/mean": mean,
        "whitening/factor": factor,
        **dict(zip(("centre", "deviation"), moments, strict=False)),
        **({} if learned is None else {"learned/weights": learned.weights, "learned/bias": learned.bias}),
    }


def _decomposition(content: Mapping[str, Any]) -> graphs.Decomposition:
    """What the machines of a run were trained on, in the order of its tiles."""
    if content.get("code") is not None:
        return graphs.ModelCode(graphs.code_from_text(content["code"]), {"family": "run"})
    return graphs.Pairs(np.array(content["edges"], dtype=np.int64).reshape(-1, 2), len(content["rows"]))


def _kernel_arrays(
    directory: Path, content: Mapping[str, Any], order: NDArray[np.intp]
) -> dict[str, NDArray[Any]]:
    """Machines with a kernel, their support vectors, and the moments by which samples are normalised."""
    members = _decomposition(content).members()
    edges_per_tile = open_group(directory, "machines.zarr")["beta"].chunks[0]
    machines = read_kernel_machines(
        directory, pieces(len(members), edges_per_tile), lambda tile: members[tile], np.array(content["rows"])
    )
    kernel = KernelFunction(**content["model"]["kernel"])
    normalisation = kernel.normalisation(*read_moments(directory, bool(content.get("standardised"))))
    scaled = {} if normalisation.deviation is None else {"deviation": normalisation.deviation}
    return {
        **{f"machines/{name}": values for name, values in machines.of_edges(order)._asdict().items()},
        "support_vectors": normalisation(read_raw_rows(directory, np.unique(machines.row))),
        "centre": normalisation.centre,
        **scaled,
    }


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
    calibrations = ["scale", "list_mass", *(["slope", "shift"] if run.shape.edges_calibrated else [])]
    names += [f"probabilities.zarr/{name}" for name in calibrations]
    return Ledger(run.directory).seal_files(f"{name}/zarr.json" for name in names)


def _read_description(directory: Path) -> dict[str, Any]:
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


def _check_files(directory: Path, files: Mapping[str, str]) -> None:
    folder = Folder(directory)
    for path, recorded in files.items():
        if folder.digest(path) != recorded:
            raise ValueError(
                f"PairwiseSVC.from_run: {directory / path} is missing or damaged. "
                f"Run `pairloom resume {directory}` to repair it."
            )
