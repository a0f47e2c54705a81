"""The facts of a run: its data, the model that was chosen, configuration, versions, warnings."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from pairloom.pipeline.config.cluster_config import shown_setting
from pairloom.pipeline.report.page import Column, PageTable, Section
from pairloom.pipeline.run.feature_store import read_normalisation
from pairloom.pipeline.run.results import (
    candidate_rows,
    chosen_calibration,
    chosen_candidate,
    chosen_coupling,
    judged_calibrations,
    read_calibrations,
    read_learning_record,
    read_mass_check,
)
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_log import written_warnings

__all__ = ["configuration_section", "model_section", "run_warnings", "warnings_section"]


def model_section(run: Run) -> Section:
    """The data, the machines, and the settings that the run chose."""
    shape, chosen, rows = run.shape, chosen_candidate(run), np.array(run.shape.rows)
    spread = f"{rows.min():,}" if rows.min() == rows.max() else f"{rows.min():,} to {rows.max():,}"
    scale = read_calibrations(run)[shape.couplings[0]].scale
    C = read_normalisation(run).outer_C(chosen.C)
    facts = {
        "data": str(run.config.data.features) + (" (synthetic)" if shape.synthetic else ""),
        "training": f"{rows.sum():,} rows of {shape.features:,} features, {spread} per class",
        "test": f"{shape.samples:,} samples" + ("" if shape.labelled else ", without labels"),
        "machines": f"{shape.n_edges * shape.machines_per_edge:,}, {shape.machines_per_edge} per "
        + ("pair" if shape.code is None else "column"),
        "kernel": run.kernel_choice.why or _kernel_name(run),
        "C": f"{C:.4g}",
        "whitening": str(chosen.whiten),
        "calibration": f"{chosen_calibration(run)}, coupled scale {scale:.3g}",
        "coupling": chosen_coupling(run)
        + (f", of the {run.shortlist} likeliest classes" if run.shortlist else ""),
        **_lists(run),
        **_learning(run),
    }
    tables = {"candidates": _candidates(run), "calibrations": _calibrations(run)}
    return Section("model", "Data and model", {"facts": facts, **tables})


def _lists(run: Run) -> dict[str, str]:
    """The mass that the model says for its lists against how often they hold the true class, where it was checked."""
    check = read_mass_check(run.directory, 0)
    if check is None:
        return {}
    return {
        "shortlist": f"holds the class of {check.found:.1%} of the held-out samples; the model says {check.said:.1%},"
        f" and one scale for list and rest would say {check.with_one_scale:.1%}"
    }


def _learning(run: Run) -> dict[str, str]:
    """The gain of learning through the coupling, if the run learns."""
    record = read_learning_record(run)
    if record is None:
        return {}
    if not record.iterations:
        return {"learning": f"no clear gain on {record.held_out:,} held-out samples: the machines were kept"}
    return {
        "learning": f"{record.iterations} steps through the coupling; log loss of {record.held_out:,} held-out samples"
        f" {record.held_out_before:.4f} before, {record.held_out_after:.4f} after"
    }


def _candidates(run: Run) -> PageTable | None:
    """The candidates that were compared, if there was a choice."""
    candidates = candidate_rows(run)
    if not candidates:
        return None
    (inner_C, whiten, _), standardised = chosen_candidate(run), run.shape.standardised
    C, gamma = read_normalisation(run).outer_C(inner_C), None if run.kernel is None else run.kernel.gamma
    chosen = (_kernel_name(run), gamma, standardised, C, whiten)
    rows = [
        [
            row["kernel"] if row["gamma"] is None else f"{row['kernel']}, gamma {row['gamma']:.4g}",
            "yes" if row["standardise"] else "no",
            f"{row['C']:.4g}",
            str(row["whiten"]),
            row["calibration"],
            f"{row['log_loss']:.4f}",
            "chosen" if tuple(row[name] for name in _CHOSEN) == chosen else "",
        ]
        for row in candidates
    ]
    columns = [
        Column("kernel"),
        Column("standardised"),
        Column("C", "number"),
        Column("whitening"),
        Column("calibration"),
        Column("held-out log loss", "number"),
        Column(""),
    ]
    return PageTable("candidates", "Candidates", columns, rows, sortable=True)


_CHOSEN = ("kernel", "gamma", "standardise", "C", "whiten")


def _kernel_name(run: Run) -> str:
    return "linear" if run.kernel is None else run.kernel.name


def _calibrations(run: Run) -> PageTable | None:
    """The calibrations and couplings that were compared on the run's machines, if there was a choice."""
    judged = judged_calibrations(run)
    if not judged:
        return None
    chosen = (chosen_calibration(run), chosen_coupling(run))
    rows = [
        [
            row["calibration"],
            row["coupling"],
            f"{row['log_loss']:.4f}",
            "chosen" if (row["calibration"], row["coupling"]) == chosen else "",
        ]
        for row in judged
    ]
    columns = [
        Column("calibration"),
        Column("coupling"),
        Column("held-out log loss", "number"),
        Column(""),
    ]
    return PageTable("calibrations", "Calibrations and couplings", columns, rows, sortable=True)


def configuration_section(run: Run) -> Section:
    """The configuration, keys that differ from their defaults first, and versions and fingerprints."""
    keys = [Column("key"), Column("value")]
    every = [
        [key, _code(shown_setting(key, value))]
        for key, value in _flat(run.config.model_dump(mode="json", exclude_none=True))
    ]
    differing = dict(_flat(run.config.model_dump(mode="json", exclude_defaults=True)))
    changed = [row for row in every if row[0] in differing]
    prints = [[f"{part} samples", _code(text)] for part, text in run.fingerprints.items()]
    content = {
        "changed": PageTable("changed", "Changed keys", keys, changed),
        "every": PageTable("configuration", "Configuration", keys, every, search="a key"),
        "versions": PageTable(
            "versions", "Versions", [Column("package"), Column("version")], list(run.versions.items())
        ),
        "fingerprints": PageTable(
            "fingerprints", "Fingerprints of the data", [Column("data"), Column("SHA-256")], prints
        ),
    }
    return Section("configuration", "Configuration", content)


def _flat(configuration: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Keys with dots, and their values."""
    for key, value in configuration.items():
        if isinstance(value, Mapping) and value and above.count(".") < 2:
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _code(value: Any) -> Markup:
    """A value as JSON has it; a long list is cut."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return Markup("<code>{}</code>").format(text if len(text) <= 300 else f"{text[:299]}…")


def run_warnings(run: Run) -> list[tuple[str, int]]:
    """The warnings of planning, then of tasks, each with its number of times, most frequent first."""
    return Counter(run.warnings).most_common() + written_warnings(run.directory).most_common()


def warnings_section(warnings: Sequence[tuple[str, int]]) -> Section:
    """The list of the warnings."""
    return Section("warnings", "Warnings", {"warnings": warnings})
