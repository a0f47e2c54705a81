"""Three classes in the plane, each a mixture of Gaussians: the boundaries of four rules [HT Figures 1, 2].

The experiment reads nothing from the set on which it is run. Linear discriminants of pairs are counted (max-wins) or
coupled, and compared with the linear (LDA) and the quadratic (QDA) discriminants of all classes.

The parameters of the mixtures in [HT] are unknown, so we draw our own in every simulation: five Gaussians per class, of
variance 1/5, about centres that are drawn about the corners of a triangle. The clouds of centres are round, or long in
a direction that differs between the classes. In the second case the pairs differ in their pooled covariances, which is
the only difference between coupled linear discriminants and LDA.

References
----------
.. [HT] T. Hastie and R. Tibshirani (1998). "Classification by pairwise coupling". Advances in Neural Information
   Processing Systems 10, 507-513.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

from pairloom.pipeline.estimator.pairwise_svc import PairwiseSVC
from pairloom.pipeline.experiments.experiment import Each, Experiment, in_turn, mean_and_standard_error
from pairloom.pipeline.experiments.finding import OURS, Finding, compared
from pairloom.pipeline.experiments.paired_bootstrap import resampled_means
from pairloom.pipeline.experiments.trained_tensor import TrainedTensor

#: The source of a claim.
HT = "[HT]"
CLASSES, COMPONENTS, VARIANCE = 3, 5, 0.2
#: Samples per class: 600 points in all, as printed [HT Figure 1].
TRAINING, TEST = 200, 1000
#: The distance of the corners of the triangle from its middle.
RADIUS = 1.5
#: Standard deviations of the centres of a class along its direction and across it.
SHAPES = {"round": (0.7, 0.7), "long": (1.2, 0.2)}
#: One error is no worse than another if it exceeds it by less than this: our limit.
NO_WORSE = 0.0025
RULES = ("max-wins", "coupled", "LDA", "QDA", "Bayes")
#: Undecided points of the plane have this number instead of a class.
UNDECIDED = CLASSES
_POINTS = 150
_COLOURS = ("#3465a4", "#f57900", "#4e9a06", "#2e3436")


class MixtureError(NamedTuple):
    """The error of a rule on the test samples of one simulation, and the share that it leaves undecided."""

    shape: str
    seed: int
    simulation: int
    rule: str
    error: float
    undecided: float


class MixtureDigest(NamedTuple):
    """Means of a rule over the simulations."""

    shape: str
    rule: str
    error: float
    standard_error: float
    undecided: float


class Mixtures(NamedTuple):
    """The centres (N, components, 2) of the Gaussians of each class."""

    centres: NDArray[np.float64]

    def draw(self, per_class: int, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """``per_class`` samples of every class, and their classes."""
        chosen = rng.integers(COMPONENTS, size=(CLASSES, per_class))
        X = np.take_along_axis(self.centres, chosen[:, :, None], axis=1)
        X = X + math.sqrt(VARIANCE) * rng.standard_normal(X.shape)
        return X.reshape(-1, 2), np.repeat(np.arange(CLASSES), per_class)

    def likeliest(self, X: NDArray[np.float64]) -> NDArray[np.int64]:
        """The class with the largest density at each sample: the Bayes rule of equally frequent classes."""
        squares = ((X[:, None, None] - self.centres) ** 2).sum(axis=3)
        return np.asarray(np.exp(-squares / (2 * VARIANCE)).sum(axis=2).argmax(axis=1))


class Rules(NamedTuple):
    """The rules of a training set: the pairs' linear discriminants, those of all classes, and the truth."""

    pairs: PairwiseSVC
    linear: LinearDiscriminantAnalysis
    quadratic: QuadraticDiscriminantAnalysis
    truth: Mixtures

    def predictions(self, X: NDArray[np.float64]) -> dict[str, NDArray[np.int64]]:
        """The class of each sample by each rule; `UNDECIDED` if pairs, or their coupling, have no single winner."""
        return {
            "max-wins": _winners(self.pairs.set_params(coupling="vote").predict_proba(X)),
            "coupled": _winners(self.pairs.set_params(coupling="bradley_terry").predict_proba(X)),
            "LDA": self.linear.predict(X),
            "QDA": self.quadratic.predict(X),
            "Bayes": self.truth.likeliest(X),
        }


def _winners(p: NDArray[np.floating]) -> NDArray[np.int64]:
    """The likeliest class of each sample; `UNDECIDED` if there are several."""
    tied = (p == p.max(axis=1, keepdims=True)).sum(axis=1) > 1
    return np.where(tied, UNDECIDED, p.argmax(axis=1))


class Simulation(NamedTuple):
    """Training samples, and the rules fitted to them."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    rules: Rules


def mixtures(shape: str, rng: np.random.Generator) -> Mixtures:
    """Mixtures with centres about the corners of a triangle, in clouds of this shape."""
    along, across = SHAPES[shape]
    angles = math.tau * np.arange(CLASSES) / CLASSES + math.tau / 4
    corners = RADIUS * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    directions = rng.uniform(0, math.pi) + math.pi * np.arange(CLASSES) / CLASSES
    axes = np.array([[[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]] for a in directions])
    spread = rng.standard_normal((CLASSES, COMPONENTS, 2)) * (along, across)
    return Mixtures(corners[:, None] + np.einsum("cij,ckj->cki", axes, spread))


def simulation(shape: str, rng: np.random.Generator) -> Simulation:
    """Draw mixtures and a training set, and fit the rules."""
    truth = mixtures(shape, rng)
    X, y = truth.draw(TRAINING, rng)
    linear, quadratic = LinearDiscriminantAnalysis(), QuadraticDiscriminantAnalysis()
    pairs = PairwiseSVC("complete", estimator=linear, calibration="none", coupled_calibration="none")
    return Simulation(X, y, Rules(pairs.fit(X, y), linear.fit(X, y), quadratic.fit(X, y), truth))


def _generator(shape: str, seed: int, number: int) -> np.random.Generator:
    return np.random.default_rng([seed, number, list(SHAPES).index(shape)])


def measure(
    trained: TrainedTensor, repetitions: int, seed: int = 0, each: Each = in_turn
) -> list[MixtureError]:
    """The errors of all rules in every simulation, for both shapes."""
    simulations = each(simulate, trained, [(seed, number) for number in range(repetitions)])
    return [row for rows in simulations for row in rows]


def simulate(trained: TrainedTensor, draw: tuple[int, int]) -> list[MixtureError]:
    """The rows of one simulation."""
    rows = []
    for shape in SHAPES:
        rng = _generator(shape, *draw)
        drawn = simulation(shape, rng)
        X, y = drawn.rules.truth.draw(TEST, rng)
        for rule, predicted in drawn.rules.predictions(X).items():
            undecided = predicted == UNDECIDED
            # If three classes win one pair each, count the expected error of a random choice.
            wrong = np.where(undecided, 1 - 1 / CLASSES, predicted != y)
            rows.append(MixtureError(shape, *draw, rule, float(wrong.mean()), float(undecided.mean())))
    return rows


def summary(rows: Sequence[MixtureError]) -> list[MixtureDigest]:
    """Means over the simulations."""
    digests = []
    for shape in SHAPES:
        for rule in RULES:
            of = [(row.error, row.undecided) for row in _of_rule(rows, shape, rule)]
            (error, undecided), (standard_error, _) = mean_and_standard_error(of)
            digests.append(MixtureDigest(shape, rule, float(error), float(standard_error), float(undecided)))
    return digests


def findings(rows: Sequence[MixtureError]) -> list[Finding]:
    """The claims: max-wins is undecided in places, coupling nowhere; coupled pairs lie between LDA and QDA.

    Every simulation has its own mixtures and samples, so simulations are resampled.
    """
    of = {(shape, rule): _of_rule(rows, shape, rule) for shape in SHAPES for rule in RULES}
    errors = resampled_means({key: [[row.error] for row in its_rows] for key, its_rows in of.items()})
    undecided = {key: float(np.mean([row.undecided for row in its_rows])) for key, its_rows in of.items()}
    claims = [
        # The existence of such samples needs no interval.
        Finding(
            HT,
            "max-wins is undecided where each class wins one pair, and coupling decides there",
            ", ".join(
                f"{shape} {undecided[shape, 'max-wins']:.2%} against {undecided[shape, 'coupled']:.2%}"
                for shape in SHAPES
            )
            + " of the test samples",
            all(undecided[shape, "max-wins"] > 0 == undecided[shape, "coupled"] for shape in SHAPES),
        )
    ]
    for shape in SHAPES:
        error = {rule: errors[shape, rule] for rule in RULES}
        claims += [
            compared(
                OURS,
                f"{shape} mixtures: coupling errs less than max-wins",
                {"": error["max-wins"] - error["coupled"]},
                above=0,
                aside=f"{error['coupled'][0]:.2%} against {error['max-wins'][0]:.2%}",
            ),
            compared(
                HT,
                f"{shape} mixtures: max-wins performs no worse than coupling",
                {"": error["max-wins"] - error["coupled"]},
                below=NO_WORSE,
                aside=f"its error less that of coupling, {NO_WORSE:.2%} allowed",
            ),
            compared(
                HT,
                f"{shape} mixtures: max-wins and coupling are better than LDA",
                {rule: error["LDA"] - error[rule] for rule in ("max-wins", "coupled")},
                above=0,
            ),
            compared(
                HT,
                f"{shape} mixtures: coupled linear discriminants lie between LDA and QDA",
                {
                    "LDA less coupled": error["LDA"] - error["coupled"],
                    "coupled less QDA": error["coupled"] - error["QDA"],
                },
                above=0,
                aside=f"LDA {error['LDA'][0]:.2%}, coupled {error['coupled'][0]:.2%}, QDA {error['QDA'][0]:.2%}",
            ),
        ]
    return claims


def _of_rule(rows: Sequence[MixtureError], shape: str, rule: str) -> list[MixtureError]:
    return [row for row in rows if (row.shape, row.rule) == (shape, rule)]


def draw(trained: TrainedTensor, rows: Sequence[MixtureError], title: str) -> Figure:
    """The regions of the classes by each rule in the first simulation, one row per shape, with its training samples."""
    figure = Figure(figsize=(11, 6), layout="constrained")
    figure.suptitle(f"{title}, first simulation (grey: undecided)")
    shown = [rule for rule in RULES if rule != "Bayes"]
    for panels, shape in zip(figure.subplots(len(SHAPES), len(shown)), SHAPES, strict=True):
        drawn = simulation(shape, _generator(shape, rows[0].seed, 0))
        low, high = drawn.X.min(axis=0) - 0.3, drawn.X.max(axis=0) + 0.3
        across, up = (np.linspace(low[i], high[i], _POINTS) for i in (0, 1))
        grid = np.stack(np.meshgrid(across, up), axis=-1)
        predicted = drawn.rules.predictions(grid.reshape(-1, 2))
        for axes, rule in zip(panels, shown, strict=True):
            _draw_regions(axes, grid, predicted[rule].reshape(_POINTS, _POINTS))
            for c in range(CLASSES):
                axes.plot(*drawn.X[drawn.y == c].T, ".", color=_COLOURS[c], markersize=3)
            axes.set_title(f"{rule}, {shape}", fontsize="medium")
    return figure


def _draw_regions(axes: Axes, grid: NDArray[np.float64], regions: NDArray[np.int64]) -> None:
    across, up = grid[0, :, 0], grid[:, 0, 1]
    axes.imshow(
        regions,
        extent=(across[0], across[-1], up[0], up[-1]),
        origin="lower",
        aspect="auto",
        cmap=ListedColormap(_COLOURS),
        vmin=0,
        vmax=UNDECIDED,
        alpha=0.25,
        interpolation="nearest",
    )
    for c in range(UNDECIDED + 1):
        if (regions == c).any() and (regions != c).any():
            axes.contour(across, up, regions == c, [0.5], colors="#2e3436", linewidths=0.8)
    axes.set(xticks=[], yticks=[])


EXPERIMENT = Experiment(
    name="mixtures",
    shows="[HT] Figures 1 and 2: boundaries between three mixtures of Gaussians in the plane",
    row=MixtureError,
    measure=measure,
    findings=findings,
    draw=draw,
    summary=summary,
    repetitions=20,
    full=100,
    data=("digits",),
    simulated=True,
    machines="LDA of pairs, without calibration",
)
