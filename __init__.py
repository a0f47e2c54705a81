"""Pairloom: multi-class classification by pairs, with probabilities that can be trusted."""

from importlib.metadata import version

from pairloom import graphs
from pairloom.pipeline.completion.complete import complete_logits
from pairloom.pipeline.coupling import couple, couple_code
from pairloom.pipeline.estimator.pairwise_svc import PairwiseSVC

__version__ = version("pairloom")
__all__ = ["PairwiseSVC", "__version__", "complete_logits", "couple", "couple_code", "graphs"]
