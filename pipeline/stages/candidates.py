"""Candidates: C and whitening, trained and scored on the probe. No units if there is no choice."""

from __future__ import annotations

import numpy as np

from pairloom.graphs import decomposition_of
from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.model.choice import judge_trial, n_trials, trial
from pairloom.pipeline.model.training_set import Probe, TrainingSet, probe_rows
from pairloom.pipeline.run.costs import StageCost
from pairloom.pipeline.run.feature_store import read_normalisation, read_raw_rows
from pairloom.pipeline.run.needs import BYTES_PER_ENTRY, FLOAT, gram_bytes, numbers_per_machine, probe_pairs
from pairloom.pipeline.run.results import class_weights_of, read_trials, write_result
from pairloom.pipeline.run.run import Keys, Run, Stage
from pairloom.pipeline.stages.machines import training_facts
from pairloom.pipeline.storage.digests import digest_of

__all__ = ["Candidates"]


class Candidates(Stage):
    """Train the machines of every candidate on the probe, and score them."""

    name = "candidates"
    where = "in turn"  # later trials use what was best in earlier ones
    folders = ("candidates",)
    # The probe has at most about 70 classes, and at most 256 rows per class.
    cost = StageCost(
        "trial",
        seconds=(0.4, 4.5e-8),
        work=lambda s: max(1, s.probe_pairs) * s.classes_per_edge * min(s.rows, 256) * s.features,
        reads=lambda s: s.trials * min(s.classes, 70) * s.class_bytes,
    )

    def keys(self, run: Run, earlier: Keys) -> tuple[str, ...]:
        """Later trials depend on the results of earlier ones, which depend on the same facts, so the facts suffice."""
        if run.probe is None:
            return ()
        sides = decomposition_of(run.probe.graph).described()
        probe = [run.probe.classes.tolist(), sides, run.probe.most_rows]
        coupled = [run.shape.couplings[0], run.settings.read_in("drawing", "listing", "coupling")]
        common = [earlier["features"][0], training_facts(run), coupled, probe]
        common.append([list(candidate) for candidate in run.candidates])
        return tuple(digest_of([*common, number]) for number in range(n_trials(run.candidates)))

    def work(self, run: Run, unit: int, data: OpenFeatures | None) -> list[str]:
        """Train a candidate on the probe, and write its out-of-fold coupled log loss."""
        assert run.probe is not None
        candidate, log_loss, losses = judge_trial(
            _probe_set(run, run.probe),
            run.probe.graph,
            run.settings,
            trial(run.candidates, unit, read_trials(run, unit)),
            memory_limit=run.memory_limit,
        )
        content = {**candidate._asdict(), "log_loss": log_loss, "losses": losses.tolist()}
        return write_result(run.directory, self.name, unit, content)

    def task_bytes(self, run: Run) -> int:
        """The rows of the probe, as read, normalised and whitened; its machines; and the logits of its samples."""
        if run.probe is None:
            return 0
        shape, classes, pairs = run.shape, run.probe.classes, probe_pairs(run)
        rows = sum(min(run.probe.most_rows, shape.rows[int(c)]) for c in classes)
        numbers = numbers_per_machine(run) + len(shape.machine_parameters)
        machines = pairs * shape.machines_per_edge * numbers
        coupled = rows * (2 * pairs + 2 * len(classes) ** 2)
        read = FLOAT * (5 * rows * shape.features + 4 * shape.features**2)
        if shape.sparse is not None:
            read = 5 * BYTES_PER_ENTRY * sum(shape.sparse.entries[int(c)] for c in classes)
        needed = read + FLOAT * (3 * machines + coupled)
        of_machine = (2 if shape.code is None else len(classes)) * run.probe.most_rows
        return needed + gram_bytes(run, min(of_machine, shape.kernel_rows))


def _probe_set(run: Run, probe: Probe) -> TrainingSet:
    """The training samples of the probe: those that `TrainingSet.part` would choose."""
    rows, of_class = probe_rows(
        probe.classes, lambda c: run.starts[c] + np.arange(run.rows[c]), run.settings.seed, probe.most_rows
    )
    X = read_normalisation(run)(read_raw_rows(run, rows))
    return TrainingSet(X, of_class, len(probe.classes), class_weights_of(run, probe.classes[of_class]))
