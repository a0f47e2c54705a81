"""The stages of a run, one file each: where it runs, the keys of its units, their work, memory and cost.

`STAGES` lists them in the order in which a driver runs them. To add a stage, write its file and list it here.
"""

from pairloom.pipeline.run.run import Stage
from pairloom.pipeline.stages.calibration import Calibration
from pairloom.pipeline.stages.candidates import Candidates
from pairloom.pipeline.stages.collapsed import Collapsed
from pairloom.pipeline.stages.draws import Draws
from pairloom.pipeline.stages.features import Features
from pairloom.pipeline.stages.growth import Growth
from pairloom.pipeline.stages.held_out import HeldOut
from pairloom.pipeline.stages.ids import Ids
from pairloom.pipeline.stages.learning import Learning
from pairloom.pipeline.stages.logits import Logits
from pairloom.pipeline.stages.machines import Machines
from pairloom.pipeline.stages.model import Model
from pairloom.pipeline.stages.order import Order
from pairloom.pipeline.stages.probabilities import Probabilities
from pairloom.pipeline.stages.ranking import Ranking
from pairloom.pipeline.stages.report import Report
from pairloom.pipeline.stages.samples import Samples
from pairloom.pipeline.stages.slopes import Slopes
from pairloom.pipeline.stages.statistics import Statistics
from pairloom.pipeline.stages.whitening import Whitening

__all__ = ["STAGES", "STAGE_NAMES"]

STAGES: tuple[Stage, ...] = (
    Order(),
    Features(),
    Samples(),
    Ids(),
    Draws(),
    Statistics(),
    Whitening(),
    Candidates(),
    Machines(),
    Slopes(),
    HeldOut(),
    Growth(),
    Calibration(),
    Learning(),
    Collapsed(),
    Ranking(),
    Model(),
    Logits(),
    Probabilities(),
    Report(),
)
STAGE_NAMES = tuple(stage.name for stage in STAGES)
