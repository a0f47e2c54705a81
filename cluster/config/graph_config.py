"""The section ``[graph]``: which pairs, or sets of classes, to train."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from pairloom.cluster.config.section import Section
from pairloom.graphs import family_parameters
from pairloom.pipeline.growth.wave import GrowthCost

__all__ = ["Family", "GraphConfig"]

Family = Literal[
    "star",
    "path",
    "tree",
    "spanning_tree",
    "star_of_least_distance",
    "bipartite",
    "complete",
    "hub_neighbours",
    "grown",
    "one_vs_rest",
    "one_vs_one",
    "dense",
    "sparse",
    "code",
]


class GraphConfig(Section):
    """Which pairs, or sets of classes, to train. Missing parameters take the defaults of the family.

    See `pairloom.graphs`.
    """

    family: Family = Field("hub_neighbours", description="family of graphs or codes")
    centre: int | None = Field(None, ge=0, description="class at the centre of a star")
    hubs: int | list[int] | None = Field(None, description="number of hubs, or a list of classes")
    neighbours: int | None = Field(
        None, ge=0, description="number of nearest classes that each class is paired with"
    )
    parents: list[int] | None = Field(None, description="parent of each class in a tree, -1 for the root")
    edges: int | None = Field(None, ge=1, description="number of pairs to grow a star to")
    cost: GrowthCost | None = Field(None, description="order in which a star grows")
    matrix: list[list[float]] | None = Field(
        None, description="confusion or d' of every pair, for that cost; or the matrix of a code"
    )
    seed: int | None = Field(None, ge=0, description="seed, if cost is 'uniform', and of random codes")

    @model_validator(mode="after")
    def _only_what_the_family_takes(self) -> Self:
        taken, given = family_parameters(self.family), self.parameters()
        for name in given.keys() - taken.keys():
            known = ", ".join(taken) or "none"
            raise ValueError(
                f"graph.{name} is not a parameter of the family {self.family!r}; its parameters: {known}"
            )
        for name in [name for name, required in taken.items() if required and name not in given]:
            raise ValueError(f"graph.{name} must be set: the family {self.family!r} needs it")
        return self

    def parameters(self) -> dict[str, Any]:
        """The parameters that are set, without the family."""
        return {k: v for k, v in self.model_dump(exclude={"family"}).items() if v is not None}

    def requested(self) -> dict[str, Any]:
        """The value of the parameter `graph` of `PairwiseSVC`."""
        return {"family": self.family, **self.parameters()}
