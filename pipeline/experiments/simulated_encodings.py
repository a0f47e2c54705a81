"""Codes compared on simulated machines: how well the generalised Bradley-Terry model recovers p [HLW Figures 1, 2].

Nothing is trained, and nothing is read from the set on which the experiment is run. The probabilities of N classes are
given. The output of a machine is the true probability times 1 + 0.1 times a standard normal number. The machines of the
code are then coupled.

The minimum of the loss is found here, to its tolerance. A program of 2004 may well have stopped after a few sweeps of
[HLW Algorithm 2] from equal probabilities, near which the truth of case a lies. So there is a second relative MSE, of p
after three sweeps. Codes of four classes have fewer columns than the printed 10 or 15 log2 N, because there are not as
many different ones: the column `machines` has their number.

Beside the Bradley-Terry model there is linear decoding, which takes the class with the largest sum over the machines:
of the probabilities of its side [I 2.2, 2.3], or of their log odds (`couple_code(..., "linear")`).

References
----------
.. [HLW] T.-K. Huang, C.-J. Lin and R. C. Weng (2005). "A generalized Bradley-Terry model: from group competition to
   individual skill". Advances in Neural Information Processing Systems 17, 601-608.
.. [I] S. Ikeda (2010). "Combining binary machines for multi-class: statistical model and parameter estimation" (in
   Japanese). Proceedings of the Institute of Statistical Mathematics 58, 157-166.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.coupling.codes.couple_code import couple_code
from pairloom.pipeline.experiments.experiment import Each, Experiment, in_turn
from pairloom.pipeline.experiments.finding import OURS, Finding, compared
from pairloom.pipeline.experiments.paired_bootstrap import Resampled, resampled_means
from pairloom.pipeline.experiments.trained_tensor import TrainedTensor

#: The source of these claims.
HLW = "[HLW]"
#: [HLW 6.1] Numbers of classes, and the noise of a machine relative to its true output.
CLASSES = (4, 8, 16, 32, 64)
CASES = "abc"
NOISE = 0.1
#: [HLW 6.1] Outputs of machines are clipped to this and one minus this.
CLIP = 1e-7
CODES: dict[str, Callable[[int], NDArray[np.int8]]] = {
    "one_vs_one": graphs.one_vs_one,
    "one_vs_rest": graphs.one_vs_rest,
    "dense": graphs.dense_code,
    "sparse": graphs.sparse_code,
}
#: Sweeps of an iteration that is stopped early, and the limit of a small relative MSE, which is ours.
SWEEPS, SMALL = 3, 0.05
#: A code is good, or competitive, in a case if its accuracy, averaged over N, is within this of the best: our limit.
NEAR = 0.05


class Encoding(NamedTuple):
    """A code in a case: share of replicates whose likeliest class is right, and relative mean squared errors of p.

    The last error is that of an iteration that is stopped early. The last accuracies are those of linear decoding.
    """

    case: str
    classes: int
    code: str
    machines: int
    accuracy: float
    relative_mse: float
    relative_mse_stopped: float
    accuracy_by_sums_of_probabilities: float
    accuracy_by_sums_of_log_odds: float


class EncodingDigest(NamedTuple):
    """A case and a measure, averaged over the numbers of classes, for each code."""

    case: str
    measure: str
    one_vs_one: float
    one_vs_rest: float
    dense: float
    sparse: float


def probabilities(n: int) -> dict[str, NDArray[np.float64]]:
    """The three cases of [HLW 6.1]: one class a little ahead of all, of half of the classes, or of one other."""
    half = n // 2
    a = np.full(n, (1 - 1.5 / n) / (n - 1))
    a[0] = 1.5 / n
    b = np.full(n, 0.05 / (n - half))
    b[0] = 0.95 * 1.5 / half
    b[1:half] = (0.95 - b[0]) / (half - 1)
    c = np.full(n, 0.05 / (n - 2))
    c[0], c[1] = 0.95 * 1.5 / 2, 0.95 * 0.5 / 2
    return {"a": a, "b": b, "c": c}


@cache
def code_named(name: str, n: int) -> NDArray[np.int8]:
    """The code of n classes, drawn once."""
    return CODES[name](n)


def measure(
    trained: TrainedTensor, repetitions: int, seed: int = 0, each: Each = in_turn
) -> NDArray[np.float64]:
    """(replicates, numbers of classes, codes, cases, 5) outcomes of machines that err."""
    return np.array(each(replicate, trained, [(seed, number) for number in range(repetitions)]))


def rows(outcomes: NDArray[np.float64]) -> list[Encoding]:
    """Means over the replicates, for each case, number of classes and code."""
    means = outcomes.mean(axis=0)
    return [
        Encoding(case, n, name, code_named(name, n).shape[1], *means[i, j, k].tolist())
        for k, case in enumerate(CASES)
        for i, n in enumerate(CLASSES)
        for j, name in enumerate(CODES)
    ]


def replicate(trained: TrainedTensor, draw: tuple[int, int]) -> NDArray[np.float64]:
    """(numbers of classes, codes, cases, 5) outcomes, see `coupled_outcomes`."""
    rng = np.random.default_rng(draw)
    return np.array([[coupled_outcomes(name, n, rng) for name in CODES] for n in CLASSES])


def coupled_outcomes(name: str, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """(cases, 5) outcomes of one code on machines with noise [HLW eq. 10].

    They are whether the likeliest class is right, two relative squared errors, and whether linear decoding is right.
    """
    code = code_named(name, n)
    p = np.array(list(probabilities(n).values()))
    exact = (p @ (code == 1)) / (p @ (code != 0))
    r = np.clip(exact * (1 + NOISE * rng.standard_normal(exact.shape)), CLIP, 1 - CLIP)
    logits = np.log(r / (1 - r)).T
    estimate = couple_code(logits, code)
    scores = (estimate, sums_of_probabilities(r, code), couple_code(logits, code, "linear"))
    right, *right_by_sums = (score.argmax(axis=1) == p.argmax(axis=1) for score in scores)
    errors = [((q - p) ** 2).sum(axis=1) / (p**2).sum(axis=1) for q in (estimate, swept(r, code))]
    return np.stack([right, *errors, *right_by_sums], axis=1)


def sums_of_probabilities(r: NDArray[np.float64], code: NDArray[np.int8]) -> NDArray[np.float64]:
    """(cases, N) sums over the machines of the probability of a class's side, given outputs (cases, m) [I 2.2].

    A machine that leaves a class out adds one half to it.
    """
    return np.asarray((r - 0.5) @ code.T + 0.5 * code.shape[1])


def swept(r: NDArray[np.float64], code: NDArray[np.int8]) -> NDArray[np.float64]:
    """(cases, N) probabilities after a few sweeps from equal ones, given machine outputs (cases, m) [HLW 2]."""
    first, second = (code == 1).astype(float), (code == -1).astype(float)
    p = np.full((len(r), len(code)), 1 / len(code))
    for _ in range(SWEEPS):
        for s, (own_first, own_second) in enumerate(zip(first, second, strict=True)):
            own = np.flatnonzero(own_first + own_second)
            a, b = p @ first[:, own], p @ second[:, own]
            wins = own_first[own] * r[:, own] / a + own_second[own] * (1 - r[:, own]) / b
            p[:, s] *= wins.sum(axis=1) / (1 / (a + b)).sum(axis=1)
            p /= p.sum(axis=1, keepdims=True)
    return p


def averages(rows: Sequence[Encoding], field: str) -> dict[str, dict[str, float]]:
    """A field of the rows averaged over the numbers of classes, by case and by code."""
    return {
        case: {
            name: float(
                np.mean([getattr(row, field) for row in rows if (row.case, row.code) == (case, name)])
            )
            for name in CODES
        }
        for case in CASES
    }


def findings(outcomes: NDArray[np.float64]) -> list[Finding]:
    """The claims: pairs are good where many classes are likely, one against the rest is good everywhere.

    Averages are over the numbers of classes; replicates are resampled.
    """
    by_replicate = outcomes.mean(axis=1)
    accuracy, error = (
        resampled_means(
            {
                (case, name): by_replicate[:, j, k, [measure]]
                for k, case in enumerate(CASES)
                for j, name in enumerate(CODES)
            }
        )
        for measure in (0, 1)
    )

    def behind(code: str, cases: str) -> dict[str, Resampled]:
        """The accuracy of the best code minus that of a code, in each case."""
        best = {case: np.max([accuracy[case, name] for name in CODES], axis=0) for case in cases}
        return {case: best[case] - accuracy[case, code] for case in cases}

    others = np.max([error["c", name] for name in CODES if name != "one_vs_one"], axis=0)
    return [
        *(_small_errors(outcomes, measure) for measure in (1, 2)),
        _behind_for_many_classes(outcomes),
        compared(
            HLW,
            "one_vs_one is good in the cases a and b",
            behind("one_vs_one", "ab"),
            below=NEAR,
            form=".3f",
            aside=f"accuracy below that of the best code, {NEAR:g} allowed",
        ),
        compared(
            HLW,
            "one_vs_one loses in case c",
            {"": error["c", "one_vs_one"] - others},
            above=0,
            form="+.4f",
            aside=", ".join(f"{name} {error['c', name][0]:.4f}" for name in CODES)
            + " relative MSE; the difference is that from the worst of the others",
        ),
        compared(
            HLW,
            "one_vs_rest is competitive in all three cases",
            behind("one_vs_rest", CASES),
            below=NEAR,
            form=".3f",
            aside=f"accuracy below that of the best code, {NEAR:g} allowed",
        ),
        _as_accurate_as_sums(by_replicate),
    ]


def _as_accurate_as_sums(by_replicate: NDArray[np.float64]) -> Finding:
    """Our claim that nothing is lost against linear decoding [I 2.2, 2.3], on average over the cases."""
    right = resampled_means(
        {
            (name, measure): by_replicate[:, j, :, measure].mean(axis=1, keepdims=True)
            for j, name in enumerate(CODES)
            for measure in (0, 3, 4)
        }
    )
    return compared(
        OURS,
        "the Bradley-Terry model is as accurate as linear decoding [I 2.2, 2.3]",
        {
            f"{name}, less {what}": right[name, 0] - right[name, measure]
            for name in CODES
            for measure, what in ((3, "sums of probabilities"), (4, "sums of log odds"))
        },
        above=-NEAR,
        form="+.3f",
        aside=f"on average over the cases, {NEAR:g} allowed",
    )


def _for_most_classes(outcomes: NDArray[np.float64], measure: int) -> dict[tuple[str, str], Resampled]:
    """{(case, code): a measure with the largest number of classes}."""
    last = outcomes[:, -1, :, :, measure]
    return resampled_means(
        {(case, name): last[:, j, [k]] for k, case in enumerate(CASES) for j, name in enumerate(CODES)}
    )


def _small_errors(outcomes: NDArray[np.float64], measure: int) -> Finding:
    """[HLW Figure 2(a)], by the minimum of the loss or after a few sweeps."""
    error = _for_most_classes(outcomes, measure)
    how = "at the minimum of the loss" if measure == 1 else f"stopped after {SWEEPS} sweeps"
    p = probabilities(CLASSES[-1])["a"]
    guess = ((p - 1 / len(p)) ** 2).sum() / (p**2).sum()
    return compared(
        HLW,
        f"all codes have a small MSE in case a (Figure 2(a)), {how}",
        {name: error["a", name] for name in CODES},
        below=SMALL,
        form=".3f",
        aside=f"{CLASSES[-1]} classes, {SMALL:g} allowed; equal probabilities have {guess:.3f}",
    )


def _behind_for_many_classes(outcomes: NDArray[np.float64]) -> Finding:
    accuracy = _for_most_classes(outcomes, 0)
    best = {case: np.max([accuracy[case, name] for name in CODES], axis=0) for case in "ab"}
    return compared(
        HLW,
        "dense and sparse codes are less competitive in the cases a and b for many classes",
        {
            f"{case}, {name}": best[case] - accuracy[case, name]
            for case in "ab"
            for name in ("dense", "sparse")
        },
        above=NEAR,
        form=".3f",
        aside=f"{CLASSES[-1]} classes; accuracy below that of the best code, more than {NEAR:g}",
    )


def summary(rows: Sequence[Encoding]) -> list[EncodingDigest]:
    """Averages over the numbers of classes."""
    return [
        EncodingDigest(case, field.replace("_", " "), *averages(rows, field)[case].values())
        for case in CASES
        for field in Encoding._fields[4:]
    ]


def draw(trained: TrainedTensor, rows: Sequence[Encoding], title: str) -> Figure:
    """Accuracy above, relative mean squared error below, one column per case."""
    figure = Figure(figsize=(10, 6), layout="constrained")
    figure.suptitle(title)
    axes = figure.subplots(2, 3, sharex=True)
    for k, case in enumerate(CASES):
        for name in CODES:
            of = [row for row in rows if (row.case, row.code) == (case, name)]
            n = [row.classes for row in of]
            axes[0, k].plot(n, [row.accuracy for row in of], marker="o", label=name)
            axes[1, k].plot(n, [row.relative_mse for row in of], marker="o", label=name)
        axes[0, k].set(title=f"case {case}", xscale="log")
        axes[1, k].set(xlabel="classes", yscale="log", xticks=CLASSES, xticklabels=map(str, CLASSES))
        axes[1, k].minorticks_off()
    axes[0, 0].set(ylabel="accuracy")
    axes[1, 0].set(ylabel="relative mean squared error")
    axes[0, 0].legend()
    return figure


EXPERIMENT = Experiment(
    name="encodings-simulated",
    shows="[HLW] Figures 1 and 2: codes on simulated machines",
    row=Encoding,
    measure=measure,
    rows=rows,
    findings=findings,
    draw=draw,
    summary=summary,
    repetitions=100,
    full=500,
    data=("digits",),
    simulated=True,
    machines=f"none; true probabilities of the sides times 1 + {NOISE:g} times normal noise",
)
