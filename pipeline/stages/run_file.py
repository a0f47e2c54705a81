"""``run.json``: a run as sealed JSON, and the versions that its results depend on."""

from __future__ import annotations

import importlib.metadata
import platform
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pairloom
from pairloom import graphs
from pairloom.pipeline import stages
from pairloom.pipeline.config.config import Config, differing_keys
from pairloom.pipeline.machines.kernel_function import KernelFunction
from pairloom.pipeline.model.machine_choice import KernelChoice
from pairloom.pipeline.model.saved_model import labels_as_json, labels_from_json
from pairloom.pipeline.model.settings import Candidate
from pairloom.pipeline.model.training_set import MOST_PROBE_ROWS, Probe
from pairloom.pipeline.run.run import FORMAT, Run
from pairloom.pipeline.run.run_directory import RunShape, SourceOfRows, SparseSizes
from pairloom.pipeline.storage.digests import DamagedSeal, digest_of, sealed, unsealed
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.location import Location, StoreUrl

__all__ = [
    "DamagedPlan",
    "Mismatch",
    "differing_settings",
    "installed_versions",
    "read_run",
    "write_run",
]

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "zarr", "dask", "distributed", "networkx")


class DamagedPlan(ValueError):
    """A run.json that is missing, truncated or modified."""


class Mismatch(ValueError):
    """A run directory with another configuration, other data or another version."""


def write_run(run: Run) -> None:
    """Write ``run.json``. A driver does so behind a fence: another one may have taken over.

    The entity tag of an object is the checksum of its bytes in some stores. So that nobody takes a plan that was put
    again for the one before, each has a mark there that no other has.
    """
    mark = {"mark": secrets.token_hex(16)} if isinstance(run.directory, StoreUrl) else {}
    Folder(run.directory).write("run.json", sealed(_content(run) | mark))


def read_run(directory: Location) -> Run:
    """Read ``run.json``. Raise `DamagedPlan`, or `Mismatch` if it has another format."""
    path = directory / "run.json"
    try:
        content = unsealed(Folder(directory).read("run.json"))
    except FileNotFoundError as error:
        raise DamagedPlan(
            f"{path}: no such file. This is not a run directory, or its plan was deleted."
        ) from error
    except DamagedSeal as error:
        raise DamagedPlan(f"{path}: damaged: {error}.") from error
    if content.get("format") != FORMAT:
        raise Mismatch(
            f"{path}: format must be {FORMAT}, got {content.get('format')}: the run was made by another version of "
            "pairloom. Finish it with that version, or start again in another directory."
        )
    return Run(directory=directory, stages=stages.STAGES, **_fields(content))


def _content(run: Run) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "config": run.config.model_dump(mode="json"),
        "config_hash": digest_of(run.config.result_settings()),
        "fingerprints": run.fingerprints,
        "shape": run.shape._asdict() | labels_as_json(run.shape.labels) | _sides_content(run.shape),
        "candidates": [list(candidate) for candidate in run.candidates],
        "graph": run.graph,
        "probe": None if run.probe is None else _probe_content(run.probe),
        "exponent": run.exponent,
        "class_weights": run.class_weights,
        "waves": run.waves,
        "versions": run.versions,
        "kernel": None if run.kernel is None else asdict(run.kernel),
        "warnings": run.warnings,
        "kernel_choice": run.kernel_choice._asdict(),
    }


def _fields(content: dict[str, Any]) -> dict[str, Any]:
    shape: dict[str, Any] = dict(content["shape"])
    shape["labels"] = labels_from_json(shape)
    del shape["labels_dtype"]
    lists = ("rows", "shrinkages", "couplings", "feature_names", "calibrations")
    shape |= {name: tuple(shape[name]) for name in lists if name in shape}
    shape["edges"] = _pairs(shape["edges"])
    if shape.get("sparse") is not None:
        entries, *sizes = shape["sparse"]
        shape["sparse"] = SparseSizes(tuple(entries), *sizes)
    for name in ("train_source", "test_source"):
        if shape.get(name) is not None:
            source = SourceOfRows(*shape[name])
            shape[name] = source._replace(columns=tuple(source.columns))
    code = shape.get("code")  # plans before codes have none
    shape["code"] = None if code is None else graphs.code_from_text(code)
    weights, kernel = content["class_weights"], content.get("kernel")
    return {
        "config": Config.model_validate(content["config"]),
        "fingerprints": content["fingerprints"],
        "shape": RunShape(**shape),
        "candidates": tuple(Candidate(*candidate) for candidate in content["candidates"]),
        "graph": content["graph"],
        "probe": None if content["probe"] is None else _probe(**content["probe"], code=shape["code"]),
        "exponent": content["exponent"],
        "class_weights": None if weights is None else tuple(weights),
        "waves": tuple(content["waves"]),
        "versions": content["versions"],
        "kernel": None if kernel is None else KernelFunction(**kernel),
        "warnings": tuple(content.get("warnings", ())),
        "kernel_choice": KernelChoice(
            tuple(content["kernel_choice"]["candidates"]), content["kernel_choice"]["why"]
        ),
    }


def _sides_content(shape: RunShape) -> dict[str, Any]:
    code = None if shape.code is None else graphs.code_as_text(shape.code)
    return {"edges": shape.edges.tolist(), "code": code}


def _probe_content(probe: Probe) -> dict[str, Any]:
    # The probe of machines on sets of classes uses the code of the model.
    code = isinstance(probe.graph, graphs.ModelCode)
    edges = [] if code else graphs.edge_array(probe.graph).tolist()
    return {"classes": probe.classes.tolist(), "edges": edges, "most_rows": probe.most_rows}


def _probe(
    classes: list[int],
    edges: list[list[int]],
    *,
    most_rows: int = MOST_PROBE_ROWS,
    code: NDArray[np.int8] | None,
) -> Probe:
    if code is not None:
        return Probe(np.array(classes), graphs.ModelCode(code, {"family": "probe"}), most_rows)
    graph = graphs.model_graph(len(classes), [(i, j) for i, j in edges], "probe")
    return Probe(np.array(classes), graph, most_rows)


def _pairs(edges: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    return np.array(edges, dtype=np.int64).reshape(-1, 2)


def installed_versions() -> dict[str, str]:
    """Versions of pairloom, Python and the packages that results depend on, by name."""
    packages = {name: importlib.metadata.version(name) for name in _PACKAGES}
    return {"pairloom": pairloom.__version__, "python": platform.python_version(), **packages}


def differing_settings(run: Run, config: Config, fingerprints: Mapping[str, str]) -> list[str]:
    """Differences of configuration, data and version from a run, one line per key."""
    return differing_keys(
        _identity(run.config, run.fingerprints, run.versions),
        _identity(config, fingerprints, installed_versions()),
    )


def _identity(config: Config, fingerprints: Mapping[str, str], versions: Mapping[str, str]) -> dict[str, Any]:
    """Everything that decides the result of a run, as a nested dictionary."""
    settings = config.result_settings()
    parts = {"train": "train samples", "test": "test samples", "ids": "ids"}
    settings["data"] |= {f"fingerprint of {parts[part]}": value for part, value in fingerprints.items()}
    return settings | {"pairloom version": versions["pairloom"]}
