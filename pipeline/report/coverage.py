"""How many errors are avoided by leaving the least certain samples to somebody else: the risk-coverage curve."""

from __future__ import annotations

import numpy as np

from pairloom.pipeline.display.evaluation import Outcomes, RiskCoverage, risk_coverage_of
from pairloom.pipeline.report.charts import Chart, round_ticks
from pairloom.pipeline.report.page import Column, PageTable, Section

__all__ = ["coverage_section"]

#: Shares of the samples, the most confident first, in the table.
_SHARES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
#: Points of the curve, at most.
_POINTS = 200


def coverage_section(outcomes: Outcomes) -> Section:
    """The share of errors among the samples that are at least so confident, against their share of all."""
    curve = risk_coverage_of(outcomes)
    some = np.unique(np.linspace(0, len(curve.risk) - 1, _POINTS).astype(int))
    top = max(float(curve.risk.max()), 1e-3)
    plane = Chart(52, 16, 334, 190, (0.0, 1.0), (0.0, 1.06 * top))
    content = {
        "area": curve.area,
        "risk": float(curve.risk[-1]),
        "plane": plane,
        "x_ticks": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
        "y_ticks": round_ticks(0.0, top, 4),
        "path": plane.path(curve.coverage[some], curve.risk[some]),
        "table": _table(curve),
    }
    return Section("coverage", "Errors against coverage", content)


def _table(curve: RiskCoverage) -> PageTable:
    last = len(curve.risk) - 1
    places = [max(0, min(last, round(share * (last + 1)) - 1)) for share in _SHARES]
    rows = [
        [f"{curve.coverage[at]:.0%}", at + 1, f"{curve.risk[at]:.4f}", f"{curve.confidence[at]:.4f}"]
        for at in dict.fromkeys(places)
    ]
    columns = [
        Column("coverage", "number", "share of the samples that are predicted"),
        Column("samples", "number"),
        Column("errors", "number", "share of these that are predicted wrong"),
        Column("confidence", "number", "the least probability of the predicted class among them"),
    ]
    return PageTable("coverage", "Errors against coverage", columns, rows)
