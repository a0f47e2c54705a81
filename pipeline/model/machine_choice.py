"""The choice between linear machines and a radial kernel, and whether to standardise, by held-out log loss.

The choice is made on the probe: some tens of classes that are near each other, with some hundreds of samples each. All
trials are judged on the same samples. Trials with a kernel share one matrix of squared distances, from which the kernel
matrix of every gamma is computed:

1. Each kind is tried with its usual gamma and C, on the raw columns and, if their units may differ, standardised ones.
2. Other values of gamma are tried with that C, then other values of C with the best gamma.
3. Linear machines or the kernel are chosen. If the kernel wins, smaller gammas are tried with a larger C, a direction
   in which machines change little [2]_, as long as the loss improves; then gammas half a step from the best.
4. If classes have more rows than the probe, the best three trials are repeated with all rows, or with as many as one
   kernel matrix has room for: with few rows, smoother machines look better than they are.

If linear machines win, their C and whitening are then chosen as for ``kernel="linear"``.

Trials that cannot win or would take too long are skipped:

- Two classes with fewer rows than columns can nearly always be separated by a hyperplane [1]_, so a kernel has little
  to add. Embeddings are of this kind; on four such sets a kernel was never better. Columns may depend on each other, as
  those of a curve do, and then a kernel can still be better, so small sets, on which trials are cheap, are tried.
- A machine with a kernel needs the kernel matrix of its rows: time and memory grow with the square of their number.
- gamma and C change the log loss by a limited factor, so kinds that are far behind are not tried further.

References
----------
.. [1] T. M. Cover (1965). "Geometrical and statistical properties of systems of linear inequalities with applications
   in pattern recognition". IEEE Transactions on Electronic Computers EC-14, 326-334.
.. [2] S. S. Keerthi, C.-J. Lin (2003). "Asymptotic behaviors of support vector machines with Gaussian kernel". Neural
   Computation 15, 1667-1689.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.calibration.coupled_calibration import FEW_SAMPLES
from pairloom.pipeline.calibration.scale import clearly_more
from pairloom.pipeline.completion.slab import DEFAULT_MEMORY
from pairloom.pipeline.features.moments import Moments, distances_from
from pairloom.pipeline.machines.kernel_function import MOST_ROWS, KernelFunction, gamma_of
from pairloom.pipeline.machines.kinds import svm_kind
from pairloom.pipeline.machines.normalisation import Normalisation, NormalisedMoments, normalised_moments
from pairloom.pipeline.model.choice import Draw, JudgedCandidate, judge_trial
from pairloom.pipeline.model.fit_progress import NO_PROGRESS, FitProgress, begin_training
from pairloom.pipeline.model.settings import Candidate, ModelSettings
from pairloom.pipeline.model.training_set import Probe, TrainingSet, plan_probe
from pairloom.pipeline.threads import pieces

__all__ = [
    "NO_CHOICE",
    "ChosenMachines",
    "KernelChoice",
    "MachineQuestion",
    "ProbeRows",
    "choose_machines",
    "linear_for_sparse",
    "squared_distances",
]

#: gamma, in multiples of "scale".
_GAMMAS = (1.0, 4.0, 0.25)
#: Factors to the next gamma and the next C, which are tried as long as the last value is the best.
_NEXT_GAMMA, _NEXT_C = 4.0, 10.0
#: Number of steps to a smaller gamma with a larger C.
_RIDGE_STEPS = 2
#: Kinds with more than this multiple of the least log loss are not tried with another gamma, or with another C.
_FAR, _FAR_FOR_C = 1.5, 1.2
#: Maximum number of entries in the kernel matrices of all pairs together: some minutes of training.
_MOST_ENTRIES = 4e9
#: Maximum number of rows of a probe with a kernel: their matrix of distances takes 256 MiB.
_MOST_KERNEL_ROWS = 8192
#: Linear machines are smaller, faster and can be changed later: they win up to this multiple of the kernel's log loss.
_NOT_WORTH_IT = 1.02
#: Log losses that differ by less count as equal.
_SAME_LOSS = 1e-4
#: With fewer training rows all trials together take about a second, so none is skipped.
_FEW_ROWS = 2048
#: If the probe omits rows, the best `_FINALISTS` trials are repeated on `_MORE_ROWS` times as many rows, or more.
_FINALISTS, _MORE_ROWS = 3, 1.2
#: Number of rows whose distances to all others are computed at once.
_ROWS_AT_ONCE = 1024


class ProbeRows(NamedTuple):
    """Raw training rows of the probe, their classes counted from 0 in the probe, and weights or None."""

    X: NDArray[np.floating]
    classes: NDArray[np.int64]
    weight: NDArray[np.float64] | None


@dataclass(frozen=True)
class MachineQuestion:
    """The parameters that leave the machines open, and facts about the training samples.

    Attributes
    ----------
    parameters
        Has `kernel`, which may be "auto", `gamma`, `degree`, `coef0`, `C`, `whiten`, `learn`, and `standardise`: True,
        False or "auto".
    moments : Moments
        Moments of the raw training rows.
    named : bool
        Whether the columns have names, as those of a table do.
    growing : bool
        Whether the graph grows, which needs linear machines.
    graph_of : callable
        ``graph_of(class_means)`` returns the model graph or code for classes with these normalised means.
    rows_of : callable
        ``rows_of(classes, most)`` returns training rows of some classes, at most ``most`` per class.
    settings_of : callable
        ``settings_of(kernel, moments)`` returns the settings of a model with this kernel (None: linear) and all
        candidates for C and whitening.
    owner : str
        Name of the samples, for errors.
    """

    parameters: Any
    moments: Moments
    named: bool
    growing: bool
    graph_of: Callable[[NDArray[np.float64]], nx.Graph | graphs.Decomposition]
    rows_of: Callable[[NDArray[np.int64], int], ProbeRows]
    settings_of: Callable[[KernelFunction | None, NormalisedMoments], ModelSettings]
    owner: str

    @property
    def kernel_is_open(self) -> bool:
        """Whether the kernel is to be chosen."""
        return bool(self.parameters.kernel == "auto")

    @property
    def typical_rows(self) -> int:
        """Number of rows of a typical pair."""
        return 2 * int(np.median(self.moments.counts))

    @property
    def n_columns(self) -> int:
        """Number of columns that are not constant."""
        return int(np.count_nonzero(self.moments.varied))

    @property
    def n_rows(self) -> int:
        """Number of training rows of all classes."""
        return int(self.moments.counts.sum())

    @property
    def trials_may_pay(self) -> bool:
        """Whether trials may find a difference between machines, or are cheap."""
        return self.typical_rows >= self.n_columns or self.n_rows <= _FEW_ROWS


class KernelChoice(NamedTuple):
    """A row for every trial, and the reason for the kernel if it was open."""

    candidates: tuple[dict[str, Any], ...] = ()
    why: str = ""


NO_CHOICE = KernelChoice()


class ChosenMachines(NamedTuple):
    """The machines of a model.

    Attributes
    ----------
    standardise : bool
    kernel, gamma
        As the parameters; if the kernel was "auto", the name of the chosen kernel, and gamma as a number.
    settled : Candidate, optional
        The candidate with C, on normalised features, if C was chosen together with the kernel.
    choice : KernelChoice
    """

    standardise: bool
    kernel: str
    gamma: Any
    settled: Candidate | None = None
    choice: KernelChoice = NO_CHOICE


def linear_for_sparse(parameters: Any) -> ChosenMachines:
    """Linear machines for sparse rows: other kernels take dense ones. Sparse rows are not centred: nothing to try."""
    why = KernelChoice((), "linear: X is sparse" if parameters.kernel == "auto" else "")
    return ChosenMachines(parameters.standardise is True, "linear", parameters.gamma, choice=why)


def choose_machines(
    question: MachineQuestion,
    *,
    n_jobs: int | None = None,
    memory_limit: int = DEFAULT_MEMORY,
    progress: FitProgress = NO_PROGRESS,
) -> ChosenMachines:
    """Choose the kernel, and whether to standardise, unless the parameters fix them."""
    asked, ways = question.parameters, _ways_to_standardise(question)
    graph = functools.cache(lambda: question.graph_of(_normalised(question, ways[0]).class_means))
    started = functools.partial(
        _Trials, question, n_jobs=n_jobs, memory_limit=memory_limit, progress=progress
    )
    why_linear = _why_linear(question, graph) if question.kernel_is_open else ""
    if question.kernel_is_open and not why_linear:
        return _choose_kernel(started(graph()), ways)
    kernel = "linear" if question.kernel_is_open else asked.kernel
    if len(ways) == 1:
        return ChosenMachines(ways[0], kernel, asked.gamma, choice=KernelChoice((), why_linear))
    trials = started(graph())
    best = _least_unless_alike([trials.given(way) for way in ways], ways[0])
    choice = KernelChoice(trials.rows, why_linear)
    return ChosenMachines(best.standardise, kernel, asked.gamma, choice=choice)


def _choose_kernel(trials: _Trials, ways: tuple[bool, ...]) -> ChosenMachines:
    """Choose between linear machines and a radial kernel, with C and with whitening or gamma."""
    kinds = [kind for way in ways for kind in (trials.linear(way), trials.radial(way))]
    way = _least_unless_alike(kinds, ways[0]).standardise
    linear, radial = (kind for kind in kinds if kind.standardise == way)
    for far, search in ((_FAR, _Kind.try_gammas), (_FAR_FOR_C, _Kind.try_Cs)):
        least = min(linear.log_loss, radial.log_loss)
        for kind in (linear, radial):
            if kind.log_loss <= far * least:
                search(kind)
    return _chosen(linear, radial, trials)


def _chosen(linear: _Kind, radial: _Kind, trials: _Trials) -> ChosenMachines:
    """The kind with the least log loss, or linear machines if the kernel is not worth it."""
    why = (
        f"held-out log loss of {len(linear.best.judged.losses):,} samples: {linear.log_loss:.4f} linear,"
        f" {radial.log_loss:.4f} radial kernel"
    )
    if linear.log_loss <= _NOT_WORTH_IT * radial.log_loss:
        return ChosenMachines(
            linear.standardise, "linear", "scale", choice=KernelChoice(trials.rows, f"linear: {why}")
        )
    radial.refine()
    kernel, judged = trials.settled(radial)
    assert kernel is not None
    choice = KernelChoice(trials.rows, f"rbf: {why}")
    return ChosenMachines(radial.standardise, "rbf", kernel.gamma, judged.candidate, choice)


def _ways_to_standardise(question: MachineQuestion) -> tuple[bool, ...]:
    """The values of ``standardise`` to try: one, or both if held-out samples are to decide, the usual value first.

    Columns of one unit are left as they are. If units differ, trials decide: pixels that are rarely set look like the
    columns of a table, but should not be standardised. If trials do not decide, columns are standardised if they have
    names or different ranges, as the columns of a table do and pixels do not.
    """
    if question.parameters.standardise != "auto":
        return (bool(question.parameters.standardise),)
    if not question.moments.units_may_differ:
        return (False,)
    usual = question.named or not question.moments.ranges_are_alike
    return (usual, not usual) if question.trials_may_pay else (usual,)


def _why_linear(question: MachineQuestion, graph: Callable[[], nx.Graph | graphs.Decomposition]) -> str:
    """The reason why no kernel is tried: it could not win, or would take too long. Empty if one is tried."""
    asked = question.parameters
    reasons = {
        "the graph grows": question.growing,
        "weights are learned through the coupling": asked.learn == "coupled",
        "whitening is asked for": asked.whiten not in ("auto", "none"),
    }
    for reason, holds in reasons.items():
        if holds:
            return f"linear: {reason}"
    if not question.trials_may_pay:
        return (
            f"linear: a typical pair has {question.typical_rows:,} rows and {question.n_columns:,} columns, and fewer"
            " rows than columns are separated by a hyperplane"
        )
    if question.n_rows < FEW_SAMPLES:
        return f"linear: {question.n_rows} samples are too few to choose by"
    members = graphs.decomposition_of(graph()).members()
    rows = np.array([float(question.moments.counts[classes].sum()) for classes in members])
    if rows.max() > MOST_ROWS:
        return f"linear: a kernel matrix may have {MOST_ROWS:,} rows, and a pair has {int(rows.max()):,}"
    if (rows**2).sum() > _MOST_ENTRIES:
        return (
            f"linear: the kernel matrices of {len(rows):,} pairs would have {(rows**2).sum():.1e} entries, and more"
            f" than {_MOST_ENTRIES:.0e} take too long"
        )
    return ""


def _normalised(question: MachineQuestion, standardise: bool) -> NormalisedMoments:
    return normalised_moments(question.moments, question.owner, standardise=standardise)


class _Trial(NamedTuple):
    """A judged candidate with its kernel (None: linear)."""

    kernel: KernelFunction | None
    judged: JudgedCandidate


class _Kind:
    """Linear machines or machines with a kernel, on columns that are standardised or not, and their trials.

    ``judge`` tries a multiple of gamma with a C. ``steps`` are the factors from one gamma and C to the next, which are
    tried as long as the last value is the best; 1 for no further values.
    """

    def __init__(
        self,
        standardise: bool,
        gammas: tuple[float, ...],
        Cs: list[float],
        judge: Callable[[float, float], _Trial],
        steps: tuple[float, float] = (1.0, 1.0),
    ) -> None:
        self.standardise, self._gammas, self._Cs, self._judge = standardise, gammas, Cs, judge
        self._gamma_step, self._C_step = steps
        self._trials: dict[tuple[float, float], _Trial] = {}
        self._try(gammas[0], Cs[len(Cs) // 2])

    def _try(self, gamma: float, C: float) -> None:
        if (gamma, C) not in self._trials:
            self._trials[gamma, C] = self._judge(gamma, C)

    @property
    def _best(self) -> tuple[float, float]:
        return min(self._trials, key=lambda tried: self._trials[tried].judged.log_loss)

    @property
    def best(self) -> _Trial:
        """The trial with the least log loss."""
        return self._trials[self._best]

    @property
    def log_loss(self) -> float:
        """The least log loss."""
        return self.best.judged.log_loss

    def settled(self, *, cut: bool) -> _Trial:
        """The best trial or, if the probe omits rows, the one with the largest gamma that is not clearly worse.

        More rows than the probe has favour a larger gamma. Among values of C with equal loss the usual one is taken.
        """
        least, usual = self.best.judged, self._Cs[len(self._Cs) // 2]
        alike = {
            tried: one
            for tried, one in self._trials.items()
            if one.judged.log_loss <= least.log_loss + _SAME_LOSS
            or (cut and not clearly_more(*one.judged[1:], *least[1:]))
        }
        return alike[max(alike, key=lambda tried: (tried[0], -abs(np.log(tried[1] / usual))))]

    def judged_by(self, judge: Callable[[float, float], _Trial], most: int) -> _Kind:
        """The same kind with only the ``most`` trials of least log loss, which are judged again."""
        least = sorted(self._trials, key=lambda tried: self._trials[tried].judged.log_loss)
        again = copy.copy(self)
        again._trials = {tried: judge(*tried) for tried in least[:most]}
        return again

    def clearly_above(self, other: _Kind) -> bool:
        """Whether its log loss exceeds that of ``other`` by more than chance explains."""
        one, least = self.best.judged, other.best.judged
        return clearly_more(one.log_loss, one.losses, least.log_loss, least.losses)

    def try_gammas(self) -> None:
        """Try other values of gamma with the usual C, and one more if the last in a direction is the best."""
        C, usual = self._best[1], self._gammas[0]
        for gamma in self._gammas[1:]:
            self._try(gamma, C)
        best = self._best[0]
        if best != usual:
            self._try(best * self._gamma_step if best > usual else best / self._gamma_step, C)

    def try_Cs(self) -> None:
        """Try other values of C with the best gamma, and one more if the largest is the best."""
        gamma = self._best[0]
        for C in self._Cs:
            self._try(gamma, C)
        if len(self._Cs) > 1 and self._best[1] == self._Cs[-1]:
            self._try(gamma, self._Cs[-1] * self._C_step)

    def refine(self) -> None:
        """Try smaller gammas with larger C as long as the loss improves [2]_, then gammas half a step from the best."""
        if len(self._gammas) == 1:
            return
        for _ in range(_RIDGE_STEPS if self._C_step > 1 else 0):
            gamma, C = self._best
            self._try(gamma / self._gamma_step, C * self._C_step)
            if self._best == (gamma, C):
                break
        gamma, C = self._best
        for factor in (math.sqrt(self._gamma_step), 1 / math.sqrt(self._gamma_step)):
            self._try(gamma * factor, C)


def _least_unless_alike(kinds: list[_Kind], usual: bool) -> _Kind:
    """The kind with the least log loss; a kind with the usual standardisation if it is not clearly worse."""
    least = min(kinds, key=lambda kind: kind.log_loss)
    alike = [kind for kind in kinds if kind.standardise == usual and not kind.clearly_above(least)]
    return min(alike, key=lambda kind: kind.log_loss) if alike else least


class _Trials:
    """Trials on the same samples of one probe."""

    def __init__(
        self,
        question: MachineQuestion,
        graph: nx.Graph | graphs.Decomposition,
        *,
        n_jobs: int | None,
        memory_limit: int,
        progress: FitProgress,
    ) -> None:
        self._question, self._progress = question, progress
        linear = question.settings_of(None, _normalised(question, False))
        self._how: dict[str, Any] = {
            "n_jobs": n_jobs,
            "memory_limit": memory_limit,
            "progress": progress,
            # Trials do not whiten, because whitening leaves fewer samples to judge them on.
            "draw": Draw(linear.calibration_samples, whitened=False),
        }
        self._probe = _probe_of(question, graph, linear)
        self._rows = question.rows_of(self._probe.classes, self._probe.most_rows)
        self.rows: tuple[dict[str, Any], ...] = ()
        #: Whether the probe omits rows of its classes.
        self.cut = bool(self._probe.most_rows < question.moments.counts[self._probe.classes].max())

    def settled(self, radial: _Kind) -> _Trial:
        """The best trial with a kernel. If the probe omits rows, the best few are tried again on more rows."""
        if not self.cut or not self._takes_more_rows():
            return radial.settled(cut=self.cut)
        return radial.judged_by(self._radial_judge(radial.standardise), _FINALISTS).settled(cut=True)

    def _takes_more_rows(self) -> bool:
        """Give classes as many rows as a kernel matrix has room for; return False if these are hardly more."""
        most = max(1, _MOST_KERNEL_ROWS // len(self._probe.classes))
        counts = self._question.moments.counts[self._probe.classes]
        before, after = (int(np.minimum(counts, rows).sum()) for rows in (self._probe.most_rows, most))
        if after < _MORE_ROWS * before:
            return False
        self._probe = self._probe._replace(most_rows=most)
        self._rows = self._question.rows_of(self._probe.classes, most)
        return True

    def linear(self, standardise: bool) -> _Kind:
        """Linear machines, after their first trial."""
        return self._on_rows(standardise, None)

    def given(self, standardise: bool) -> _Kind:
        """Machines with the requested kernel, after their first trial."""
        asked = self._question.parameters
        if asked.kernel in ("auto", "linear"):
            return self._on_rows(standardise, None)
        gamma = self._gamma(standardise)
        return self._on_rows(
            standardise, KernelFunction(asked.kernel, gamma, int(asked.degree), float(asked.coef0))
        )

    def _gamma(self, standardise: bool) -> float:
        """The number that the parameter gamma stands for."""
        asked, owner = self._question.parameters.gamma, self._question.owner
        return gamma_of(asked, self._question.moments, owner, standardise=standardise)

    def _on_rows(self, standardise: bool, kernel: KernelFunction | None) -> _Kind:
        """Machines trained on the rows, not on a precomputed kernel matrix."""
        moments = _normalised(self._question, standardise)
        normalisation = svm_kind(kernel).normalisation(moments.normalisation)
        part = self._part(normalisation(self._rows.X))
        settings = self._question.settings_of(kernel, moments)
        if self._question.kernel_is_open:  # all kinds must be trained and judged on the same samples
            settings = replace(settings, folds=self._radial_settings(standardise).folds)

        def judge(_: float, C: float) -> _Trial:
            candidate = settings.candidates[0]._replace(C=C, whiten="none")
            return self._judged(_Machines(standardise, kernel, candidate, normalisation), part, settings)

        return _Kind(standardise, (1.0,), _Cs_of(settings), judge)

    def radial(self, standardise: bool) -> _Kind:
        """Machines with a radial kernel, after their first trial."""
        settings = self._radial_settings(standardise)
        asked = self._question.parameters
        multiples = _GAMMAS if asked.gamma == "scale" else (1.0,)
        steps = (_NEXT_GAMMA, _NEXT_C if isinstance(asked.C, str) else 1.0)
        return _Kind(standardise, multiples, _Cs_of(settings), self._radial_judge(standardise), steps)

    def _radial_settings(self, standardise: bool) -> ModelSettings:
        """The settings of machines on a precomputed kernel matrix."""
        moments = _normalised(self._question, standardise)
        return self._question.settings_of(KernelFunction("precomputed"), moments)

    def _radial_judge(self, standardise: bool) -> Callable[[float, float], _Trial]:
        """A function that judges a multiple of gamma with a C. The distances of the rows are computed once."""
        moments, scale = _normalised(self._question, standardise), self._gamma(standardise)
        settings = self._radial_settings(standardise)
        normalisation = svm_kind(KernelFunction("rbf")).normalisation(moments.normalisation)
        distances = squared_distances(normalisation(self._rows.X))
        matrix = np.empty_like(distances)

        def judge(multiple: float, C: float) -> _Trial:
            kernel = KernelFunction("rbf", multiple * scale)
            np.exp(np.multiply(distances, np.float32(-kernel.gamma), out=matrix), out=matrix)
            candidate = settings.candidates[0]._replace(C=C)
            machines = _Machines(standardise, kernel, candidate, normalisation)
            return self._judged(machines, self._part(matrix, precomputed=True), settings)

        return judge

    def _part(self, X: NDArray[Any], precomputed: bool = False) -> TrainingSet:
        """The training set of the probe."""
        _, classes, weight = self._rows
        return TrainingSet(X, classes, len(self._probe.classes), weight, precomputed)

    def _judged(self, machines: _Machines, part: TrainingSet, settings: ModelSettings) -> _Trial:
        graph = self._probe.graph
        begin_training(self._progress, "kernel", graphs.decomposition_of(graph))
        judged = judge_trial(part, graph, settings, machines.candidate, **self._how)
        self.rows = (*self.rows, judged.row(machines.normalisation, machines.kernel, machines.standardise))
        return _Trial(machines.kernel, judged)


class _Machines(NamedTuple):
    """Machines to try: the standardisation, the kernel or None, C and whitening, and the normalisation."""

    standardise: bool
    kernel: KernelFunction | None
    candidate: Candidate
    normalisation: Normalisation


def _Cs_of(settings: ModelSettings) -> list[float]:
    """The values of C to try, ascending."""
    return sorted({candidate.C for candidate in settings.candidates})


def _probe_of(
    question: MachineQuestion, graph: nx.Graph | graphs.Decomposition, settings: ModelSettings
) -> Probe:
    """The probe, with so few rows per class that the matrix of all their distances has room."""
    means = _normalised(question, False).class_means
    near, counts = functools.partial(distances_from, means), question.moments.counts
    probe = plan_probe(graph, near, settings.seed, counts, settings.folds)
    most = max(1, _MOST_KERNEL_ROWS // len(probe.classes))
    return probe._replace(most_rows=min(probe.most_rows, most))


def squared_distances(X: NDArray[np.floating]) -> NDArray[np.float32]:
    """(n, n) squared distances between rows; sums are in float64 because of cancellation."""
    x = np.asarray(X, np.float64)
    squares = np.einsum("rd,rd->r", x, x)
    distances = np.empty((len(x), len(x)), np.float32)
    for some in pieces(len(x), _ROWS_AT_ONCE):
        distances[some] = np.maximum(squares[some, None] + squares - 2 * (x[some] @ x.T), 0.0)
    return distances
