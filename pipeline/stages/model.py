"""Model: model.json, from which an estimator reads the model of the run."""

from __future__ import annotations

from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.run.costs import StageCost
from pairloom.pipeline.run.ledger import Ledger
from pairloom.pipeline.run.needs import file_count
from pairloom.pipeline.run.run import Keys, Run, Stage
from pairloom.pipeline.run.run_model import write_run_model
from pairloom.pipeline.storage.digests import digest_of

__all__ = ["Model"]


class Model(Stage):
    """Describe the model, with the digests of the files that hold its arrays."""

    name = "model"
    cost = StageCost(
        seconds=(0.005, 2e-4), work=lambda s: float(s.tiles), operations=lambda s: float(s.tiles)
    )

    def keys(self, run: Run, earlier: Keys) -> tuple[str, ...]:
        """It depends on the machines, their maps, the learned weights, the calibration, and the description itself.

        With a kernel it also depends on the ids, since support vectors have the ids of their rows.
        """
        facts = [run.estimator_parameters, run.model_label, *run.shape.feature_names]
        facts += earlier["ids"] if run.kernel is not None else ()
        facts += [*earlier["collapsed"], *earlier["ranking"]]
        return (digest_of([earlier["machines"], earlier["calibration"], facts, *earlier["learning"]]),)

    def work(self, run: Run, unit: int, data: OpenFeatures | None) -> list[str]:
        """Write model.json."""
        ledger, files = Ledger(run.directory), dict[str, str]()
        made_by = (
            "order",
            "features",
            "ids",
            "statistics",
            "whitening",
            "machines",
            "slopes",
            "calibration",
            "learning",
            "collapsed",
            "ranking",
        )
        for stage in made_by:
            for entry in ledger.claimed(stage, run.keys[stage]):
                files |= entry.files
        return write_run_model(run, files)

    def task_bytes(self, run: Run) -> int:
        """The edges and the digests of all files, as text."""
        return 600 * file_count(run) + 200 * run.most_pairs
