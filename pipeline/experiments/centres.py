"""How long the centre of the first star matters: growing from the best and the worst centre [S Figure 5]."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.experiments import growth_curves
from pairloom.pipeline.experiments.experiment import OURS, Each, Experiment, Finding, in_turn
from pairloom.pipeline.experiments.growth_curves import GrowthPoint
from pairloom.pipeline.experiments.star_centres import star_accuracies
from pairloom.pipeline.experiments.trained_tensor import COUPLINGS, TrainedTensor

BEST, WORST = "best centre", "worst centre"
#: The centre no longer matters if the two accuracies differ by at most this.
CLOSE = 0.005


def measure(
    trained: TrainedTensor, repetitions: int, seed: int = 0, each: Each = in_turn
) -> list[GrowthPoint]:
    """Mean curves, in random orders of the pairs, from the most and the least accurate star."""
    accuracies = star_accuracies(trained)
    centres = {BEST: int(np.argmax(accuracies)), WORST: int(np.argmin(accuracies))}
    drawn = each(partial(curves_from, centres=centres, seed=seed), trained, range(repetitions))
    return growth_curves.mean_curves(trained.n_classes, drawn)


def curves_from(
    trained: TrainedTensor, repetition: int, centres: Mapping[str, int], seed: int
) -> dict[str, NDArray[np.float64]]:
    """One curve per centre, from its star, all in the same random order of the pairs."""
    order_seed = int(np.random.default_rng([seed, repetition]).integers(2**31))
    starts = {name: graphs.star(trained.n_classes, centre) for name, centre in centres.items()}
    return {
        name: growth_curves.growth_curve(trained, start, list(graphs.grow(start, "uniform", seed=order_seed)))
        for name, start in starts.items()
    }


def gap(rows: Sequence[GrowthPoint], coupling: str, share: float) -> float:
    """Difference in accuracy between the models from the best and the worst centre."""
    best, worst = (growth_curves.accuracy_at(rows, name, coupling)[share] for name in (BEST, WORST))
    return best - worst


def findings(rows: Sequence[GrowthPoint]) -> list[Finding]:
    """The centre matters at the start, and less with every pair."""
    gaps = {coupling: (gap(rows, coupling, 0), gap(rows, coupling, 0.5)) for coupling in COUPLINGS}
    return [
        Finding(
            OURS,
            "the choice of the centre no longer matters when half of the remaining pairs are there",
            ", ".join(
                f"{coupling} {half:+.2%} (star {start:+.2%})" for coupling, (start, half) in gaps.items()
            ),
            all(abs(half) <= CLOSE for _, half in gaps.values()),
        )
    ]


EXPERIMENT = Experiment(
    name="centres",
    shows="Figure 5: growing from the best and from the worst centre",
    row=GrowthPoint,
    measure=measure,
    findings=findings,
    draw=growth_curves.draw,
    summary=growth_curves.summary,
    repetitions=10,
    full=200,
)
