"""The section ``[growth]``: how the graph grows, and when it stops."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from pairloom.cluster.config.model_config import PairCoupling
from pairloom.cluster.config.section import Section
from pairloom.pipeline.growth.budget import GrowthBudget
from pairloom.pipeline.growth.wave import GrowthCost

__all__ = ["GROWING_FAMILIES", "GrowthConfig"]

#: In these families all classes have a common neighbour, so every missing pair can be completed.
GROWING_FAMILIES = ("star", "star_of_least_distance", "bipartite", "hub_neighbours", "complete", "grown")


class GrowthConfig(Section):
    """How the graph of `[graph]` grows, wave by wave. Keys are the arguments of `PairwiseSVC.grow`.

    `cost`, `coupling` and `wave` decide which pairs are added. The other keys only decide when growth stops, and may
    be raised later.
    """

    cost: GrowthCost = Field("confusion", description="which pairs to add first")
    coupling: PairCoupling | None = Field(
        None, description="coupling used to score each wave; default: that of the model"
    )
    wave: int | None = Field(
        None,
        ge=1,
        description="pairs per wave; default: a fifth of the current pairs, at least one per class",
    )
    pairs: int | None = Field(None, ge=1, description="maximum number of pairs, including the initial graph")
    share: float | None = Field(None, gt=0, le=1, description="the same, as a share of all pairs")
    seconds: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="maximum time to grow; restarts when a run is resumed"
    )
    plateau: float | Literal["never"] = Field(
        0.01, description="stop when two waves in a row improve the log loss by less than this share"
    )

    @field_validator("plateau")
    @classmethod
    def _share(cls, plateau: float | str) -> float | str:
        if not isinstance(plateau, str) and not 0 <= plateau < 1:
            raise ValueError("must be at least 0 and below 1, or 'never'")
        return plateau

    @property
    def budget(self) -> GrowthBudget:
        """The limits of growth."""
        return GrowthBudget(**self.model_dump(include={"pairs", "share", "seconds", "plateau"}))
