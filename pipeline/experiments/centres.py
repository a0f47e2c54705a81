"""How long the centre of the first star matters: growing from the best and the worst centre [S Figure 5]."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from pairloom import graphs
from pairloom.pipeline.experiments import growth_curves
from pairloom.pipeline.experiments.experiment import Each, Experiment, in_turn
from pairloom.pipeline.experiments.finding import PAPER, Finding, compared
from pairloom.pipeline.experiments.growth_curves import Growth, GrowthPoint
from pairloom.pipeline.experiments.paired_bootstrap import resampled_means
from pairloom.pipeline.experiments.star_centres import star_accuracies
from pairloom.pipeline.experiments.trained_tensor import COUPLINGS, TrainedTensor
from pairloom.pipeline.growth.growing_block import GrowthOutcome, sample_blocks

BEST, WORST = "best centre", "worst centre"
#: Any centre will do if the two accuracies differ by less than this: a limit of ours.
CLOSE = 0.005


def measure(trained: TrainedTensor, repetitions: int, seed: int = 0, each: Each = in_turn) -> Growth:
    """Curves, in random orders of the pairs, from the most and the least accurate star."""
    accuracies = star_accuracies(trained)
    centres = {BEST: int(np.argmax(accuracies)), WORST: int(np.argmin(accuracies))}
    drawn = each(partial(curves_from, centres=centres, seed=seed), trained, range(repetitions))
    return growth_curves.gathered(trained.n_classes, drawn)


def curves_from(
    trained: TrainedTensor, repetition: int, centres: Mapping[str, int], seed: int
) -> dict[str, GrowthOutcome]:
    """One curve per centre, from its star, all in the same random order of the pairs."""
    order_seed = int(np.random.default_rng([seed, repetition]).integers(2**31))
    starts = {name: graphs.star(trained.n_classes, centre) for name, centre in centres.items()}
    blocks = sample_blocks(trained.logits, trained.labels)
    return {
        name: growth_curves.growth_curve(
            trained, blocks, start, list(graphs.grow(start, "uniform", seed=order_seed))
        )
        for name, start in starts.items()
    }


def findings(growth: Growth) -> list[Finding]:
    """The claim of [S Figure 5]. A random centre lies between the best and the worst."""
    at = resampled_means(growth.outcomes)
    gaps = {
        stage: {coupling: at[BEST, coupling, stage] - at[WORST, coupling, stage] for coupling in COUPLINGS}
        for stage in ("star", "half")
    }
    return [
        compared(
            PAPER,
            "a random centre will do: when half of the remaining pairs are there, the best is as good as the worst",
            gaps["half"],
            above=-CLOSE,
            below=CLOSE,
            aside=f"{CLOSE:.1%} allowed, the stars differ by {gaps['star'][COUPLINGS[0]][0]:.2%}",
        )
    ]


EXPERIMENT = Experiment(
    name="centres",
    shows="Figure 5: growing from the best and from the worst centre, after every pair",
    row=GrowthPoint,
    measure=measure,
    rows=growth_curves.rows,
    findings=findings,
    draw=growth_curves.draw,
    summary=growth_curves.summary,
    repetitions=10,
    full=100,
)
