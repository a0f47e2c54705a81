"""The section ``[run]``: settings of the run itself."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from pairloom.cluster.config.model_config import Coupling
from pairloom.cluster.config.patterns import NAME, SIZE
from pairloom.cluster.config.section import Section

__all__ = ["RunConfig"]


class RunConfig(Section):
    """Settings of the run itself."""

    name: str = Field("run", pattern=NAME, description="name of the run directory")
    also_couple: list[Coupling] = Field(
        [], description="further couplings, besides model.coupling, to report and to predict with"
    )
    tensor: Literal["auto", "stored", "virtual"] = Field(
        "auto", description="whether to store the N x N x R tensor; auto: only up to 2 GiB"
    )
    edges_per_tile: int | None = Field(
        None, ge=1, description="pairs that one task trains; default: up to a second of work"
    )
    samples_per_slab: int | None = Field(
        None, ge=1, description="test samples that one task predicts; default: about 16 MiB of the tensor"
    )
    memory_limit: str = Field("2GiB", pattern=SIZE, description="memory that one task may take")

    @field_validator("also_couple")
    @classmethod
    def _different(cls, couplings: list[Coupling]) -> list[Coupling]:
        if len(set(couplings)) != len(couplings):
            raise ValueError("must not name a coupling twice")
        return couplings
