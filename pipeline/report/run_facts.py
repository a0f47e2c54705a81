"""The facts of a run: its data, the model that was chosen, configuration, versions, warnings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pairloom.pipeline.report.markup import element, escaped
from pairloom.pipeline.report.run_record import RunRecord, WrittenWarning
from pairloom.pipeline.report.section import Section
from pairloom.pipeline.report.table import Cell, Column, Markup, table
from pairloom.pipeline.run.calibrating import read_calibrations
from pairloom.pipeline.run.choosing import chosen_candidate, read_candidates
from pairloom.pipeline.run.feature_store import read_normalisation
from pairloom.pipeline.run.learning import read_learning_record
from pairloom.pipeline.run.run import Run

__all__ = ["configuration_section", "model_section", "warnings_section"]


def model_section(run: Run, record: RunRecord) -> Section:
    """Data and model: what was trained on what, and with which settings the run ended up."""
    shape, chosen, rows = run.shape, chosen_candidate(run), np.array(run.shape.rows)
    spread = f"{rows.min():,}" if rows.min() == rows.max() else f"{rows.min():,} to {rows.max():,}"
    scale = read_calibrations(run)[shape.couplings[0]].scale
    C = read_normalisation(run).outer_C(chosen.C)
    facts = {
        "data": str(record.configuration["data"]["features"]) + (" (synthetic)" if shape.synthetic else ""),
        "training": f"{rows.sum():,} rows of {shape.features:,} features, {spread} per class",
        "test": f"{shape.samples:,} samples" + ("" if shape.labelled else ", without labels"),
        "machines": f"{shape.n_edges * shape.machines_per_edge:,}, {shape.machines_per_edge} per "
        + ("pair" if shape.code is None else "column"),
        "kernel": "linear" if run.settings.kernel is None else run.settings.kernel.name,
        "C": f"{C:.4g}",
        "whitening": str(chosen.whiten),
        "calibration": f"{chosen.calibration}, coupled scale {scale:.3g}",
        "coupling": shape.couplings[0]
        + (f", of the {run.shortlist} likeliest classes" if run.shortlist else ""),
        **_learning(run),
    }
    body = _facts(facts) + _candidates(run)
    return Section("model", "Data and model", body)


def _learning(run: Run) -> dict[str, str]:
    """What learning through the coupling has done, if the run learns."""
    record = read_learning_record(run)
    if record is None:
        return {}
    if not record.iterations:
        return {
            "learning": f"{record.held_out:,} held-out samples did not gain clearly: the machines were kept"
        }
    return {
        "learning": f"{record.iterations} steps through the coupling; log loss of {record.held_out:,} held-out samples"
        f" {record.held_out_before:.4f} before, {record.held_out_after:.4f} after"
    }


def _facts(facts: Mapping[str, str]) -> str:
    rows = "".join(
        f"<div><dt>{escaped(key)}</dt><dd>{escaped(value)}</dd></div>" for key, value in facts.items()
    )
    return element("dl", rows, class_="facts")


def _candidates(run: Run) -> str:
    """The candidates that were compared, if there was a choice."""
    judged = read_candidates(run) if len(run.settings.candidates) > 1 else []
    if not judged:
        return ""
    chosen, normalisation = chosen_candidate(run), read_normalisation(run)
    rows: list[list[Cell]] = []
    for one in judged:
        row = one.row(normalisation)
        mark = "chosen" if one.candidate == chosen else ""
        rows.append(
            [f"{row['C']:.4g}", str(row["whiten"]), row["calibration"], f"{row['log_loss']:.4f}", mark]
        )
    columns = [
        Column("C", True),
        Column("whitening"),
        Column("calibration"),
        Column("held-out log loss", True),
        Column(""),
    ]
    summary = f"<summary>{len(rows)} candidates were compared</summary>"
    return element("details", summary + table("candidates", columns, rows, "Candidates", sortable=True))


def configuration_section(record: RunRecord) -> Section:
    """The configuration, keys that differ from their defaults first, and versions and fingerprints."""
    values = dict(_flat(record.configuration))
    changed: list[list[Cell]] = [[key, _code(values[key])] for key in values if key in record.changed]
    every: list[list[Cell]] = [[key, _code(value)] for key, value in values.items()]
    columns = [Column("key"), Column("value")]
    versions: list[list[Cell]] = [[package, version] for package, version in record.versions.items()]
    prints: list[list[Cell]] = [
        [f"{part} samples", _code(text)] for part, text in record.fingerprints.items()
    ]
    body = (
        "<p>Keys that differ from their defaults:</p>"
        + table("changed", columns, changed, "Changed keys")
        + element(
            "details",
            "<summary>All keys</summary>"
            + table("configuration", columns, every, "Configuration", search="a key"),
        )
        + element(
            "details",
            "<summary>Versions and fingerprints</summary>"
            + table("versions", [Column("package"), Column("version")], versions, "Versions")
            + table("fingerprints", [Column("data"), Column("SHA-256")], prints, "Fingerprints of the data"),
        )
    )
    return Section("configuration", "Configuration", body)


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
    return Markup(element("code", escaped(text if len(text) <= 300 else f"{text[:299]}…")))


def warnings_section(warnings: Sequence[WrittenWarning]) -> Section:
    """The warnings of planning and of all tasks."""
    if not warnings:
        return Section("warnings", "Warnings", "<p>None.</p>")
    items = "".join(
        f"<li>{escaped(one.message)}"
        + (f" <small>({one.times:,} times)</small>" if one.times > 1 else "")
        + "</li>"
        for one in warnings
    )
    return Section("warnings", "Warnings", element("ul", items, class_="warnings"))
