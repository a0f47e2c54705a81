"""The sections of a configuration by name."""

from pairloom.pipeline.config.cluster_config import ClusterConfig, JobQueueConfig
from pairloom.pipeline.config.sections import DataConfig, GraphConfig, GrowthConfig, ModelConfig, RunConfig

SECTIONS = {
    "data": DataConfig,
    "graph": GraphConfig,
    "model": ModelConfig,
    "growth": GrowthConfig,
    "cluster": ClusterConfig,
    "cluster.slurm": JobQueueConfig,
    "run": RunConfig,
}
