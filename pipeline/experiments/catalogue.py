"""The experiments by name, in the order of the paper; then those of other papers."""

from typing import Any

from pairloom.pipeline.experiments import (
    bipartite,
    boundaries,
    centres,
    curved,
    disagreements,
    elementwise,
    encodings,
    gaussians,
    growth_curves,
    mixtures,
    quintets,
    simulated_encodings,
    star_centres,
    ten_class,
    triplets,
)
from pairloom.pipeline.experiments.experiment import Experiment

_MODULES = (
    triplets,
    quintets,
    ten_class,
    star_centres,
    growth_curves,
    centres,
    bipartite,
    disagreements,
    boundaries,
    elementwise,
    mixtures,
    gaussians,
    simulated_encodings,
    encodings,
    curved,
)

#: Any, as each experiment has rows of its own type.
EXPERIMENTS: dict[str, Experiment[Any]] = {module.EXPERIMENT.name: module.EXPERIMENT for module in _MODULES}
