"""Ten Gaussian classes in twenty dimensions: two rules, whole and by pairs with thresholds [HT Figure 3].

The experiment reads nothing from the set on which it is run. The boundaries between the classes are quadratic, so
neither linear discriminants (LDA) nor J nearest neighbours (J-NN) suit them. Both are used on all classes at once, and
on pairs, whose logits are shifted to the point of fewest errors and then counted (max-wins) or coupled.

The source's sentence on the covariances is garbled: either the eigenvalues or their square roots are uniform in
[0.01, 1.01]. Here the square roots are, because the Bayes error is then below 1%, as stated; `BAYES_OTHERWISE` is the
Bayes error of the other reading.

Logits of nearest neighbours are shifted like all others, whereas [HT] bias distances. Two other ways to move their
boundaries were tried on the first four simulations, in which J-NN errs in 19.3% of the samples and coupled pairs with
thresholds in 16.2%: distances to one of the classes multiplied by a factor, chosen together with J (14.7%), and J
chosen together with the threshold (16.5%). Neither halves the error.

References
----------
.. [HT] T. Hastie and R. Tibshirani (1998). "Classification by pairwise coupling". Advances in Neural Information
   Processing Systems 10, 507-513.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from pairloom.pipeline.estimator.pairwise_svc import PairwiseSVC
from pairloom.pipeline.experiments.experiment import Each, Experiment, in_turn, mean_and_standard_error
from pairloom.pipeline.experiments.finding import Finding, compared
from pairloom.pipeline.experiments.paired_bootstrap import resampled_means
from pairloom.pipeline.experiments.trained_tensor import TrainedTensor
from pairloom.pipeline.machines.nearest_neighbours import NearestNeighboursCV

#: The source of these claims.
HT = "[HT]"
#: [HT 3] Classes, dimensions, training and test samples per class, and the range of the roots of the eigenvalues.
CLASSES, DIMENSIONS, TRAINING, TEST = 10, 20, 100, 200
LOWEST, HIGHEST = 0.01, 1.01
BAYES, BAYES_OTHERWISE = "Bayes", "Bayes, eigenvalues uniform"
LEARNERS: dict[str, Any] = {"LDA": LinearDiscriminantAnalysis(), "J-NN": NearestNeighboursCV()}
#: The couplings of its pairs, with and without thresholds.
COUPLINGS = {"max-wins": "vote", "coupled": "bradley_terry"}
THRESHOLDS = {"": True, " without thresholds": False}
BY_PAIRS = tuple(f"{coupling}{thresholds}" for thresholds in THRESHOLDS for coupling in COUPLINGS)
RULES = (
    BAYES,
    BAYES_OTHERWISE,
    *(rule for name in LEARNERS for rule in (name, *(f"{name}, {how}" for how in BY_PAIRS))),
)
#: An error is "about half" of another if it is at most this share of it: our limit.
ABOUT_HALF = 0.6


class RuleError(NamedTuple):
    """The error of a rule on the test samples of one simulation."""

    simulation: int
    rule: str
    error: float


class RuleDigest(NamedTuple):
    """Mean error of a rule over the simulations."""

    rule: str
    error: float
    standard_error: float


class GaussianClasses(NamedTuple):
    """Means (N, D), eigenvectors in columns (N, D, D), and the standard deviations along them (N, D)."""

    means: NDArray[np.float64]
    axes: NDArray[np.float64]
    deviations: NDArray[np.float64]

    def draw(self, per_class: int, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """``per_class`` samples of every class, and their classes."""
        n, d = self.means.shape
        along = rng.standard_normal((n, per_class, d)) * self.deviations[:, None]
        X = self.means[:, None] + np.einsum("cij,crj->cri", self.axes, along)
        return X.reshape(-1, d), np.repeat(np.arange(n), per_class)

    def likeliest(self, X: NDArray[np.float64]) -> NDArray[np.int64]:
        """The class with the largest density at each sample: the Bayes rule of equally frequent classes."""
        away = np.einsum("cji,crj->cri", self.axes, X - self.means[:, None]) / self.deviations[:, None]
        log_density = -(away**2).sum(axis=2) / 2 - np.log(self.deviations).sum(axis=1)[:, None]
        return np.asarray(log_density.argmax(axis=0))


def gaussian_classes(rng: np.random.Generator) -> GaussianClasses:
    """Means uniform in the cube, random orthonormal eigenvectors, roots of the eigenvalues uniform."""
    means = rng.uniform(0, 1, (CLASSES, DIMENSIONS))
    axes = np.linalg.qr(rng.standard_normal((CLASSES, DIMENSIONS, DIMENSIONS))).Q
    return GaussianClasses(means, axes, rng.uniform(LOWEST, HIGHEST, (CLASSES, DIMENSIONS)))


def measure(trained: TrainedTensor, repetitions: int, seed: int = 0, each: Each = in_turn) -> list[RuleError]:
    """The errors of all rules in every simulation."""
    simulations = each(simulate, trained, [(seed, number) for number in range(repetitions)])
    return [
        RuleError(number, rule, error)
        for number, errors in enumerate(simulations)
        for rule, error in zip(RULES, errors, strict=True)
    ]


def simulate(trained: TrainedTensor, draw: tuple[int, int]) -> list[float]:
    """The errors of the rules in one simulation, in the order of `RULES`."""
    rng = np.random.default_rng(draw)
    classes = gaussian_classes(rng)
    X, y = classes.draw(TRAINING, rng)
    X_test, y_test = classes.draw(TEST, rng)
    otherwise = classes._replace(deviations=np.sqrt(classes.deviations))
    X_other, y_other = otherwise.draw(TEST, rng)
    errors = [np.mean(classes.likeliest(X_test) != y_test), np.mean(otherwise.likeliest(X_other) != y_other)]
    for learner in LEARNERS.values():
        errors.append(1 - clone(learner).fit(X, y).score(X_test, y_test))
        for thresholds in THRESHOLDS.values():
            pairs = by_pairs(learner, thresholds).fit(X, y)
            for coupling in COUPLINGS.values():
                errors.append(1 - pairs.set_params(coupling=coupling).score(X_test, y_test))
    return [float(error) for error in errors]


def by_pairs(learner: Any, thresholds: bool) -> PairwiseSVC:
    """All pairs by a learner whose own probabilities are used [HT 3]; each machine is trained on all its samples."""
    return PairwiseSVC(
        "complete",
        estimator=learner,
        calibration="none",
        coupled_calibration="none",
        thresholds=thresholds,
        fit_on="all",
        random_state=0,
    )


def summary(rows: Sequence[RuleError]) -> list[RuleDigest]:
    """Means over the simulations."""
    means, standard_errors = mean_and_standard_error(
        np.array([row.error for row in rows]).reshape(-1, len(RULES))
    )
    return [
        RuleDigest(rule, float(mean), float(spread))
        for rule, mean, spread in zip(RULES, means, standard_errors, strict=True)
    ]


def findings(rows: Sequence[RuleError]) -> list[Finding]:
    """The claims: pairs halve the error of both rules, and coupling is a little better than max-wins.

    Every simulation has its own classes and samples, so simulations are resampled.
    """
    error = resampled_means({rule: [[row.error] for row in rows if row.rule == rule] for rule in RULES})
    claims = [
        compared(
            HT,
            "the Bayes error is below 1%",
            {"": error[BAYES]},
            below=0.01,
            form=".2%",
            aside="the square roots of the eigenvalues are uniform here; where the eigenvalues are, it is"
            f" {error[BAYES_OTHERWISE][0]:.2%}",
        )
    ]
    for name in LEARNERS:
        whole, coupled, wins = (error[rule] for rule in (name, f"{name}, coupled", f"{name}, max-wins"))
        claims += [
            compared(
                HT,
                f"coupled pairs of {name} with thresholds err about half as often as {name}",
                {"": coupled / whole},
                below=ABOUT_HALF,
                form=".2f",
                aside=f"{coupled[0]:.2%} against {whole[0]:.2%}, {ABOUT_HALF:g} of it allowed",
            ),
            compared(
                HT,
                f"max-wins of {name} errs a little more than coupling",
                {"": wins - coupled},
                above=0,
                aside=f"{wins[0]:.2%} against {coupled[0]:.2%}",
            ),
        ]
    return claims


def draw(trained: TrainedTensor, rows: Sequence[RuleError], title: str) -> Figure:
    """The errors in all simulations as boxes, one per rule."""
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    shown = [rule for rule in RULES if rule != BAYES_OTHERWISE]
    axes.boxplot(
        [[100 * row.error for row in rows if row.rule == rule] for rule in shown],
        tick_labels=[rule.replace(", ", "\n").replace(" without ", "\nwithout\n") for rule in shown],
        medianprops={"color": "#a40000"},
    )
    axes.set(ylabel="test error, %", ylim=(0, None))
    axes.tick_params(axis="x", labelsize="small")
    axes.set_title(title)
    return figure


EXPERIMENT = Experiment(
    name="gaussians",
    shows="[HT] Figure 3: ten Gaussian classes in twenty dimensions, rules of all classes and of pairs with thresholds",
    row=RuleError,
    measure=measure,
    findings=findings,
    draw=draw,
    summary=summary,
    repetitions=20,
    full=20,
    data=("digits",),
    simulated=True,
    machines="LDA and J nearest neighbours of pairs, thresholds where held-out samples of the pair make fewest errors",
)
