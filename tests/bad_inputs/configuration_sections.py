"""The sections of a configuration by name."""

from pairloom.cluster.config import (
    ClusterConfig,
    DataConfig,
    GraphConfig,
    GrowthConfig,
    JobQueueConfig,
    ModelConfig,
    RunConfig,
)

SECTIONS = {
    "data": DataConfig,
    "graph": GraphConfig,
    "model": ModelConfig,
    "growth": GrowthConfig,
    "cluster": ClusterConfig,
    "cluster.slurm": JobQueueConfig,
    "run": RunConfig,
}
