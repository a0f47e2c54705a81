"""Improving a model machine by machine: the pairs that are confused most are trained again [S 5.5].

The paper argues that wlw2 and stratified follow the machine of the critical pair, so a better machine for two classes
improves them, whereas normal averages it with all others. Here the pairs that the coupled model confuses most on
held-out training samples are trained again, one after another, with another C or the radial kernel. The log loss of
held-out training samples of the two classes decides which machine of a pair is best; the present machine may stay. Test
samples are not used. The machines of all other pairs stay as they are, as with `PairwiseSVC.retrain_pairs`.

Two controls, which use the labels of the test samples, separate the effects. The first uses the new machines only for
test samples of their own two classes: a new machine also scores samples of all other classes, on which it was not
trained, and with a radial kernel it is less certain there. The second shows how far a coupling follows: machines
without fault keep the size of their logits but are right about every test sample of their two classes.

A repetition splits the training samples into other folds, and trains all pairs on them.
"""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.calibration.held_out import out_of_fold_edge_logits
from pairloom.pipeline.completion.complete import Completion, plan_completion
from pairloom.pipeline.completion.slab import couple_slab
from pairloom.pipeline.display.evaluation import confusion_counts
from pairloom.pipeline.experiments.experiment import Each, Experiment, in_turn, mean_and_standard_error
from pairloom.pipeline.experiments.finding import OURS, PAPER, Finding, compared
from pairloom.pipeline.experiments.growth_curves import COLOURS
from pairloom.pipeline.experiments.paired_bootstrap import Resampled, resampled_means
from pairloom.pipeline.experiments.trained_tensor import COUPLINGS, TrainedTensor, load_set, machine_settings
from pairloom.pipeline.features.feature_set import FeatureSet
from pairloom.pipeline.machines.kernel_function import KernelFunction
from pairloom.pipeline.machines.kernel_machines import train_kernel_model
from pairloom.pipeline.machines.kinds import TrainedMachines
from pairloom.pipeline.machines.linear_machines import train_linear_model
from pairloom.pipeline.machines.normalisation import Whitening, centring
from pairloom.pipeline.machines.settings import MachineSettings, split_class

#: Numbers of pairs that are changed, the most confused first; those below the number of classes, and that number.
SIZES = (1, 2, 5, 10, 20, 50)
#: Other machines for a pair: values of C relative to the model's; and C and gamma of the radial kernel, gamma in units
#: of 1 / (D * variance).
COSTS = (0.01, 0.1, 10.0, 100.0)
KERNELS = tuple((C, width) for C in (1.0, 10.0) for width in (0.25, 1.0, 4.0))
KEPT, OTHER_C, KERNEL = "as it was", "another C", "a kernel"
RETRAINED, OWN_ONLY, FAULTLESS = "trained again", "trained again, own classes only", "without fault"
#: Stands for the coupling in a row about the machines alone.
ALONE = "the machines alone"


class Improvement(NamedTuple):
    """Mean error of a model with some pairs changed, and how much the change reduces it.

    The errors of the machines alone are on test samples of their own two classes.
    """

    machines: str
    coupling: str
    pairs: int
    error: float
    gain: float
    standard_error: float


class Draw(NamedTuple):
    """One repetition: the set, and the seed of the folds."""

    source: str
    fold_seed: int


#: {(machines, coupling, pairs): (R,) 1 for test samples that are wrong, else 0}. For the machines alone it is the mean
#: over the changed pairs of the sample's class, NaN if there are none.
Wrong = dict[tuple[str, str, int], NDArray[np.float32]]


class Repetition(NamedTuple):
    """The samples that are wrong before and after, and the kind of machine that each pair has afterwards."""

    before: Wrong
    after: Wrong
    chosen: list[str]


class Outcomes(NamedTuple):
    """All repetitions: arrays (repetitions, samples) as in `Wrong`."""

    before: Wrong
    after: Wrong
    chosen: Counter[str]


class Scored(NamedTuple):
    """(E, samples) logits of held-out training samples, NaN for those that do not count, and of test samples."""

    held_out: NDArray[np.float32]
    test: NDArray[np.float32]

    def of(self, edges: NDArray[np.int64]) -> "Scored":
        return Scored(self.held_out[edges], self.test[edges])


class FoldedSet(NamedTuple):
    """A set split into folds: the training rows of each class, the fold and the part of every row."""

    data: FeatureSet
    settings: MachineSettings
    centring: Whitening
    members: list[NDArray[np.int64]]
    folds: NDArray[np.int64]
    parts: NDArray[np.int64]
    threads: int

    def linear(self, edges: NDArray[np.int64], cost: float = 1.0) -> Scored:
        """Linear machines of some pairs, with C in units of the model's."""
        rows = {c: self.data.X_train[of_class] for c, of_class in enumerate(self.members)}
        settings = replace(self.settings, C=cost * self.settings.C)
        model = train_linear_model(
            rows, graphs.Pairs(edges, len(rows)), settings, self.centring, self.threads
        )
        return self._scored(model, self.data.X_train, self.data.X_test, np.arange(len(self.folds)))

    def radial(self, edges: NDArray[np.int64], C: float, width: float) -> Scored:
        """Machines of some pairs with the radial kernel, scored on training samples of their own classes only."""
        X, X_test = self.centring(self.data.X_train), self.centring(self.data.X_test)
        kernel = KernelFunction("rbf", gamma=width / float(X.var(axis=0, dtype=np.float64).sum()))
        settings, none = replace(self.settings, C=C), np.empty(0, np.int64)
        scored = []
        for edge in edges:
            # A pair needs the rows of two classes. Those of the others are empty, so that classes keep their numbers.
            members = [rows if c in edge else none for c, rows in enumerate(self.members)]
            model = train_kernel_model(kernel, X, members, graphs.Pairs(edge[None], len(members)), settings)
            scored.append(self._scored(model, X, X_test, np.concatenate(members)))
        return Scored(*(np.concatenate(logits) for logits in zip(*scored, strict=True)))

    def _scored(
        self,
        model: TrainedMachines,
        X: NDArray[np.floating],
        X_test: NDArray[np.floating],
        rows: NDArray[np.int64],
    ) -> Scored:
        held_out = np.full((model.n_edges, len(X)), np.nan, np.float32)
        scheme = self.settings.scheme
        held_out[:, rows] = out_of_fold_edge_logits(
            model, scheme, X[rows], self.folds[rows], self.parts[rows]
        )
        return Scored(held_out, model.collapsed(scheme.shares)(X_test))


def folded_set(data: FeatureSet, fold_seed: int, threads: int = 1) -> FoldedSet:
    """Split the training samples of a set into folds, as our machines do."""
    settings = machine_settings(data.X_train, seed=fold_seed)
    members = [np.flatnonzero(data.y_train == c) for c in range(len(data.classes))]
    folds, parts = np.empty((2, len(data.y_train)), np.int64)
    for c, rows in enumerate(members):
        split = split_class(rows, c, settings, None)
        folds[rows], parts[rows] = split.folds, split.parts
    return FoldedSet(data, settings, centring(data.X_train), members, folds, parts, threads)


def pair_losses(
    held_out: NDArray[np.float32], edges: NDArray[np.int64], y: NDArray[np.int64]
) -> NDArray[np.float64]:
    """(E,) mean log loss of each pair's machine on held-out samples of its two classes."""
    losses = np.empty(len(edges))
    for e, (i, j) in enumerate(edges):
        logits = np.concatenate([held_out[e, y == i], -held_out[e, y == j]]).astype(np.float64)
        losses[e] = np.logaddexp(0, -logits[~np.isnan(logits)]).mean()
    return losses


def other_machines(folded: FoldedSet, edges: NDArray[np.int64]) -> Iterator[tuple[str, Scored]]:
    """All alternative machines of the pairs, with their kind."""
    for cost in COSTS:
        yield OTHER_C, folded.linear(edges, cost)
    for C, width in KERNELS:
        yield KERNEL, folded.radial(edges, C, width)


def trained_again(
    folded: FoldedSet, edges: NDArray[np.int64], now: Scored
) -> tuple[NDArray[np.float32], list[str]]:
    """(E, R) test logits of the machines with the least held-out loss, and the kind of each."""
    y = folded.data.y_train
    test, losses, kinds = now.test.copy(), pair_losses(now.held_out, edges, y), [KEPT] * len(edges)
    for kind, scored in other_machines(folded, edges):
        new_losses = pair_losses(scored.held_out, edges, y)
        for e in np.flatnonzero(new_losses < losses):
            test[e], losses[e], kinds[e] = scored.test[e], new_losses[e], kind
    return test, kinds


def without_fault(
    test: NDArray[np.float32], edges: NDArray[np.int64], y: NDArray[np.int64]
) -> NDArray[np.float32]:
    """The logits with the correct sign for samples of the pair's two classes."""
    first, second = (y == edges[:, [side]] for side in (0, 1))
    return np.where(first, np.abs(test), np.where(second, -np.abs(test), test))


def own_samples(edges: NDArray[np.int64], y: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(E, R) whether a sample is of one of the pair's two classes."""
    return np.asarray((y == edges[:, :1]) | (y == edges[:, 1:]))


def confused_most(
    held_out: NDArray[np.float32], completion: Completion, y: NDArray[np.int64], most: int
) -> NDArray[np.int64]:
    """The positions of the pairs that all couplings together confuse most often on held-out training samples."""
    held = ~np.isnan(held_out[0])
    coupled = couple_slab(np.ascontiguousarray(held_out[:, held]), completion, COUPLINGS)
    confusion = np.sum([confusion_counts(p, y[held]) for p in coupled.values()], axis=0)
    i, j = completion.edges.T
    return np.argsort(-(confusion + confusion.T)[i, j], kind="stable")[:most]


def sizes_for(n_classes: int) -> list[int]:
    """The numbers of pairs to change."""
    return [*(size for size in SIZES if size < n_classes), n_classes]


def repeated(trained: TrainedTensor, draw: Draw) -> Repetition:
    """Train a model, and its worst pairs again."""
    folded = folded_set(features_of(draw.source), draw.fold_seed, _threads(trained.n_jobs))
    y, n = trained.labels, trained.n_classes
    completion = plan_completion(graphs.complete(n))
    now = folded.linear(completion.edges)
    worst = confused_most(now.held_out, completion, folded.data.y_train, n)
    edges = completion.edges[worst]
    again, chosen = trained_again(folded, edges, now.of(worst))
    changed = {
        RETRAINED: again,
        OWN_ONLY: np.where(own_samples(edges, y), again, now.test[worst]),
        FAULTLESS: without_fault(now.test[worst], edges, y),
    }
    before, after = {}, {}
    whole = wrong_samples(now.test, completion, y, trained.n_jobs)
    for machines, test in changed.items():
        for size in sizes_for(n):
            some = worst[:size]
            logits = now.test.copy()
            logits[some] = test[:size]
            for coupling, wrong in wrong_samples(logits, completion, y, trained.n_jobs).items():
                before[machines, coupling, size], after[machines, coupling, size] = whole[coupling], wrong
            before[machines, ALONE, size] = wrong_alone(now.test[some], edges[:size], y)
            after[machines, ALONE, size] = wrong_alone(test[:size], edges[:size], y)
    return Repetition(before, after, chosen)


@lru_cache(maxsize=1)
def features_of(source: str) -> FeatureSet:
    """The features of a set, read once per process."""
    return load_set(source)


def _threads(n_jobs: int) -> int:
    return n_jobs if n_jobs > 0 else os.cpu_count() or 1


def wrong_samples(
    logits: NDArray[np.float32], completion: Completion, y: NDArray[np.int64], n_jobs: int
) -> dict[str, NDArray[np.float32]]:
    """{coupling: (R,) whether a sample is wrong}."""
    coupled = couple_slab(logits, completion, COUPLINGS, n_jobs=n_jobs)
    return {coupling: (p.argmax(axis=1) != y).astype(np.float32) for coupling, p in coupled.items()}


def wrong_alone(
    logits: NDArray[np.float32], edges: NDArray[np.int64], y: NDArray[np.int64]
) -> NDArray[np.float32]:
    """(R,) the share of the pairs with the sample's class whose machine is wrong; NaN if there are none."""
    towards_class = np.where(y == edges[:, :1], logits, np.where(y == edges[:, 1:], -logits, np.nan))
    pairs = (~np.isnan(towards_class)).sum(axis=0)
    return np.where(pairs, (towards_class < 0).sum(axis=0) / np.maximum(pairs, 1), np.nan).astype(np.float32)


def measure(
    trained: TrainedTensor, repetitions: int, seed: int = 0, each: Each = in_turn, *, source: str
) -> Outcomes:
    """All repetitions, with the samples of the set that `source` names."""
    repetitions_done = each(
        repeated, trained, [Draw(source, 1000 * seed + number) for number in range(repetitions)]
    )
    return Outcomes(
        _stacked([one.before for one in repetitions_done]),
        _stacked([one.after for one in repetitions_done]),
        Counter(kind for one in repetitions_done for kind in one.chosen),
    )


def _stacked(outcomes: Sequence[Wrong]) -> Wrong:
    return {key: np.array([wrong[key] for wrong in outcomes]) for key in outcomes[0]}


def rows(outcomes: Outcomes) -> list[Improvement]:
    """Mean errors and gains, for every kind of machines, every coupling and every number of pairs."""
    improvements = []
    for key, after in outcomes.after.items():
        errors = np.nanmean(after, axis=1, dtype=np.float64)
        gain, spread = mean_and_standard_error(
            np.nanmean(outcomes.before[key], axis=1, dtype=np.float64) - errors
        )
        improvements.append(Improvement(*key, float(errors.mean()), float(gain), float(spread)))
    return improvements


def gains(outcomes: Outcomes) -> dict[tuple[str, str], Resampled]:
    """{(machines, coupling): the decrease of the error with all of the worst pairs changed}."""
    most = max(pairs for _, _, pairs in outcomes.after)
    of_most = {key: after for key, after in outcomes.after.items() if key[2] == most}
    means = resampled_means(
        {("before", key): outcomes.before[key] for key in of_most}
        | {("after", key): after for key, after in of_most.items()}
    )
    return {key[:2]: means["before", key] - means["after", key] for key in of_most}


def findings(outcomes: Outcomes) -> list[Finding]:
    """The claims: wlw2 and stratified gain from better machines, normal does not."""
    gain = gains(outcomes)
    pairs = max(pairs for _, _, pairs in outcomes.after)
    followers = ("wlw2", "stratified")
    share = {kind: count / outcomes.chosen.total() for kind, count in outcomes.chosen.most_common()}
    return [
        compared(
            OURS,
            f"machines of the {pairs} worst pairs, chosen on held-out samples, err less on test samples",
            {"": gain[RETRAINED, ALONE]},
            above=0,
            aside=", ".join(f"{kind} {part:.0%}" for kind, part in share.items()) + " of the pairs",
        ),
        compared(
            PAPER,
            "wlw2 and stratified convert better machines of the worst pairs",
            {coupling: gain[RETRAINED, coupling] for coupling in followers},
            above=0,
            aside=f"normal gains {gain[RETRAINED, 'normal'][0]:+.2%}",
        ),
        *(
            compared(
                OURS,
                f"machines {machines}: wlw2 and stratified gain more than normal",
                {coupling: gain[machines, coupling] - gain[machines, "normal"] for coupling in followers},
                above=0,
                aside=f"normal gains {gain[machines, 'normal'][0]:+.2%}",
            )
            for machines in (RETRAINED, OWN_ONLY, FAULTLESS)
        ),
    ]


def summary(rows: Sequence[Improvement]) -> list[Improvement]:
    """The largest number of pairs."""
    most = max(row.pairs for row in rows)
    return [row for row in rows if row.pairs == most]


def draw(trained: TrainedTensor, rows: Sequence[Improvement], title: str) -> Figure:
    """The gain of every coupling against the number of pairs, one panel per kind of machines."""
    figure = Figure(figsize=(13, 4.2), layout="constrained")
    figure.suptitle(title)
    panels = figure.subplots(1, 3, sharey=True)
    names = {
        RETRAINED: "trained again, chosen on held-out samples",
        OWN_ONLY: "control: the same, own classes only",
        FAULTLESS: "control: machines without fault",
    }
    for axes, (machines, name) in zip(panels, names.items(), strict=True):
        for coupling, colour in COLOURS.items():
            line = [row for row in rows if (row.machines, row.coupling) == (machines, coupling)]
            pairs = [row.pairs for row in line]
            gain, spread = (
                100 * np.array([getattr(row, of) for row in line]) for of in ("gain", "standard_error")
            )
            axes.plot(pairs, gain, marker="o", markersize=4, color=colour, label=coupling)
            axes.fill_between(pairs, gain - spread, gain + spread, color=colour, alpha=0.15, linewidth=0)
        axes.axhline(0, color="#888888", linewidth=0.8)
        axes.set(xlabel="pairs changed, most confused first", xscale="log")
        axes.set_title(name, fontsize="medium")
        axes.set_xticks(pairs, map(str, pairs))
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("gain in accuracy, points (band: standard error)")
    panels[0].legend(frameon=False)
    return figure


EXPERIMENT = Experiment(
    name="elementwise",
    shows="Section 5.5: the machines of the worst confusions trained again, and nothing else",
    row=Improvement,
    measure=measure,
    rows=rows,
    findings=findings,
    draw=draw,
    summary=summary,
    repetitions=5,
    full=10,
    retrains=True,
)
