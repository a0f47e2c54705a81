"""The section ``[data]``: where the features come from."""

from __future__ import annotations

from pydantic import Field, field_validator

from pairloom.cluster.config.section import Section
from pairloom.cluster.local_path import looks_like_url
from pairloom.pipeline.features.table_rows import Missing, TableColumns

__all__ = ["DataConfig"]


class DataConfig(Section):
    """Where the features come from."""

    features: str = Field(
        min_length=1,
        description=".npz file, zarr group, folder of .npy files, table (.csv, .tsv, .parquet), or an embedded set",
    )
    label: str | None = Field(None, min_length=1, description="column of a table that holds the classes")
    leave_out: list[str] = Field([], description="columns of a table that are no features")
    missing: Missing = Field(
        "refuse", description="what to do about missing values of a table: refuse it, or leave out their rows"
    )
    test: str | None = Field(None, description="source of test samples that replace those of `features`")
    test_fraction: float = Field(
        0.25, gt=0, lt=1, description="share of test samples, if the data are one pool X, y"
    )

    @field_validator("features", "test")
    @classmethod
    def _local(cls, source: str | None) -> str | None:
        if source is not None and looks_like_url(source):
            raise ValueError("must be a path, not a URL (mount the storage, or copy the files)")
        return source

    @property
    def columns(self) -> TableColumns:
        """How the columns of a table are used."""
        return TableColumns(self.label, tuple(self.leave_out), self.missing)
