"""Growth: pairs added to a model while it is used, the most valuable first.

The budget, the judgement of a wave, the loop over waves, and a tensor that grows pair by pair.
"""

from pairloom.pipeline.growth.budget import GrowthBudget
from pairloom.pipeline.growth.growing_tensor import GrowingTensor, GrowthStep, grow_model
from pairloom.pipeline.growth.wave import Wave, judge_wave
from pairloom.pipeline.growth.waves import grow_in_waves

__all__ = ["GrowingTensor", "GrowthBudget", "GrowthStep", "Wave", "grow_in_waves", "grow_model", "judge_wave"]
