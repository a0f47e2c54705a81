"""The public names with their types. At run time each is imported when it is first used; see `__init__.py`."""

from pairloom import graphs as graphs
from pairloom.cluster.run import run as run
from pairloom.cluster.run import submit as submit
from pairloom.pipeline.completion.complete import complete_logits as complete_logits
from pairloom.pipeline.coupling.codes.couple_code import couple_code as couple_code
from pairloom.pipeline.coupling.pairs.couple import couple as couple
from pairloom.pipeline.estimator.pairwise_svc import PairwiseSVC as PairwiseSVC
from pairloom.pipeline.machines.nearest_neighbours import NearestNeighboursCV as NearestNeighboursCV

__version__: str
