"""The stored form of a plan, ``run.json``: sealed JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.cluster.config import Config
from pairloom.pipeline.machines.kernel_function import KernelFunction
from pairloom.pipeline.model.choice import MOST_PROBE_ROWS, Candidate, Probe
from pairloom.pipeline.run.run_directory import RunShape
from pairloom.pipeline.storage.atomic_file import write_atomically
from pairloom.pipeline.storage.digests import DamagedSeal, digest_of, sealed, unsealed

if TYPE_CHECKING:
    from pairloom.cluster.plan.plan import Plan

__all__ = ["FORMAT", "DamagedPlan", "Mismatch", "read_fields", "write_plan"]

FORMAT = 5


class DamagedPlan(ValueError):
    """A run.json that is missing, truncated or modified."""


class Mismatch(ValueError):
    """A run directory with another configuration, other data or another version."""


def write_plan(plan: Plan, directory: Path) -> None:
    """Write ``run.json``."""
    write_atomically(directory / "run.json", sealed(_content(plan)))


def read_fields(directory: Path) -> dict[str, Any]:
    """Read the fields of a `Plan` from ``run.json``. Raise `DamagedPlan`, or `Mismatch` if it has another format."""
    path = directory / "run.json"
    try:
        content = unsealed(path.read_bytes())
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
    return _fields(content)


def _content(plan: Plan) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "config": plan.config.model_dump(mode="json"),
        "config_hash": digest_of(plan.config.result_settings()),
        "fingerprints": plan.fingerprints,
        "shape": plan.shape._asdict() | _sides_content(plan.shape),
        "candidates": [list(candidate) for candidate in plan.candidates],
        "graph": plan.graph,
        "probe": None if plan.probe is None else _probe_content(plan.probe),
        "exponent": plan.exponent,
        "class_weights": plan.class_weights,
        "waves": plan.waves,
        "versions": plan.versions,
        "kernel": None if plan.kernel is None else asdict(plan.kernel),
        "warnings": plan.warnings,
    }


def _fields(content: dict[str, Any]) -> dict[str, Any]:
    shape: dict[str, Any] = dict(content["shape"])
    lists = ("classes", "rows", "shrinkages", "couplings", "feature_names")
    shape |= {name: tuple(shape[name]) for name in lists if name in shape}
    shape["edges"] = _pairs(shape["edges"])
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
    }


def _sides_content(shape: RunShape) -> dict[str, Any]:
    code = None if shape.code is None else graphs.code_as_text(shape.code)
    return {"edges": shape.edges.tolist(), "code": code}


def _probe_content(probe: Probe) -> dict[str, Any]:
    # A probe of machines on sets of classes has the code of the model.
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
