"""Growth: one unit per wave, which scores the model and proposes the pairs of the next wave."""

from __future__ import annotations

from pairloom import graphs
from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.growth.waves import judge_wave
from pairloom.pipeline.run.costs import StageCost
from pairloom.pipeline.run.held_out_store import read_held_out
from pairloom.pipeline.run.results import read_wave, write_result
from pairloom.pipeline.run.run import Keys, Run, Stage
from pairloom.pipeline.stages.calibration import held_out_task_bytes
from pairloom.pipeline.stages.machines import machine_key
from pairloom.pipeline.storage.digests import digest_of

__all__ = ["Growth"]

#: Nodes and edges of networkx are dictionaries.
_BYTES_PER_NX_EDGE = 800


class Growth(Stage):
    """Score the model after a wave. No units if the graph does not grow."""

    name = "growth"
    where = "in turn"
    folders = ("growth",)
    waves = True
    scores = True
    advice = ", or lower growth.pairs"
    cost = StageCost(
        seconds=(0.05, 5e-9),
        work=lambda s: s.draws * s.ranking_work,
        reads=lambda s: s.held_out_bytes,
        absent=lambda s: True,
    )

    def keys(self, run: Run, earlier: Keys) -> tuple[str, ...]:
        """A wave depends on the waves before it and on its own edges.

        It does not depend on the tiles, because a later wave may extend the last one.
        """
        if run.config.growth is None:
            return ()
        settings, begin = run.settings.read_in("listing", "coupling"), 0
        keys = [digest_of([machine_key(run, earlier), earlier["draws"]])]
        for wave, end in enumerate(run.waves):
            edges = run.shape.edges[begin:end].tolist()
            facts = [run.judging_coupling, run.config.growth.cost, edges, run.pairs_to_propose(wave)]
            keys.append(digest_of([keys[-1], *facts, settings]))
            begin = end
        return tuple(keys[1:])

    def work(self, run: Run, unit: int, data: OpenFeatures | None) -> list[str]:
        """Score the model of the edges up to a wave, and propose more."""
        assert run.config.growth is not None
        pairs = run.waves[unit]
        wave = judge_wave(
            read_held_out(run, pairs),
            graphs.model_graph(len(run.shape.classes), run.shape.edges[:pairs].tolist(), "growing"),
            run.judging_coupling,
            run.config.growth.cost,
            run.pairs_to_propose(unit),
            seed=run.settings.seed,
            near=read_wave(run.directory, unit - 1).scale if unit else None,
        )
        return write_result(run.directory, self.name, unit, wave._asdict())

    def task_bytes(self, run: Run) -> int:
        """The memory of calibration, the graph, and the matrix of costs from which pairs are proposed."""
        N = len(run.shape.classes)
        return held_out_task_bytes(run, run.shortlist) + _BYTES_PER_NX_EDGE * run.most_pairs + 8 * 4 * N**2
