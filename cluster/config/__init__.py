"""The configuration of a run: the sections of its TOML file, all checked before anything is written.

One file per section. ``config`` has `Config`, the whole of them, and the checks between sections.
"""

from pairloom.cluster.config.cluster_config import ClusterConfig
from pairloom.cluster.config.config import Config, ConfigError
from pairloom.cluster.config.data_config import DataConfig
from pairloom.cluster.config.graph_config import GraphConfig
from pairloom.cluster.config.growth_config import GrowthConfig
from pairloom.cluster.config.job_queue_config import JOB_QUEUES, JobQueueConfig
from pairloom.cluster.config.model_config import ModelConfig
from pairloom.cluster.config.nested_keys import differing_keys, flattened
from pairloom.cluster.config.patterns import PATTERNS
from pairloom.cluster.config.run_config import RunConfig

__all__ = [
    "JOB_QUEUES",
    "PATTERNS",
    "ClusterConfig",
    "Config",
    "ConfigError",
    "DataConfig",
    "GraphConfig",
    "GrowthConfig",
    "JobQueueConfig",
    "ModelConfig",
    "RunConfig",
    "differing_keys",
    "flattened",
]
