"""The most confident errors one by one: their probabilities, critical machines and explanations.

Explanations are those of `PairwiseSVC.explain`. If the model is too large to read, there are only critical machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from pairloom.graphs.text import plain_line
from pairloom.pipeline.display.top_probabilities import TopProbabilities
from pairloom.pipeline.model.explaining import Explanation, MachineEffects, explain
from pairloom.pipeline.report.critical_machine import (
    EXPLAINING_BYTES,
    NAMED,
    CriticalMachine,
    critical_machines,
    raw_samples,
)
from pairloom.pipeline.report.page import Column, PageTable, Section
from pairloom.pipeline.report.run_results import JudgedSamples, TrainedPairs
from pairloom.pipeline.run.feature_store import read_ids
from pairloom.pipeline.run.needs import disk_bytes
from pairloom.pipeline.run.results import chosen_shortlist
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_model import read_run_model

__all__ = [
    "ConfidentError",
    "affordable_explanations",
    "confident_errors",
    "errors_section",
    "explaining_work",
    "explanations",
    "most_explained",
    "reads_model",
]

#: Number of classes per sample whose probabilities are shown.
_CLASSES = 5
#: The meaning of a sample's name: text is an id, a number may also be a row number.
_MEANING_OF_ID = {
    False: "id of the sample in the data",
    True: "id of the sample in the data, or the number of its row there, from 0",
}
#: Maximum number of multiplications for explanations, a few seconds; only the first samples are explained within it.
_MOST_WORK = 2e10


class ConfidentError(NamedTuple):
    """A sample that is predicted wrong.

    Attributes
    ----------
    sample, label, predicted : int
    id : object
        The name of the sample in the source.
    confidence, likelihood : float
        Probability of the predicted class, and of the true one.
    reasons : dict
        The likeliest classes, the critical machine and the explanation, as the script reads them.
    """

    sample: int
    label: int
    predicted: int
    confidence: float
    likelihood: float
    reasons: dict[str, Any]
    id: Any = None

    def csv_row(self, names: Sequence[str]) -> list[object]:
        """As a row of errors.csv."""
        classes = [self.label, names[self.label], self.predicted, names[self.predicted]]
        return [self.id, self.sample, *classes, f"{self.confidence:.6g}", f"{self.likelihood:.6g}"]


def confident_errors(run: Run, judged: JudgedSamples, pairs: TrainedPairs | None) -> list[ConfidentError]:
    """The most confident errors by the coupling of the model, most confident first."""
    samples, top = judged.errors
    label, predicted = judged.model.label[samples], judged.model.predicted[samples]
    ids = read_ids(run.directory, "sample", samples).tolist()
    critical = critical_machines(run, pairs, samples, predicted, label)
    explained = explanations(run, samples, predicted, label)
    errors = []
    for place, (machine, why) in enumerate(zip(critical, explained, strict=True)):
        true, wrong = int(label[place]), int(predicted[place])
        reasons: dict[str, Any] = {"likeliest": _likeliest(top, place)}
        if machine is not None:
            reasons["critical"] = _critical_values(machine, run, pairs)
        if why is not None:
            reasons |= {"moved": _moved_values(why), "own": _own_values(why, pairs, wrong, true)}
        sample = int(samples[place])
        confidence, likelihood = judged.model.confidence[sample], judged.model.likelihood[sample]
        errors.append(
            ConfidentError(sample, true, wrong, float(confidence), float(likelihood), reasons, ids[place])
        )
    return errors


def _likeliest(top: TopProbabilities, place: int) -> list[tuple[int, float]]:
    listed = zip(top.classes[place, :_CLASSES].tolist(), top.p[place, :_CLASSES].tolist(), strict=True)
    return [(c, _digits(p)) for c, p in listed]


def _critical_values(machine: CriticalMachine, run: Run, pairs: TrainedPairs | None) -> dict[str, Any]:
    values: dict[str, Any] = {
        "way": machine.way,
        "logit": _digits(machine.logit),
        "through": machine.through,
        "features": [[plain_line(name, 40), _digits(x), _digits(part)] for name, x, part in machine.features],
        "rest": _digits(machine.rest),
        "others": run.shape.features - len(machine.features),
    }
    if pairs is None:
        assert run.shape.code is not None
        column = run.shape.code[:, machine.edge]
        return values | {"column": machine.edge, "sizes": [int((column == side).sum()) for side in (1, -1)]}
    return values | {
        "pair": pairs.edges[machine.edge].tolist(),
        "dprime": round(float(pairs.dprime[machine.edge]), 2),
        "pairLogit": _digits(machine.pair_logit),
    }


def _moved_values(why: Explanation) -> dict[str, Any]:
    """The machines with the largest effects on the coupled odds, and the sum and number of the others."""
    machines, largest = why.pairs, why.pairs.largest(NAMED)
    return {
        "machines": [
            [_sides(machines, at), _digits(machines.logits[at]), _digits(machines.effects[at])]
            for at in largest.tolist()
        ],
        "rest": _digits(why.odds - why.prior - float(machines.effects[largest].sum())),
        "others": int(np.count_nonzero(machines.effects)) - len(largest),
        "prior": _digits(why.prior),
        "odds": _digits(why.odds),
    }


def _sides(machines: MachineEffects, at: int) -> list[int] | str:
    """The two classes of a pair, starting with the class of the logit, or the name of a machine on sets of classes."""
    return machines.name(at) if machines.on_sets else machines.sides[at].tolist()


def _own_values(why: Explanation, pairs: TrainedPairs | None, predicted: int, label: int) -> dict[str, Any]:
    """The pair's own logit, and the support vectors that contribute most to it, or to the odds if it has none.

    Linear machines have no support vectors; their features are those of the critical machine.
    """
    values: dict[str, Any] = {
        "route": why.route,
        "logit": None if why.route == "none" else _digits(why.logit),
        "through": int(np.count_nonzero(why.logit_parts.effects)),
        "vectors": [],
        "rest": 0.0,
        "others": 0,
    }
    parts = why.odds_contributions if why.contributions is None else why.contributions
    if parts is not None and parts.kind == "support vector":
        largest = parts.largest(NAMED)
        values["vectors"] = [
            [plain_line(str(parts.names[at])), _digits(parts.inputs[at]), _digits(parts.values[at])]
            for at in largest.tolist()
        ]
        values["rest"] = _digits(parts.total - float(parts.values[largest].sum()))
        values["others"] = int(np.count_nonzero(parts.values)) - len(largest)
    if pairs is not None and why.route == "trained":
        values["dprime"] = round(float(pairs.dprime[pairs.number(predicted, np.array(label))]), 2)
    return values


def _digits(value: float) -> float:
    """Four significant digits, which keep the page small."""
    return float(f"{value:.4g}")


def explanations(
    run: Run, samples: NDArray[np.int64], predicted: NDArray[np.int64], label: NDArray[np.int64]
) -> Iterator[Explanation | None]:
    """Explain why each sample is predicted as one class and not as its own.

    None for samples beyond the affordable number, and if the coupling has no odds.
    """
    count = most_explained(run, len(samples), chosen_shortlist(run))
    if count:
        saved = read_run_model(run.directory)
        model, ids = saved.model, saved.support_ids
        X, method = raw_samples(run, samples[:count]), run.shape.couplings[0]
        for row in range(count):
            a, b = model.classes.labels[[predicted[row], label[row]]]
            try:
                yield explain(
                    model,
                    X[[row]],
                    a,
                    b,
                    method,
                    shortlist=model.shortlist,
                    priors=run.priors,
                    support_ids=ids,
                )
            except ValueError:  # votes and infinite logits have no odds; the report leaves these samples out
                yield None
    yield from [None] * (len(samples) - count)


def most_explained(run: Run, samples: int, length: int | None) -> int:
    """How many of ``samples`` are explained with shortlists of this length: none if the model is too large to read."""
    if not reads_model(run):
        return 0
    listed = length or len(run.shape.classes)
    return min(samples, affordable_explanations(run.shape.n_edges, run.shape.features, listed))


def affordable_explanations(edges: int, features: int, listed: int) -> int:
    """Maximum number of samples that are explained."""
    return int(_MOST_WORK // explaining_work(edges, features, listed))


def explaining_work(edges: int, features: int, listed: int) -> float:
    """Multiplications per sample: applying all machines, and coupling its classes at many points."""
    return 4.0 * edges * features + 1000.0 * listed**3


def reads_model(run: Run) -> bool:
    """Whether the model is small enough for the report to read it."""
    return _model_bytes(run) <= EXPLAINING_BYTES


def _model_bytes(run: Run) -> int:
    """Memory of the machines, as stored and as ordered; with a kernel, also of their support vectors."""
    shape = run.shape
    if shape.sparse is not None:
        return 2 * disk_bytes(run)["machines.zarr"]
    if run.settings.kernel is None:
        of_machine = 4 * shape.features + 8 * len(shape.machine_parameters)
        return 2 * shape.n_edges * shape.machines_per_edge * of_machine
    coefficients = shape.n_edges * shape.kernel_rows * (8 * shape.machines_per_edge + 3 * 16)
    return coefficients + 8 * shape.features * sum(shape.rows)


def errors_section(errors: Sequence[ConfidentError], names: Sequence[str], n_errors: int) -> Section:
    """The table of errors, and the reasons that the script shows beside it."""
    if not errors:
        return Section("errors", "Errors", {"table": None})
    numbered = all(isinstance(error.id, int) for error in errors)
    columns = [
        Column("sample", "number" if numbered else "text", _MEANING_OF_ID[numbered]),
        Column("true class", "name"),
        Column("predicted", "name"),
        Column("p", "number", "probability of the predicted class"),
        Column("p of true", "number", "probability of the true class"),
    ]
    button = Markup('<button type="button" class="choose-sample">{}</button>')
    rows = [
        [
            button.format(plain_line(error.id)),
            names[error.label],
            names[error.predicted],
            f"{error.confidence:.4f}",
            _small(error.likelihood),
        ]
        for error in errors
    ]
    table = PageTable(
        "errors",
        "Most confident errors",
        columns,
        rows,
        search="a sample or class",
        sortable=True,
        keyed=True,
    )
    content = {"number": n_errors, "shown": len(errors), "table": table}
    return Section("errors", "Most confident errors", content, {"errors": [_values(e) for e in errors]})


def _small(p: float) -> str:
    return f"{p:.4f}" if p >= 0.00005 or p == 0 else f"{p:.0e}"


def _values(error: ConfidentError) -> dict[str, Any]:
    """An error as the script reads it."""
    return {
        "sample": error.sample,
        "id": plain_line(error.id),
        "label": error.label,
        "predicted": error.predicted,
        "likelihood": _digits(error.likelihood),
        **error.reasons,
    }
