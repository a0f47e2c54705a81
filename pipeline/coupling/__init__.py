"""Coupling, one file per method: from the logits of machines to the probabilities of the classes.

`couple` is the way in for machines on all pairs, `couple_code` for machines on sets of classes; each method's module
states the problem that it solves.
"""

from pairloom.pipeline.coupling.couple import METHODS, couple
from pairloom.pipeline.coupling.couple_code import CODE_METHODS, couple_code
from pairloom.pipeline.coupling.diagnostics import Diagnostics
from pairloom.pipeline.coupling.standard_errors import standard_errors

__all__ = ["CODE_METHODS", "METHODS", "Diagnostics", "couple", "couple_code", "standard_errors"]
