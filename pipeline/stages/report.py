"""Report: scores, figures and the page of the run."""

from __future__ import annotations

import math

from pairloom.pipeline.display.class_layout import FEW_CLASSES
from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.report.critical_machine import EXPLAINING_BYTES
from pairloom.pipeline.report.errors import explaining_work
from pairloom.pipeline.report.novel_samples import judging_bytes
from pairloom.pipeline.report.report import write_report
from pairloom.pipeline.report.run_facts import run_times
from pairloom.pipeline.report.run_results import LISTED, NUMBERS_AT_ONCE
from pairloom.pipeline.run.costs import RunSizes, StageCost
from pairloom.pipeline.run.growing_run import judged_waves
from pairloom.pipeline.run.ledger import Ledger
from pairloom.pipeline.run.needs import FLOAT, edge_machine_bytes, machine_read_bytes, support_bytes
from pairloom.pipeline.run.run import Keys, Run, Stage
from pairloom.pipeline.storage.digests import digest_of

__all__ = ["Report"]

_PAGE_BYTES = 40 * 2**20


def _page_work(s: RunSizes) -> float:
    """Seconds of work on the page without its explanations: on 50 classes 0.2, on 1654 classes 0.8."""
    return 0.02 * math.sqrt(s.classes) + 2e-9 * s.samples * s.classes * s.couplings


class Report(Stage):
    """Write the report from what the other stages stored."""

    name = "report"
    folders = ("report",)
    cost = StageCost(
        seconds=(1.5, 0.0),
        work=lambda s: _page_work(s) + 1.2e-10 * s.explained * explaining_work(s.edges, s.features, s.listed),
        least_work=_page_work,  # without errors there is nothing to explain
        reads=lambda s: 4.0 * s.samples * s.classes * s.couplings,
        operations=lambda s: float(s.tiles + s.slabs + s.draw_slabs),
        memory=lambda s: 8.0 * s.samples * (5 * s.couplings + 14) + 80.0 * min(s.classes, FEW_CLASSES) ** 2,
    )

    def keys(self, run: Run, earlier: Keys) -> tuple[str, ...]:
        """It depends on the probabilities, the calibration, the ids, and the waves of growth."""
        waves = run.waves if run.config.growth else None
        return (digest_of([earlier["probabilities"], earlier["calibration"], earlier["ids"], waves]),)

    def work(self, run: Run, unit: int, data: OpenFeatures | None) -> list[str]:
        """Write the files of the report."""
        ledger = Ledger(run.directory)
        stages = [stage for stage in run.stage_names if stage != self.name]
        entries = [entry for name in stages for entry in ledger.claimed(name, run.keys[name])]
        return write_report(run, run_times(run.directory, stages, entries), judged_waves(run))

    def task_bytes(self, run: Run) -> int:
        """Part of the probabilities, the outcomes of all samples, matrices of the classes, edges, and the page."""
        shape, N, R = run.shape, len(run.shape.classes), run.shape.samples
        probabilities = 3 * FLOAT * max(NUMBERS_AT_ONCE, shape.samples_per_slab * (shape.kept or N))
        outcomes = 8 * R * (5 * len(shape.couplings) + 14)
        machines = 2 * run.most_pairs * edge_machine_bytes(run) + support_bytes(run, run.most_pairs)
        explained = 2 * min(EXPLAINING_BYTES, machines) + machine_read_bytes(run)
        classes = 8 * 10 * N**2 if N <= FEW_CLASSES else 64 * N + 6 * 16 * R * (shape.kept or LISTED)
        pairs = 8 * 16 * run.most_pairs
        return probabilities + outcomes + explained + judging_bytes(shape) + classes + pairs + _PAGE_BYTES
