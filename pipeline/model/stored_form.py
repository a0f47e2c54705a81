"""A fitted model as JSON values and arrays, and back: the form in which it is saved, and a run describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.calibration.coupled_calibration import CoupledCalibration
from pairloom.pipeline.calibration.coupled_learning import LearningRecord
from pairloom.pipeline.machines.kernel_function import KernelFunction
from pairloom.pipeline.machines.kernel_machines import KernelMachines
from pairloom.pipeline.machines.kernel_model import KernelModel
from pairloom.pipeline.machines.linear_machines import Machines
from pairloom.pipeline.machines.linear_model import LinearModel
from pairloom.pipeline.machines.logits import AffineLogits
from pairloom.pipeline.machines.normalisation import Normalisation
from pairloom.pipeline.machines.settings import MachineSettings
from pairloom.pipeline.machines.whitening import Whitening
from pairloom.pipeline.model.class_table import ClassTable
from pairloom.pipeline.model.fitted_model import FittedModel
from pairloom.pipeline.model.learning import Learned

__all__ = ["arrays_of", "assembled", "description_of", "label_of", "plain"]


def description_of(model: FittedModel) -> dict[str, Any]:
    """All of a model that is not in its arrays, as JSON values."""
    labels = model.classes.labels
    kernel = model.trained.kernel if isinstance(model.trained, KernelModel) else None
    return {
        "labels": _plain_labels(labels),
        "labels_dtype": labels.dtype.str,
        "graph": {key: plain(value) for key, value in label_of(model.graph).items()},
        "settings": asdict(model.settings),
        "whiten": model.whiten,
        "coupling": model.coupling,
        "coupled_calibration": model.coupled.level,
        "scale": model.coupled.scale,
        "calibration_samples": model.calibration_samples,
        "shortlist": model.shortlist,
        "machine_weight": model.machine_weight,
        "weighted": model.weighted,
        "n_features": model.n_features,
        "exponent": model.normalisation.exponent,
        "kernel": None if kernel is None else asdict(kernel),
        "learned": None if model.learned is None else model.learned.record._asdict(),
    }


def arrays_of(model: FittedModel) -> dict[str, NDArray[Any]]:
    """The arrays of a model with machines that are Pairloom's own, by name."""
    assert isinstance(model.trained, LinearModel | KernelModel)
    return {
        **{f"machines/{name}": values for name, values in model.trained.machines._asdict().items()},
        **_shared_arrays(model.trained),
        **({"edges": model.edges} if model.code is None else {"code": model.code.matrix}),
        "slope": model.coupled.slope,
        "shift": model.coupled.shift,
        "totals": model.classes.totals,
        "keys": model.classes.keys,
        "checksums": model.classes.checksums,
        "centre": model.normalisation.centre,
        **_deviation_array(model),
        **_learned_arrays(model.learned),
    }


def _deviation_array(model: FittedModel) -> dict[str, NDArray[Any]]:
    """The standard deviations of the columns, where features are standardised."""
    deviation = model.normalisation.deviation
    return {} if deviation is None else {"deviation": deviation}


def _shared_arrays(trained: LinearModel | KernelModel) -> dict[str, NDArray[Any]]:
    """What all machines need at prediction: the whitening of linear ones, the support vectors of others."""
    if isinstance(trained, KernelModel):
        return {"support_vectors": trained.vectors}
    return {"whitening/mean": trained.whitening.mean, "whitening/factor": trained.whitening.factor}


def assembled(description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FittedModel:
    """The model of a description and its arrays."""
    labels = np.array(description["labels"], dtype=description["labels_dtype"])
    return FittedModel(
        classes=ClassTable(labels, arrays["totals"], arrays["keys"], arrays["checksums"]),
        graph=_graph(len(labels), description["graph"], arrays),
        trained=_trained(description, arrays),
        settings=MachineSettings(**description["settings"]),
        whiten=description["whiten"],
        coupling=description["coupling"],
        coupled=CoupledCalibration(
            description["coupled_calibration"], description["scale"], arrays["slope"], arrays["shift"]
        ),
        calibration_samples=description["calibration_samples"],
        shortlist=description["shortlist"],
        normalisation=Normalisation(arrays["centre"], description["exponent"], arrays.get("deviation")),
        weighted=description["weighted"],
        n_features=description["n_features"],
        machine_weight=description.get("machine_weight", "none"),
        learned=_learned(description.get("learned"), arrays),
    )


def label_of(graph: nx.Graph | graphs.ModelCode) -> Mapping[str, Any]:
    """How a graph or code was built: its family and parameters."""
    return graph.label if isinstance(graph, graphs.ModelCode) else graph.graph


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


def _trained(description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> LinearModel | KernelModel:
    if description.get("kernel") is None:
        machines = Machines(*(arrays[f"machines/{name}"] for name in Machines._fields))
        return LinearModel(machines, Whitening(arrays["whitening/mean"], arrays["whitening/factor"]))
    return KernelModel(
        KernelFunction(**description["kernel"]),
        KernelMachines(*(arrays[f"machines/{name}"] for name in KernelMachines._fields)),
        arrays["support_vectors"],
    )


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
