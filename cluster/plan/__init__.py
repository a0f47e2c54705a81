"""The plan of a run: everything that is decided before the first task. It is stored in ``run.json``.

``plan`` has `Plan`, ``planning`` makes one from a configuration and data, and ``stored_plan`` is its form on disk.
"""

from pairloom.cluster.plan.plan import Plan
from pairloom.cluster.plan.planning import make_plan
from pairloom.cluster.plan.stored_plan import FORMAT, DamagedPlan, Mismatch

__all__ = ["FORMAT", "DamagedPlan", "Mismatch", "Plan", "make_plan"]
