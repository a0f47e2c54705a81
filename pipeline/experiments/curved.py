"""Boundaries before and after learning through the coupling: the three-class example of [I Figures 1 to 3].

One of three classes lies in two separate regions of the plane, so no straight line separates it from another class. The
machines are logistic, each trained alone on its own classes; their weights are then learned together, by the likelihood
of the coupled model. The paper's data are not available. Samples are drawn in the same way, with centres chosen among
some dozens of layouts because learning gains much there; with most others it gains less. The experiment reads nothing
from the set on which it is run. [I] ascends the gradient of the likelihood; here L-BFGS uses the same gradient.

With one_vs_rest and the generalised Bradley-Terry model the order of the probabilities is that of the machines [HLW
Theorem 3], so boundaries between affine machines are straight, whatever is learned. Pairs can disagree with each other,
and where they do, the boundaries are curved.

References
----------
.. [I] S. Ikeda (2010). "Combining binary machines for multi-class: statistical model and parameter estimation" (in
   Japanese). Proceedings of the Institute of Statistical Mathematics 58, 157-166.
   https://www.ism.ac.jp/editsec/toukei/abstract/58-2j.html
.. [HLW] T.-K. Huang, C.-J. Lin and R. C. Weng (2005). "A generalized Bradley-Terry model: from group competition to
   individual skill". Advances in Neural Information Processing Systems 17, 601-608.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple, TypeAlias

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression

from pairloom import graphs
from pairloom.pipeline.calibration.held_out import mean_log_loss
from pairloom.pipeline.completion.complete import plan_completion
from pairloom.pipeline.completion.slab import couple_slab, gradient_of_log_probability
from pairloom.pipeline.coupling.codes.couple_code import couple_code
from pairloom.pipeline.coupling.codes.gradient import gradient_of_code_log_probability
from pairloom.pipeline.experiments.experiment import Each, Experiment, in_turn, mean_and_standard_error
from pairloom.pipeline.experiments.finding import OURS, Finding, compared
from pairloom.pipeline.experiments.paired_bootstrap import resampled_means
from pairloom.pipeline.experiments.trained_tensor import TrainedTensor

Floats: TypeAlias = NDArray[np.float64]
#: The source of the other claims.
IKEDA = "[I]"
#: Centres of the regions, and the class of each: the first class has two. All have the same spread.
CENTRES = np.array([[-2.0, 0.0], [2.0, 0.0], [0.0, -0.8], [0.0, 2.0]])
CLASS_OF = np.array([0, 0, 1, 2])
SPREAD = 0.5
#: Samples of a region, for training and for testing.
TRAINING, TEST = 200, 1000
CODES = {"one_vs_one": graphs.one_vs_one(3), "one_vs_rest": graphs.one_vs_rest(3)}
#: one_vs_one by pairs and one_vs_rest by its closed form are the same models as the codes, but faster.
PAIRS = plan_completion(graphs.complete(3))
STAGES = ("machines", "coupled")
MODELS = tuple((code, stage) for code in CODES for stage in STAGES)
#: The outcomes of a model in one draw.
MEASURES = ("accuracy", "log_loss", "bend")
#: The weights of a machine have a normal prior of this variance: they are finite where classes are separable.
VARIANCE = 10.0
#: Points per side of the grid on the plane, and its distance from the origin to each side.
GRID, REACH = 121, 4.0


class Draws(NamedTuple):
    """(draws, codes and stages, 3) the outcomes of all draws of the samples, and their seed."""

    seed: int
    outcomes: Floats


class Boundaries(NamedTuple):
    """A code before and after learning: mean accuracy and log loss on test samples, and the bend of its boundaries.

    The bend is the distance of the boundary from a straight line, the largest of the three pairs of classes.
    """

    seed: int
    code: str
    weights: str
    accuracy: float
    accuracy_error: float
    log_loss: float
    log_loss_error: float
    bend: float
    bend_error: float


def samples(per_region: int, rng: np.random.Generator) -> tuple[Floats, NDArray[np.int64]]:
    """Samples of the three classes, with a column of ones, and their classes."""
    region = np.repeat(np.arange(len(CENTRES)), per_region)
    X = CENTRES[region] + SPREAD * rng.standard_normal((len(region), 2))
    return with_ones(X), CLASS_OF[region]


def with_ones(X: Floats) -> Floats:
    """Points with a column of ones for the intercept, so that a machine is a row of weights."""
    return np.column_stack([X, np.ones(len(X))])


def machines(X: Floats, y: NDArray[np.int64], code: NDArray[np.int8]) -> Floats:
    """(m, 3) weights of logistic machines, each fitted alone on the samples of its classes."""
    weights = []
    for column in code.T:
        side = column[y]
        fitted = LogisticRegression(C=VARIANCE, max_iter=1000).fit(X[side != 0, :2], side[side != 0] > 0)
        weights.append([*fitted.coef_[0], *fitted.intercept_])
    return np.array(weights)


def probabilities(name: str, logits: Floats) -> Floats:
    """(R, 3) probabilities of the Bradley-Terry model, from the logits of a code's machines (m, R)."""
    if name == "one_vs_one":
        p = couple_slab(logits.astype(np.float32), PAIRS, ["bradley_terry"])["bradley_terry"]
        return p.astype(np.float64)
    return couple_code(logits, CODES[name], "closed_form").astype(np.float64)


def likelihood(name: str, logits: Floats, y: NDArray[np.int64]) -> tuple[float, Floats]:
    """Mean of log p_y, and its gradient with respect to the logits (m, R)."""
    if name == "one_vs_one":
        return gradient_of_log_probability(logits, y, PAIRS, "bradley_terry")
    return gradient_of_code_log_probability(logits, y, CODES[name], "closed_form")


def learned(X: Floats, y: NDArray[np.int64], name: str, start: Floats) -> Floats:
    """(m, 3) weights that maximise the likelihood of the coupled model, with the prior of the machines [I 4]."""
    penalty = 1 / (VARIANCE * len(y))

    def loss(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(start.shape)
        value, by_logits = likelihood(name, weights @ X.T, y)
        gradient = -(by_logits @ X) + penalty * weights
        return -value + penalty / 2 * float(flat @ flat), gradient.ravel()

    optimum = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 200})
    return np.asarray(optimum.x).reshape(start.shape)


def grid() -> Floats:
    """Points of the plane, row by row, with ones."""
    along = np.linspace(-REACH, REACH, GRID)
    x, y = np.meshgrid(along, along)
    return with_ones(np.column_stack([x.ravel(), y.ravel()]))


def bend(predicted: NDArray[np.integer]) -> float:
    """The root mean squared distance of a boundary from its best straight line, the largest of all pairs of classes.

    A boundary is where neighbouring points of the grid are predicted to be of two classes.
    """
    step = 2 * REACH / (GRID - 1)
    distances = [0.0]
    for a, b in combinations(range(3), 2):
        across = [
            np.argwhere((np.minimum(p, q) == a) & (np.maximum(p, q) == b)) + shift
            for p, q, shift in (
                (predicted[1:], predicted[:-1], (0.5, 0)),
                (predicted[:, 1:], predicted[:, :-1], (0, 0.5)),
            )
        ]
        points = np.concatenate(across)
        if len(points) > 2:
            off = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)[1]
            distances.append(float(off) / np.sqrt(len(points)) * step)
    return max(distances)


def models(draw: tuple[int, int]) -> dict[tuple[str, str], Floats]:
    """Weights of every code before and after learning, on the training samples of a draw."""
    X, y = samples(TRAINING, np.random.default_rng([*draw, 0]))
    weights = {}
    for name, code in CODES.items():
        start = machines(X, y, code)
        weights[name, "machines"], weights[name, "coupled"] = start, learned(X, y, name, start)
    return weights


def predicted_on_grid(name: str, weights: Floats) -> NDArray[np.int64]:
    """(GRID, GRID) likeliest class of the points of the plane."""
    return np.asarray(probabilities(name, weights @ grid().T).argmax(axis=1).reshape(GRID, GRID))


def replicate(trained: TrainedTensor, draw: tuple[int, int]) -> Floats:
    """(codes and stages, 3) accuracy and log loss on test samples, and bend."""
    X, y = samples(TEST, np.random.default_rng([*draw, 1]))
    outcomes = []
    for (name, _), weights in models(draw).items():
        p = probabilities(name, weights @ X.T)
        outcomes.append(
            [(p.argmax(axis=1) == y).mean(), mean_log_loss(p, y), bend(predicted_on_grid(name, weights))]
        )
    return np.array(outcomes)


def measure(trained: TrainedTensor, repetitions: int, seed: int = 0, each: Each = in_turn) -> Draws:
    """The outcomes of all draws of the samples."""
    outcomes = each(replicate, trained, [(seed, number) for number in range(repetitions)])
    return Draws(seed, np.array(outcomes))


def rows(draws: Draws) -> list[Boundaries]:
    """Means over the draws, for each code before and after learning."""
    means, errors = mean_and_standard_error(draws.outcomes)
    return [
        Boundaries(draws.seed, *model, *np.column_stack([means[k], errors[k]]).ravel().tolist())
        for k, model in enumerate(MODELS)
    ]


def findings(draws: Draws) -> list[Finding]:
    """The claims: boundaries are straight before and curved after learning if possible, and the model is better.

    Every draw has its own training and test samples, so draws are resampled.
    """
    of = resampled_means(
        {
            (*model, measure): draws.outcomes[:, k, m : m + 1]
            for k, model in enumerate(MODELS)
            for m, measure in enumerate(MEASURES)
        }
    )
    step = 2 * REACH / (GRID - 1)
    (bends, losses, accuracies), (rest_bends, rest_losses, rest_accuracies) = (
        [
            (of[code, "machines", measure], of[code, "coupled", measure])
            for measure in ("bend", "log_loss", "accuracy")
        ]
        for code in CODES
    )
    return [
        compared(
            IKEDA,
            "boundaries between logistic machines on pairs are straight before and curved after",
            {
                f"{SPREAD / 4:g} less the bend before": SPREAD / 4 - bends[0],
                "bend after less twice that before": bends[1] - 2 * bends[0],
            },
            above=0,
            form="+.3f",
            aside=f"they bend by {bends[0][0]:.3f} before and {bends[1][0]:.3f} after, the spread of a region is"
            f" {SPREAD}",
        ),
        compared(
            OURS,
            "boundaries of one_vs_rest stay straight",
            {"bend before": rest_bends[0], "after": rest_bends[1]},
            below=step,
            form=".3f",
            aside=f"the grid has a step of {step:.3f}",
        ),
        compared(
            IKEDA,
            "one_vs_one: the likelihood of new samples is larger after",
            {"": losses[0] - losses[1]},
            above=0,
            form="+.3f",
            aside=f"log loss {losses[0][0]:.3f} before, {losses[1][0]:.3f} after",
        ),
        compared(
            IKEDA,
            "one_vs_one: new samples are told apart better after",
            {"": accuracies[1] - accuracies[0]},
            above=0,
            form="+.1%",
            aside=f"accuracy {accuracies[0][0]:.1%} before, {accuracies[1][0]:.1%} after",
        ),
        compared(
            OURS,
            "one_vs_rest: the likelihood of new samples is larger after, and lines tell them apart no better",
            {
                "log loss before less after": rest_losses[0] - rest_losses[1],
                "accuracy before less after": rest_accuracies[0] - rest_accuracies[1],
            },
            above=0,
            form="+.3f",
            aside=f"log loss {rest_losses[0][0]:.3f} before, {rest_losses[1][0]:.3f} after,"
            f" accuracy {rest_accuracies[0][0]:.1%} and {rest_accuracies[1][0]:.1%}",
        ),
    ]


def draw(trained: TrainedTensor, rows: Sequence[Boundaries], title: str) -> Figure:
    """The regions of the classes before and after, one line per code, with the training samples of the first draw.

    The single machines are grey lines, the boundaries of the Bayes rule dashed.
    """
    figure = Figure(figsize=(8.5, 8), layout="constrained")
    figure.suptitle(title)
    axes = figure.subplots(2, 2, sharex=True, sharey=True)
    first = (rows[0].seed, 0)
    X, y = samples(TRAINING, np.random.default_rng([*first, 0]))
    colours = ("#a40000", "#3465a4", "#4e9a06")
    along = np.linspace(-REACH, REACH, GRID)
    bayes = likeliest(grid()[:, :2]).reshape(GRID, GRID)
    for at, ((name, stage), weights) in zip(axes.ravel(), models(first).items(), strict=True):
        regions = predicted_on_grid(name, weights)
        at.contourf(along, along, regions, levels=(-0.5, 0.5, 1.5, 2.5), colors=colours, alpha=0.25)
        at.contour(along, along, bayes, levels=(0.5, 1.5), colors="black", linewidths=0.9, linestyles="--")
        for line in (weights @ grid().T).reshape(-1, GRID, GRID):
            at.contour(along, along, line, levels=(0,), colors="#555753", linewidths=0.8)
        for c, colour in enumerate(colours):
            at.scatter(*X[y == c, :2].T, s=6, color=colour)
        at.set(title=f"{name}, {'before' if stage == 'machines' else 'after'}", aspect="equal")
    return figure


def likeliest(X: Floats) -> NDArray[np.int64]:
    """The class with the largest density at each point: the Bayes rule, since all regions have as many samples."""
    squares = ((X[:, None] - CENTRES) ** 2).sum(axis=2) / (2 * SPREAD**2)
    log_density = [logsumexp(-squares[:, c == CLASS_OF], axis=1) for c in range(3)]
    return np.asarray(np.argmax(log_density, axis=0))


EXPERIMENT = Experiment(
    name="curved",
    shows="[I] Figures 1 to 3: boundaries before and after learning through the coupling",
    row=Boundaries,
    measure=measure,
    rows=rows,
    findings=findings,
    draw=draw,
    repetitions=20,
    full=100,
    data=("digits",),
    simulated=True,
    machines=f"logistic, weights with a normal prior of variance {VARIANCE:g}, {TRAINING} training samples per region",
)
