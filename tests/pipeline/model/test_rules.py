"""A rule between parameters is the same at both doors, in the words of each."""

import re

import pytest

from pairloom import PairwiseSVC
from pairloom.pipeline.model.rules import (
    CONFIGURATION,
    ESTIMATOR,
    check_coupling,
    check_distances,
    check_edges_calibrated,
    check_learnable,
    check_no_shortlist,
)

RULES = {
    "coupling": (
        lambda door: check_coupling("linear", "none", False, door),
        ("PairwiseSVC: coupling must be 'auto' or one of ", ", got 'linear'."),
        ("coupling must be 'auto' or one of ", ", got 'linear'"),
    ),
    "edges": (
        lambda door: check_edges_calibrated("vote", door.value("coupling", "vote"), "none", False, door),
        (
            "PairwiseSVC: coupled_calibration='edges' needs a coupling with a gradient, ",
            "got coupling='vote'.",
        ),
        (
            'model.coupled_calibration = "edges" needs a coupling with a gradient',
            "got model.coupling = 'vote'",
        ),
    ),
    "shortlist": (
        lambda door: check_no_shortlist(3, door),
        ("PairwiseSVC: shortlist must be 'auto' or 'none' for machines on sets of classes", ", got 3."),
        ('model.shortlist must be "auto" or "none" for machines on sets of classes', ", got 3"),
    ),
    "learn": (
        lambda door: check_learnable(
            "stratified", "none", graph="g", code=False, machines=door.value("kernel", "rbf"), door=door
        ),
        ("PairwiseSVC: learn='coupled' needs linear machines", ", got kernel='rbf'."),
        ('model.learn = "coupled" needs linear machines', ", got model.kernel = 'rbf'"),
    ),
    "distance": (
        lambda door: check_distances(
            PairwiseSVC(calibration="distance", coupled_calibration="none"), True, "", door
        ),
        ("PairwiseSVC: calibration='distance' needs coupled_calibration='scale' or 'edges'", "got 'none'."),
        ('model.calibration = "distance" needs model.coupled_calibration = "scale" or "edges"', 'got "none"'),
    ),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("door", ["estimator", "configuration"])
def test_a_broken_rule_is_told_in_the_words_of_the_door(rule, door):
    check, *messages = RULES[rule]
    start, end = messages[door == "configuration"]
    with pytest.raises(ValueError, match=f"^{re.escape(start)}.*{re.escape(end)}$"):
        check(CONFIGURATION if door == "configuration" else ESTIMATOR)
