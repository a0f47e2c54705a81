"""The length of the shortlist, judged by the held-out samples of the whole model.

Twenty listed classes are enough if a sample could belong to a handful of classes. If hundreds of classes overlap, the
true class is often not in the list, which a probe of some tens of classes cannot show. So the whole model is judged
again with a list of twice the length, as long as that improves the loss clearly.
"""

from __future__ import annotations

from pairloom.pipeline.calibration.held_out import HeldOutSamples
from pairloom.pipeline.calibration.scale import ScaleChoice
from pairloom.pipeline.completion.shortlist import Shortlists

__all__ = ["LONGEST", "is_clearly_better", "longest_length", "misses_classes", "next_length"]

#: Upper limit of the length of the list: the time of a prediction grows with its square.
LONGEST = 80
#: A longer list is tried only if the true class of at least this share of the held-out samples is not listed.
_RARELY = 0.01
#: A step must lower the log loss by this many standard errors of the difference.
_STANDARD_ERRORS = 2.0


def next_length(length: int, n_classes: int) -> int | None:
    """The length to try after ``length``; None if there is no longer one.

    Examples
    --------
    >>> next_length(20, 1000), next_length(40, 1000), next_length(80, 1000), next_length(20, 40)
    (40, 80, None, None)
    """
    longer = 2 * length
    return longer if longer <= min(LONGEST, n_classes - 1) else None


def longest_length(length: int, n_classes: int) -> int:
    """The longest list that may be tried, beginning with ``length``."""
    while (longer := next_length(length, n_classes)) is not None:
        length = longer
    return length


def misses_classes(held_out: HeldOutSamples) -> bool:
    """Whether the true classes of held-out samples are missing from their lists more than rarely."""
    if not isinstance(held_out.samples, Shortlists):
        return False
    return bool((held_out.samples.lists.places(held_out.classes) < 0).mean() >= _RARELY)


def is_clearly_better(changed: ScaleChoice, before: ScaleChoice) -> bool:
    """Whether a change of the whole model lowers its held-out log loss by more than chance explains."""
    return before.clearly_above(changed, _STANDARD_ERRORS)
