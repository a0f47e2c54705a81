"""Learning through the coupling: the weights of all machines at once, by the likelihood of the coupled model [I 4].

A machine is fitted on two classes and knows nothing of the others. Learning starts from these machines: every edge's
logit gets a change that is affine in the features, and the changes maximise the coupled likelihood of training samples,

    minimise over v, c:  -mean_r log p_{y_r}(L_r) + sum_e (|v_e|^2 + c_e^2) / (2 strength R),
    L_re = l_re + v_e . z_r + c_e,

where l are the logits of the machines, and z the features with a mean squared norm of one. The penalty is a Gaussian
prior of the changes, with mean zero; the strength is its variance.

L-BFGS takes few steps. Held-out samples, which neither the machines nor the gradient have seen, choose the number of
steps and the strength, by their least log loss. The same number of steps is then taken on all samples, from the
machines of all folds. If the held-out log loss does not clearly improve, the machines are not changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize

from pairloom.pipeline.calibration.held_out import SMALLEST
from pairloom.pipeline.calibration.shortlist_gradient import (
    gradient_through_shortlists,
    log_probabilities_of_lists,
)
from pairloom.pipeline.completion.complete import Completion
from pairloom.pipeline.completion.shortlist import ONE_SCALE, USUAL_SIZE, ListMass
from pairloom.pipeline.threads import in_threads, pieces

__all__ = ["CoupledLoss", "LearningRecord", "LearningSamples", "learn_changes", "sample_limit"]

Floats: TypeAlias = NDArray[np.float64]
#: Candidates of the variance of the changes: embeddings with few rows per class need a small one, tables with many rows
#: a large one. Test losses are least near 3 (tinyimagenet50) and near 100 (letter): docs/learning.md.
STRENGTHS = (3.0, 100.0)
#: Most steps of L-BFGS, steps without improvement after which it stops, and the pairs of vectors that it remembers.
MOST_STEPS, PATIENCE, MEMORY = 100, 10, 5
#: Most multiply-adds of edges and samples in all steps of a descent: 15 steps of 10,000 rows of clinc150.
MOST_WORK = 1e11
#: Most samples, and most logits of samples: 256 MiB.
MOST_SAMPLES, MOST_LOGITS = 10_000, 2**26
#: With fewer held-out samples, the machines are not changed.
FEW_SAMPLES = 100
#: Samples and edges per piece of work, whatever the number of threads, so that products keep their shape and bits.
_SLAB, _EDGES = 256, 256


class LearningSamples(NamedTuple):
    """Samples and their logits by the machines.

    Attributes
    ----------
    rows : (R, D) float32 array
        Features with a mean squared norm of about one, and a column of ones.
    logits : (R, E) float32 array
        Logits of the machines.
    classes : (R,) int array
    weight : (R,) float array or None
    """

    rows: NDArray[np.float32]
    logits: NDArray[np.float32]
    classes: NDArray[np.integer]
    weight: NDArray[np.float64] | None = None


class LearningRecord(NamedTuple):
    """The result of learning through the coupling.

    Attributes
    ----------
    iterations : int
        Steps of L-BFGS. Zero if the held-out log loss did not clearly improve: the machines were not changed.
    strength : float
        The prior variance of the changes.
    samples : int
        The number of training samples whose likelihood was maximised.
    log_loss_before, log_loss_after : float
        The log loss of these samples, on which the machines were fitted.
    held_out : int
        The number of held-out samples that chose the number of steps.
    held_out_before, held_out_after : float
        Their log loss, by machines fitted and changed without them; after the best number of steps, even if the
        improvement was not clear.
    """

    iterations: int
    strength: float
    samples: int
    log_loss_before: float
    log_loss_after: float
    held_out: int
    held_out_before: float
    held_out_after: float


@dataclass(frozen=True, eq=False)
class CoupledLoss:
    """The log loss of samples as a function of the changes (E, D) of the machines.

    At most `USUAL_SIZE` classes per sample are coupled, whatever the model's own shortlist, since the cost of a sample
    grows with the cube of their number. ``mass`` is the list mass of the model.
    """

    samples: LearningSamples
    completion: Completion
    coupling: str
    shortlist: int | None = None
    n_threads: int = 1
    mass: ListMass = ONE_SCALE

    @property
    def listed(self) -> int:
        """The number of classes that are coupled per sample."""
        return min(self.completion.n_classes, self.shortlist or USUAL_SIZE, USUAL_SIZE)

    def losses(self, change: Floats) -> Floats:
        """(R,) log loss of every sample, bounded as in `log_losses`."""

        def of_slab(slab: slice) -> Floats:
            logits, y = self._logits(slab, changed), self.samples.classes[slab]
            return log_probabilities_of_lists(
                logits, y, self.completion, self.coupling, self.listed, self.mass
            )

        changed = self._as_weights(change)
        log_p = np.concatenate(in_threads(of_slab, self._slabs, self.n_threads))
        return np.asarray(-np.maximum(log_p, np.log(SMALLEST)))

    def mean(self, losses: Floats) -> float:
        """The weighted mean of losses of the samples."""
        return float(np.average(losses, weights=self.samples.weight))

    def value_and_gradient(self, change: Floats) -> tuple[float, Floats]:
        """Mean log loss, and its gradient with respect to the changes."""
        rows, logits, classes, weight = self.samples
        share = np.full(len(classes), 1 / len(classes)) if weight is None else weight / weight.sum()
        of_logits, changed = np.empty(logits.shape, np.float32), self._as_weights(change)

        def of_slab(slab: slice) -> float:
            log_p, gradient = gradient_through_shortlists(
                self._logits(slab, changed),
                classes[slab],
                self.completion,
                self.coupling,
                self.listed,
                self.mass,
            )
            of_logits[slab] = gradient * share[slab, None].astype(np.float32)
            return float(share[slab] @ log_p)

        value = sum(in_threads(of_slab, self._slabs, self.n_threads))
        products = in_threads(
            lambda edges: of_logits[:, edges].T @ rows, pieces(logits.shape[1], _EDGES), self.n_threads
        )
        return -value, -np.concatenate(products).astype(np.float64)

    @property
    def _slabs(self) -> list[slice]:
        return pieces(len(self.samples.classes), _SLAB)

    def _logits(self, slab: slice, changed: NDArray[np.float32]) -> NDArray[np.float32]:
        logits: NDArray[np.float32] = self.samples.rows[slab] @ changed.T
        logits += self.samples.logits[slab]
        return logits

    def _as_weights(self, change: Floats) -> NDArray[np.float32]:
        return change.reshape(self.samples.logits.shape[1], -1).astype(np.float32)


def sample_limit(n_edges: int) -> int:
    """The largest number of samples to learn from."""
    return max(1, min(MOST_SAMPLES, MOST_LOGITS // n_edges))


def learn_changes(
    seen: CoupledLoss, held_out: CoupledLoss, everything: Callable[[], CoupledLoss]
) -> tuple[Floats, LearningRecord]:
    """Learn changes (E, D) of the machines by the coupled likelihood. Returns them and a record of the learning.

    Parameters
    ----------
    seen, held_out : CoupledLoss
        Samples that the machines of some folds were fitted on, and samples that these machines have not seen, which
        choose the number of steps.
    everything : callable
        Returns all samples with the logits of all machines, on which the steps are then taken.
    """
    rows, logits = seen.samples.rows, seen.samples.logits
    none = np.zeros(logits.shape[1] * rows.shape[1])
    before = held_out.losses(none)
    strength, iterations, after = _early_stopped(seen, held_out, none, before)
    # Computed only now: it holds the logits of all samples, by the machines of all folds.
    whole = everything()
    change, shape = none, (logits.shape[1], rows.shape[1])
    if iterations:
        change = _descended(whole, none, strength, iterations)
    record = LearningRecord(
        iterations,
        strength,
        len(whole.samples.classes),
        whole.mean(whole.losses(none)),
        whole.mean(whole.losses(change)),
        len(before),
        held_out.mean(before),
        held_out.mean(after),
    )
    return change.reshape(shape), record


def _early_stopped(
    seen: CoupledLoss, held_out: CoupledLoss, start: Floats, before: Floats
) -> tuple[float, int, Floats]:
    """The strength and number of steps with the least held-out loss, and the losses; 0 steps without a clear gain."""
    best = (STRENGTHS[0], 0, before)
    if len(before) < FEW_SAMPLES:
        return best
    for strength in STRENGTHS:
        followed = _Follower(held_out, before)
        _descended(seen, start, strength, _most_steps(seen.samples), followed)
        if followed.least < held_out.mean(best[2]):
            best = (strength, followed.best, followed.losses)
    gain = before - best[2]
    # Two standard errors, since the best of many steps is optimistically biased.
    clear = held_out.mean(gain) > 2 * gain.std() / np.sqrt(len(gain))
    return best if clear else (best[0], 0, best[2])


class _Follower:
    """Follows the held-out loss from step to step, and stops the descent when it has not improved for some steps."""

    def __init__(self, held_out: CoupledLoss, before: Floats) -> None:
        self._held_out, self._steps = held_out, 0
        self.best, self.losses, self.least = 0, before, held_out.mean(before)

    def __call__(self, intermediate_result: OptimizeResult) -> None:
        self._steps += 1
        losses = self._held_out.losses(intermediate_result.x)
        if (loss := self._held_out.mean(losses)) < self.least:
            self.best, self.losses, self.least = self._steps, losses, loss
        if self._steps - self.best >= PATIENCE:
            raise StopIteration


def _most_steps(samples: LearningSamples) -> int:
    work = samples.logits.size * samples.rows.shape[1]
    return int(np.clip(MOST_WORK / work, 1, MOST_STEPS))


def _descended(
    loss: CoupledLoss,
    start: Floats,
    strength: float,
    steps: int,
    after_each: Callable[[OptimizeResult], None] | None = None,
) -> Floats:
    """The changes after ``steps`` steps of L-BFGS, at most."""
    penalty = 1 / (strength * len(loss.samples.classes))

    def objective(change: Floats) -> tuple[float, Floats]:
        value, gradient = loss.value_and_gradient(change)
        return value + penalty / 2 * float(change @ change), gradient.ravel() + penalty * change

    # The gradient is a mean over samples, hence small: the default tolerance of 1e-5 would stop at once.
    options = {"maxiter": steps, "maxcor": MEMORY, "gtol": 1e-7}
    result = minimize(objective, start, jac=True, method="L-BFGS-B", callback=after_each, options=options)
    return np.asarray(result.x)
