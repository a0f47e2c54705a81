"""Which machines that stopped early are worth a warning."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from pairloom.pipeline.machines.settings import warn_early_stops


def test_machines_far_from_their_optimum_are_counted_with_what_to_do():
    gap = np.array([[1e-4, 0.02], [0.5, 9e-3]])
    message = "Training: 2 of 4 machines stopped before the relative duality gap was 0.001 .the largest is 5.0e-01.: h"
    with pytest.warns(ConvergenceWarning, match=message):
        warn_early_stops(gap, 1e-3, "help")


@pytest.mark.parametrize("gaps", [[9e-3] * 200, [0.5, *[1e-4] * 200]], ids=["near", "one of hundreds"])
def test_what_changes_no_result_is_left_unsaid(gaps):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_early_stops(np.array(gaps), 1e-3, "help")
