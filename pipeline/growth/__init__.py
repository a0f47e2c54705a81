"""Growth: pairs added to a model while it is used, the ones that are worth most first."""

from pairloom.pipeline.growth.budget import GrowthBudget
from pairloom.pipeline.growth.growing_tensor import GrowingTensor, GrowthStep, grow_model
from pairloom.pipeline.growth.wave import Wave, judge_wave

__all__ = ["GrowingTensor", "GrowthBudget", "GrowthStep", "Wave", "grow_model", "judge_wave"]
