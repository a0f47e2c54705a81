"""The experiments by name, in the order of the paper."""

from pairloom.pipeline.experiments import (
    bipartite,
    boundaries,
    centres,
    disagreements,
    growth_curves,
    quintets,
    star_centres,
    ten_class,
    triplets,
)

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
)

EXPERIMENTS = {module.EXPERIMENT.name: module.EXPERIMENT for module in _MODULES}
