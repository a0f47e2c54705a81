"""What all sections of a configuration have in common: no unknown keys, no conversions, no changes."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["Section"]


class Section(BaseModel):
    """A section of the TOML file, or the whole of it."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
